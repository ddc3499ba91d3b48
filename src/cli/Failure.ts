/**
 * How a command ends that did not do what it was asked: the exit code, and the line that says why.
 *
 * **Details**
 *
 * `1`: the work failed, or only a part of it was done. `2`: the command line or the configuration can not be used. `130`
 * and its neighbours: a signal ended it (`hermes-product.md` §1.3).
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Schema from "effect/Schema"

/** See the module. Without a message everything was said already. */
export class Failure extends Schema.TaggedError<Failure>("hermes-effect/cli/Failure")("Failure", {
  code: Schema.Int,
  message: Schema.String
}) {}

/** Failed, or partly done. */
export const failed = 1

/** A command line, a configuration or an input that can not be used. */
export const unusable = 2

/** A command line that means nothing, in a line that says what to write instead. */
export const usage = (message: string): Failure => new Failure({ code: unusable, message })

/** An ending about which everything was said. */
export const silent = (code: number): Failure => new Failure({ code, message: "" })

/** The exit code of a run that is being interrupted: 128 and the number of the signal, SIGINT's when there was none. */
export const InterruptCode = Context.Reference<() => number>("hermes-effect/cli/InterruptCode", {
  defaultValue: () => () => 130
})
