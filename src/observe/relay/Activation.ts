/**
 * Activates Relay's components while sessions need them. They are turned on before the first event of the first
 * session, turned off after the last event of the last session, and turned on again for the next session.
 *
 * **Details**
 *
 * A failed activation logs one warning. It is retried when the next session begins while no other session is open.
 * Turning the components off waits until all data is delivered. Errors that the library reports at that point are
 * logged as warnings and never fail a run.
 *
 * **Gotchas**
 *
 * The library allows one set of components per process at a time. It rejects the configuration of a second runtime, and
 * that runtime uses its own exporters. The user's own `plugins.toml` is not used: by default, the library would merge
 * the file from its configuration directory into this configuration, so it receives the name of a file that does not
 * exist.
 *
 * Source: `hermes-contract.md` §4.3, `relay-atof-atif.md` §3.3 and §3.4.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import { toFields, toItems, toNonEmptyText } from "../atif/Value.ts"
import { describeError } from "../../middleware/Faults.ts"
import * as EventForms from "./EventForms.ts"
import * as PluginsToml from "./PluginsToml.ts"
import type * as Library from "./Library.ts"

/** Time limit for turning components on or off. It is one second shorter than the time limit for observers of a run. */
export const deadline = Duration.seconds(4)

/** Turns the components of a configuration on and off. */
interface Activation {
  /** Turns the components on. `model` is the model of the session that is beginning. */
  readonly on: (model: string | undefined) => Effect.Effect<void>
  readonly off: Effect.Effect<void>
  /** Returns the document while its components are on, otherwise `undefined`. */
  readonly active: () => PluginsToml.Document | undefined
  /**
   * Returns the document if its components were on for the most recent sessions, even if they have been turned off
   * since.
   */
  readonly owner: () => PluginsToml.Document | undefined
}

/** Creates a function that logs each warning once. */
export const makeWarner = (): ((message: string) => Effect.Effect<void>) => {
  const told = new Set<string>()
  return (message) => {
    if (told.has(message)) return Effect.void
    told.add(message)
    return Effect.logWarning(message)
  }
}

/**
 * Lists the warnings in a report, except the warning about the configuration file that intentionally does not exist.
 */
const listDiagnostics = (report: unknown, key: "diagnostics" | "runtime_diagnostics"): ReadonlyArray<string> =>
  toItems(toFields(toFields(report)["config"])[key])
    .map(toFields)
    .filter(({ code }) => code !== "plugin.configuration_file_missing")
    .flatMap(({ message }) => toNonEmptyText(message) ?? [])

/** Name under which the function that adds a status to the library's events is registered. */
const injector = "hermes-effect.status"

/**
 * Returns the status of a call as the field `status`, which consumers of this runtime's streams read. The library
 * reports the outcome of a call in different terms.
 */
const makeStatusMetadata = (event: unknown): Record<string, string> => {
  const { category, category_profile: profile, metadata, scope_category: end } = toFields(event)
  if (end !== "end" || (category !== "tool" && category !== "llm") || toFields(metadata)["status"] !== undefined)
    return {}
  const told = toNonEmptyText(toFields(toFields(profile)["tool_result_annotation"])["status"])
  const otel = toFields(metadata)["otel.status_code"]
  return { status: told ?? (otel === "ERROR" ? "error" : "ok") }
}

/** Creates the activation of a document. `file` is the path of the file that the document was read from. */
export const make = Effect.fnUntraced(function* (
  library: Library.Library,
  file: string,
  document: PluginsToml.Document,
  tell: (message: string) => Effect.Effect<void>
): Effect.fn.Return<Activation, never, FileSystem.FileSystem | Path.Path> {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const nowhere = paths.join(paths.dirname(paths.resolve(file)), ".no-other-plugins.toml")
  let handle: Library.Activation | undefined
  let removeForms: EventForms.Remove | undefined
  let wasOn = false
  let owner: PluginsToml.Document | undefined

  const setUp = (model: string | undefined) =>
    Effect.tryPromise({
      try: async (signal) => {
        const activation = await library.initialize(
          (wasOn ? PluginsToml.makeLaterConfig : PluginsToml.makeFirstConfig)(document, model),
          nowhere
        )
        // The caller no longer waits for the activation, so it must be closed here.
        if (signal.aborted) await activation.close()
        return activation
      },
      catch: describeError
    }).pipe(
      Effect.timeoutOrElse({ duration: deadline, orElse: () => Effect.fail("it took too long") }),
      Effect.flatMap((activation) =>
        Effect.suspend(() => {
          handle = activation
          owner = document
          wasOn = true
          if (document.mode !== undefined) library.registerEventMetadataInjector?.(injector, 1, makeStatusMetadata)
          removeForms = EventForms.registerForms(library)
          return Effect.forEach(
            listDiagnostics(activation.report, "diagnostics"),
            (message) => tell(`NeMo Relay: ${message}`),
            { discard: true }
          )
        })
      ),
      Effect.catch((why) =>
        tell(
          `NeMo Relay could not be set up from ${file} (${why}); ` +
            `the files that HERMES_NEMO_RELAY_ATOF_* and HERMES_NEMO_RELAY_ATIF_* ask for are written without it`
        )
      )
    )

  const tearDown = (activation: Library.Activation) =>
    Effect.tryPromise({
      try: async () => {
        await library.flushSubscribers()
        library.deregisterEventMetadataInjector?.(injector)
        removeForms?.()
        await activation.close()
      },
      catch: describeError
    }).pipe(
      Effect.timeoutOrElse({ duration: deadline, orElse: () => Effect.fail("it took too long") }),
      Effect.catch((why) => tell(`NeMo Relay did not deliver everything: ${why}`)),
      Effect.andThen(
        Effect.suspend(() =>
          Effect.forEach(
            listDiagnostics(activation.report, "runtime_diagnostics"),
            (message) => tell(`NeMo Relay: ${message}`),
            { discard: true }
          )
        )
      )
    )

  return {
    active: () => (handle === undefined ? undefined : document),
    owner: () => owner,
    on: (model) =>
      Effect.suspend(() => {
        if (handle !== undefined) return Effect.void
        owner = undefined
        // If a directory cannot be created, the library reports the problem.
        const directories = Effect.forEach(
          document.directories,
          (path) => Effect.exit(fs.makeDirectory(path, { recursive: true, mode: 0o700 })),
          { discard: true }
        )
        return Effect.andThen(directories, setUp(model))
      }),
    off: Effect.suspend(() => {
      const activation = handle
      handle = undefined
      return activation === undefined ? Effect.void : tearDown(activation)
    })
  }
})
