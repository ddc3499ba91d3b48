/**
 * The answer on stdout as it is written, and what the agent does meanwhile on stderr.
 *
 * Source: `hermes-product.md` §1.8 (tool feed) and §6 (`display`).
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type { RunEvent } from "../domain/RunEvent.ts"
import type * as Output from "./Output.ts"
import * as Shown from "./Shown.ts"
import * as ToolLine from "./ToolLine.ts"
import type { Circumstances, View } from "./View.ts"

const maxVerbose = 2000

const seconds = (millis: number): string => `${Math.ceil(millis / 1000)} s`

/** See the module. */
export const make = ({ err, out, terminal }: Output.Service): View => {
  let shown = Shown.make(true)
  let display: Circumstances["display"] | undefined
  const params = new Map<string, unknown>()
  const seen = new Set<string>()

  const write = (piece: string): Effect.Effect<void> => piece === "" ? Effect.void : out(piece)
  /** A line about the work, on a line of its own. */
  const aside = (line: string): Effect.Effect<void> =>
    Effect.andThen(write(shown.endLine()), err(terminal.colours ? `\u001b[2m${line}\u001b[22m\n` : `${line}\n`))

  const finished = (event: Extract<RunEvent, { readonly _tag: "ToolFinished" }>): Effect.Effect<void> => {
    const progress = display?.toolProgress ?? "all"
    const isNew = !seen.has(event.name)
    seen.add(event.name)
    if (progress === "off" || (progress === "new" && !isNew && event.status === "ok")) return Effect.void
    const line = ToolLine.render({ ...event, params: params.get(event.callId) }, display?.toolPreviewLength ?? 0)
    return aside(progress === "verbose" ? `${line}\n${event.output.slice(0, maxVerbose)}` : line)
  }

  const tell = (event: RunEvent): Effect.Effect<void> => {
    switch (event._tag) {
      case "StepStarted":
        shown.step()
        return Effect.void
      case "TextDelta":
        return write(shown.delta(event.text))
      case "ReasoningDelta":
        return display?.showReasoning === true ? err(event.text) : Effect.void
      case "ToolStarted":
        params.set(event.callId, event.params)
        return Effect.void
      case "ToolFinished":
        return finished(event)
      case "Waiting":
        return aside(`┊ waiting ${seconds(event.millis)}: ${event.reason} (try ${event.attempt} of ${event.maxAttempts})`)
      case "Notice":
        return aside(`${event.level === "warning" ? "Warning: " : ""}${event.message}`)
      default:
        return Effect.void
    }
  }

  return {
    begin: () => Effect.void,
    prepare: (circumstances) => {
      display = circumstances.display
      shown = Shown.make(circumstances.live)
    },
    events: (events) => Effect.forEach(events, tell, { discard: true }),
    end: ({ text }) => Effect.andThen(write(shown.rest(text)), Effect.suspend(() => write(shown.endLine())))
  }
}
