/**
 * The tree of events in the run record: runs, their steps, the attempts and tool calls of a step, the approvals of a
 * call, and the children and calls that a call started. Every exporter and every view of runs is a function of this
 * tree, both for active and for stored runs.
 *
 * **Details**
 *
 * {@link make} takes entries in order and returns the nodes that each entry opened, closed or changed. The tree
 * contains the record without truncation; each view sets its own limits. {@link Tree.request} resolves the references
 * in the record to the messages that an attempt sent.
 *
 * Source: `ARCHITECTURE.md` §4 (run record).
 */
import type * as Prompt from "effect/ai/Prompt"
import type { ToolDefinition } from "../base/domain/ModelCall.ts"
import type * as Record from "../base/domain/RecordEvent.ts"
import * as RunContents from "./RunContents.ts"
import type { Attempt, Beginning, Message, Run } from "./RunNodes.ts"
import * as RunTreeState from "./RunTreeState.ts"

export type { Request, SentMessages } from "./RunContents.ts"
export type * from "./RunNodes.ts"
export type { Change } from "./RunTreeState.ts"

/** The tree built from the entries so far. */
export interface Tree {
  readonly add: (entry: Record.Entry) => ReadonlyArray<RunTreeState.Change>
  /**
   * Takes a message or a tool set of an earlier run, because later attempts may refer to it. The earlier run is not
   * added to the tree.
   */
  readonly remember: (entry: Record.Entry) => void
  /** Runs that are not a child of another run in the tree, in order. */
  readonly roots: ReadonlyArray<Run>
  readonly request: (attempt: Attempt) => RunContents.Request
  /** Returns the messages of an attempt, for a reader that starts with the newest one. */
  readonly sent: (attempt: Attempt) => RunContents.SentMessages
  /**
   * Returns the messages of an attempt that no session stores, in order: the system prompt, nudges, and contexts added
   * by plugins.
   */
  readonly unstored: (attempt: Attempt) => ReadonlyArray<Prompt.Message>
  /** Returns the tools of an attempt. */
  readonly tools: (attempt: Attempt) => ReadonlyArray<ToolDefinition>
  /** Returns the beginning of a session that repeats another session, or `undefined` for every other session. */
  readonly beginning: (sessionId: string) => Beginning | undefined
  /** Returns all messages of a session in the record, by position. */
  readonly conversation: (sessionId: string) => ReadonlyArray<Message>
  /**
   * Forgets a root that has ended and its children. Also forgets the contents of its session if the tree has no other
   * run of it.
   */
  readonly forget: (root: Run) => void
  /** Forgets the contents of a session if no run of it is in the tree. */
  readonly release: (sessionId: string) => void
}

/** Returns the initial messages of the session if the attempt is its first one; otherwise an empty list. */
const listBeginning = ({ beginnings, roots }: RunTreeState.TreeState, attempt: Attempt): ReadonlyArray<Message> => {
  const { run } = attempt
  const isFirst =
    run.steps[0]?.attempts[0] === attempt && roots.find(({ sessionId }) => sessionId === run.sessionId) === run
  if (!isFirst) return []
  return beginnings.get(run.sessionId)?.messages.filter(({ copyOf }) => copyOf === undefined) ?? []
}

/** Creates an empty tree. */
export const make = (): Tree => {
  const state = RunTreeState.make()
  const { beginnings, contents, roots } = state
  /**
   * Messages of the most recently requested attempt. They are cached until the tree changes, because every exporter
   * requests them.
   */
  let asked: { readonly attempt: Attempt; readonly sent: RunContents.SentMessages } | undefined
  return {
    add: (entry) => {
      asked = undefined
      return RunTreeState.addEntry(state, entry)
    },
    remember: (entry) => {
      asked = undefined
      const { event } = entry
      if (event._tag === "MessageAppended") RunContents.addMessage(contents, entry, event)
      else if (event._tag === "ToolsOffered") RunContents.addTools(contents, entry, event)
    },
    roots,
    request: (attempt) => RunContents.resolveRequest(contents, attempt),
    sent: (attempt) => {
      if (asked?.attempt === attempt) return asked.sent
      const sent = RunContents.findSentMessages(contents, attempt, listBeginning(state, attempt))
      asked = { attempt, sent }
      return sent
    },
    unstored: (attempt) => RunContents.listUnstoredMessages(contents, attempt),
    tools: (attempt) => RunContents.findTools(contents, attempt),
    beginning: (sessionId) => beginnings.get(sessionId),
    conversation: (sessionId) => RunContents.listConversation(contents, sessionId),
    forget: (root) => RunTreeState.forgetRoot(state, root),
    release: (sessionId) => RunTreeState.releaseSession(state, sessionId)
  }
}

/** Builds a tree from stored entries. */
export const fromEntries = (entries: Iterable<Record.Entry>): Tree => {
  const tree = make()
  for (const entry of entries) tree.add(entry)
  return tree
}
