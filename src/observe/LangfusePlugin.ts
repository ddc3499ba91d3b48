/**
 * Traces runs to Langfuse: turns, model calls with usage and cost, tool calls, approvals and children, grouped by
 * session.
 *
 * **Details**
 *
 * The variables are documented in `langfuse/LangfuseSettings`. Missing or invalid keys log one warning and disable
 * tracing. An unreachable or slow host also logs one warning. Runs never wait for the host, and the program waits at
 * most a few seconds for it before it exits.
 *
 * **Gotchas**
 *
 * Prompts, answers, arguments and results are sent, without secrets. The system prompt and the arguments of tool calls
 * are sent in full; all other text is truncated to `HERMES_LANGFUSE_MAX_CHARS`.
 *
 * **Example** (In an application)
 *
 * ```ts
 * import * as Redacted from "effect/Redacted"
 * import { Runtime } from "hermes-effect"
 * import { LangfusePlugin } from "hermes-effect/observability"
 *
 * const layer = Runtime.layer({
 *   plugins: [LangfusePlugin.make({ publicKey: "pk-lf-1", secretKey: Redacted.make("sk-lf-1"), tags: ["nightly"] })]
 * })
 * ```
 *
 * Source: `hermes-contract.md` §5.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { makeAddressGetter, Environment } from "../base/config/Environment.ts"
import * as Plugin from "../agent/plugin/Plugin.ts"
import type { RunRecord } from "../store/RunRecord.ts"
import * as LangfuseSettings from "./langfuse/LangfuseSettings.ts"

const details = {
  name: "observability/langfuse",
  description: "Traces runs to Langfuse, with the keys of HERMES_LANGFUSE_PUBLIC_KEY and HERMES_LANGFUSE_SECRET_KEY"
}

/** Starts tracing with the given settings. Pending spans are sent when the scope closes. */
const startTracing = (settings: LangfuseSettings.Settings): Effect.Effect<void, never, RunRecord | Scope.Scope> =>
  Effect.flatMap(
    Effect.promise(() => import("./langfuse/LangfuseExport.ts")),
    ({ make }) => make(settings)
  )

/** Reads the settings from the environment. Returns `undefined`, with a warning, if they are missing or invalid. */
export const fromEnvironment: Effect.Effect<LangfuseSettings.Settings | undefined, never, Environment> = Effect.gen(
  function* () {
    const environment = yield* Environment
    const beside = makeAddressGetter(environment, ["HERMES_LANGFUSE_BASE_URL", "LANGFUSE_BASE_URL"])
    const getVariable = (name: string) => (name.endsWith("_KEY") ? beside(name) : environment.get(name))
    const { settings, warnings } = LangfuseSettings.fromVariables(getVariable)
    for (const warning of warnings) yield* Effect.logWarning(`langfuse: ${warning}`)
    return settings
  }
)

/** Creates the plugin with the settings of an application. */
export const make = (options: LangfuseSettings.Options): Plugin.Plugin<RunRecord> =>
  Plugin.make({ ...details, build: Effect.as(startTracing(LangfuseSettings.complete(options)), {}) })

/** The plugin, configured by environment variables. */
export const plugin: Plugin.Plugin<Environment | RunRecord> = Plugin.make({
  ...details,
  build: Effect.flatMap(fromEnvironment, (settings) =>
    Effect.as(settings === undefined ? Effect.void : startTracing(settings), {})
  )
})
