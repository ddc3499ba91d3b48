/**
 * Reads a `plugins.toml`. The Relay components that it turns on are converted to the library's current form, regardless
 * of the version of the file.
 *
 * **Details**
 *
 * - An observability component of version 1 or 2 (`[atof]` with a directory, a file name and a mode) is converted to
 *   version 4, whose `atof` has a list of sinks. A component of version 3 or later is not changed.
 * - Directories are made absolute, and are created before the library uses them.
 * - `[[dynamic_plugins]]` and `[plugins]` belong to Relay's own programs; they are left out, with a warning.
 *
 * **Gotchas**
 *
 * Of several adaptive components, only the first applies. An exporter whose table has no `enabled` is on.
 *
 * Source: the NeMo Relay document ("NeMo Relay Component Config"), `relay-atof-atif.md` §3.3, `hermes-contract.md`
 * §4.3.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { toFields, toItems, toNonEmptyText } from "../atif/Value.ts"

/** A JSON object. */
interface Facts {
  readonly [key: string]: Schema.Json
}

/** A configuration in the library's current form. */
export interface Document {
  /** Configuration for the library. */
  readonly config: Facts
  /** Directories to which exporters write. */
  readonly directories: ReadonlyArray<string>
  readonly hasAtof: boolean
  readonly hasAtif: boolean
  /**
   * Scheduling mode of tool calls. It is `observe_only` if an adaptive component requests that the library execute
   * calls, otherwise `undefined`.
   */
  readonly mode: string | undefined
  readonly warnings: ReadonlyArray<string>
}

/** Failure of reading a file as a `plugins.toml`. */
class NoDocument extends Schema.TaggedError<NoDocument>("hermes-effect/observability/NoDocument")("NoDocument", {
  message: Schema.String
}) {}

/** Version of the observability components passed to the library. */
const current = 4

const omitKeys = (from: Facts, ...names: ReadonlyArray<string>): Facts =>
  Object.fromEntries(Object.entries(from).filter(([name]) => !names.includes(name)))

/** Converts a TOML value to JSON. Dates and non-finite numbers become strings; other values have a JSON equivalent. */
const toJson = (value: unknown): Schema.Json => {
  if (value instanceof Date) return value.toISOString()
  if (Array.isArray(value)) return value.map(toJson)
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, toJson(inner)]))
  }
  if (typeof value === "number") return Number.isFinite(value) ? value : String(value)
  return typeof value === "string" || typeof value === "boolean" ? value : null
}

// `value` was converted by `toJson`.
const toFacts = (value: Schema.Json | undefined): Facts => toFields(value) as Facts

const isOn = (table: Facts): boolean => table["enabled"] !== false

/** Makes the output directory of an exporter absolute. */
const resolveDirectory = (table: Facts, resolve: (path: string) => string): Facts => {
  const directory = toNonEmptyText(table["output_directory"])?.trim()
  return directory ? { ...table, output_directory: resolve(directory) } : table
}

const listSinks = (atof: Facts, version: number): ReadonlyArray<Facts> => {
  const given = toItems(atof["sinks"]).map(toFacts)
  if (given.length > 0 || version > 2) return given
  const own = Object.fromEntries(
    ["output_directory", "filename", "mode"].flatMap((name) => {
      const value = atof[name]
      return value === undefined ? [] : [[name, value]]
    })
  )
  return [{ type: "file", ...own }]
}

const upgradeObservability = (config: Facts, resolve: (path: string) => string): Facts => {
  const version = typeof config["version"] === "number" ? config["version"] : 1
  const atof = config["atof"] === undefined ? undefined : toFacts(config["atof"])
  const atif = config["atif"] === undefined ? undefined : toFacts(config["atif"])
  return {
    ...config,
    version: version < 3 ? current : version,
    ...(atof === undefined
      ? {}
      : {
          atof: {
            ...omitKeys(atof, "output_directory", "filename", "mode", "sinks"),
            enabled: isOn(atof),
            sinks: listSinks(atof, version).map((sink) => resolveDirectory(sink, resolve))
          }
        }),
    ...(atif === undefined ? {} : { atif: { ...resolveDirectory(atif, resolve), enabled: isOn(atif) } })
  }
}

const listDirectories = (config: Facts): ReadonlyArray<string> =>
  [...toItems(toFacts(config["atof"])["sinks"]).map(toFacts), toFacts(config["atif"])].flatMap(
    (table) => toNonEmptyText(table["output_directory"]) ?? []
  )

/** Creates the document from a parsed file. `resolve` makes a path absolute. */
const makeDocument = (parsed: Readonly<Record<string, unknown>>, resolve: (path: string) => string): Document => {
  const whole = toFacts(toJson(parsed))
  const components = toItems(whole["components"])
    .map(toFacts)
    .map((component): Facts =>
      component["kind"] === "observability"
        ? { ...component, config: upgradeObservability(toFacts(component["config"]), resolve) }
        : component
    )
  const observing = components
    .filter((component) => component["kind"] === "observability" && isOn(component))
    .map((component) => toFacts(component["config"]))
  const adaptive = components.find((component) => component["kind"] === "adaptive" && isOn(component))
  const settings = toFacts(adaptive?.["config"])
  const hasExporter = (name: string): boolean =>
    observing.some((config) => config[name] !== undefined && isOn(toFacts(config[name])))
  return {
    config: { version: 1, ...omitKeys(whole, "dynamic_plugins", "plugins"), components },
    directories: observing.flatMap(listDirectories),
    hasAtof: hasExporter("atof"),
    hasAtif: hasExporter("atif"),
    mode:
      adaptive === undefined
        ? undefined
        : toNonEmptyText(toFacts(settings["tool_parallelism"])["mode"])?.trim() ||
          toNonEmptyText(settings["mode"])?.trim() ||
          "observe_only",
    warnings: ["dynamic_plugins", "plugins"]
      .filter((name) => whole[name] !== undefined)
      .map((name) => `"${name}" of the NeMo Relay configuration is not supported here and is left out`)
  }
}

/** Returns the configuration with its observability components changed. */
const changeObservability = ({ config }: Document, change: (config: Facts) => Facts): Facts => ({
  ...config,
  components: toItems(config["components"])
    .map(toFacts)
    .map((component): Facts =>
      component["kind"] === "observability" ? { ...component, config: change(toFacts(component["config"])) } : component
    )
})

/** Adds the model of the session that is beginning, unless the configuration sets a model for its trajectories. */
const withModelName =
  (model: string) =>
  (config: Facts): Facts =>
    config["atif"] === undefined ? config : { ...config, atif: { model_name: model, ...toFacts(config["atif"]) } }

const appendToSinks = (config: Facts): Facts => {
  if (config["atof"] === undefined) return config
  const atof = toFacts(config["atof"])
  const sinks = toItems(atof["sinks"])
    .map(toFacts)
    .map((sink): Facts => (sink["mode"] === "overwrite" ? { ...sink, mode: "append" } : sink))
  return { ...config, atof: { ...atof, sinks } }
}

/** Returns the configuration for turning the library's components on for the first time. */
export const makeFirstConfig = (document: Document, model: string | undefined): Facts =>
  changeObservability(document, model === undefined ? (config) => config : withModelName(model))

/**
 * Lists the environment variables that the library reads itself: the ones that a document refers to (`header_env`,
 * `…_var`), and the variables of OpenTelemetry.
 */
export const listVariables = ({ config }: Document): ReadonlyArray<string> => {
  const findVariableNames = (value: Schema.Json | undefined, key: string): ReadonlyArray<string> => {
    if (typeof value === "string") return /_(?:env|var)$/.test(key) ? [value] : []
    if (Array.isArray(value)) return value.flatMap((item) => findVariableNames(item, key))
    const isNaming = key.endsWith("_env")
    return Object.entries(toFacts(value)).flatMap(([name, inner]) => findVariableNames(inner, isNaming ? key : name))
  }
  return [
    ...findVariableNames(config, ""),
    ...["", "TRACES_", "METRICS_", "LOGS_"].map((signal) => `OTEL_EXPORTER_OTLP_${signal}HEADERS`)
  ]
}

/**
 * Returns the configuration for turning the components on again in the same program. With it, existing files are
 * appended to and not overwritten.
 */
export const makeLaterConfig = (document: Document, model: string | undefined): Facts =>
  changeObservability({ ...document, config: makeFirstConfig(document, model) }, appendToSinks)

/** Reads a file. Fails if the file is empty. */
export const read = Effect.fnUntraced(function* (
  file: string
): Effect.fn.Return<Document, NoDocument, FileSystem.FileSystem | Path.Path> {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const toNoDocument = (why: string) =>
    new NoDocument({ message: `the NeMo Relay configuration ${file} cannot be used: ${why}` })
  const content = yield* Effect.mapError(fs.readFileString(file), (error) => toNoDocument(error.message))
  const { parse } = yield* Effect.promise(() => import("effect/encoding/Toml"))
  const parsed = parse(content)
  if (Result.isFailure(parsed)) return yield* toNoDocument(parsed.failure.message)
  if (Object.keys(parsed.success).length === 0) return yield* toNoDocument("it is empty")
  return makeDocument(parsed.success, (path) => paths.resolve(path))
})
