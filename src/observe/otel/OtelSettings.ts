/**
 * Settings of the OpenTelemetry export, from the standard variables `OTEL_*`.
 *
 * **Details**
 *
 * | variable | | |
 * | --- | --- | --- |
 * | `OTEL_SDK_DISABLED` | nothing is exported | `false` |
 * | `OTEL_TRACES_EXPORTER`, `OTEL_METRICS_EXPORTER`, `OTEL_LOGS_EXPORTER` | `otlp` or `none` | `otlp` |
 * | `OTEL_EXPORTER_OTLP_ENDPOINT` ¹ | the collector | `http://localhost:4318` |
 * | `OTEL_EXPORTER_OTLP_PROTOCOL` ¹ | `http/protobuf` or `http/json` | `http/protobuf` |
 * | `OTEL_EXPORTER_OTLP_TIMEOUT` ¹ | time limit of a request, in milliseconds | 10000 |
 * | `OTEL_EXPORTER_OTLP_HEADERS` ¹, `OTEL_EXPORTER_OTLP_COMPRESSION` ¹ | | none |
 * | `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES` | the identity of the program | `hermes` |
 * | `OTEL_SEMCONV_STABILITY_OPT_IN` | version of the names, see `Conventions` | 1.41 |
 * | `HERMES_OTEL_AGENT_USAGE` | `true`: agents have the usage of their model calls under the same names | `false` |
 * | `OTEL_TRACES_SAMPLER`, `OTEL_TRACES_SAMPLER_ARG` | which runs are traced | `parentbased_always_on` |
 * | `OTEL_METRICS_EXEMPLAR_FILTER` | spans that metrics refer to: `trace_based`, `always_on`, `always_off` | `trace_based` |
 * | `OTEL_BSP_*`, `OTEL_BLRP_*`, `OTEL_METRIC_EXPORT_INTERVAL`, `OTEL_METRIC_EXPORT_TIMEOUT` | batch size, export interval, shutdown timeout | 1000; 5 s for traces, 10 s for metrics, 1 s for logs; 3 s |
 * | `OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE` | `delta` or `cumulative` | `cumulative` |
 * | `OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT`, `OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT` | maximum length of a span attribute, in characters | no limit |
 * | `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` | whether the content of messages is exported | `false` |
 * | `TRACEPARENT`, `TRACESTATE` | the trace that the program was started in | none |
 *
 * ¹ Also available for a single signal, with `_TRACES_`, `_METRICS_` or `_LOGS_` in the name. Only protocols over HTTP
 * are supported.
 *
 * Source: OpenTelemetry, "Environment Variable Specification" and "OpenTelemetry Protocol Exporter".
 */
import type * as Tracer from "effect/Tracer"
import * as TraceContext from "../../hooks/TraceContext.ts"
import { scope } from "../RunSpans.ts"
import * as Conventions from "./Conventions.ts"
import * as Sampler from "./Sampler.ts"

/** Signals that can be exported. */
const signals = ["TRACES", "METRICS", "LOGS"] as const
/** One of {@link signals}. */
export type Signal = (typeof signals)[number]

/** Collector of a signal, and the batch size and interval of its exports. */
export interface Target {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly compression: "gzip" | "none" | undefined
  readonly exportIntervalMillis: number | undefined
  readonly maxBatchSize: number | undefined
}

/** Encoding, time limit and target of a signal's export. */
export interface Export extends Target {
  readonly encoding: "json" | "protobuf"
  readonly timeoutMillis: number
  /** Maximum time that the program waits before it exits, in milliseconds. `undefined` for the exporter's default. */
  readonly shutdownMillis: number | undefined
}

/** Allowed values of the exemplar filter. */
const exemplarFilters = ["trace_based", "always_on", "always_off"] as const
/** One of {@link exemplarFilters}. */
export type ExemplarFilter = (typeof exemplarFilters)[number]

/** Complete settings of the export. */
export interface Settings {
  /** Settings of the signals that are exported. */
  readonly exports: { readonly [S in Signal]?: Export }
  /** Collector, batch size and interval of the traces. */
  readonly traces: Target
  /**
   * `delta` for changes since the last export, `cumulative` for totals since the start. `undefined` for the exporter's
   * default.
   */
  readonly temporality: "cumulative" | "delta" | undefined
  readonly captureContent: boolean
  /** Maximum length of an attribute value, in characters. `undefined` if there is no limit. */
  readonly maxValueChars: number | undefined
  /** Names of attributes and metrics. */
  readonly conventions: Conventions.Table
  /** True if spans of agents have the usage of their model calls under the names that model calls use. */
  readonly agentUsage: boolean
  /** True if attribute names from before version 1.37 of the conventions are also written. */
  readonly duplicateNames: boolean
  readonly sampler: Sampler.Sampler
  /** Spans that metrics refer to: sampled spans, all spans, or no spans. */
  readonly exemplars: ExemplarFilter
  readonly parent: Tracer.AnySpan | undefined
  /** The variables, with defaults for absent variables that describe the program. */
  readonly variables: Readonly<Record<string, string>>
}

/** Settings read from the variables. If `settings` is `undefined`, nothing is exported. */
export interface LoadedSettings {
  readonly settings: Settings | undefined
  readonly warnings: ReadonlyArray<string>
}

const isTrue = (value: string | undefined): boolean => value?.trim().toLowerCase() === "true"

const encodings: Readonly<Record<string, Export["encoding"]>> = { "http/protobuf": "protobuf", "http/json": "json" }

/** Parses the headers in a variable: pairs with URL-encoded values. */
const parseHeaders = (text: string): Readonly<Record<string, string>> | undefined => {
  const pairs = text
    .split(",")
    .map((pair) => pair.trim())
    .filter((pair) => pair !== "")
    .map((pair) => /^([^=\s]+)\s*=\s*(.*)$/u.exec(pair))
  try {
    return pairs.includes(null)
      ? undefined
      : Object.fromEntries(pairs.map((pair) => [pair?.[1] ?? "", decodeURIComponent(pair?.[2] ?? "")]))
  } catch {
    // The value is not URL-encoded.
    return undefined
  }
}

/** Names of the variables for the export interval, batch size and shutdown timeout, by signal. */
const paces: Readonly<Record<Signal, readonly [delay: string, size: string | undefined, timeout: string]>> = {
  TRACES: ["OTEL_BSP_SCHEDULE_DELAY", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "OTEL_BSP_EXPORT_TIMEOUT"],
  METRICS: ["OTEL_METRIC_EXPORT_INTERVAL", undefined, "OTEL_METRIC_EXPORT_TIMEOUT"],
  LOGS: ["OTEL_BLRP_SCHEDULE_DELAY", "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE", "OTEL_BLRP_EXPORT_TIMEOUT"]
}

/** Returns the address to which a signal is sent. It is a path below the collector's address. */
const appendSignalPath = (base: string, signal: Signal): string => {
  const url = URL.parse(base)
  if (url === null) return base
  url.pathname = `${url.pathname.replace(/\/$/u, "")}/v1/${signal.toLowerCase()}`
  return url.href
}

/** State of reading settings from the variables. */
interface VariableReader {
  readonly given: Readonly<Record<string, string | undefined>>
  /** OpenTelemetry variables with defaults applied and invalid ones removed. */
  readonly variables: Record<string, string>
  readonly warnings: Array<string>
}

const getVariable = ({ given }: VariableReader, name: string): string | undefined => given[name]?.trim() || undefined

/** Adds a warning about an invalid variable. `form` describes valid values. */
const warnInvalid = ({ warnings }: VariableReader, name: string, form: string): undefined => {
  warnings.push(`${name} must be ${form}: it is ignored`)
  return undefined
}

/** Reads an exporter variable: the signal's own variable if it is valid, otherwise the general variable. */
const readExporterVariable = <A>(
  reader: VariableReader,
  signal: Signal,
  name: string,
  read: (text: string) => A | undefined,
  form: string
): A | undefined => {
  for (const variable of [`OTEL_EXPORTER_OTLP_${signal}_${name}`, `OTEL_EXPORTER_OTLP_${name}`]) {
    const text = getVariable(reader, variable)
    if (text === undefined) continue
    const value = read(text)
    if (value !== undefined) return value
    if (!reader.warnings.some((line) => line.startsWith(variable))) warnInvalid(reader, variable, form)
  }
  return undefined
}

const readNaturalNumber = (reader: VariableReader, name: string): number | undefined => {
  const text = getVariable(reader, name)
  if (text === undefined || /^[1-9]\d*$/u.test(text)) return text === undefined ? undefined : Number(text)
  delete reader.variables[name]
  return warnInvalid(reader, name, "a number above 0")
}

/** Reads a variable with a fixed set of values. `form` describes them in a warning. */
const readChoice = <A extends string>(
  reader: VariableReader,
  name: string,
  choices: ReadonlyArray<A>,
  { form, text = getVariable(reader, name) }: { readonly form: string; readonly text?: string | undefined }
): A | undefined =>
  choices.find((choice) => choice === text) ?? (text === undefined ? undefined : warnInvalid(reader, name, form))

const isExported = (reader: VariableReader, signal: Signal): boolean => {
  const name = `OTEL_${signal}_EXPORTER`
  const names = (getVariable(reader, name) ?? "otlp")
    .toLowerCase()
    .split(",")
    .map((one) => one.trim())
  if (names.some((one) => one !== "otlp" && one !== "none")) warnInvalid(reader, name, "otlp or none")
  return names.includes("otlp")
}

const isHttpAddress = (text: string): boolean => /^https?:$/u.test(URL.parse(text)?.protocol ?? "")

/** Sets a default for a variable that describes the program, unless a resource attribute sets it. */
const setServiceDefault = (
  reader: VariableReader,
  name: "OTEL_SERVICE_NAME" | "OTEL_SERVICE_VERSION",
  attribute: RegExp,
  value: string
): void => {
  if (getVariable(reader, name) === undefined && !attribute.test(getVariable(reader, "OTEL_RESOURCE_ATTRIBUTES") ?? ""))
    reader.variables[name] = value
}

/** Lists the exported signals, and removes their invalid endpoint variables. */
const listExportedSignals = (reader: VariableReader): ReadonlyArray<Signal> =>
  signals.filter((signal) => {
    if (!isExported(reader, signal)) return false
    const own = `OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`
    const address = getVariable(reader, own)
    if (address !== undefined && !isHttpAddress(address)) {
      warnInvalid(reader, own, "an http or https address")
      delete reader.variables[own]
    }
    return true
  })

const readCollectorAddress = (reader: VariableReader): void => {
  const general = getVariable(reader, "OTEL_EXPORTER_OTLP_ENDPOINT")
  if (general !== undefined && isHttpAddress(general)) return
  if (general !== undefined) warnInvalid(reader, "OTEL_EXPORTER_OTLP_ENDPOINT", "an http or https address")
  reader.variables["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://localhost:4318"
}

const readTarget = (reader: VariableReader, signal: Signal): Target => {
  const [delay, size] = paces[signal]
  const { variables } = reader
  return {
    url:
      variables[`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`] ??
      appendSignalPath(variables["OTEL_EXPORTER_OTLP_ENDPOINT"] ?? "", signal),
    headers:
      readExporterVariable(reader, signal, "HEADERS", parseHeaders, "key=value pairs, separated by commas") ?? {},
    compression: readExporterVariable<"gzip" | "none">(
      reader,
      signal,
      "COMPRESSION",
      (text) => (text === "gzip" || text === "none" ? text : undefined),
      "gzip or none"
    ),
    exportIntervalMillis: readNaturalNumber(reader, delay),
    maxBatchSize: size === undefined ? undefined : readNaturalNumber(reader, size)
  }
}

const readExports = (reader: VariableReader, exported: ReadonlyArray<Signal>, traces: Target): Settings["exports"] => {
  const exports: { [S in Signal]?: Export } = {}
  for (const signal of exported) {
    const millis = readExporterVariable(
      reader,
      signal,
      "TIMEOUT",
      (text) => (/^\d+$/u.test(text) ? Number(text) : undefined),
      "a number of milliseconds"
    )
    exports[signal] = {
      ...(signal === "TRACES" ? traces : readTarget(reader, signal)),
      encoding:
        readExporterVariable(reader, signal, "PROTOCOL", (text) => encodings[text], "http/protobuf or http/json") ??
        "protobuf",
      timeoutMillis: millis ?? 10_000,
      shutdownMillis: millis ?? readNaturalNumber(reader, paces[signal][2])
    }
  }
  return exports
}

/** Reads the naming conventions that are enabled by the variables. */
const readConventions = (reader: VariableReader): ReadonlyArray<string> => {
  const name = "OTEL_SEMCONV_STABILITY_OPT_IN"
  const conventions = (getVariable(reader, name) ?? "")
    .split(",")
    .map((one) => one.trim())
    .filter((one) => one.startsWith("gen_ai"))
  if (conventions.some((one) => !Conventions.values.includes(one)))
    warnInvalid(reader, name, `one of ${Conventions.values.join(", ")}`)
  return conventions
}

const readSampler = (reader: VariableReader): Sampler.Sampler => {
  const sampler = readChoice(reader, "OTEL_TRACES_SAMPLER", Sampler.names, {
    form: `one of ${Sampler.names.join(", ")}`
  })
  const rate = Number(getVariable(reader, "OTEL_TRACES_SAMPLER_ARG") ?? 1)
  const isRate = rate >= 0 && rate <= 1
  if (!isRate) warnInvalid(reader, "OTEL_TRACES_SAMPLER_ARG", "a number from 0 to 1")
  return Sampler.fromName(sampler ?? "parentbased_always_on", isRate ? rate : 1)
}

const copyVariables = (given: VariableReader["given"]): Record<string, string> => {
  const variables: Record<string, string> = {}
  for (const [name, value] of Object.entries(given))
    if (name.startsWith("OTEL_") && value !== undefined && value.trim() !== "") variables[name] = value.trim()
  return variables
}

/**
 * Reads settings from variables. Each invalid variable is ignored with a warning. The warnings are in the order of
 * reading.
 */
export const fromVariables = (given: Readonly<Record<string, string | undefined>>): LoadedSettings => {
  const reader: VariableReader = { given, variables: copyVariables(given), warnings: [] }
  if (isTrue(getVariable(reader, "OTEL_SDK_DISABLED"))) return { settings: undefined, warnings: [] }
  setServiceDefault(reader, "OTEL_SERVICE_NAME", /(?:^|,)\s*service\.name\s*=/u, "hermes")
  const exported = listExportedSignals(reader)
  readCollectorAddress(reader)
  setServiceDefault(reader, "OTEL_SERVICE_VERSION", /(?:^|,)\s*service\.version\s*=/u, scope.version)
  const traces = readTarget(reader, "TRACES")
  const exports = readExports(reader, exported, traces)
  const preference = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"
  const temporality = readChoice(reader, preference, ["delta", "cumulative"], {
    form: "delta or cumulative",
    text: getVariable(reader, preference)?.toLowerCase()
  })
  const conventions = readConventions(reader)
  const sampler = readSampler(reader)
  const exemplars = readChoice(reader, "OTEL_METRICS_EXEMPLAR_FILTER", exemplarFilters, {
    form: `one of ${exemplarFilters.join(", ")}`
  })
  const content = getVariable(reader, "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")?.toLowerCase()
  return {
    settings: {
      exports,
      traces,
      temporality,
      conventions: Conventions.selectTable(conventions),
      agentUsage: isTrue(getVariable(reader, "HERMES_OTEL_AGENT_USAGE")),
      duplicateNames: conventions.includes("gen_ai/dup"),
      maxValueChars:
        readNaturalNumber(reader, "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT") ??
        readNaturalNumber(reader, "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"),
      captureContent: content === "true" || content === "span_only" || content === "span_and_event",
      exemplars: exemplars ?? "trace_based",
      sampler,
      parent: TraceContext.parse(getVariable(reader, "TRACEPARENT"), getVariable(reader, "TRACESTATE")),
      variables: reader.variables
    },
    warnings: reader.warnings
  }
}
