/**
 * `--quiet`: stdout carries the final text and a line break, and nothing before it.
 *
 * What delays the answer is told on stderr, a line each: a wait and its reason, a warning, a model that has been silent for
 * half a minute. When all goes well nothing is.
 *
 * Source: `hermes-product.md` §1.3, `ARCHITECTURE.md` §7.
 */
import * as Effect from "effect/Effect"
import * as Redaction from "../domain/Redaction.ts"
import type { RunEvent } from "../domain/RunEvent.ts"
import type * as ProgramOutput from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"
import * as WaitText from "./render/WaitText.ts"
import type { View } from "./View.ts"

const said = (event: RunEvent): string | undefined => {
  switch (event._tag) {
    case "Waiting":
      return WaitText.waiting(event)
    case "Heartbeat":
      return WaitText.silent(event)
    case "Notice":
      return event.level === "warning" ? `! ${event.message}` : undefined
    default:
      return undefined
  }
}

export const make = ({ err, out }: ProgramOutput.Service): View => ({
  begin: () => Effect.void,
  prepare: () => undefined,
  events: (events) => {
    const lines = events.map(said).filter((line) => line !== undefined)
    return lines.length === 0 ? Effect.void : err(lines.map((line) => `${Redaction.redactText(SafeText.line(line))}\n`).join(""))
  },
  end: ({ text }) => text === "" ? Effect.void : out(`${text}\n`)
})
