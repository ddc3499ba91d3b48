/**
 * ATOF and ATIF exporters as a plugin, and as hooks for the NeMo Relay plugin, which falls back on them: one file for the
 * stream of events, one file for the trajectory of each session.
 *
 * **Example** (In an application)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Runtime, TracePlugin } from "hermes-effect"
 *
 * const program = Effect.gen(function*() {
 *   const hooks = yield* TracePlugin.hooks({
 *     agent: { name: "my agent", version: "1.0.0" },
 *     atof: { directory: "traces", filename: "events.jsonl", mode: "append" },
 *     atif: undefined
 *   })
 *   return Runtime.layer({ hooks })
 * })
 * ```
 *
 * Source: the NeMo Relay document, `hermes-contract.md` §4.
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type * as Path from "effect/Path"
import type * as Scope from "effect/Scope"
import { Environment } from "../config/Environment.ts"
import type { Hook } from "../hooks/Hook.ts"
import * as Plugin from "../plugin/Plugin.ts"
import * as TraceHook from "./TraceHook.ts"
import * as TraceSettings from "./TraceSettings.ts"

/** Receivers of the events; `undefined` for a disabled exporter. */
export interface Sinks {
  readonly atof: TraceHook.Sink | undefined
  readonly atif: TraceHook.Sink | undefined
}

/** Opens the writers of the enabled exporters. Their files are complete when the scope is closed. */
export const sinks = (
  { atif, atof }: TraceSettings.TraceSettings
): Effect.Effect<Sinks, never, FileSystem.FileSystem | Path.Path | Scope.Scope> =>
  Effect.gen(function*() {
    const events = atof && (yield* (yield* Effect.promise(() => import("./AtofWriter.ts"))).make(atof))
    const trajectories = atif && (yield* (yield* Effect.promise(() => import("./AtifWriter.ts"))).make(atif))
    return { atof: events, atif: trajectories }
  })

/** Builds the hook of the enabled exporters; none when all are disabled. Files are complete when the scope is closed. */
export const hooks = (
  settings: TraceSettings.TraceSettings
): Effect.Effect<ReadonlyArray<Hook>, never, FileSystem.FileSystem | Path.Path | Scope.Scope> =>
  Effect.gen(function*() {
    const { atif, atof } = yield* sinks(settings)
    const asked = [atof, atif].filter((sink) => sink !== undefined)
    return asked.length === 0 ? [] : [yield* TraceHook.make(settings.agent, asked)]
  })

/** Builds the hook from the environment variables. */
export const fromEnvironment = Effect.flatMap(Environment, ({ get }) => hooks(TraceSettings.fromVariables(get)))

/** The plugin `observability/trace`. */
export const plugin = Plugin.make({
  name: "observability/trace",
  description: "Writes ATOF events and ATIF trajectories, as HERMES_NEMO_RELAY_ATOF_* and HERMES_NEMO_RELAY_ATIF_* say",
  build: Effect.map(fromEnvironment, (hooks) => ({ hooks }))
})
