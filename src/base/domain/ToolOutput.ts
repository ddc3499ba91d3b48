/**
 * Output of a tool call: a result, or a failure that becomes an error result for the model.
 *
 * **Example** (Why a call gave nothing)
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

/** Output of a tool. `isFailure` is a failure that the tool itself chose to return as its result. */
export interface ToolOutput {
  /** The encoded result: JSON-compatible. */
  readonly output: unknown
  readonly isFailure: boolean
  /** Images or files for the model in place of `output`. */
  readonly modelOutput?: ReadonlyArray<Prompt.ToolModelOutputPart> | undefined
}

/** A tool call that gave no result. The model gets `message`. */
export class ToolFailed extends Schema.TaggedError<ToolFailed>("hermes-effect/ToolFailed")("ToolFailed", {
  tool: Schema.String,
  /** Phase that failed: the arguments did not fit, the handler failed, or what it returned did not fit. */
  phase: Schema.Literals(["parameters", "handler", "result"]),
  message: Schema.String,
  cause: Schema.optional(Schema.Defect())
}) {}
