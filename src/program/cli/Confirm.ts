/** A yes-or-no question at the terminal. */
import * as Effect from "effect/Effect"
import * as Prompt from "effect/cli/Prompt"
import { makeUsageFailure } from "./Failure.ts"
import { Output } from "./ProgramOutput.ts"

/** Asks for a confirmation. Cancelling the question counts as "no". */
export const confirmAction = (message: string): Effect.Effect<boolean, never, Prompt.Environment> =>
  Effect.orElseSucceed(Prompt.run(Prompt.Confirm({ message, initial: false })), () => false)

/**
 * Asks for a confirmation of an action. Without a terminal it fails with `otherwise`, which names the flag to pass
 * instead.
 */
export const requireConfirmation = (message: string, otherwise: string) =>
  Effect.flatMap(Output, ({ terminal }) =>
    terminal.input ? confirmAction(message) : Effect.fail(makeUsageFailure(otherwise))
  )
