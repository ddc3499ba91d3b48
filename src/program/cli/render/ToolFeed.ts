/**
 * Lines about tool calls and sub-agents. Each tool call has one line: with its elapsed time while it runs, and with its
 * outcome when it is finished.
 *
 * - `off` shows no calls, `new` shows the first call of each tool and all failed calls, `all` shows every call, and
 *   `verbose` also shows all arguments and the beginning of the result.
 * - Concurrent calls have one live line each. Each call is added to the feed when it ends.
 * - A call that was refused before it ran, or was cut off, also has a line.
 * - Lines about sub-agents are indented one step more than lines about the agent's own tools. `new` shows only
 *   sub-agents that did not complete.
 *
 * Source: `hermes-product.md` §1.8 and §3.5.
 */
import * as Option from "effect/Option"
import * as Json from "../../../base/domain/Json.ts"
import * as Redaction from "../../../base/domain/Redaction.ts"
import type { RunEvent } from "../../../base/domain/RunEvent.ts"
import { describeOmitted, isTail, type ToolOutcome, type ToolView } from "../../../base/domain/ToolView.ts"
import * as Usage from "../../../base/domain/Usage.ts"
import type { Attribute, Paint } from "./Paint.ts"
import * as SafeText from "./SafeText.ts"
import * as ToolText from "./ToolText.ts"
import * as Width from "./Width.ts"

/** Detail of tool output (`display.tool_progress`). */
export type Verbosity = "off" | "new" | "all" | "verbose"

/** Options of a feed, which are read at each event. */
export interface Options {
  readonly verbosity: () => Verbosity
  /** Maximum number of characters of the arguments; 0 for as many as fit (`display.tool_preview_length`). */
  readonly previewLength: number
}

/** Maximum number of lines of a result shown by `verbose`. */
const resultLines = 12

/** Maximum number of live lines. Calls beyond it are only counted. */
const liveLines = 6

/** Width of a line without a terminal, in columns. */
const wide = 160

/** Maximum number of characters of streamed arguments stored for a preview. */
const keptInput = 4000

const marks: Readonly<Record<ToolOutcome, readonly [mark: string, attribute: Attribute]>> = {
  done: ["✓", "green"],
  failed: ["✗", "red"],
  refused: ["⊘", "yellow"],
  stopped: ["○", "dim"]
}

/** A call whose arguments are being written by the model, or that is running. */
export interface Call {
  readonly name: string
  readonly params: unknown
  readonly preview: string
  readonly startedAt: number | undefined
  readonly progress: string
  readonly input: string
  readonly inputLength: number
}

/** The event type with a tag. */
export type EventOf<Tag extends RunEvent["_tag"]> = Extract<RunEvent, { readonly _tag: Tag }>

/** An event about a tool call. */
export type ToolEvent = EventOf<"ToolInputStarted" | "ToolInputDelta" | "ToolStarted" | "ToolProgress" | "ToolFinished">

/** Lines about the tool calls of one run. */
export interface ToolFeed {
  /** Processes an event and returns the lines to add to the feed. */
  readonly take: (event: ToolEvent, now: number, columns: number | undefined) => ReadonlyArray<string>
  /** Returns the lines of running calls, at most `columns` wide. */
  readonly live: (now: number, columns: number, frame: string) => ReadonlyArray<string>
}

const makeIdleCall = (name: string): Call => ({
  name,
  params: undefined,
  preview: "",
  startedAt: undefined,
  progress: "",
  input: "",
  inputLength: 0
})

/** Calls that have not ended, by their ids. */
export type Calls = ReadonlyMap<string, Call>

/** Returns the open calls after an event. */
export const updateCalls = (calls: Calls, event: ToolEvent, now: number): Calls => {
  const call = calls.get(event.callId)
  const putCall = (next: Call): Calls => new Map(calls).set(event.callId, next)
  switch (event._tag) {
    case "ToolInputStarted":
      return putCall(makeIdleCall(event.name))
    case "ToolInputDelta": {
      if (call === undefined) return calls
      const input = call.input.length < keptInput ? call.input + event.text : call.input
      return putCall({ ...call, input, inputLength: call.inputLength + event.text.length })
    }
    case "ToolStarted":
      return putCall({
        ...(call ?? makeIdleCall(event.name)),
        params: event.params,
        preview: ToolText.summariseParams(event.params),
        startedAt: now
      })
    case "ToolProgress":
      return call === undefined ? calls : putCall({ ...call, progress: event.text })
    case "ToolFinished": {
      const next = new Map(calls)
      next.delete(event.callId)
      return next
    }
  }
}

/** Returns the arguments of a call. If the call never ran, they are the text written by the model. */
export const readParams = (call: Call | undefined): unknown =>
  call?.params ?? Option.getOrUndefined(Json.parse(call?.input ?? ""))

const formatSize = (length: number): string => (length < 1000 ? `${length} B` : `${(length / 1000).toFixed(1)} kB`)

const formatName = (name: string): string => Width.cut(SafeText.toLine(name), 40)

/** Available width for lines about calls. */
interface Room {
  readonly columns: number
  readonly paint: Paint
  /** Maximum number of characters of the arguments; 0 for as many as fit. */
  readonly previewLength: number
}

/** Cuts the arguments to the remaining width of the line, after a space. */
const fitPreview = (preview: string, room: number, previewLength: number): string => {
  const text = Width.cut(preview, Math.max(0, Math.min(room - 1, previewLength === 0 ? room : previewLength)))
  return text === "" ? "" : ` ${text}`
}

const renderBar = (paint: Paint): string => paint.text("┊", "dim")

/** Renders a finished call in one line. */
export const renderLine = (
  event: Pick<EventOf<"ToolFinished">, "durationMillis" | "name" | "status">,
  view: ToolView,
  preview: string,
  { columns, paint, previewLength }: Room,
  outcome = ToolText.describeOutcome(view)
): string => {
  const [mark, attribute] = marks[view.outcome]
  const room = Math.max(0, columns - Width.measure(`┊ ${mark} `))
  const name = Width.cut(formatName(event.name), room)
  const time =
    event.status === "ok" || event.status === "error" ? ` · ${ToolText.formatDuration(event.durationMillis)}` : ""
  const shownTime = Width.measure(name + time) > room ? "" : time
  const told = Width.cut(outcome, Math.max(16, columns >> 1))
  const ending = Width.cut(told === "" ? "" : ` · ${told}`, Math.max(0, room - Width.measure(name + shownTime)))
  const what = fitPreview(preview, columns - Width.measure(`┊ ${mark} ${name}${shownTime}${ending}`), previewLength)
  return `${renderBar(paint)} ${paint.text(mark, attribute)} ${paint.text(name, "bold")}${what}${paint.text(shownTime, "dim")}${paint.text(
    ending,
    view.outcome === "done" ? "dim" : attribute
  )}`
}

/** Renders the lines that a view shows below the line of its call, cut to the width. */
export const renderViewLines = (
  view: Pick<ToolView, "kind" | "lines" | "omitted" | "outcome">,
  { columns, paint }: Pick<Room, "columns" | "paint">
): ReadonlyArray<string> => {
  const bar = `${renderBar(paint)}   `
  const more = view.omitted === 0 ? [] : [paint.text(describeOmitted(view), "dim")]
  const room = Math.max(8, columns - 4)
  const attribute = view.outcome === "failed" ? "red" : "dim"
  const lines = view.lines.map((line) => paint.text(Width.cut(line, room), attribute))
  return (isTail(view) ? [...more, ...lines] : [...lines, ...more]).map((line) => bar + line)
}

/** Renders the beginning of a result below its call, up to a maximum number of lines. */
export const renderDetails = (
  event: Pick<EventOf<"ToolFinished">, "output">,
  params: unknown,
  { columns, paint }: Pick<Room, "columns" | "paint">
): ReadonlyArray<string> => {
  const { lines, more } = ToolText.toLines(event.output, resultLines)
  return [
    ToolText.formatParams(params),
    ...lines,
    ...(more === 0 ? [] : [`… ${more} more ${more === 1 ? "line" : "lines"}`])
  ]
    .filter((text) => text !== "")
    .map((text) => `${renderBar(paint)}   ${paint.text(Width.cut(text.replaceAll("\t", "  "), columns - 4), "dim")}`)
}

/** Creates the feed of lines about tool calls. */
export const make = ({ previewLength, verbosity }: Options, paint: Paint): ToolFeed => {
  let calls: Calls = new Map()
  const seen = new Set<string>()

  const renderFinishedCall = (
    event: EventOf<"ToolFinished">,
    call: Call | undefined,
    columns: number
  ): ReadonlyArray<string> => {
    const isNew = !seen.has(event.name)
    seen.add(event.name)
    const shown = verbosity()
    const view = ToolText.viewResult(event.name, event.status, event.output)
    if (shown === "off" || (shown === "new" && !isNew && view.outcome === "done")) return []
    const params = readParams(call)
    const room = { columns, paint, previewLength }
    const isPlan = view.kind === "plan"
    const preview = isPlan ? "" : call?.preview || ToolText.summariseParams(params)
    const first = renderLine(event, view, preview, room)
    if (shown === "verbose") return [first, ...renderDetails(event, params, room)]
    return isPlan || ToolText.hasShownLines(event.name, view) ? [first, ...renderViewLines(view, room)] : [first]
  }

  return {
    take: (event, now, columns) => {
      const call = calls.get(event.callId)
      calls = updateCalls(calls, event, now)
      return event._tag === "ToolFinished" ? renderFinishedCall(event, call, columns ?? wide) : []
    },
    live: (now, columns, frame) =>
      verbosity() === "off" ? [] : renderLiveCalls(calls, now, frame, { columns, paint, previewLength })
  }
}

const readLastLine = (text: string): string =>
  SafeText.sanitise(text.slice(-400)).trimEnd().split("\n").at(-1)?.trim() ?? ""

const renderLiveLine = (call: Call, now: number, frame: string, { columns, paint, previewLength }: Room): string => {
  const spinner = `${renderBar(paint)} ${paint.text(frame, "cyan")} `
  const room = Math.max(0, columns - Width.measure(`┊ ${frame} `))
  const name = Width.cut(formatName(call.name), room)
  const cutToRoom = (text: string): string => Width.cut(text, Math.max(0, room - Width.measure(name)))
  if (call.startedAt === undefined)
    return `${spinner}${name}${paint.text(cutToRoom(` … ${formatSize(call.inputLength)}`), "dim")}`
  const time = cutToRoom(` · ${ToolText.formatElapsed(now - call.startedAt)}`)
  const what = fitPreview(call.preview, columns - Width.measure(`┊ ${frame} ${name}${time}`), previewLength)
  const rest = columns - Width.measure(`┊ ${frame} ${name}${what}${time}`) - 3
  const told = call.progress === "" || rest < 12 ? "" : ` · ${Width.cut(readLastLine(call.progress), rest)}`
  return `${spinner}${paint.text(name, "bold")}${what}${paint.text(time + told, "dim")}`
}

/** Renders the lines of running calls. */
export const renderLiveCalls = (calls: Calls, now: number, frame: string, room: Room): ReadonlyArray<string> => {
  const under = Array.from(calls.values())
  const running = under.filter(({ startedAt }) => startedAt !== undefined)
  const shown = running.length > 0 ? running : under.slice(-1)
  const lines = shown.slice(0, liveLines).map((call) => renderLiveLine(call, now, frame, room))
  const more = shown.length - lines.length
  return more > 0 ? [...lines, `${renderBar(room.paint)} ${room.paint.text(`… and ${more} more`, "dim")}`] : lines
}

/** Maximum number of live lines of sub-agents. */
const liveChildren = 4

/** An event about a sub-agent. */
export type ChildEvent = EventOf<"SubagentStarted" | "SubagentProgress" | "SubagentFinished">

/** Lines about the sub-agents of one run. */
export interface ChildFeed {
  /** Processes an event and returns the lines to add to the feed. */
  readonly take: (event: ChildEvent, now: number, columns: number | undefined) => ReadonlyArray<string>
  /** Returns the lines of running sub-agents, at most `columns` wide. */
  readonly live: (now: number, columns: number, frame: string) => ReadonlyArray<string>
}

interface Child {
  readonly goal: string
  readonly since: number
  readonly at: string
}

/** Running sub-agents, by their ids. */
export type Children = ReadonlyMap<string, Child>

/** Returns the running sub-agents after an event. */
export const updateChildren = (children: Children, event: ChildEvent, now: number): Children => {
  const next = new Map(children)
  const child = children.get(event.subagentId)
  if (event._tag === "SubagentStarted") next.set(event.subagentId, { goal: event.goal, since: now, at: "" })
  else if (event._tag === "SubagentFinished") next.delete(event.subagentId)
  else if (child !== undefined) next.set(event.subagentId, { ...child, at: event.text })
  return next
}

const toSafeLine = (text: string): string => Redaction.redactText(SafeText.toLine(text))

const childMarks: Readonly<Record<string, readonly [mark: string, attribute: Attribute]>> = {
  completed: ["✓", "green"],
  partial: ["◐", "yellow"],
  interrupted: ["○", "dim"]
}

const renderChildBar = (paint: Paint): string => `${renderBar(paint)}   `

const renderChildText = (
  mark: string,
  attribute: Attribute,
  goal: string,
  facts: string,
  { columns, paint }: Pick<Room, "columns" | "paint">
): string => {
  const room = Math.max(8, columns - Width.measure(`┊   ${mark} ${facts}`))
  const cut = Width.cut(toSafeLine(goal), room)
  const rest = Width.cut(facts, Math.max(0, columns - Width.measure(`┊   ${mark} ${cut}`)))
  return `${renderChildBar(paint)}${paint.text(mark, attribute)} ${cut}${paint.text(rest, "dim")}`
}

/** Renders the start or the end of a sub-agent in one line. */
export const renderChild = (
  event: EventOf<"SubagentStarted" | "SubagentFinished">,
  room: Pick<Room, "columns" | "paint">
): string => {
  if (event._tag === "SubagentStarted") return renderChildText("▸", "cyan", event.goal, "", room)
  const [mark, attribute] = childMarks[event.status] ?? ["✗", "red"]
  const status = event.status === "completed" ? "" : ` · ${event.status}`
  const tools =
    event.toolCount === 0 ? "" : ` · ${event.toolCount} ${event.toolCount === 1 ? "tool call" : "tool calls"}`
  const facts =
    `${status}${tools} · ${Usage.countTotalTokens(event.usage)} tokens · ` +
    `${ToolText.formatDuration(event.durationMillis)}`
  return renderChildText(mark, attribute, event.goal, facts, room)
}

/** Returns true if a line about a sub-agent is shown. */
export const isChildShown = (event: EventOf<"SubagentStarted" | "SubagentFinished">, shown: Verbosity): boolean =>
  event._tag === "SubagentStarted"
    ? shown === "all" || shown === "verbose"
    : shown !== "off" && (shown !== "new" || event.status !== "completed")

/** Renders the lines of running sub-agents. */
export const renderLiveChildren = (
  children: Children,
  now: number,
  frame: string,
  room: Pick<Room, "columns" | "paint">
): ReadonlyArray<string> => {
  const all = Array.from(children.values())
  const lines = all
    .slice(0, liveChildren)
    .map(({ at, goal, since }) =>
      renderChildText(
        frame,
        "cyan",
        goal,
        `${at === "" ? "" : ` · ${toSafeLine(at)}`} · ${ToolText.formatElapsed(now - since)}`,
        room
      )
    )
  const more = all.length - lines.length
  return more > 0 ? [...lines, `${renderChildBar(room.paint)}${room.paint.text(`… and ${more} more`, "dim")}`] : lines
}

/**
 * Creates the feed of lines about sub-agents: one line when a sub-agent starts, one when it ends, and a live line while
 * it runs.
 */
export const makeChildFeed = ({ verbosity }: { readonly verbosity: () => Verbosity }, paint: Paint): ChildFeed => {
  let working: Children = new Map()
  return {
    take: (event, now, columns) => {
      working = updateChildren(working, event, now)
      return event._tag !== "SubagentProgress" && isChildShown(event, verbosity())
        ? [renderChild(event, { columns: columns ?? wide, paint })]
        : []
    },
    live: (now, columns, frame) =>
      verbosity() === "off" ? [] : renderLiveChildren(working, now, frame, { columns, paint })
  }
}
