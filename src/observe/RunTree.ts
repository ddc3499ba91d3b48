/**
 * The tree of events in the run record: runs, their steps, the attempts of a step, its tool calls, the approvals of a
 * call, and the children and calls that it started. Every exporter and every view of runs is a function of it, the same
 * for an active run and a stored one.
 *
 * **Details**
 *
 * {@link make} takes entries in their order and reports the nodes that each opened, closed or changed. The tree holds
 * the record without truncation; each view sets its own bounds. {@link Tree.request} resolves the messages that an
 * attempt sent from the references of the record.
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

/** The tree so far. */
export interface Tree {
  readonly add: (entry: Record.Entry) => ReadonlyArray<RunTreeState.Change>
  /**
   * Takes a message or a tool set of an earlier run, for attempts that name it; the run does not come into the tree.
   */
  readonly remember: (entry: Record.Entry) => void
  /** Runs that are not a child of another run in the tree, in order. */
  readonly roots: ReadonlyArray<Run>
  readonly request: (attempt: Attempt) => RunContents.Request
  /** Messages of an attempt, for a reader of the newest ones. */
  readonly sent: (attempt: Attempt) => RunContents.SentMessages
  /** Messages of an attempt that no session stores, in order: the system prompt, nudges, contexts of plugins. */
  readonly unstored: (attempt: Attempt) => ReadonlyArray<Prompt.Message>
  /** Tools of an attempt. */
  readonly tools: (attempt: Attempt) => ReadonlyArray<ToolDefinition>
  /** Beginning of a session that repeats another one; `undefined` for every other session. */
  readonly beginning: (sessionId: string) => Beginning | undefined
  /** All messages of a session that the record has, by position. */
  readonly conversation: (sessionId: string) => ReadonlyArray<Message>
  /** Forgets a root that has ended, its children and its session's contents if no other run of it is in the tree. */
  readonly forget: (root: Run) => void
  /** Forgets the contents of a session if no run of it is in the tree. */
  readonly release: (sessionId: string) => void
}

/** Messages with which a session began before an attempt; empty unless the attempt is the first one of its session. */
const listBeginning = ({ beginnings, roots }: RunTreeState.TreeState, attempt: Attempt): ReadonlyArray<Message> => {
  const { run } = attempt
  const isFirst =
    run.steps[0]?.attempts[0] === attempt && roots.find(({ sessionId }) => sessionId === run.sessionId) === run
  if (!isFirst) return []
  return beginnings.get(run.sessionId)?.messages.filter(({ copyOf }) => copyOf === undefined) ?? []
}

/** An empty tree. */
export const make = (): Tree => {
  const state = RunTreeState.make()
  const { beginnings, contents, roots } = state
  /** Messages of the attempt that was asked for last, until something comes into the tree: every exporter asks. */
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

/** The tree of stored entries. */
export const fromEntries = (entries: Iterable<Record.Entry>): Tree => {
  const tree = make()
  for (const entry of entries) tree.add(entry)
  return tree
}
