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
 * | `OTEL_EXPORTER_OTLP_TIMEOUT` ¹ | milliseconds of a request | 10000 |
 * | `OTEL_EXPORTER_OTLP_HEADERS` ¹, `OTEL_EXPORTER_OTLP_COMPRESSION` ¹ | | none |
 * | `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES` | who this is | `hermes` |
 * | `OTEL_SEMCONV_STABILITY_OPT_IN` | `gen_ai_latest_experimental`; `gen_ai/dup` adds the names before 1.37 | current names |
 * | `OTEL_TRACES_SAMPLER`, `OTEL_TRACES_SAMPLER_ARG` | which runs are traced | `parentbased_always_on` |
 * | `OTEL_METRICS_EXEMPLAR_FILTER` | spans that metrics refer to: `trace_based`, `always_on`, `always_off` | `trace_based` |
 * | `OTEL_BSP_*`, `OTEL_BLRP_*`, `OTEL_METRIC_EXPORT_INTERVAL`, `OTEL_METRIC_EXPORT_TIMEOUT` | size of a group, interval, time at the end | 1000; 5 s, 10 s of metrics, 1 s of logs; 3 s |
 * | `OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE` | `delta` or `cumulative` | `cumulative` |
 * | `OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT`, `OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT` | characters of an attribute of a span | no limit |
 * | `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` | whether what was said is exported | `false` |
 * | `TRACEPARENT`, `TRACESTATE` | the trace that the program was started in | none |
 *
 * ¹ With `_TRACES_`, `_METRICS_` or `_LOGS_` for one of them. Protocols other than over HTTP are not there.
 *
 * Source: OpenTelemetry, "Environment Variable Specification" and "OpenTelemetry Protocol Exporter".
 */
import type * as Tracer from "effect/Tracer"
import * as TraceContext from "../../hooks/TraceContext.ts"
import { scope } from "../RunSpans.ts"
import * as Sampler from "./Sampler.ts"

/** Signals that can be exported. */
const signals = ["TRACES", "METRICS", "LOGS"] as const
/** One of {@link signals}. */
export type Signal = (typeof signals)[number]

/** Collector of a signal, and the pace at which it is sent to. */
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
  /** Time that the end of the program waits; the exporter's default when undefined. */
  readonly shutdownMillis: number | undefined
}

/** Filters of exemplars. */
const exemplarFilters = ["trace_based", "always_on", "always_off"] as const
/** One of {@link exemplarFilters}. */
export type ExemplarFilter = (typeof exemplarFilters)[number]

/** Settings of the export, complete. */
export interface Settings {
  /** Those that are exported. */
  readonly exports: { readonly [S in Signal]?: Export }
  /** Target and pace of the traces. */
  readonly traces: Target
  /**
   * Changes of metrics since the last export, or sums since the beginning; the exporter's own choice when undefined.
   */
  readonly temporality: "cumulative" | "delta" | undefined
  readonly captureContent: boolean
  /** Characters of a value of an attribute; undefined for no limit. */
  readonly maxValueChars: number | undefined
  /** True if names of attributes before version 1.37 of the conventions are written too. */
  readonly duplicateNames: boolean
  readonly sampler: Sampler.Sampler
  /** Spans that metrics refer to: those that are sampled, all, or none. */
  readonly exemplars: ExemplarFilter
  readonly parent: Tracer.AnySpan | undefined
  /** The variables, with defaults for absent ones that describe the program. */
  readonly variables: Readonly<Record<string, string>>
}

/** Settings read from the variables. Without settings nothing is exported. */
export interface LoadedSettings {
  readonly settings: Settings | undefined
  readonly warnings: ReadonlyArray<string>
}

const isTrue = (value: string | undefined): boolean => value?.trim().toLowerCase() === "true"

const encodings: Readonly<Record<string, Export["encoding"]>> = { "http/protobuf": "protobuf", "http/json": "json" }

/** Headers as the variables write them: pairs with URL-encoded values. */
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
    // A value that is not URL-encoded.
    return undefined
  }
}

/** Variables of each signal's interval, size of a group and time for one. */
const paces: Readonly<Record<Signal, readonly [delay: string, size: string | undefined, timeout: string]>> = {
  TRACES: ["OTEL_BSP_SCHEDULE_DELAY", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "OTEL_BSP_EXPORT_TIMEOUT"],
  METRICS: ["OTEL_METRIC_EXPORT_INTERVAL", undefined, "OTEL_METRIC_EXPORT_TIMEOUT"],
  LOGS: ["OTEL_BLRP_SCHEDULE_DELAY", "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE", "OTEL_BLRP_EXPORT_TIMEOUT"]
}

/** Address of a signal below the address of a collector. */
const appendSignalPath = (base: string, signal: Signal): string => {
  const url = URL.parse(base)
  if (url === null) return base
  url.pathname = `${url.pathname.replace(/\/$/u, "")}/v1/${signal.toLowerCase()}`
  return url.href
}

/** Variables while settings are read from them. */
interface VariableReader {
  readonly given: Readonly<Record<string, string | undefined>>
  /** The variables of OpenTelemetry, with defaults, without invalid ones. */
  readonly variables: Record<string, string>
  readonly warnings: Array<string>
}

const getVariable = ({ given }: VariableReader, name: string): string | undefined => given[name]?.trim() || undefined

/** Records that a variable is invalid; `form` describes valid values. */
const warnInvalid = ({ warnings }: VariableReader, name: string, form: string): undefined => {
  warnings.push(`${name} must be ${form}: it is ignored`)
  return undefined
}

/** Reads a variable of the exporter: the signal's variable, else the general one, if it is valid. */
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

/** Reads a variable with a fixed set of values; `form` describes them in a warning. */
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

/** Lists the signals that are exported; invalid addresses of signals are dropped. */
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

/** The conventions of names that the variables opt in to. */
const readConventions = (reader: VariableReader): ReadonlyArray<string> => {
  const name = "OTEL_SEMCONV_STABILITY_OPT_IN"
  const conventions = (getVariable(reader, name) ?? "")
    .split(",")
    .map((one) => one.trim())
    .filter((one) => one.startsWith("gen_ai"))
  if (conventions.some((one) => one !== "gen_ai_latest_experimental" && one !== "gen_ai/dup"))
    warnInvalid(reader, name, "gen_ai_latest_experimental or gen_ai/dup")
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

/** Reads settings from variables. Invalid variables are ignored with a warning each, in the order of reading. */
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
