/**
 * State of the tree of runs, and the changes that each entry of the record makes to it.
 *
 * **Details**
 *
 * {@link addEntry} takes entries in order and changes the state in place, because nodes are shared with readers and a
 * session may have very many entries.
 *
 * Source: `ARCHITECTURE.md` §4 (run record).
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Conversation from "../base/domain/Conversation.ts"
import { isWorkflowEvent, type WorkflowEvent } from "../base/domain/WorkflowEvents.ts"
import type * as Record from "../base/domain/RecordEvent.ts"
import * as RunContents from "./RunContents.ts"
import type { Approval, Attempt, Beginning, Call, Child, Node, Run, Step } from "./RunNodes.ts"

type TaggedEvent<Tag extends Record.Kind> = Extract<Record.RecordEvent, { readonly _tag: Tag }>

/** Change that an entry makes to the tree. `Noted` is for an event that neither begins nor ends a node. */
export type Change =
  | { readonly _tag: "Opened" | "Closed"; readonly at: number; readonly node: Node }
  | { readonly _tag: "Noted"; readonly at: number; readonly run: Run; readonly event: Record.RecordEvent }

/** A run, and the parts that later entries refer to by id. */
interface OpenRun {
  readonly run: Run
  readonly attempts: Map<string, Attempt>
  readonly calls: Map<string, Call>
  step: Step | undefined
}

/** State of the tree built from the entries so far. */
export interface TreeState {
  /** Runs that are not a child of another run in the tree, in order. */
  readonly roots: Array<Run>
  /** Open runs by session and turn. A side task may belong to a turn whose session has continued in another session. */
  readonly open: Map<string, OpenRun>
  /** Children by session, including children whose run has not begun yet. */
  readonly children: Map<string, Child>
  readonly beginnings: Map<string, Beginning>
  readonly contents: RunContents.Contents
  /** The run of the newest entry, because successive entries mostly belong to one run. */
  newest: OpenRun | undefined
  /** Changes made by the newest entry. */
  changes: Array<Change>
}

/** Creates a tree without entries. */
export const make = (): TreeState => ({
  roots: [],
  open: new Map(),
  children: new Map(),
  beginnings: new Map(),
  contents: RunContents.make(),
  newest: undefined,
  changes: []
})

const listResults = (message: Prompt.Message | undefined): ReadonlyArray<Prompt.ToolResultPart> =>
  message?.role === "tool" ? message.content.filter((part) => part.type === "tool-result") : []

const listCalls = (message: Prompt.Message | undefined): ReadonlyArray<Prompt.ToolCallPart> =>
  message === undefined ? [] : Conversation.listToolCalls(message)

const formatRunKey = ({ sessionId, turnId }: Pick<Record.Entry | Run, "sessionId" | "turnId">): string =>
  `${sessionId} ${turnId}`

const recordOpening = ({ changes }: TreeState, node: Node, at: number): void =>
  void changes.push({ _tag: "Opened", at, node })
const recordClosing = ({ changes }: TreeState, node: Node, at: number): void =>
  void changes.push({ _tag: "Closed", at, node })

const beginRun = (tree: TreeState, { at, sessionId, turnId }: Record.Entry, start: Run["start"]): OpenRun => {
  const child = tree.children.get(sessionId)
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
  else tree.roots.push(run)
  const opened: OpenRun = { run, attempts: new Map(), calls: new Map(), step: undefined }
  tree.open.set(formatRunKey(run), opened)
  tree.newest = opened
  recordOpening(tree, run, at)
  return opened
}

const getOpenRun = (tree: TreeState, entry: Record.Entry): OpenRun => {
  const { newest } = tree
  if (newest?.run.turnId === entry.turnId && newest.run.sessionId === entry.sessionId) return newest
  const found = tree.open.get(formatRunKey(entry)) ?? beginRun(tree, entry, undefined)
  tree.newest = found
  return found
}

const endStep = (tree: TreeState, within: OpenRun, at: number): void => {
  const { step } = within
  if (step === undefined) return
  within.step = undefined
  step.endedAt = at
  recordClosing(tree, step, at)
}

const getOrBeginStep = (tree: TreeState, within: OpenRun, number: number, at: number): Step => {
  // The summary of a run that reached a limit is requested under the number of the last step.
  if (within.step?.number === number && within.step.message === undefined) return within.step
  endStep(tree, within, at)
  const step: Step = {
    kind: "step",
    spanId: undefined,
    isEnded: undefined,
    run: within.run,
    number,
    startedAt: at,
    endedAt: undefined,
    attempts: [],
    calls: [],
    message: undefined
  }
  within.step = step
  within.run.steps.push(step)
  recordOpening(tree, step, at)
  return step
}

const addCall = (
  within: OpenRun,
  at: number,
  { args, id, name, parent }: Pick<Call, "args" | "id" | "name"> & { readonly parent?: Call | undefined }
): Call => {
  const made: Call = {
    kind: "call",
    spanId: undefined,
    isEnded: undefined,
    run: within.run,
    step: within.step,
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
  within.calls.set(id, made)
  if (parent === undefined) within.step?.calls.push(made)
  else parent.calls.push(made)
  return made
}

const findCall = ({ calls }: OpenRun, id: string | undefined): Call | undefined =>
  id === undefined ? undefined : calls.get(id)

/** Finds the call with this id that an earlier run of the session left open because its process was killed. */
const findEarlierCall = (tree: TreeState, { run }: OpenRun, id: string): Call | undefined =>
  Array.from(tree.open.values())
    .findLast(
      (one) => one.run !== run && one.run.sessionId === run.sessionId && one.run.end === undefined && one.calls.has(id)
    )
    ?.calls.get(id)

const appendMessage = (
  tree: TreeState,
  within: OpenRun,
  entry: Record.Entry,
  event: TaggedEvent<"MessageAppended">
): void => {
  const { id, message, origin } = event
  const stored = RunContents.addMessage(tree.contents, entry, event)
  // The position of a message with an id is determined by the requests that refer to it.
  if (id !== undefined) return
  within.run.messages.push(stored)
  if (origin === "model") {
    // An answer forms a step even if its attempts are not in the record.
    const last = within.run.steps.at(-1)
    // The answer of a run whose record was cut is stored after the end of the run.
    const open = within.step ?? (within.run.end === undefined ? undefined : last)
    const step =
      open !== undefined && open.message === undefined
        ? open
        : getOrBeginStep(tree, within, (last?.number ?? 0) + 1, entry.at)
    step.message = stored
    for (const { id, name, params } of listCalls(message)) addCall(within, entry.at, { id, name, args: params })
  }
  for (const result of listResults(message)) {
    const answered = within.calls.get(result.id) ?? findEarlierCall(tree, within, result.id)
    if (answered !== undefined) answered.result = result
  }
}

const startAttempt = (tree: TreeState, within: OpenRun, at: number, event: TaggedEvent<"AttemptStarted">): void => {
  const { run } = within
  const step = event.task === undefined ? getOrBeginStep(tree, within, event.step, at) : undefined
  const attempt: Attempt = {
    kind: "attempt",
    spanId: undefined,
    isEnded: undefined,
    run,
    step,
    call: findCall(within, event.callId),
    startedAt: at,
    start: event,
    endedAt: undefined,
    end: undefined
  }
  within.attempts.set(event.apiRequestId, attempt)
  ;(step === undefined ? run.sideTasks : step.attempts).push(attempt)
  recordOpening(tree, attempt, at)
}

const endAttempt = (tree: TreeState, within: OpenRun, at: number, event: TaggedEvent<"AttemptEnded">): void => {
  const attempt = within.attempts.get(event.apiRequestId)
  if (attempt === undefined) return
  within.attempts.delete(event.apiRequestId)
  attempt.end = event
  attempt.endedAt = at
  recordClosing(tree, attempt, at)
}

const startCall = (tree: TreeState, within: OpenRun, at: number, event: TaggedEvent<"CallStarted">): void => {
  const known = within.calls.get(event.callId)
  // Ids may be reused: a call that has ended is a different call.
  const begun =
    known !== undefined && known.end === undefined
      ? known
      : addCall(within, at, {
          id: event.callId,
          name: event.name,
          args: event.args,
          parent: findCall(within, event.parentCallId)
        })
  begun.start = event
  begun.startedAt = at
  recordOpening(tree, begun, at)
}

const endCall = (tree: TreeState, within: OpenRun, at: number, event: TaggedEvent<"CallEnded">): void => {
  const over =
    within.calls.get(event.callId) ??
    findEarlierCall(tree, within, event.callId) ??
    addCall(within, at, {
      id: event.callId,
      name: event.name,
      args: undefined,
      parent: findCall(within, event.parentCallId)
    })
  if (over.start === undefined) {
    over.startedAt = at
    recordOpening(tree, over, at)
  }
  over.end = event
  over.endedAt = at
  recordClosing(tree, over, at)
}

const addApproval = (tree: TreeState, within: OpenRun, at: number, event: TaggedEvent<"ApprovalDecided">): void => {
  const asking = within.calls.get(event.callId)
  if (asking === undefined) return void tree.changes.push({ _tag: "Noted", at, run: within.run, event })
  const approval: Approval = {
    kind: "approval",
    spanId: undefined,
    isEnded: undefined,
    call: asking,
    endedAt: at,
    event
  }
  asking.approvals.push(approval)
  recordOpening(tree, approval, at - event.waitedMillis)
  recordClosing(tree, approval, at)
}

const startChild = (tree: TreeState, within: OpenRun, at: number, event: TaggedEvent<"ChildStarted">): void => {
  const { run } = within
  const by = findCall(within, event.callId)
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
  tree.children.set(event.sessionId, child)
  ;(by ?? run).children.push(child)
  recordOpening(tree, child, at)
}

const endChild = (tree: TreeState, at: number, event: TaggedEvent<"ChildEnded">): void => {
  const child = tree.children.get(event.sessionId)
  if (child === undefined) return
  child.end = event
  child.endedAt = at
  recordClosing(tree, child, at)
}

const endRun = (tree: TreeState, within: OpenRun, at: number, event: TaggedEvent<"RunEnded">): void => {
  const { run } = within
  endStep(tree, within, at)
  run.end = event
  run.endedAt = at
  recordClosing(tree, run, at)
}

/** Events that are not part of a run that is in the tree. */
type OtherEvent = TaggedEvent<"RunStarted" | "SessionEnded" | "ReplayBegun" | "Scored" | "Noted" | "FilesReverted">

/** Adds an event of a run that is in the tree. */
const addRunEvent = (
  tree: TreeState,
  entry: Record.Entry,
  event: Exclude<Record.RecordEvent, OtherEvent | WorkflowEvent>
): void => {
  const { at } = entry
  const within = getOpenRun(tree, entry)
  switch (event._tag) {
    case "MessageAppended":
      return appendMessage(tree, within, entry, event)
    case "ToolsOffered":
      return RunContents.addTools(tree.contents, entry, event)
    case "AttemptStarted":
      return startAttempt(tree, within, at, event)
    case "AttemptEnded":
      return endAttempt(tree, within, at, event)
    case "CallStarted":
      return startCall(tree, within, at, event)
    case "CallEnded":
      return endCall(tree, within, at, event)
    case "McpRequested": {
      const asking = within.calls.get(event.callId)
      if (asking !== undefined) asking.mcp = { at, event }
      return
    }
    case "FileChanged":
      return void within.calls.get(event.callId)?.changes.push(event)
    case "ApprovalDecided":
      return addApproval(tree, within, at, event)
    case "ChildStarted":
      return startChild(tree, within, at, event)
    case "ChildEnded":
      return endChild(tree, at, event)
    case "RunEnded":
      return endRun(tree, within, at, event)
    default:
      within.run.asides.push({ at, step: within.step?.number ?? 0, event })
      tree.changes.push({ _tag: "Noted", at, run: within.run, event })
  }
}

const endSession = (tree: TreeState, entry: Record.Entry, event: TaggedEvent<"SessionEnded">): void => {
  // If a session continues another session, its end may be recorded under the turn in which it began.
  const last =
    tree.open.get(formatRunKey(entry))?.run ?? tree.roots.findLast(({ sessionId }) => sessionId === entry.sessionId)
  if (last !== undefined) tree.changes.push({ _tag: "Noted", at: entry.at, run: last, event })
}

/**
 * Adds an event to the beginning of a session that repeats another session. Returns false if the event is not part of
 * the beginning.
 */
const addToBeginning = (tree: TreeState, entry: Record.Entry): boolean => {
  const { event } = entry
  const beginning = tree.beginnings.get(entry.sessionId)
  if (beginning?.turnId !== entry.turnId) return false
  if (event._tag === "MessageAppended" && event.position !== undefined) {
    beginning.messages.push(RunContents.addMessage(tree.contents, entry, event))
    return true
  }
  if (event._tag !== "ContextRewritten") return false
  beginning.rewritten = event
  return true
}

/** Adds an entry, and returns the changes that it made, in order. */
export const addEntry = (tree: TreeState, entry: Record.Entry): ReadonlyArray<Change> => {
  const { at, event, sessionId, turnId } = entry
  tree.changes = []
  if (isWorkflowEvent(event)) return tree.changes
  switch (event._tag) {
    case "RunStarted":
      beginRun(tree, entry, event)
      break
    case "SessionEnded":
      endSession(tree, entry, event)
      break
    case "ReplayBegun":
      tree.beginnings.set(sessionId, { at, turnId, link: event, rewritten: undefined, messages: [] })
      break
    // A score, a note and an undo concern a session and are not part of its runs.
    case "Scored":
    case "Noted":
    case "FilesReverted":
      break
    default:
      if (!addToBeginning(tree, entry)) addRunEvent(tree, entry, event)
  }
  return tree.changes
}

/** Forgets the contents of a session if no run of it is in the tree. */
export const releaseSession = ({ beginnings, children, contents, roots }: TreeState, sessionId: string): void => {
  if (roots.some((root) => root.sessionId === sessionId) || children.has(sessionId)) return
  RunContents.forgetSession(contents, sessionId)
  beginnings.delete(sessionId)
}

const dropRun = (tree: TreeState, run: Run): void => {
  tree.open.delete(formatRunKey(run))
  tree.newest = undefined
  const below = [...run.children, ...run.steps.flatMap(({ calls }) => calls.flatMap((call) => call.children))]
  for (const { run: inner, start } of below) {
    tree.children.delete(start.sessionId)
    if (inner !== undefined) dropRun(tree, inner)
  }
  releaseSession(tree, run.sessionId)
}

/**
 * Forgets a root that has ended and its children. Also forgets the contents of its session if the tree has no other run
 * of it.
 */
export const forgetRoot = (tree: TreeState, root: Run): void => {
  const index = tree.roots.indexOf(root)
  if (index >= 0) tree.roots.splice(index, 1)
  dropRun(tree, root)
}
