/**
 * Failure of a plugin that cannot be used, with a one-line message that suggests a remedy.
 *
 * **Example** (Telling the user)
 *
 * ```ts
 * import { PluginError } from "hermes-effect/plugins"
 *
 * const error = new PluginError.PluginError({ plugin: "audit", message: "audit: plugin.yaml has no name: add one" })
 *
 * console.log(`${error.plugin}: ${error._tag}`)
 * // => audit: PluginError
 * ```
 */
import * as Schema from "effect/Schema"

/** Reports why a plugin cannot be used. */
export class PluginError extends Schema.TaggedError<PluginError>("hermes-effect/PluginError")("PluginError", {
  /** Plugin key, or the name that the user entered. */
  plugin: Schema.String,
  message: Schema.String,
  /** True if the requested plugin cannot be used and another name or source is needed. */
  input: Schema.optional(Schema.Boolean),
  cause: Schema.optional(Schema.Defect())
}) {}
