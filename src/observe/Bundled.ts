/**
 * The plugins that come with this program. They are listed here and loaded when the user enables them.
 *
 * Source: `hermes-contract.md` §3.1.
 */
import * as Effect from "effect/Effect"
import type { Bundled } from "../agent/plugin/Discovery.ts"
import { releaseEarly } from "../base/platform/EarlyRelease.ts"

/** Returns a plugin whose files and exports are completed early if the program has to end before its work has. */
const withEarlyRelease = <P extends Effect.Success<Bundled["load"]>>(plugin: P): P => ({
  ...plugin,
  build: releaseEarly(plugin.build)
})

/** Bundled plugins by key. Each is loaded by `import()`. */
export const bundled: ReadonlyArray<Bundled> = [
  {
    key: "observability/langfuse",
    version: "0.1.0",
    description: "Traces runs to Langfuse, with the keys of HERMES_LANGFUSE_PUBLIC_KEY and HERMES_LANGFUSE_SECRET_KEY",
    load: Effect.map(
      Effect.promise(() => import("./LangfusePlugin.ts")),
      ({ plugin }) => withEarlyRelease(plugin)
    )
  },
  {
    key: "observability/otel",
    version: "0.1.0",
    description: "Exports traces, metrics and logs over OTLP, as the standard variables OTEL_* say",
    load: Effect.map(
      Effect.promise(() => import("./OtelPlugin.ts")),
      ({ plugin }) => withEarlyRelease(plugin)
    )
  },
  {
    key: "observability/trace",
    version: "0.1.0",
    description:
      "Writes ATOF events and ATIF trajectories, configured by HERMES_NEMO_RELAY_ATOF_* and HERMES_NEMO_RELAY_ATIF_*",
    load: Effect.map(
      Effect.promise(() => import("./TracePlugin.ts")),
      ({ plugin }) => withEarlyRelease(plugin)
    )
  },
  {
    key: "observability/nemo_relay",
    version: "0.1.0",
    description:
      "Shows sessions, model calls and tool calls to NeMo Relay, and writes the files that HERMES_NEMO_RELAY_* configure",
    load: Effect.map(
      Effect.promise(() => import("./NemoRelayPlugin.ts")),
      ({ plugin }) => withEarlyRelease(plugin)
    )
  }
]
