/**
 * Traces runs to Langfuse: turns, model calls with usage and cost, tool calls, approvals and children, grouped by session.
 *
 * **Details**
 *
 * The variables are those of `langfuse/LangfuseSettings`. Without keys, or with keys that are none, there is one warning and
 * nothing is traced. A host that is down or slow is one warning too; the run never waits for it, and the end of the program
 * waits a few seconds at most.
 *
 * **Gotchas**
 *
 * Prompts, answers, arguments and results are sent, cut to `HERMES_LANGFUSE_MAX_CHARS` and without secrets.
 *
 * **Example** (In an application)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Redacted from "effect/Redacted"
 * import { LangfusePlugin, Runtime } from "hermes-effect"
 *
 * const program = Effect.gen(function*() {
 *   const hooks = yield* LangfusePlugin.hooks({ publicKey: "pk-lf-1", secretKey: Redacted.make("sk-lf-1"), tags: ["nightly"] })
 *   return Runtime.layer({ hooks })
 * })
 * ```
 *
 * Source: `hermes-contract.md` §5.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { besideAddress, Environment } from "../config/Environment.ts"
import type { Hook } from "../hooks/Hook.ts"
import * as Plugin from "../plugin/Plugin.ts"
import * as LangfuseSettings from "./langfuse/LangfuseSettings.ts"

const description = "Traces runs to Langfuse, with the keys of HERMES_LANGFUSE_PUBLIC_KEY and HERMES_LANGFUSE_SECRET_KEY"

/** The hook of these settings, in a list. What it traced is sent when the scope is closed. */
export const hooks = (options: LangfuseSettings.Options): Effect.Effect<ReadonlyArray<Hook>, never, Scope.Scope> =>
  Effect.gen(function*() {
    const [{ make }, http] = yield* Effect.promise(() =>
      Promise.all([import("./langfuse/LangfuseHook.ts"), import("effect/http/FetchHttpClient")])
    )
    return [yield* Effect.provide(make(LangfuseSettings.complete(options)), yield* Layer.build(http.layer))]
  })

/** The hook that the environment asks for, or none. */
export const fromEnvironment: Effect.Effect<ReadonlyArray<Hook>, never, Environment | Scope.Scope> = Effect.gen(function*() {
  const environment = yield* Environment
  const beside = besideAddress(environment, ["HERMES_LANGFUSE_BASE_URL", "LANGFUSE_BASE_URL"])
  const get = (name: string) => name.endsWith("_KEY") ? beside(name) : environment.get(name)
  const { settings, warnings } = LangfuseSettings.fromVariables(get)
  for (const warning of warnings) yield* Effect.logWarning(`langfuse: ${warning}`)
  return settings === undefined ? [] : yield* hooks(settings)
})

/** See the module. */
export const plugin: Plugin.Plugin<Environment> = Plugin.make({
  name: "observability/langfuse",
  description,
  build: Effect.map(fromEnvironment, (hooks) => ({ hooks }))
})
