/**
 * The port to somebody who can be asked. Who shows the questions adds an answer of the user's own words to the choices.
 *
 * **Example** (Always the first choice)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Clarifier } from "hermes-effect"
 *
 * const first: Clarifier.Ask = ({ choices }) => Effect.succeed(choices.slice(0, 1))
 *
 * console.log(await Effect.runPromise(first({ question: "Which?", choices: ["red", "blue"], multiple: false })))
 * // => [ 'red' ]
 * ```
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"

/** One question. */
export interface Question {
  readonly question: string
  readonly choices: ReadonlyArray<string>
  /** More than one choice may be taken. */
  readonly multiple: boolean
}

/** Asks, and gives the answer; `undefined` when nobody answered. */
export type Ask = (question: Question) => Effect.Effect<ReadonlyArray<string> | undefined>

/** Whom the tool asks. Absent where there is nobody, which is what a runtime starts with. */
export const Clarifier = Context.Reference<Ask | undefined>("hermes-effect/tool/Clarifier", {
  defaultValue: () => undefined
})
