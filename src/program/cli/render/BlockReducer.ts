/**
 * Converts the events of a run to blocks. Pure: a state and an event produce a new state and its changes, so the cost
 * of an event does not depend on the length of the session.
 *
 * A block is emitted when it is complete. The state contains unfinished parts: the text or the reasoning being written,
 * running calls and sub-agents, and the current activity; {@link renderLive} renders them as lines. A notice that
 * arrives while text is being written is emitted after the text, because a lost connection does not end the text.
 *
 * Source: `hermes-product.md` §1.8, `ARCHITECTURE.md` §4 (views are projections of the events).
 */
import * as Option from "effect/Option"
import * as FileChange from "../../../base/domain/FileChange.ts"
import * as Json from "../../../base/domain/Json.ts"
import type { RunEvent, RunResult } from "../../../base/domain/RunEvent.ts"
import * as ToolSchedule from "../../../tools/ToolSchedule.ts"
import type * as Block from "./Block.ts"
import type { Paint } from "./Paint.ts"
import * as RunText from "./RunText.ts"
import * as ToolFeed from "./ToolFeed.ts"
import * as ToolText from "./ToolText.ts"
import * as Width from "./Width.ts"

/** Text of a step, linked to the earlier text, so that the cost of appending does not depend on the number of steps. */
interface SaidText {
  readonly step: number
  readonly text: string
  readonly before: SaidText | undefined
}

/** State of a run on the screen. */
export interface State {
  /** Text or reasoning that is being written. */
  readonly open: Block.TextBlock | Block.ReasoningBlock | undefined
  readonly calls: ToolFeed.Calls
  readonly children: ToolFeed.Children
  /** File changes by calls that are still running. */
  readonly changes: ReadonlyArray<FileChange.FileChanged>
  /** Names of tools that were already called. */
  readonly seen: ReadonlySet<string>
  /** Notices held until the end of the text. */
  readonly waiting: ReadonlyArray<Block.Block>
  readonly step: number
  /** Text of the steps so far, most recent first. */
  readonly said: SaidText | undefined
  /** Activity of the run and its start time; `undefined` before the run begins and after it ends. */
  readonly activity: { readonly what: string; readonly since: number } | undefined
  readonly lastOutput: number
}

/** Change to the list of blocks. */
export type Change =
  /** A block is complete. */
  | { readonly _tag: "Put"; readonly block: Block.Block }
  /** Text of this step and of later steps was retracted. */
  | { readonly _tag: "TakenBack"; readonly step: number; readonly isChanged: boolean }

/** New state and its changes after an event. */
export interface Step {
  readonly state: State
  readonly changes: ReadonlyArray<Change>
}

/** Properties of the run that do not change. */
export interface Options {
  /** False if the text may still be replaced. The text is then emitted only at the end. */
  readonly isLive: boolean
  readonly showCost: boolean
}

export const initial: State = {
  open: undefined,
  calls: new Map(),
  children: new Map(),
  changes: [],
  seen: new Set(),
  waiting: [],
  step: 0,
  said: undefined,
  activity: undefined,
  lastOutput: -Infinity
}

const toPutChange = (block: Block.Block): Change => ({ _tag: "Put", block })

/** Closes the open block and emits the blocks held until its end. */
const closeOpen = (state: State): Step => {
  const { open, waiting } = state
  if (open === undefined && waiting.length === 0) return { state, changes: [] }
  const written = open === undefined || open.text.trim() === "" ? [] : [open]
  return { state: { ...state, open: undefined, waiting: [] }, changes: [...written, ...waiting].map(toPutChange) }
}

/** Closes the open block and emits the given blocks after it. */
const putBlocks = (state: State, ...blocks: ReadonlyArray<Block.Block>): Step => {
  if (blocks.length === 0) return { state, changes: [] }
  const before = closeOpen(state)
  return { state: before.state, changes: [...before.changes, ...blocks.map(toPutChange)] }
}

const recordText = ({ said: last, step }: State, text: string): SaidText =>
  last?.step === step ? { ...last, text: last.text + text } : { step, text, before: last }

/** Appends to the text of the step. */
const writeText = (state: State, text: string): Step => {
  if (text === "") return { state, changes: [] }
  const before = state.open?._tag === "Reasoning" ? closeOpen(state) : { state, changes: [] }
  const open: Block.TextBlock =
    before.state.open?._tag === "Text"
      ? { ...before.state.open, text: before.state.open.text + text }
      : { _tag: "Text", step: state.step, text }
  return { state: { ...before.state, open, said: recordText(state, text) }, changes: before.changes }
}

const appendReasoning = (state: State, text: string): Step => {
  const before = state.open?._tag === "Text" ? closeOpen(state) : { state, changes: [] }
  const open: Block.ReasoningBlock = { _tag: "Reasoning", text: (before.state.open?.text ?? "") + text }
  return { state: { ...before.state, open }, changes: before.changes }
}

/** Emits a notice: below the shown blocks, or after the text that is being written. */
const addNotice = (state: State, block: Block.Block): Step =>
  state.open?._tag === "Text"
    ? { state: { ...state, waiting: [...state.waiting, block] }, changes: [] }
    : putBlocks(state, block)

const replaceText = (state: State, step: number, text: string): Step => {
  let kept = state.said
  let isSaid = false
  for (; kept !== undefined && kept.step >= step; kept = kept.before) isSaid = isSaid || kept.text.trim() !== ""
  const next = writeText({ ...state, open: undefined, said: kept, step }, text)
  return {
    state: { ...next.state, step: state.step },
    changes: isSaid ? [{ _tag: "TakenBack", step, isChanged: text !== "" }, ...next.changes] : next.changes
  }
}

const removeWhitespace = (text: string): string => text.replaceAll(/\s+/g, "")

const finishRun = (state: State, result: RunResult, { isLive, showCost }: Options): Step => {
  let all = ""
  for (let one = state.said; one !== undefined; one = one.before) all = one.text + all
  const before = closeOpen(state)
  const isShown = result.text.trim() === "" || removeWhitespace(all).endsWith(removeWhitespace(result.text))
  const mark: ReadonlyArray<Block.Block> =
    !isShown && all !== "" && isLive ? [{ _tag: "Notice", level: "info", text: "The answer was changed:" }] : []
  const text: ReadonlyArray<Block.Block> = isShown ? [] : [{ _tag: "Text", step: state.step, text: result.text }]
  const cost: ReadonlyArray<Block.Block> =
    showCost && result.usage.requestCount > 0 ? [{ _tag: "Usage", usage: result.usage, cost: result.cost }] : []
  return {
    state: { ...before.state, activity: undefined, calls: new Map(), children: new Map() },
    changes: [...before.changes, ...[...mark, ...text, ...cost].map(toPutChange)]
  }
}

const statuses = new Set(["pending", "in_progress", "completed", "cancelled"])

/** Parses the list in the result of a `todo` call. */
const parseTodo = (output: string): Block.TodoBlock | undefined => {
  const value = Option.getOrUndefined(Json.parse(output))
  const list = Json.isFields(value) ? value["todos"] : undefined
  if (!Array.isArray(list)) return undefined
  const items = list.flatMap((item: unknown): ReadonlyArray<Block.TodoItem> => {
    if (!Json.isFields(item) || typeof item["content"] !== "string" || !statuses.has(String(item["status"]))) return []
    // The status was checked above.
    return [{ content: item["content"], status: item["status"] as Block.TodoItem["status"] }]
  })
  return items.length === 0 ? undefined : { _tag: "Todo", items }
}

const finishTool = (state: State, event: ToolFeed.EventOf<"ToolFinished">): Step => {
  const { callId, durationMillis, name, output, status } = event
  const call = state.calls.get(callId)
  const own = state.changes.filter((change) => change.callId === callId)
  const tool: Block.ToolBlock = {
    _tag: "Tool",
    name,
    params: ToolFeed.readParams(call),
    status,
    output,
    durationMillis,
    isFirst: !state.seen.has(name)
  }
  const todo = name === "todo" && status === "ok" ? parseTodo(output) : undefined
  const next: State = {
    ...state,
    calls: ToolFeed.updateCalls(state.calls, event, 0),
    changes: state.changes.filter((change) => change.callId !== callId),
    seen: state.seen.has(name) ? state.seen : new Set([...state.seen, name])
  }
  return putBlocks(
    next,
    tool,
    ...(own.length === 0 ? [] : [{ _tag: "Diff", changes: own } as const]),
    ...(todo === undefined ? [] : [todo])
  )
}

const setActivity = ({ changes, state }: Step, what: string, now: number): Step => ({
  changes,
  state: state.activity?.what === what ? state : { ...state, activity: { what, since: now } }
})

/** Applies an event of a run to the state. `now` is the time of the event. */
export const reduce = (state: State, event: RunEvent, now: number, options: Options): Step => {
  switch (event._tag) {
    case "RunStarted":
      return setActivity({ state, changes: [] }, "waiting for the model", now)
    case "StepStarted": {
      const { changes, state: next } = closeOpen(state)
      return setActivity({ state: { ...next, step: event.step }, changes }, "waiting for the model", now)
    }
    case "TextDelta": {
      const next = options.isLive ? writeText(state, event.text) : { state, changes: [] }
      return setActivity({ ...next, state: { ...next.state, lastOutput: now } }, "writing", now)
    }
    case "TextReplaced":
      return options.isLive ? replaceText(state, event.stepId, event.text) : { state, changes: [] }
    case "ReasoningDelta":
      return setActivity(appendReasoning(state, event.text), "thinking", now)
    case "ToolInputStarted": {
      // The text before the call is complete; otherwise it would be held while the arguments are written.
      const { changes, state: next } = closeOpen(state)
      return setActivity(
        { state: { ...next, calls: ToolFeed.updateCalls(next.calls, event, now) }, changes },
        "writing",
        now
      )
    }
    case "ToolStarted": {
      const { changes, state: next } = closeOpen(state)
      return { state: { ...next, calls: ToolFeed.updateCalls(next.calls, event, now) }, changes }
    }
    case "ToolInputDelta":
    case "ToolProgress":
      return { state: { ...state, calls: ToolFeed.updateCalls(state.calls, event, now) }, changes: [] }
    case "ToolFinished":
      return finishTool(state, event)
    case "FileChanged":
      // The change is shown below the line of its call.
      return { state: { ...state, changes: [...state.changes, event] }, changes: [] }
    case "ToolsScheduled":
      return putBlocks(state, {
        _tag: "Notice",
        level: "detail",
        text: `┊ ${ToolSchedule.explain(event.calls, event)}`
      })
    case "SubagentStarted":
    case "SubagentFinished":
      return putBlocks(
        { ...state, children: ToolFeed.updateChildren(state.children, event, now) },
        { _tag: "Child", event }
      )
    case "SubagentProgress":
      return { state: { ...state, children: ToolFeed.updateChildren(state.children, event, now) }, changes: [] }
    case "Waiting":
      return setActivity(
        addNotice(state, { _tag: "Notice", level: "warning", text: RunText.describeWait(event) }),
        "waiting to try again",
        now
      )
    case "Notice":
      return addNotice(
        state,
        event.level === "warning"
          ? { _tag: "Notice", level: "warning", text: `! ${event.message}` }
          : { _tag: "Notice", level: "info", text: event.message }
      )
    case "RunFinished":
      return finishRun(state, event, options)
    default:
      // A silent model, the cost of a call and a route change do not affect the blocks: the run reports them as
      // notices.
      return { state, changes: [] }
  }
}

/** Emits a block from the program: below the shown blocks, or after the text that is being written. */
export const addNote = (state: State, block: Block.Block): Step => addNotice(state, block)

/** Closes the text that is being written, because no more output follows. */
export const close = (state: State): Step =>
  closeOpen({ ...state, activity: undefined, calls: new Map(), children: new Map() })

/** Pause in the text, in milliseconds, after which the spinner is shown again. */
const pauseMillis = 1500

/** Interval at which live lines are drawn, in milliseconds. */
export const frameMillis = 100

const frames = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"]

/** Available size and detail of live lines. */
export interface LiveRoom {
  readonly columns: number
  readonly paint: Paint
  readonly previewLength: number
  readonly verbosity: ToolFeed.Verbosity
  /** Hint next to the spinner. */
  readonly hint: string
}

/** Renders the line that shows the current activity of a run. */
const renderActivity = (
  { activity, lastOutput }: Pick<State, "activity" | "lastOutput">,
  now: number,
  { columns, hint, paint }: Pick<LiveRoom, "columns" | "hint" | "paint">
): ReadonlyArray<string> => {
  if (activity === undefined || now - lastOutput < pauseMillis) return []
  const frame = frames[Math.floor(now / frameMillis) % frames.length] ?? ""
  const line = `${activity.what} · ${ToolText.formatElapsed(now - activity.since)}${hint === "" ? "" : ` · ${hint}`}`
  return [`${paint.text("┊", "dim")} ${paint.text(frame, "cyan")} ${paint.text(Width.cut(line, columns - 5), "dim")}`]
}

/** Renders the lines of unfinished parts within the available width. */
export const renderLive = (state: State, now: number, room: LiveRoom): ReadonlyArray<string> => {
  const frame = frames[Math.floor(now / frameMillis) % frames.length] ?? ""
  const inside = { ...room, columns: room.columns - 1 }
  const lines =
    room.verbosity === "off"
      ? []
      : [
          ...ToolFeed.renderLiveCalls(state.calls, now, frame, inside),
          ...ToolFeed.renderLiveChildren(state.children, now, frame, inside)
        ]
  return lines.length > 0 ? lines : renderActivity(state, now, room)
}
