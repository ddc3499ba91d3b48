/**
 * NeMo Relay as a plugin. It reports sessions, turns, model calls, tool calls, approvals and children as Relay's scopes
 * and marks, and activates the components of a `plugins.toml` while sessions need them. If one of the components is
 * adaptive, Relay executes the calls.
 *
 * **Details**
 *
 * Our own writers write the files requested by `HERMES_NEMO_RELAY_ATOF_*` and `HERMES_NEMO_RELAY_ATIF_*`, with or
 * without the library. An exporter in the `plugins.toml` replaces our corresponding writer while the components are
 * active. If they cannot be activated, our writer is used.
 *
 * The library receives events of the run record, complete and without secrets, with the record's timestamps. Without an
 * adaptive component, calls are not wrapped. With one, only the library reports the calls that it executes, with its
 * own timestamps.
 *
 * **Gotchas**
 *
 * `observability/trace` writes the same files: enable only one of the two. With both, the files are written once and a
 * warning is logged. A `plugins.toml` is read once, when the plugin is loaded.
 *
 * **Example** (In an application)
 *
 * ```ts
 * import { Runtime } from "hermes-effect"
 * import { NemoRelayPlugin } from "hermes-effect/observability"
 *
 * const relay = NemoRelayPlugin.make({
 *   trace: { agent: { name: "my agent", version: "1.0.0" }, atof: undefined, atif: undefined },
 *   pluginsToml: ".nemo-relay/plugins.toml"
 * })
 * const layer = Runtime.layer({ plugins: [relay] })
 * ```
 *
 * Source: the NeMo Relay document, `hermes-contract.md` §4, `ARCHITECTURE.md` §7.
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type * as Path from "effect/Path"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import { Environment, HiddenVariables } from "../base/config/Environment.ts"
import { describeError } from "../middleware/Faults.ts"
import type * as Middleware from "../middleware/Middleware.ts"
import * as Plugin from "../agent/plugin/Plugin.ts"
import type { Listener, RunRecord } from "../store/RunRecord.ts"
import { toNonEmptyText } from "./atif/Value.ts"
import type { Event } from "./Atof.ts"
import * as Activation from "./relay/Activation.ts"
import * as PluginsToml from "./relay/PluginsToml.ts"
import * as Library from "./relay/Library.ts"
import * as RecordFeed from "./relay/RecordFeed.ts"
import * as RelayMiddleware from "./relay/RelayMiddleware.ts"
import * as Spans from "./relay/Spans.ts"
import * as TracePlugin from "./TracePlugin.ts"
import * as TraceSettings from "./TraceSettings.ts"

/** Files to write, and the configuration of Relay's components. */
export interface Settings {
  /** Settings of our own writers. */
  readonly trace: TraceSettings.TraceSettings
  /** Configuration of Relay's components. */
  readonly pluginsToml: string | undefined
}

/** Parts that the plugin contributes to a runtime. */
export interface Parts {
  readonly middleware: ReadonlyArray<Middleware.LlmExecution | Middleware.ToolExecution>
}

const isRoot = (event: Event, end: "start" | "end"): boolean =>
  event.kind === "scope" && event.category === "agent" && event.scope_category === end && !event.parent_uuid

type WarningReporter = (message: string) => Effect.Effect<void>

/** Loads the components of a configuration. Returns `undefined` if there is no usable configuration. */
const loadComponents = Effect.fnUntraced(function* (
  library: Library.Library,
  file: string | undefined,
  tell: WarningReporter
) {
  if (file === undefined) return undefined
  const read = yield* Effect.result(PluginsToml.read(file))
  if (Result.isFailure(read)) {
    yield* tell(
      `${read.failure.message}; ` +
        `the files that HERMES_NEMO_RELAY_ATOF_* and HERMES_NEMO_RELAY_ATIF_* ask for are written without it`
    )
    return undefined
  }
  yield* Effect.forEach(read.success.warnings, tell, { discard: true })
  yield* (yield* HiddenVariables).lend(PluginsToml.listVariables(read.success))
  return { document: read.success, activation: yield* Activation.make(library, file, read.success, tell) }
})

const openWithLibrary = Effect.fnUntraced(function* (
  library: Library.Library,
  { pluginsToml, trace }: Settings,
  tell: WarningReporter
) {
  const found = yield* loadComponents(library, pluginsToml, tell)
  const activation = found?.activation
  const spans = Spans.make(library)
  const describeManaged = (): Spans.ManagedCalls => {
    const isOn = activation?.active()?.mode !== undefined
    return {
      llm: isOn && library.llmCallExecuteAsync !== undefined,
      tool: isOn && library.toolCallExecuteAsync !== undefined
    }
  }

  /** Open root sessions. A child may outlive its parent's session, but does not keep the components active. */
  const roots = new Set<string>()
  const playEvent = Effect.fnUntraced(function* (event: Event) {
    if (isRoot(event, "start")) {
      if (activation !== undefined && roots.size === 0) yield* activation.on(toNonEmptyText(event.metadata?.["model"]))
      roots.add(event.uuid)
    }
    for (const error of spans.play(event, describeManaged()))
      yield* tell(`NeMo Relay refused an event: ${describeError(error)}`)
    if (!isRoot(event, "end") || !roots.delete(event.uuid) || roots.size > 0) return
    spans.clear()
    if (activation !== undefined) yield* activation.off
  })
  const passed = new Set<Listener>()
  // Finalizers run in reverse order, so the entries that the feed passes on at the end are still written.
  yield* TracePlugin.openExporters(trace, {
    taken: { atof: () => activation?.owner()?.hasAtof === true, atif: () => activation?.owner()?.hasAtif === true },
    listen: (listener) =>
      Effect.acquireRelease(
        Effect.sync(() => void passed.add(listener)),
        () => Effect.sync(() => passed.delete(listener))
      )
  })
  const feed = yield* RecordFeed.open({
    agent: trace.agent,
    play: playEvent,
    passOn: (entries) => passed.forEach((listener) => listener(entries)),
    tell
  })
  /**
   * For each agent, the run whose start event was passed to the library before its first call. Calls executed by the
   * library must come after this event.
   */
  const begun = new WeakMap<Spans.Agent, string>()
  const middleware =
    found?.document.mode === undefined
      ? []
      : RelayMiddleware.make({
          library,
          openSideTask: spans.openSideTask,
          began: ({ sessionId, turnId }, callId, uuid) => spans.began(sessionId, turnId, callId, uuid),
          executed: ({ sessionId, turnId }, callId, result) => spans.executed(sessionId, turnId, callId, result),
          at: Effect.fnUntraced(function* (kind, { sessionId, turnId }) {
            const known = spans.agent(sessionId)
            if (known === undefined || begun.get(known) !== turnId) yield* feed.catchUp
            const agent = spans.agent(sessionId)
            if (agent !== undefined) begun.set(agent, turnId)
            const mode = activation?.active()?.mode
            return agent === undefined || mode === undefined || !describeManaged()[kind] ? undefined : { agent, mode }
          })
        })
  return { middleware }
})

/**
 * Opens the plugin until the scope closes, and returns its middleware. If the library is missing, one warning is logged
 * and only our own writers are used.
 */
export const open = (
  settings: Settings,
  load: Effect.Effect<Library.Library, Library.NoLibrary> = Library.load
): Effect.Effect<Parts, never, RunRecord | FileSystem.FileSystem | Path.Path | Scope.Scope> =>
  Effect.gen(function* () {
    const tell = Activation.makeWarner()
    const library = yield* Effect.result(load)
    if (Result.isSuccess(library)) return yield* openWithLibrary(library.success, settings, tell)
    yield* tell(
      `${library.failure.message}; files that HERMES_NEMO_RELAY_* ask for are written without it${
        settings.pluginsToml === undefined ? "" : `, components of ${settings.pluginsToml} are off`
      }`
    )
    yield* TracePlugin.openExporters(settings.trace)
    return { middleware: [] }
  })

const details = {
  name: "observability/nemo_relay",
  description:
    "Shows sessions, model calls and tool calls to NeMo Relay, and writes the files that HERMES_NEMO_RELAY_* configure"
}

/** Creates the plugin with the settings of an application. */
export const make = (settings: Settings) => Plugin.make({ ...details, build: open(settings) })

/** The plugin `observability/nemo_relay`, configured by environment variables. */
export const plugin = Plugin.make({
  ...details,
  build: Effect.flatMap(Environment, ({ get }) =>
    open({ trace: TraceSettings.fromVariables(get), pluginsToml: TraceSettings.readPluginsTomlPath(get) })
  )
})
