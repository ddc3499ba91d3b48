/**
 * Prints a run for a user: the answer as it is written, one line for each tool call, and the current activity. A
 * read-only projection of its events.
 *
 * Blank lines separate text, tools and notices. The reasoning of the model is shown only on request. A retry is shown
 * as one line. The current activity of the run is available from {@link Printer.view}, for live lines.
 *
 * Retracted text is erased if it is still on the terminal with no text below it; otherwise a line reports that the
 * answer was changed, and the new text follows. In a pipe, where text cannot be erased, the text of a step is written
 * when it is final.
 *
 * Source: `hermes-product.md` §1.8, `ARCHITECTURE.md` §4 (views are projections of the events).
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as FileChange from "../../../base/domain/FileChange.ts"
import type { RunEvent, RunResult } from "../../../base/domain/RunEvent.ts"
import * as Schedule from "../../../tools/ToolSchedule.ts"
import * as AnswerOutput from "./AnswerOutput.ts"
import * as DiffText from "./DiffText.ts"
import * as Markdown from "./Markdown.ts"
import * as RunActivity from "./RunActivity.ts"
import * as RunText from "./RunText.ts"
import type * as Screen from "./Screen.ts"
import * as ToolFeed from "./ToolFeed.ts"
import * as UsageText from "./UsageText.ts"

/** Display options (`display` of the settings). */
export interface Options extends ToolFeed.Options, AnswerOutput.Look {
  readonly showCost: boolean
  /** False if the final text may still be replaced. The text is then shown only at the end. */
  readonly live: boolean
  /** Hint next to the spinner. */
  readonly hint: string
}

/** Prints the events of one run. */
export interface Printer {
  readonly events: (events: ReadonlyArray<RunEvent>) => Effect.Effect<void>
  /**
   * Writes a line from the program between the other lines. It must be safe to print, and no wider than the terminal.
   */
  readonly note: (line: string) => void
  /** Writes all held output and ends the line. Nothing may be written afterwards. */
  readonly close: Effect.Effect<void>
  /** Renders the live lines of the run. */
  readonly view: (size: Screen.Size, now: number) => ReadonlyArray<string>
}

const frames = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"]

/** Interval at which live lines are drawn, in milliseconds. */
export const frameMillis = 100

/** State of the printer of one run. */
interface PrinterState {
  readonly options: Options
  readonly screen: Screen.Screen
  readonly output: AnswerOutput.AnswerOutput
  readonly feed: ToolFeed.ToolFeed
  readonly children: ToolFeed.ChildFeed
  activity: RunActivity.RunActivity
  /** File changes by calls that are still running. */
  changes: ReadonlyArray<FileChange.FileChanged>
  /** Time at which the open block was last drawn outside of a frame. */
  drawnAt: number
}

/** Removes the changes of a call from the state. Returns their differences as lines. */
const takeChanges = (state: PrinterState, callId: string): ReadonlyArray<string> => {
  const own = state.changes.filter((change) => change.callId === callId)
  state.changes = state.changes.filter((change) => change.callId !== callId)
  const verbosity = state.options.verbosity()
  if (verbosity === "off" || own.length === 0) return []
  const { screen } = state
  return DiffText.renderCallChanges(own, {
    paint: screen.asidePaint,
    columns: screen.asideColumns(),
    isVerbose: verbosity === "verbose"
  })
}

const printTools = (state: PrinterState, event: ToolFeed.ToolEvent, now: number): void => {
  const { feed, output, screen } = state
  switch (event._tag) {
    case "ToolInputStarted":
      // The text before the call is complete; otherwise it would be held while the arguments are written.
      AnswerOutput.closeText(output)
      feed.take(event, now, screen.asideColumns())
      return
    case "ToolInputDelta":
      return AnswerOutput.printLines(output, feed.take(event, now, screen.asideColumns()))
    case "ToolStarted":
    case "ToolProgress":
      AnswerOutput.printPending(output)
      return AnswerOutput.printLines(output, feed.take(event, now, screen.asideColumns()))
    case "ToolFinished":
      AnswerOutput.printPending(output)
      return AnswerOutput.printLines(output, [
        ...feed.take(event, now, screen.asideColumns()),
        ...takeChanges(state, event.callId)
      ])
  }
}

const printResult = ({ options, output, screen }: PrinterState, result: RunResult): void => {
  AnswerOutput.finishText(output, result.text, options.live)
  if (options.showCost && result.usage.requestCount > 0)
    AnswerOutput.printLines(output, [screen.asidePaint.text(UsageText.formatLine(result.usage, result.cost), "dim")])
}

const printSchedule = ({ options, output }: PrinterState, event: ToolFeed.EventOf<"ToolsScheduled">): void => {
  AnswerOutput.printPending(output)
  if (options.verbosity() === "verbose")
    AnswerOutput.printAside(output, `┊ ${Schedule.explain(event.calls, event)}`, "dim")
}

const printNotice = ({ output }: PrinterState, { level, message }: ToolFeed.EventOf<"Notice">): void =>
  level === "warning"
    ? AnswerOutput.printAside(output, `! ${message}`, "yellow")
    : AnswerOutput.printAside(output, message, "dim")

const printEvent = (state: PrinterState, event: RunEvent, now: number): void => {
  const { children, options, output, screen } = state
  switch (event._tag) {
    case "StepStarted":
      return AnswerOutput.beginStep(output, event.step)
    case "TextDelta":
      return options.live ? AnswerOutput.addText(output, event.text) : undefined
    case "TextReplaced":
      return options.live ? AnswerOutput.replaceText(output, event.stepId, event.text) : undefined
    case "ReasoningDelta":
      return AnswerOutput.printReasoning(output, event.text)
    case "ToolInputStarted":
    case "ToolInputDelta":
    case "ToolStarted":
    case "ToolProgress":
    case "ToolFinished":
      return printTools(state, event, now)
    case "ToolsScheduled":
      return printSchedule(state, event)
    case "FileChanged":
      // The change is shown below the line of its call.
      state.changes = [...state.changes, event]
      return
    case "SubagentStarted":
    case "SubagentProgress":
    case "SubagentFinished":
      return AnswerOutput.printLines(output, children.take(event, now, screen.asideColumns()))
    case "Waiting":
      return AnswerOutput.printAside(output, RunText.describeWait(event), "yellow")
    case "Notice":
      return printNotice(state, event)
    case "RunFinished":
      return printResult(state, event)
    case "StepFinished":
      return AnswerOutput.printPending(output)
    default:
      return
  }
}

/** Prints events, and draws the open block if the last drawing is older than a frame. */
const printEvents = (state: PrinterState, events: ReadonlyArray<RunEvent>, now: number): void => {
  for (const event of events) {
    printEvent(state, event, now)
    state.activity = RunActivity.reduceActivity(state.activity, event, now)
  }
  if (state.output.open.text === undefined || now - state.drawnAt < frameMillis) return
  state.drawnAt = now
  state.screen.refresh()
}

const renderLiveLines = (state: PrinterState, columns: number, now: number): ReadonlyArray<string> => {
  const { activity, children, feed, options, output, screen } = state
  if (activity.isOver) return []
  const frame = frames[Math.floor(now / frameMillis) % frames.length] ?? ""
  const running = [...feed.live(now, columns - 1, frame), ...children.live(now, columns - 1, frame)]
  const lines =
    running.length > 0
      ? running
      : RunActivity.renderLines(activity, now, { paint: screen.asidePaint, columns, frame, hint: options.hint })
  // The following lines are separated in the same way.
  return AnswerOutput.isLiveApart(output) && lines.length > 0 ? ["", ...lines] : lines
}

/** Returns true if an event can cause the first text of the answer to be written. */
const canWriteText = ({ _tag }: RunEvent): boolean =>
  _tag === "TextDelta" || _tag === "TextReplaced" || _tag === "RunFinished"

/** Creates the printer of a run, which writes to `screen`. */
export const make = (screen: Screen.Screen, options: Options): Printer => {
  const output = AnswerOutput.makeOutput(screen, options)
  const state: PrinterState = {
    options,
    screen,
    output,
    feed: ToolFeed.make(options, screen.asidePaint),
    children: ToolFeed.makeChildFeed(options, screen.asidePaint),
    activity: RunActivity.empty,
    changes: [],
    drawnAt: -Infinity
  }
  screen.draft((size) => AnswerOutput.renderDraft(output, size))
  const load = Effect.map(Markdown.load(options.markdown), (makeRenderer) => {
    output.makeRenderer = makeRenderer
  })
  return {
    events: (events) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => {
        const print = Effect.sync(() => printEvents(state, events, now))
        return output.makeRenderer === undefined && events.some(canWriteText) ? Effect.andThen(load, print) : print
      }),
    note: (line) => AnswerOutput.printNote(output, line),
    close: Effect.sync(() => {
      AnswerOutput.closeOutput(output)
      screen.draft(undefined)
      screen.refresh()
    }),
    view: ({ columns }, now) => renderLiveLines(state, columns, now)
  }
}
