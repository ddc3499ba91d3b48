/**
 * A question at the terminal that is answered by yes or no.
 */
import * as Effect from "effect/Effect"
import * as Prompt from "effect/cli/Prompt"
import { makeUsageFailure } from "./Failure.ts"
import { Output } from "./ProgramOutput.ts"

/** Asks; somebody who leaves the question has not said yes. */
export const confirmAction = (message: string): Effect.Effect<boolean, never, Prompt.Environment> =>
  Effect.orElseSucceed(Prompt.run(Prompt.Confirm({ message, initial: false })), () => false)

/** Asks before something that needs an answer; where nobody can be asked, `otherwise` says what to pass instead. */
export const requireConfirmation = (message: string, otherwise: string) =>
  Effect.flatMap(Output, ({ terminal }) =>
    terminal.input ? confirmAction(message) : Effect.fail(makeUsageFailure(otherwise))
  )
