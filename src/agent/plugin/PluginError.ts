/**
 * Failure of a plugin that cannot be used: one line that says what to do.
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
  /** The plugin, by key or as the user named it. */
  plugin: Schema.String,
  message: Schema.String,
  /** The plugin asked for cannot be used: another name or source is needed. */
  input: Schema.optional(Schema.Boolean),
  cause: Schema.optional(Schema.Defect())
}) {}
