/**
 * Failure of a command: the exit code and the error line.
 *
 * `1`: the work failed or is incomplete. `2`: the command line, the configuration or another input cannot be used; in
 * every subcommand this includes an unknown name and an output path that cannot be written. `130` and similar codes: a
 * signal ended the command (`hermes-product.md` §1.3). Commands create a `Failure` with the functions of this module,
 * which select the exit code.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { PlatformError } from "effect/PlatformError"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { findNearest } from "../../base/domain/Similarity.ts"
import { describeReason } from "../../base/domain/PathProblem.ts"

/** A failure of a command. Its message is empty if the error was already printed. */
export class Failure extends Schema.TaggedError<Failure>("hermes-effect/cli/Failure")("Failure", {
  code: Schema.Int,
  message: Schema.String
}) {}

/** Exit code for failed or incomplete work. */
export const failed = 1

/** Exit code for a command line, a configuration or an input that cannot be used. */
export const unusable = 2

/** Creates a failure for an invalid command line. The message says what to write instead. */
export const makeUsageFailure = (message: string): Failure => new Failure({ code: unusable, message })

/** Creates a failure for a valid request that could not be completed. */
export const makeWorkFailure = (message: string): Failure => new Failure({ code: failed, message })

/** Joins words as alternatives: `a`, `a or b`, `a, b or c`. */
export const joinAlternatives = (words: ReadonlyArray<string>): string =>
  words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`

/** Creates a failure for an unknown name. `list` is the command that lists the known names. */
export const makeUnknownNameFailure = (
  kind: string,
  name: string,
  {
    known = [],
    list,
    meant = findNearest(name, known)
  }: {
    readonly known?: Iterable<string>
    readonly list: string
    /** The most likely intended name, if the caller has a better guess than the similarity of the whole name. */
    readonly meant?: string | undefined
  }
): Failure => {
  return makeUsageFailure(
    `no ${kind} "${name}": ${meant === undefined ? `list them with \`${list}\`` : `did you mean "${meant}"?`}`
  )
}

/** Creates a failure for an output path that cannot be written. */
export const toUnwritableFailure =
  (path: string) =>
  (error: PlatformError): Failure =>
    makeUsageFailure(`${path} cannot be written: ${describeReason(error)}`)

/** Creates a failure without a message, for errors that were already printed. */
export const makeSilentFailure = (code: number): Failure => new Failure({ code, message: "" })

/**
 * Exit code of a run that is being interrupted: 128 plus the number of the signal, or plus the number of SIGINT if
 * there was no signal.
 */
export const InterruptCode = Context.Reference<() => number>("hermes-effect/cli/InterruptCode", {
  defaultValue: () => () => 130
})

/**
 * Waits for a signal that asks the program to end (Ctrl+C). A command that runs until such a signal then finishes
 * normally instead of being interrupted, and determines the exit code. A second signal ends the program at once.
 */
export const EndSignal = Context.Reference<Effect.Effect<void, never, Scope.Scope>>("hermes-effect/cli/EndSignal", {
  defaultValue: () => Effect.never
})
