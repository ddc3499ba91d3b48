/**
 * A question at the terminal that is answered by yes or no.
 */
import * as Effect from "effect/Effect"
import * as Prompt from "effect/cli/Prompt"

/** Asks; somebody who leaves the question has not said yes. */
export const confirmed = (message: string): Effect.Effect<boolean, never, Prompt.Environment> =>
  Effect.orElseSucceed(Prompt.run(Prompt.Confirm({ message, initial: false })), () => false)
