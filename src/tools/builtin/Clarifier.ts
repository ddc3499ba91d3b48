/**
 * Port for asking the user questions. The implementation adds a free-text answer to the choices.
 *
 * **Example** (Always answering with the first choice)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Clarifier } from "hermes-effect/tools/planning"
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
  /** True if more than one choice may be selected. */
  readonly multiple: boolean
}

/** Asks a question and returns the answer, or `undefined` if the user did not answer. */
export type Ask = (question: Question) => Effect.Effect<ReadonlyArray<string> | undefined>

/** Asks the user on behalf of the tool; `undefined` (the default) if no user can be asked. */
export const Clarifier = Context.Reference<Ask | undefined>("hermes-effect/tool/Clarifier", {
  defaultValue: () => undefined
})
