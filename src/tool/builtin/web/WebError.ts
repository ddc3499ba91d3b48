/**
 * Why one address or one search gave nothing. `message` is one line for the model.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/** See the module. */
export class WebError extends Schema.TaggedError<WebError>("hermes-effect/tool/WebError")("WebError", {
  /** `blocked`: a rule does not let it be reached. `failed`: it could not be read. */
  reason: Schema.Literals(["blocked", "failed"]),
  message: Schema.String,
  cause: Schema.optional(Schema.Defect())
}) {}

/** An address that must not be reached. */
export const blocked = (message: string): WebError => new WebError({ reason: "blocked", message })

/** Something that could not be read. */
export const failed = (message: string, cause?: unknown): WebError =>
  new WebError({ reason: "failed", message, ...(cause === undefined ? {} : { cause }) })
