/**
 * Views of a single query: projections of the run's events onto stdout and stderr.
 *
 * Source: `hermes-product.md` §1.3, §1.8 and §6 (`display`), `ARCHITECTURE.md` §7.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
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

/** Facts known before the start. */
interface RunHeader {
  readonly model: string
  readonly sessionId: string
}

/** Options known before the first event. */
interface ViewOptions {
  readonly display: Values["display"]
  /** False where the final text may still be replaced, so that nothing of it may be shown before. */
  readonly live: boolean
}

/** Result of a run, in every case. */
export interface RunSummary {
  readonly exitCode: number
  readonly sessionId: string
  /** The final text, or the partial text if the run was interrupted. */
  readonly text: string
  readonly usage: Usage
  readonly cost: Spent
  /** The route that answered last, or was selected to answer; absent if no request was made. */
  readonly route?: { readonly provider: string; readonly model: string } | undefined
  /** Reason why it is not a completed run. */
  readonly error: string | undefined
  /** The exit of a run that ended early with a result; absent for a completed run and for one that failed. */
  readonly exit?: RunResult["exit"] | undefined
}

/** An ending comes in every case, without the rest where the start failed. */
export interface View {
  readonly begin: (beginning: RunHeader) => Effect.Effect<void>
  readonly prepare: (circumstances: ViewOptions) => void
  readonly events: (events: ReadonlyArray<RunEvent>) => Effect.Effect<void>
  readonly end: (ending: RunSummary) => Effect.Effect<void>
  /** Keeps what is shown of the present up to date, until it is interrupted. */
  readonly live?: Effect.Effect<never> | undefined
  /** Says a line without disturbing what is shown. */
  readonly note?: ((line: string) => void) | undefined
}

/**
 * Shows the answer on stdout as it is written, and the activity of the agent on stderr.
 *
 * Into a pipe the answer goes as the model wrote it; on a terminal `display.final_response_markdown` says how it looks,
 * and a line tells what the run is at.
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
        ? Effect.forever(Effect.andThen(refresh, Effect.sleep(EventPrinter.frameMillis)))
        : undefined
  }
}

/**
 * The same for screen readers (`--plain`): lines that follow each other, without colours, nothing drawn, Markdown
 * without its marks.
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
 * `--quiet`: stdout carries the final text and a line break, and nothing before it.
 *
 * Delays of the answer are told on stderr, a line each: a wait and its reason, a warning, a model that has been silent
 * for half a minute. When all goes well nothing is.
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
