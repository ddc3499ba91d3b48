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
  /** True where names of attributes before version 1.37 of the conventions are written too. */
  readonly duplicateNames: boolean
  readonly sampler: Sampler.Sampler
  /** Spans that metrics refer to: those that are sampled, all, or none. */
  readonly exemplars: ExemplarFilter
  readonly parent: Tracer.AnySpan | undefined
  /** The variables, with defaults for absent ones that describe the program. */
  readonly variables: Readonly<Record<string, string>>
}

/** Settings made of the variables. Without settings nothing is exported. */
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

/** The settings that variables make. */
export const fromVariables = (given: Readonly<Record<string, string | undefined>>): LoadedSettings => {
  const getVariable = (name: string): string | undefined => given[name]?.trim() || undefined
  if (isTrue(getVariable("OTEL_SDK_DISABLED"))) return { settings: undefined, warnings: [] }
  const warnings: Array<string> = []
  const warn = (name: string, form: string): undefined => {
    warnings.push(`${name} must be ${form}: it is ignored`)
    return undefined
  }
  /** Reads a variable of the exporter: the signal's variable, else the general one, if it is valid. */
  const readExporterVariable = <A>(
    signal: Signal,
    name: string,
    read: (text: string) => A | undefined,
    form: string
  ): A | undefined => {
    for (const variable of [`OTEL_EXPORTER_OTLP_${signal}_${name}`, `OTEL_EXPORTER_OTLP_${name}`]) {
      const text = getVariable(variable)
      if (text === undefined) continue
      const value = read(text)
      if (value !== undefined) return value
      if (!warnings.some((line) => line.startsWith(variable))) warn(variable, form)
    }
    return undefined
  }
  const readNaturalNumber = (name: string): number | undefined => {
    const text = getVariable(name)
    if (text === undefined || /^[1-9]\d*$/u.test(text)) return text === undefined ? undefined : Number(text)
    delete variables[name]
    return warn(name, "a number above 0")
  }
  const isExported = (signal: Signal): boolean => {
    const name = `OTEL_${signal}_EXPORTER`
    const names = (getVariable(name) ?? "otlp")
      .toLowerCase()
      .split(",")
      .map((one) => one.trim())
    const strange = names.find((one) => one !== "otlp" && one !== "none")
    if (strange !== undefined) warn(name, "otlp or none")
    return names.includes("otlp")
  }

  const variables: Record<string, string> = {}
  for (const [name, value] of Object.entries(given))
    if (name.startsWith("OTEL_") && value !== undefined && value.trim() !== "") variables[name] = value.trim()
  if (
    getVariable("OTEL_SERVICE_NAME") === undefined &&
    !/(?:^|,)\s*service\.name\s*=/u.test(getVariable("OTEL_RESOURCE_ATTRIBUTES") ?? "")
  ) {
    variables["OTEL_SERVICE_NAME"] = "hermes"
  }
  const exported: Array<Signal> = []
  for (const signal of signals) {
    if (!isExported(signal)) continue
    const acceptHttpAddress = (text: string) => (/^https?:$/u.test(URL.parse(text)?.protocol ?? "") ? text : undefined)
    const own = `OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`
    if (getVariable(own) !== undefined && acceptHttpAddress(getVariable(own) ?? "") === undefined) {
      warn(own, "an http or https address")
      delete variables[own]
    }
    exported.push(signal)
  }
  const general = getVariable("OTEL_EXPORTER_OTLP_ENDPOINT")
  const isAddress = general !== undefined && /^https?:$/u.test(URL.parse(general)?.protocol ?? "")
  if (general !== undefined && !isAddress) warn("OTEL_EXPORTER_OTLP_ENDPOINT", "an http or https address")
  if (!isAddress) variables["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://localhost:4318"

  if (
    getVariable("OTEL_SERVICE_VERSION") === undefined &&
    !/(?:^|,)\s*service\.version\s*=/u.test(getVariable("OTEL_RESOURCE_ATTRIBUTES") ?? "")
  ) {
    variables["OTEL_SERVICE_VERSION"] = scope.version
  }
  const buildTarget = (signal: Signal): Target => {
    const [delay, size] = paces[signal]
    return {
      url:
        variables[`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`] ??
        appendSignalPath(variables["OTEL_EXPORTER_OTLP_ENDPOINT"] ?? "", signal),
      headers: readExporterVariable(signal, "HEADERS", parseHeaders, "key=value pairs, separated by commas") ?? {},
      compression: readExporterVariable<"gzip" | "none">(
        signal,
        "COMPRESSION",
        (text) => (text === "gzip" || text === "none" ? text : undefined),
        "gzip or none"
      ),
      exportIntervalMillis: readNaturalNumber(delay),
      maxBatchSize: size === undefined ? undefined : readNaturalNumber(size)
    }
  }
  const traces = buildTarget("TRACES")
  const exports: { [S in Signal]?: Export } = {}
  for (const signal of exported) {
    const millis = readExporterVariable(
      signal,
      "TIMEOUT",
      (text) => (/^\d+$/u.test(text) ? Number(text) : undefined),
      "a number of milliseconds"
    )
    exports[signal] = {
      ...(signal === "TRACES" ? traces : buildTarget(signal)),
      encoding:
        readExporterVariable(signal, "PROTOCOL", (text) => encodings[text], "http/protobuf or http/json") ?? "protobuf",
      timeoutMillis: millis ?? 10_000,
      shutdownMillis: millis ?? readNaturalNumber(paces[signal][2])
    }
  }
  const preference = getVariable("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE")?.toLowerCase()
  const temporality =
    preference === "delta" || preference === "cumulative"
      ? preference
      : preference === undefined
        ? undefined
        : warn("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta or cumulative")

  const conventions = (getVariable("OTEL_SEMCONV_STABILITY_OPT_IN") ?? "")
    .split(",")
    .map((one) => one.trim())
    .filter((one) => one.startsWith("gen_ai"))
  if (conventions.some((one) => one !== "gen_ai_latest_experimental" && one !== "gen_ai/dup")) {
    warn("OTEL_SEMCONV_STABILITY_OPT_IN", "gen_ai_latest_experimental or gen_ai/dup")
  }

  const wanted = getVariable("OTEL_TRACES_SAMPLER")
  const sampler =
    Sampler.names.find((name) => name === wanted) ??
    (wanted === undefined ? undefined : warn("OTEL_TRACES_SAMPLER", `one of ${Sampler.names.join(", ")}`))
  const rate = Number(getVariable("OTEL_TRACES_SAMPLER_ARG") ?? 1)
  const isRate = rate >= 0 && rate <= 1
  if (!isRate) warn("OTEL_TRACES_SAMPLER_ARG", "a number from 0 to 1")

  const filter = getVariable("OTEL_METRICS_EXEMPLAR_FILTER")
  const exemplars =
    exemplarFilters.find((name) => name === filter) ??
    (filter === undefined ? undefined : warn("OTEL_METRICS_EXEMPLAR_FILTER", `one of ${exemplarFilters.join(", ")}`))

  const content = getVariable("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")?.toLowerCase()
  return {
    settings: {
      exports,
      traces,
      temporality,
      duplicateNames: conventions.includes("gen_ai/dup"),
      maxValueChars:
        readNaturalNumber("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT") ??
        readNaturalNumber("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"),
      captureContent: content === "true" || content === "span_only" || content === "span_and_event",
      exemplars: exemplars ?? "trace_based",
      sampler: Sampler.fromName(sampler ?? "parentbased_always_on", isRate ? rate : 1),
      parent: TraceContext.parse(getVariable("TRACEPARENT"), getVariable("TRACESTATE")),
      variables
    },
    warnings
  }
}
