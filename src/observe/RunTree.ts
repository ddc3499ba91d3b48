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
import * as Conversation from "../base/domain/Conversation.ts"
import type { ToolDefinition } from "../base/domain/ModelCall.ts"
import type * as Record from "../base/domain/RecordEvent.ts"
import * as RunContents from "./RunContents.ts"
import type { Approval, Attempt, Beginning, Call, Child, Message, Node, Run, Step } from "./RunNodes.ts"

export type { Request, SentMessages } from "./RunContents.ts"
export type * from "./RunNodes.ts"

type TaggedEvent<Tag extends Record.Kind> = Extract<Record.RecordEvent, { readonly _tag: Tag }>

/** Effects of an entry on the tree, in order; `noted` for an event that is neither a beginning nor an end. */
export type Change =
  | { readonly _tag: "Opened" | "Closed"; readonly at: number; readonly node: Node }
  | { readonly _tag: "Noted"; readonly at: number; readonly run: Run; readonly event: Record.RecordEvent }

/** The tree so far. */
export interface Tree {
  readonly add: (entry: Record.Entry) => ReadonlyArray<Change>
  /**
   * Takes a message or a tool set of an earlier run, for attempts that name it; the run does not come into the tree.
   */
  readonly remember: (entry: Record.Entry) => void
  /** Runs that are no child of another run in the tree, in order. */
  readonly roots: ReadonlyArray<Run>
  readonly request: (attempt: Attempt) => RunContents.Request
  /** Messages of an attempt, for a reader of the newest ones. */
  readonly sent: (attempt: Attempt) => RunContents.SentMessages
  /** Messages of an attempt that no session keeps, in order: the system prompt, nudges, contexts of plugins. */
  readonly unstored: (attempt: Attempt) => ReadonlyArray<Prompt.Message>
  /** Tools of an attempt. */
  readonly tools: (attempt: Attempt) => ReadonlyArray<ToolDefinition>
  /** Beginning of a session that repeats another one; undefined of every other session. */
  readonly beginning: (sessionId: string) => Beginning | undefined
  /** All messages of a session that the record has, by position. */
  readonly conversation: (sessionId: string) => ReadonlyArray<Message>
  /** Forgets a root that has ended, its children and its session's contents if no other run of it is in the tree. */
  readonly forget: (root: Run) => void
  /** Forgets the contents of a session if no run of it is in the tree. */
  readonly release: (sessionId: string) => void
}

interface OpenRun {
  readonly run: Run
  readonly attempts: Map<string, Attempt>
  readonly calls: Map<string, Call>
  step: Step | undefined
}

const listResults = (message: Prompt.Message | undefined): ReadonlyArray<Prompt.ToolResultPart> =>
  message?.role === "tool" ? message.content.filter((part) => part.type === "tool-result") : []

const listCalls = (message: Prompt.Message | undefined): ReadonlyArray<Prompt.ToolCallPart> =>
  message === undefined ? [] : Conversation.listToolCalls(message)

/** An empty tree. */
export const make = (): Tree => {
  const roots: Array<Run> = []
  /** By session and turn: a side task may be of a turn whose session goes on in another one. */
  const open = new Map<string, OpenRun>()
  /** The run of the newest entry: successive entries mostly belong to one run. */
  let newest: OpenRun | undefined
  const formatRunKey = ({ sessionId, turnId }: Pick<Record.Entry | Run, "sessionId" | "turnId">): string =>
    `${sessionId} ${turnId}`
  const contents = RunContents.make()
  /** Children by their session, until their run begins and after. */
  const children = new Map<string, Child>()
  const beginnings = new Map<string, Beginning>()
  let changes: Array<Change> = []
  /** Messages of the attempt that was asked for last, until something comes into the tree: every exporter asks. */
  let asked: { readonly attempt: Attempt; readonly sent: RunContents.SentMessages } | undefined

  const recordOpening = (node: Node, at: number): void => void changes.push({ _tag: "Opened", at, node })
  const recordClosing = (node: Node, at: number): void => void changes.push({ _tag: "Closed", at, node })

  const beginRun = ({ at, sessionId, turnId }: Record.Entry, start: Run["start"]): OpenRun => {
    const child = children.get(sessionId)
    const isFirst = child !== undefined && child.run === undefined
    const run: Run = {
      kind: "run",
      spanId: undefined,
      isEnded: undefined,
      sessionId,
      turnId,
      startedAt: at,
      start,
      endedAt: undefined,
      end: undefined,
      child: isFirst ? child : undefined,
      messages: [],
      steps: [],
      sideTasks: [],
      asides: [],
      children: []
    }
    if (isFirst) child.run = run
    else roots.push(run)
    const state: OpenRun = { run, attempts: new Map(), calls: new Map(), step: undefined }
    open.set(formatRunKey(run), state)
    newest = state
    recordOpening(run, at)
    return state
  }
  const getOpenRun = (entry: Record.Entry): OpenRun => {
    if (newest?.run.turnId === entry.turnId && newest.run.sessionId === entry.sessionId) return newest
    newest = open.get(formatRunKey(entry)) ?? beginRun(entry, undefined)
    return newest
  }

  const endStep = (state: OpenRun, at: number): void => {
    const { step } = state
    if (step === undefined) return
    state.step = undefined
    step.endedAt = at
    recordClosing(step, at)
  }
  const getOrBeginStep = (state: OpenRun, number: number, at: number): Step => {
    // The summary of a run that used up a limit is asked for under the number of its last step.
    if (state.step?.number === number && state.step.message === undefined) return state.step
    endStep(state, at)
    const step: Step = {
      kind: "step",
      spanId: undefined,
      isEnded: undefined,
      run: state.run,
      number,
      startedAt: at,
      endedAt: undefined,
      attempts: [],
      calls: [],
      message: undefined
    }
    state.step = step
    state.run.steps.push(step)
    recordOpening(step, at)
    return step
  }

  const addCall = (
    state: OpenRun,
    at: number,
    { args, id, name, parent }: Pick<Call, "args" | "id" | "name"> & { readonly parent?: Call | undefined }
  ): Call => {
    const made: Call = {
      kind: "call",
      spanId: undefined,
      isEnded: undefined,
      run: state.run,
      step: state.step,
      parent,
      id,
      name,
      args,
      startedAt: at,
      start: undefined,
      endedAt: undefined,
      end: undefined,
      result: undefined,
      approvals: [],
      changes: [],
      children: [],
      calls: []
    }
    state.calls.set(id, made)
    if (parent === undefined) state.step?.calls.push(made)
    else parent.calls.push(made)
    return made
  }

  /** The call of this id that an earlier run of the session left open: its process was killed. */
  const findEarlierCall = ({ run }: OpenRun, id: string): Call | undefined =>
    Array.from(open.values())
      .findLast(
        (one) =>
          one.run !== run && one.run.sessionId === run.sessionId && one.run.end === undefined && one.calls.has(id)
      )
      ?.calls.get(id)

  const appendMessage = (state: OpenRun, entry: Record.Entry, event: TaggedEvent<"MessageAppended">): void => {
    const { id, message, origin } = event
    const kept = contents.keep(entry, event)
    // A message with an id stands where requests refer to it.
    if (id !== undefined) return
    state.run.messages.push(kept)
    if (origin === "model") {
      // An answer whose attempts are not in the record is a step all the same.
      const { number = 0 } = state.run.steps.at(-1) ?? {}
      const step =
        state.step?.message === undefined
          ? (state.step ?? getOrBeginStep(state, number + 1, entry.at))
          : getOrBeginStep(state, number + 1, entry.at)
      step.message = kept
      for (const { id, name, params } of listCalls(message)) addCall(state, entry.at, { id, name, args: params })
    }
    for (const result of listResults(message)) {
      const answered = state.calls.get(result.id) ?? findEarlierCall(state, result.id)
      if (answered !== undefined) answered.result = result
    }
  }

  const startCall = (state: OpenRun, at: number, event: TaggedEvent<"CallStarted">): void => {
    const parent = event.parentCallId === undefined ? undefined : state.calls.get(event.parentCallId)
    const known = state.calls.get(event.callId)
    // Ids may come again: one that is over is another call.
    const begun =
      known !== undefined && known.end === undefined
        ? known
        : addCall(state, at, { id: event.callId, name: event.name, args: event.args, parent })
    begun.start = event
    begun.startedAt = at
    recordOpening(begun, at)
  }
  const endCall = (state: OpenRun, at: number, event: TaggedEvent<"CallEnded">): void => {
    const parent = event.parentCallId === undefined ? undefined : state.calls.get(event.parentCallId)
    const over =
      state.calls.get(event.callId) ??
      findEarlierCall(state, event.callId) ??
      addCall(state, at, { id: event.callId, name: event.name, args: undefined, parent })
    if (over.start === undefined) {
      over.startedAt = at
      recordOpening(over, at)
    }
    over.end = event
    over.endedAt = at
    recordClosing(over, at)
  }

  const releaseSession = (sessionId: string): void => {
    if (roots.some((root) => root.sessionId === sessionId) || children.has(sessionId)) return
    contents.forget(sessionId)
    beginnings.delete(sessionId)
  }

  const handleEntry = (entry: Record.Entry): void => {
    const { at, event } = entry
    if (event._tag === "RunStarted") return void beginRun(entry, event)
    if (event._tag === "SessionEnded") {
      // A session that goes on from another one may end under the turn of its beginning.
      const last =
        open.get(formatRunKey(entry))?.run ?? roots.findLast(({ sessionId }) => sessionId === entry.sessionId)
      return last === undefined ? undefined : void changes.push({ _tag: "Noted", at, run: last, event })
    }
    if (event._tag === "ReplayBegun") {
      return void beginnings.set(entry.sessionId, {
        at,
        turnId: entry.turnId,
        link: event,
        rewritten: undefined,
        messages: []
      })
    }
    // A score, a note and an undo are about a session and no part of its runs.
    if (event._tag === "Scored" || event._tag === "Noted" || event._tag === "FilesReverted") return
    const beginning = beginnings.get(entry.sessionId)
    if (beginning?.turnId === entry.turnId) {
      if (event._tag === "MessageAppended" && event.position !== undefined)
        return void beginning.messages.push(contents.keep(entry, event))
      if (event._tag === "ContextRewritten") return void (beginning.rewritten = event)
    }
    const state = getOpenRun(entry)
    const { run } = state
    switch (event._tag) {
      case "MessageAppended":
        return appendMessage(state, entry, event)
      case "ToolsOffered":
        return contents.offered(entry, event)
      case "AttemptStarted": {
        const step = event.task === undefined ? getOrBeginStep(state, event.step, at) : undefined
        const asking = event.callId === undefined ? undefined : state.calls.get(event.callId)
        const attempt: Attempt = {
          kind: "attempt",
          spanId: undefined,
          isEnded: undefined,
          run,
          step,
          call: asking,
          startedAt: at,
          start: event,
          endedAt: undefined,
          end: undefined
        }
        state.attempts.set(event.apiRequestId, attempt)
        ;(step === undefined ? run.sideTasks : step.attempts).push(attempt)
        return recordOpening(attempt, at)
      }
      case "AttemptEnded": {
        const attempt = state.attempts.get(event.apiRequestId)
        if (attempt === undefined) return
        state.attempts.delete(event.apiRequestId)
        attempt.end = event
        attempt.endedAt = at
        return recordClosing(attempt, at)
      }
      case "CallStarted":
        return startCall(state, at, event)
      case "CallEnded":
        return endCall(state, at, event)
      case "McpRequested": {
        const asking = state.calls.get(event.callId)
        if (asking !== undefined) asking.mcp = { at, event }
        return
      }
      case "FileChanged":
        return void state.calls.get(event.callId)?.changes.push(event)
      case "ApprovalDecided": {
        const asking = state.calls.get(event.callId)
        if (asking === undefined) return void changes.push({ _tag: "Noted", at, run, event })
        const approval: Approval = {
          kind: "approval",
          spanId: undefined,
          isEnded: undefined,
          call: asking,
          endedAt: at,
          event
        }
        asking.approvals.push(approval)
        recordOpening(approval, at - event.waitedMillis)
        return recordClosing(approval, at)
      }
      case "ChildStarted": {
        const by = event.callId === undefined ? undefined : state.calls.get(event.callId)
        const child: Child = {
          kind: "child",
          spanId: undefined,
          isEnded: undefined,
          parent: run,
          call: by,
          startedAt: at,
          start: event,
          endedAt: undefined,
          end: undefined,
          run: undefined
        }
        children.set(event.sessionId, child)
        ;(by ?? run).children.push(child)
        return recordOpening(child, at)
      }
      case "ChildEnded": {
        const child = children.get(event.sessionId)
        if (child === undefined) return
        child.end = event
        child.endedAt = at
        return recordClosing(child, at)
      }
      case "RunEnded": {
        endStep(state, at)
        run.end = event
        run.endedAt = at
        return recordClosing(run, at)
      }
      default:
        run.asides.push({ at, step: state.step?.number ?? 0, event })
        changes.push({ _tag: "Noted", at, run, event })
    }
  }

  return {
    add: (entry) => {
      changes = []
      asked = undefined
      handleEntry(entry)
      return changes
    },
    remember: (entry) => {
      asked = undefined
      const { event } = entry
      if (event._tag === "MessageAppended") contents.keep(entry, event)
      else if (event._tag === "ToolsOffered") contents.offered(entry, event)
    },
    roots,
    request: contents.request,
    sent: (attempt) => {
      if (asked?.attempt === attempt) return asked.sent
      const { run } = attempt
      const isFirst =
        run.steps[0]?.attempts[0] === attempt && roots.find(({ sessionId }) => sessionId === run.sessionId) === run
      const begun = isFirst
        ? beginnings.get(run.sessionId)?.messages.filter(({ copyOf }) => copyOf === undefined)
        : undefined
      const sent = contents.sent(attempt, begun ?? [])
      asked = { attempt, sent }
      return sent
    },
    unstored: contents.unstored,
    tools: contents.tools,
    beginning: (sessionId) => beginnings.get(sessionId),
    conversation: contents.conversation,
    forget: (root) => {
      const index = roots.indexOf(root)
      if (index >= 0) roots.splice(index, 1)
      const dropRun = (run: Run): void => {
        open.delete(formatRunKey(run))
        newest = undefined
        const below = [...run.children, ...run.steps.flatMap(({ calls }) => calls.flatMap((call) => call.children))]
        for (const {
          run: inner,
          start: { sessionId }
        } of below) {
          children.delete(sessionId)
          if (inner !== undefined) dropRun(inner)
        }
        releaseSession(run.sessionId)
      }
      dropRun(root)
    },
    release: releaseSession
  }
}

/** The tree of stored entries. */
export const fromEntries = (entries: Iterable<Record.Entry>): Tree => {
  const tree = make()
  for (const entry of entries) tree.add(entry)
  return tree
}
