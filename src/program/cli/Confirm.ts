/**
 * A question at the terminal that is answered by yes or no.
 */
import * as Effect from "effect/Effect"
import * as Prompt from "effect/cli/Prompt"
import { makeUsageFailure } from "./Failure.ts"
import { Output } from "./ProgramOutput.ts"

/** Asks for a confirmation. Leaving the question counts as "no". */
export const confirmAction = (message: string): Effect.Effect<boolean, never, Prompt.Environment> =>
  Effect.orElseSucceed(Prompt.run(Prompt.Confirm({ message, initial: false })), () => false)

/**
 * Asks before an action that needs a confirmation. Without a terminal it fails with `otherwise`, which names the flag
 * to pass instead.
 */
export const requireConfirmation = (message: string, otherwise: string) =>
  Effect.flatMap(Output, ({ terminal }) =>
    terminal.input ? confirmAction(message) : Effect.fail(makeUsageFailure(otherwise))
  )
