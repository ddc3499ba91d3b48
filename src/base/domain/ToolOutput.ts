/**
 * Output of a tool call: a result, or a failure that becomes an error result for the model.
 *
 * **Example** (Reading the phase of a failed call)
 *
 * ```ts
 * import { ToolOutput } from "hermes-effect"
 *
 * const failed = new ToolOutput.ToolFailed({ tool: "weather", phase: "handler", message: "name a city" })
 *
 * console.log(failed.phase, failed.message)
 * // => handler name a city
 * ```
 */
import * as Schema from "effect/Schema"
import type * as Prompt from "effect/ai/Prompt"

/** Output of a tool. `isFailure` is true if the tool returned a failure as its result. */
export interface ToolOutput {
  /** The encoded result, compatible with JSON. */
  readonly output: unknown
  readonly isFailure: boolean
  /** Images or files that the model receives instead of `output`. */
  readonly modelOutput?: ReadonlyArray<Prompt.ToolModelOutputPart> | undefined
}

/** A tool call failed without a result. The model receives `message`. */
export class ToolFailed extends Schema.TaggedError<ToolFailed>("hermes-effect/ToolFailed")("ToolFailed", {
  tool: Schema.String,
  /** Phase that failed: the arguments were invalid, the handler failed, or its result was invalid. */
  phase: Schema.Literals(["parameters", "handler", "result"]),
  message: Schema.String,
  cause: Schema.optional(Schema.Defect())
}) {}
