/**
 * Exports traces, metrics and logs of runs over OTLP, as the standard variables `OTEL_*` say (see `otel/OtelSettings`). For
 * an application that exports its own, see `Telemetry`.
 *
 * **Details**
 *
 * Runs are under the span that they are run in, or in the trace that `TRACEPARENT` names. Tool calls hand their trace on to
 * MCP servers and child processes.
 *
 * **Gotchas**
 *
 * Prompts, answers, arguments and results are exported only when `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` is
 * `true`, and without secrets then.
 *
 * **Example** (In an application)
 *
 * ```ts
 * import { OtelPlugin, Runtime } from "hermes-effect"
 *
 * const variables = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://localhost:4318", OTEL_SERVICE_NAME: "my-agents" }
 * const layer = Runtime.layer({ plugins: [OtelPlugin.make(variables)] })
 * ```
 *
 * Source: OpenTelemetry, "Environment Variable Specification".
 */
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import type * as Scope from "effect/Scope"
import { Environment } from "../config/Environment.ts"
import * as Plugin from "../plugin/Plugin.ts"
import * as OtelSettings from "./otel/OtelSettings.ts"
import * as Telemetry from "./Telemetry.ts"

type Parts = Pick<Telemetry.Telemetry, "hooks"> & { readonly middleware: ReadonlyArray<never> | Telemetry.Telemetry["middleware"] }

/** What the variables ask for; what it exports is sent when the scope is closed. */
const build = (variables: Readonly<Record<string, string | undefined>>): Effect.Effect<Parts, never, Scope.Scope> =>
  Effect.gen(function*() {
    const { settings, warnings } = OtelSettings.fromVariables(variables)
    for (const warning of warnings) yield* Effect.logWarning(`otel: ${warning}`)
    if (settings === undefined || Object.keys(settings.exports).length === 0) return { hooks: [], middleware: [] }
    const { make } = yield* Effect.promise(() => import("./otel/Exporters.ts"))
    const exporters = yield* make(settings)
    const random = yield* Random.Random
    const { close, hooks, middleware } = Telemetry.open({
      ...exporters,
      captureContent: settings.captureContent,
      parent: settings.parent,
      sampler: settings.sampler,
      chance: () => random.nextDoubleUnsafe()
    })
    yield* Effect.addFinalizer(() => close)
    return { hooks, middleware }
  })

const details = {
  name: "observability/otel",
  description: "Exports traces, metrics and logs over OTLP, as the standard variables OTEL_* say"
}

/** The plugin with these variables. */
export const make = (variables: Readonly<Record<string, string | undefined>>): Plugin.Plugin =>
  Plugin.make({ ...details, build: build(variables) })

/** The plugin with the variables of the program. */
export const plugin: Plugin.Plugin<Environment> = Plugin.make({
  ...details,
  build: Effect.flatMap(Environment, ({ file, get, process }) =>
    build(Object.fromEntries(Object.keys({ ...file, ...process }).map((name) => [name, get(name)]))))
})
