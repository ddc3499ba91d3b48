/**
 * The answer on stdout as it is written, and what the agent does meanwhile on stderr.
 *
 * Into a pipe the answer goes as the model wrote it; on a terminal `display.final_response_markdown` says how it looks, and
 * a line tells what the run is at.
 *
 * Source: `hermes-product.md` §1.8 and §6 (`display`).
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as ProgramOutput from "./ProgramOutput.ts"
import * as EventPrinter from "./render/EventPrinter.ts"
import * as Screen from "./render/Screen.ts"
import type { View } from "./View.ts"

export const make = ({ streams }: ProgramOutput.Service): View => {
  const { answer, aside } = streams
  const screen = Screen.make(streams)
  let printer: EventPrinter.Printer | undefined

  const refresh = Effect.map(Clock.currentTimeMillis, (now) =>
    screen.live((size) => ({ lines: printer?.view(size, now) ?? [] })))

  return {
    begin: () => Effect.void,
    prepare: ({ display, live }) => {
      printer = EventPrinter.make(screen, {
        markdown: answer.terminal ? display.finalResponseMarkdown : "raw",
        showReasoning: display.showReasoning,
        showCost: display.showCost,
        verbosity: () => display.toolProgress,
        previewLength: display.toolPreviewLength,
        live,
        hint: "Ctrl+C stops"
      })
    },
    events: (events) => printer === undefined ? Effect.void : printer.events(events),
    end: () =>
      Effect.suspend(() => {
        screen.live(Screen.nothing)
        return printer === undefined ? Effect.void : printer.close
      }),
    note: (line) => printer === undefined ? screen.say(`${line}\n`) : printer.note(line),
    live: answer.terminal || aside.terminal
      ? Effect.forever(Effect.andThen(refresh, Effect.sleep(EventPrinter.frameMillis)))
      : undefined
  }
}
