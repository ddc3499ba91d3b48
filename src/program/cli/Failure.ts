/**
 * Failure of a command: the exit code, and the line that says why.
 *
 * `1`: the work failed, or only a part of it was done. `2`: the command line, the configuration or another input cannot
 * be used; whatever the subcommand, an unknown name and an output path that cannot be written are such. `130` and its
 * neighbours: a signal ended it (`hermes-product.md` §1.3). Commands make a `Failure` by the functions here, which
 * choose the code by the kind of mistake.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { PlatformError } from "effect/PlatformError"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { findNearest } from "../../base/domain/Similarity.ts"
import { describeReason } from "../../base/domain/PathProblem.ts"

/** Without a message everything was said already. */
export class Failure extends Schema.TaggedError<Failure>("hermes-effect/cli/Failure")("Failure", {
  code: Schema.Int,
  message: Schema.String
}) {}

/** Failed, or partly done. */
export const failed = 1

/** A command line, a configuration or an input that cannot be used. */
export const unusable = 2

/** A command line that means nothing, in a line that says what to write instead. */
export const makeUsageFailure = (message: string): Failure => new Failure({ code: unusable, message })

/** Work that was asked for rightly and could not be done. */
export const makeWorkFailure = (message: string): Failure => new Failure({ code: failed, message })

/** Words as alternatives: `a`, `a or b`, `a, b or c`. */
export const joinAlternatives = (words: ReadonlyArray<string>): string =>
  words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`

/** A name of nothing that there is: `list` is the command that lists the names. */
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

/** A path that the user named for output, and that takes none. */
export const toUnwritableFailure =
  (path: string) =>
  (error: PlatformError): Failure =>
    makeUsageFailure(`${path} cannot be written: ${describeReason(error)}`)

/** An ending about which everything was said. */
export const makeSilentFailure = (code: number): Failure => new Failure({ code, message: "" })

/** The exit code of a run that is being interrupted: 128 and the number of the signal, SIGINT's when there was none. */
export const InterruptCode = Context.Reference<() => number>("hermes-effect/cli/InterruptCode", {
  defaultValue: () => () => 130
})

/**
 * Waits for a signal that asks the program to end (Ctrl+C), for a command that lasts until then: the command continues
 * in the place of being interrupted, and its exit code counts. A second signal ends the program at once.
 */
export const EndSignal = Context.Reference<Effect.Effect<void, never, Scope.Scope>>("hermes-effect/cli/EndSignal", {
  defaultValue: () => Effect.never
})
