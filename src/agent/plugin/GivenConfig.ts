/** Version of the plugin contract, and the settings that the user set for a plugin. */
import * as Context from "effect/Context"
import type { Values } from "./PluginConfig.ts"

/**
 * Version of the contract between plugins and this program: `hermes.middleware.v1`, `hermes.observer.v1` and
 * `register(ctx)`.
 */
export const contractVersion = 1

/** The key of the plugin that is being built, and its settings before its Schema decodes them. */
export const GivenConfig = Context.Reference<{ readonly key: string | undefined; readonly values: Values }>(
  "hermes-effect/plugin/GivenConfig",
  { defaultValue: () => ({ key: undefined, values: {} }) }
)
