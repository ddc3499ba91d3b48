/**
 * Relay's components while sessions need them: turned on before the first session's first event, off after the last
 * session's last one, and on again for the next.
 *
 * **Details**
 *
 * A failed activation is one warning; it is tried again the next time that no session is open. Turning off waits until
 * everything is delivered. Errors that the library reports then are warnings, never a failure of a run.
 *
 * **Gotchas**
 *
 * The library allows one set of components per process at a time: it refuses a second runtime with a separate
 * configuration, which continues with its own exporters. The user's own `plugins.toml` is excluded: the library would
 * merge the file of the configuration directory into this one, so it receives the name of a missing file.
 *
 * Source: `hermes-contract.md` §4.3, `relay-atof-atif.md` §3.3 and §3.4.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import { toFields, toItems, toNonEmptyText } from "../atif/Value.ts"
import { describeError } from "../../middleware/Faults.ts"
import * as PluginsToml from "./PluginsToml.ts"
import type * as Library from "./Library.ts"

/** Deadline of turning components on or off; observers have a second more. */
export const deadline = Duration.seconds(4)

/** Turns the components of a configuration on and off. */
interface Activation {
  /** For a session whose model this is. */
  readonly on: (model: string | undefined) => Effect.Effect<void>
  readonly off: Effect.Effect<void>
  /** The document while its components are on. */
  readonly active: () => PluginsToml.Document | undefined
  /** The document if the sessions since the last turning on have its components, also when those are off by now. */
  readonly owner: () => PluginsToml.Document | undefined
}

/** Says each thing once. */
export const makeWarner = (): ((message: string) => Effect.Effect<void>) => {
  const told = new Set<string>()
  return (message) => {
    if (told.has(message)) return Effect.void
    told.add(message)
    return Effect.logWarning(message)
  }
}

/** Warnings of a report, without the one about the file that is not there. */
const listDiagnostics = (report: unknown, key: "diagnostics" | "runtime_diagnostics"): ReadonlyArray<string> =>
  toItems(toFields(toFields(report)["config"])[key])
    .map(toFields)
    .filter(({ code }) => code !== "plugin.configuration_file_missing")
    .flatMap(({ message }) => toNonEmptyText(message) ?? [])

/** A name for an event injector. */
const injector = "hermes-effect.status"

/**
 * The library reports in its own terms how a call ended; consumers of this runtime's streams read `status`.
 */
const makeStatusMetadata = (event: unknown): Record<string, string> => {
  const { category, category_profile: profile, metadata, scope_category: end } = toFields(event)
  if (end !== "end" || (category !== "tool" && category !== "llm") || toFields(metadata)["status"] !== undefined)
    return {}
  const told = toNonEmptyText(toFields(toFields(profile)["tool_result_annotation"])["status"])
  const otel = toFields(metadata)["otel.status_code"]
  return { status: told ?? (otel === "ERROR" ? "error" : "ok") }
}

/** Of a document, and the file that it was in. */
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
  let wasOn = false
  let owner: PluginsToml.Document | undefined

  const setUp = (model: string | undefined) =>
    Effect.tryPromise({
      try: async (signal) => {
        const activation = await library.initialize(
          (wasOn ? PluginsToml.makeLaterConfig : PluginsToml.makeFirstConfig)(document, model),
          nowhere
        )
        // The caller no longer waits for the activation, so this code must close it.
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
        // A directory that cannot be made is one that the library will complain about.
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
