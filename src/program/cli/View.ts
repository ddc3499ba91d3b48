/**
 * Views of a single query: projections of the run's events onto stdout and stderr.
 *
 * Source: `hermes-product.md` §1.3, §1.8 and §6 (`display`), `ARCHITECTURE.md` §7.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type { Values } from "../../base/config/Settings.ts"
import type { Spent } from "../../base/domain/Cost.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import type { RunEvent, RunResult } from "../../base/domain/RunEvent.ts"
import type { Usage } from "../../base/domain/Usage.ts"
import type * as ProgramOutput from "./ProgramOutput.ts"
import * as EventPrinter from "./render/EventPrinter.ts"
import * as Paint from "./render/Paint.ts"
import * as RunText from "./render/RunText.ts"
import * as SafeText from "./render/SafeText.ts"
import * as Screen from "./render/Screen.ts"

/** Facts about the run that are known before it starts. */
interface RunHeader {
  readonly model: string
  readonly sessionId: string
}

/** Options of a view that are known before the first event. */
interface ViewOptions {
  readonly display: Values["display"]
  /** False if the final text may still be replaced, so that no text may be shown before the end. */
  readonly live: boolean
}

/** Result of a run, however it ended. */
export interface RunSummary {
  readonly exitCode: number
  readonly sessionId: string
  /** The final text, or the partial text if the run was interrupted. */
  readonly text: string
  readonly usage: Usage
  readonly cost: Spent
  /** The route that answered last, or was selected to answer; `undefined` if no request was made. */
  readonly route?: { readonly provider: string; readonly model: string } | undefined
  /** Reason why the run is incomplete; `undefined` for a completed run. */
  readonly error: string | undefined
  /** The exit of a run that ended early with a result; `undefined` for a completed or failed run. */
  readonly exit?: RunResult["exit"] | undefined
  /** Questions that a suspended run waits for. */
  readonly questions?: RunResult["questions"] | undefined
}

/**
 * Receives the events of a run. The ending is always reported, even if the start failed and nothing else was reported.
 */
export interface View {
  readonly begin: (beginning: RunHeader) => Effect.Effect<void>
  readonly prepare: (circumstances: ViewOptions) => void
  readonly events: (events: ReadonlyArray<RunEvent>) => Effect.Effect<void>
  readonly end: (ending: RunSummary) => Effect.Effect<void>
  /** Updates the live display until it is interrupted. */
  readonly live?: Effect.Effect<never> | undefined
  /** Prints a line without disturbing the display. */
  readonly note?: ((line: string) => void) | undefined
}

/**
 * Creates a view that shows the answer on stdout as it is written, and the activity of the agent on stderr.
 *
 * If stdout is a pipe, the answer is written unchanged. On a terminal, `display.final_response_markdown` selects its
 * rendering, and a line shows the current activity.
 */
export const makeTextView = ({ streams }: ProgramOutput.Service, isRaw = !streams.answer.terminal): View => {
  const { answer, aside } = streams
  const screen = Screen.make(streams)
  let printer: EventPrinter.Printer | undefined

  const refresh = Effect.map(Clock.currentTimeMillis, (now) =>
    screen.live((size) => ({ lines: printer?.view(size, now) ?? [] }))
  )

  return {
    begin: () => Effect.void,
    prepare: ({ display, live }) => {
      printer = EventPrinter.make(screen, {
        markdown: isRaw ? "raw" : display.finalResponseMarkdown,
        showReasoning: display.showReasoning,
        showCost: display.showCost,
        verbosity: () => display.toolProgress,
        previewLength: display.toolPreviewLength,
        live,
        hint: "Ctrl+C stops"
      })
    },
    events: (events) => (printer === undefined ? Effect.void : printer.events(events)),
    end: () =>
      Effect.suspend(() => {
        screen.live(Screen.renderNothing)
        const open = printer
        printer = undefined
        return open === undefined ? Effect.void : open.close
      }),
    note: (line) => (printer === undefined ? screen.say(`${line}\n`) : printer.note(line)),
    live:
      answer.terminal || aside.terminal
        ? Effect.andThen(Effect.repeat(refresh, Schedule.spaced(EventPrinter.frameMillis)), Effect.never)
        : undefined
  }
}

/**
 * Creates the view for screen readers (`--plain`): the same text as lines in sequence, without colours, drawing and
 * Markdown markup.
 */
export const makePlainView = (output: ProgramOutput.Service): View => {
  const { aside, answer, size } = output.streams
  const toLinearSink = (sink: Screen.Sink): Screen.Sink => ({ write: sink.write, terminal: false, paint: Paint.plain })
  const view = makeTextView(
    { ...output, streams: { aside: toLinearSink(aside), answer: toLinearSink(answer), size } },
    !answer.terminal
  )
  return {
    ...view,
    prepare: ({ display, live }) =>
      view.prepare({
        display: { ...display, finalResponseMarkdown: display.finalResponseMarkdown === "raw" ? "raw" : "strip" },
        live
      })
  }
}

const describeDelay = (event: RunEvent): string | undefined => {
  switch (event._tag) {
    case "Waiting":
      return RunText.describeWait(event)
    case "Heartbeat":
      return RunText.describeSilence(event)
    case "Notice":
      return event.level === "warning" ? `! ${event.message}` : undefined
    default:
      return undefined
  }
}

/**
 * Creates the view for `--quiet`: stdout contains only the final text and a line break.
 *
 * Delays of the answer are reported on stderr, one line each: a wait and its reason, a warning, or a model that has
 * sent nothing for half a minute. A run without delays prints nothing on stderr.
 */
export const makeQuietView = ({ err, out }: ProgramOutput.Service): View => ({
  begin: () => Effect.void,
  prepare: () => undefined,
  events: (events) => {
    const lines = events.map(describeDelay).filter((line) => line !== undefined)
    return lines.length === 0
      ? Effect.void
      : err(lines.map((line) => `${Redaction.redactText(SafeText.toLine(line))}\n`).join(""))
  },
  end: ({ text }) => (text === "" ? Effect.void : out(`${text}\n`))
})
