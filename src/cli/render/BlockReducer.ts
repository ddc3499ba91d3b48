/**
 * Makes blocks of the events of a run. Pure: a state and an event give a state and what became of it, so that no event costs more in a
 * long session than in a short one.
 *
 * A block is given when it is complete. What is under way stands in the state: the text or the reasoning that is being written, the
 * calls and the children that run, what the run is at; {@link live} makes lines of it. A notice that comes in the middle of a text waits
 * for its end: a connection that is lost there is not the end of it.
 *
 * Source: `hermes-product.md` §1.8, `ARCHITECTURE.md` §4 (views are projections of the events).
 */
import * as Option from "effect/Option"
import * as FileChange from "../../domain/FileChange.ts"
import * as Json from "../../domain/Json.ts"
import type { RunEvent, RunResult } from "../../domain/RunEvent.ts"
import * as Schedule from "../../tool/Schedule.ts"
import type * as Block from "./Block.ts"
import type { Paint } from "./Paint.ts"
import * as RunText from "./RunText.ts"
import * as ToolFeed from "./ToolFeed.ts"
import * as ToolText from "./ToolText.ts"
import * as Width from "./Width.ts"

/** Text of a step, and what was said before: an event adds to it at the same cost, however many steps there were. */
interface Said {
  readonly step: number
  readonly text: string
  readonly before: Said | undefined
}

/** State of a run on the screen. */
export interface State {
  /** Text or reasoning that is being written. */
  readonly open: Block.TextBlock | Block.ReasoningBlock | undefined
  readonly calls: ToolFeed.Calls
  readonly children: ToolFeed.Children
  /** Changes of files by calls that are not closed. */
  readonly changes: ReadonlyArray<FileChange.FileChanged>
  /** Names of tools that were called. */
  readonly seen: ReadonlySet<string>
  /** Notices that wait for the end of the text. */
  readonly waiting: ReadonlyArray<Block.Block>
  readonly step: number
  /** Text of the steps so far, the last one first. */
  readonly said: Said | undefined
  /** Activity of the run, and its beginning; undefined before the run begins and after its end. */
  readonly activity: { readonly what: string; readonly since: number } | undefined
  readonly lastOutput: number
}

/** Result of an event for the list of blocks. */
export type Change =
  /** A block is complete. */
  | { readonly _tag: "Put"; readonly block: Block.Block }
  /** Text of this step and of those after it is not said any more. */
  | { readonly _tag: "TakenBack"; readonly step: number; readonly isChanged: boolean }

/** Result of an event. */
export interface Step {
  readonly state: State
  readonly changes: ReadonlyArray<Change>
}

/** Properties of the run that do not change. */
export interface Options {
  /** False where the text may still be replaced: it is given at the end, and nothing before. */
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

const putOf = (block: Block.Block): Change => ({ _tag: "Put", block })

/** Ends what is being written; what waited for it follows. */
const closed = (state: State): Step => {
  const { open, waiting } = state
  if (open === undefined && waiting.length === 0) return { state, changes: [] }
  const written = open === undefined || open.text.trim() === "" ? [] : [open]
  return { state: { ...state, open: undefined, waiting: [] }, changes: [...written, ...waiting].map(putOf) }
}

/** Ends what is being written, and puts blocks below it. */
const put = (state: State, ...blocks: ReadonlyArray<Block.Block>): Step => {
  if (blocks.length === 0) return { state, changes: [] }
  const before = closed(state)
  return { state: before.state, changes: [...before.changes, ...blocks.map(putOf)] }
}

const said = ({ said: last, step }: State, text: string): Said =>
  last?.step === step ? { ...last, text: last.text + text } : { step, text, before: last }

/** Adds to the text of the step. */
const write = (state: State, text: string): Step => {
  if (text === "") return { state, changes: [] }
  const before = state.open?._tag === "Reasoning" ? closed(state) : { state, changes: [] }
  const open: Block.TextBlock = before.state.open?._tag === "Text"
    ? { ...before.state.open, text: before.state.open.text + text }
    : { _tag: "Text", step: state.step, text }
  return { state: { ...before.state, open, said: said(state, text) }, changes: before.changes }
}

const think = (state: State, text: string): Step => {
  const before = state.open?._tag === "Text" ? closed(state) : { state, changes: [] }
  const open: Block.ReasoningBlock = { _tag: "Reasoning", text: (before.state.open?.text ?? "") + text }
  return { state: { ...before.state, open }, changes: before.changes }
}

/** A notice: below what is shown, or behind the text that is being written. */
const tell = (state: State, block: Block.Block): Step =>
  state.open?._tag === "Text" ? { state: { ...state, waiting: [...state.waiting, block] }, changes: [] } : put(state, block)

const replace = (state: State, step: number, text: string): Step => {
  let kept = state.said
  let isSaid = false
  for (; kept !== undefined && kept.step >= step; kept = kept.before) isSaid = isSaid || kept.text.trim() !== ""
  const next = write({ ...state, open: undefined, said: kept, step }, text)
  return {
    state: { ...next.state, step: state.step },
    changes: isSaid ? [{ _tag: "TakenBack", step, isChanged: text !== "" }, ...next.changes] : next.changes
  }
}

const squeezed = (text: string): string => text.replaceAll(/\s+/g, "")

const finish = (state: State, result: RunResult, { isLive, showCost }: Options): Step => {
  let all = ""
  for (let one = state.said; one !== undefined; one = one.before) all = one.text + all
  const before = closed(state)
  const isShown = result.text.trim() === "" || squeezed(all).endsWith(squeezed(result.text))
  const mark: ReadonlyArray<Block.Block> = !isShown && all !== "" && isLive ? [{ _tag: "Notice", level: "info", text: "The answer was changed:" }] : []
  const text: ReadonlyArray<Block.Block> = isShown ? [] : [{ _tag: "Text", step: state.step, text: result.text }]
  const cost: ReadonlyArray<Block.Block> = showCost && result.usage.requestCount > 0 ? [{ _tag: "Usage", usage: result.usage, cost: result.cost }] : []
  return {
    state: { ...before.state, activity: undefined, calls: new Map(), children: new Map() },
    changes: [...before.changes, ...[...mark, ...text, ...cost].map(putOf)]
  }
}

const statuses = new Set(["pending", "in_progress", "completed", "cancelled"])

/** The list that a call of `todo` answered with. */
const todoOf = (output: string): Block.TodoBlock | undefined => {
  const value = Option.getOrUndefined(Json.parse(output))
  const list = Json.isFields(value) ? value["todos"] : undefined
  if (!Array.isArray(list)) return undefined
  const items = list.flatMap((item: unknown): ReadonlyArray<Block.TodoItem> => {
    if (!Json.isFields(item) || typeof item["content"] !== "string" || !statuses.has(String(item["status"]))) return []
    // One of the statuses, as was just seen.
    return [{ content: item["content"], status: item["status"] as Block.TodoItem["status"] }]
  })
  return items.length === 0 ? undefined : { _tag: "Todo", items }
}

const finished = (state: State, event: ToolFeed.EventOf<"ToolFinished">): Step => {
  const { callId, durationMillis, name, output, status } = event
  const call = state.calls.get(callId)
  const own = state.changes.filter((change) => change.callId === callId)
  const tool: Block.ToolBlock = {
    _tag: "Tool",
    name,
    params: ToolFeed.paramsOf(call),
    status,
    output,
    durationMillis,
    isFirst: !state.seen.has(name)
  }
  const todo = name === "todo" && status === "ok" ? todoOf(output) : undefined
  const next: State = {
    ...state,
    calls: ToolFeed.stepCalls(state.calls, event, 0),
    changes: state.changes.filter((change) => change.callId !== callId),
    seen: state.seen.has(name) ? state.seen : new Set([...state.seen, name])
  }
  return put(next, tool, ...own.length === 0 ? [] : [{ _tag: "Diff", changes: own } as const], ...todo === undefined ? [] : [todo])
}

const busy = ({ changes, state }: Step, what: string, now: number): Step => ({
  changes,
  state: state.activity?.what === what ? state : { ...state, activity: { what, since: now } }
})

/** Takes an event of a run that came at a time. */
export const reduce = (state: State, event: RunEvent, now: number, options: Options): Step => {
  switch (event._tag) {
    case "RunStarted":
      return busy({ state, changes: [] }, "waiting for the model", now)
    case "StepStarted": {
      const { changes, state: next } = closed(state)
      return busy({ state: { ...next, step: event.step }, changes }, "waiting for the model", now)
    }
    case "TextDelta": {
      const next = options.isLive ? write(state, event.text) : { state, changes: [] }
      return busy({ ...next, state: { ...next.state, lastOutput: now } }, "writing", now)
    }
    case "TextReplaced":
      return options.isLive ? replace(state, event.stepId, event.text) : { state, changes: [] }
    case "ReasoningDelta":
      return busy(think(state, event.text), "thinking", now)
    case "ToolInputStarted": {
      // The text before is complete, and would be held while the arguments are written.
      const { changes, state: next } = closed(state)
      return busy({ state: { ...next, calls: ToolFeed.stepCalls(next.calls, event, now) }, changes }, "writing", now)
    }
    case "ToolStarted": {
      const { changes, state: next } = closed(state)
      return { state: { ...next, calls: ToolFeed.stepCalls(next.calls, event, now) }, changes }
    }
    case "ToolInputDelta":
    case "ToolProgress":
      return { state: { ...state, calls: ToolFeed.stepCalls(state.calls, event, now) }, changes: [] }
    case "ToolFinished":
      return finished(state, event)
    case "FileChanged":
      // Below the line of its call.
      return { state: { ...state, changes: [...state.changes, event] }, changes: [] }
    case "ToolsScheduled":
      return put(state, { _tag: "Notice", level: "detail", text: `┊ ${Schedule.explain(event.calls, event)}` })
    case "SubagentStarted":
    case "SubagentFinished":
      return put({ ...state, children: ToolFeed.stepChildren(state.children, event, now) }, { _tag: "Child", event })
    case "SubagentProgress":
      return { state: { ...state, children: ToolFeed.stepChildren(state.children, event, now) }, changes: [] }
    case "Waiting":
      return busy(tell(state, { _tag: "Notice", level: "warning", text: RunText.waiting(event) }), "waiting to try again", now)
    case "Notice":
      return tell(state, event.level === "warning"
        ? { _tag: "Notice", level: "warning", text: `! ${event.message}` }
        : { _tag: "Notice", level: "info", text: event.message })
    case "RunFinished":
      return finish(state, event, options)
    default:
      // A model that is silent, what a call cost, and another route change nothing here: the run tells of them by notices.
      return { state, changes: [] }
  }
}

/** Puts a block of the program's own: below what is shown, or behind the text that is being written. */
export const note = (state: State, block: Block.Block): Step => tell(state, block)

/** Ends what is being written: nothing follows. */
export const close = (state: State): Step => closed({ ...state, activity: undefined, calls: new Map(), children: new Map() })

/** A pause in the text after which the spinner comes back. */
const pauseMillis = 1500

/** Interval at which live lines are drawn. */
export const frameMillis = 100

const frames = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"]

/** Place and detail of live lines. */
export interface LiveRoom {
  readonly columns: number
  readonly paint: Paint
  readonly previewLength: number
  readonly verbosity: ToolFeed.Verbosity
  /** Hint beside the spinner. */
  readonly hint: string
}

/** The line that says what a run is at. */
export const activityLine = (
  { activity, lastOutput }: Pick<State, "activity" | "lastOutput">,
  now: number,
  { columns, hint, paint }: Pick<LiveRoom, "columns" | "hint" | "paint">
): ReadonlyArray<string> => {
  if (activity === undefined || now - lastOutput < pauseMillis) return []
  const frame = frames[Math.floor(now / frameMillis) % frames.length] ?? ""
  const line = `${activity.what} · ${ToolText.elapsed(now - activity.since)}${hint === "" ? "" : ` · ${hint}`}`
  return [`${paint.text("┊", "dim")} ${paint.text(frame, "cyan")} ${paint.text(Width.cut(line, columns - 5), "dim")}`]
}

/** The lines of what is under way, no wider than the room. */
export const live = (state: State, now: number, room: LiveRoom): ReadonlyArray<string> => {
  const frame = frames[Math.floor(now / frameMillis) % frames.length] ?? ""
  const inside = { ...room, columns: room.columns - 1 }
  const lines = room.verbosity === "off"
    ? []
    : [...ToolFeed.liveCalls(state.calls, now, frame, inside), ...ToolFeed.liveChildLines(state.children, now, frame, inside)]
  return lines.length > 0 ? lines : activityLine(state, now, room)
}
