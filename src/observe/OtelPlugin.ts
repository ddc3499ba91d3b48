/**
 * Exports traces, metrics and logs of runs over OTLP, configured by the standard variables `OTEL_*` (see
 * `otel/OtelSettings`). For an application with its own telemetry exporter, see `RunTelemetry`.
 *
 * **Details**
 *
 * The parent of a run is the active span, or else the span in `TRACEPARENT`. Tool calls propagate their trace to MCP
 * servers and child processes.
 *
 * **Gotchas**
 *
 * Prompts, answers, arguments and results are exported only when `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`
 * is `true`, without secrets. Each message is exported in full with the first model call that contains it. Later calls
 * repeat only the newest 32,768 characters of the conversation, and `hermes.input.omitted_messages` is the number of
 * earlier messages that are omitted.
 *
 * **Example** (In an application)
 *
 * ```ts
 * import { Runtime } from "hermes-effect"
 * import { OtelPlugin } from "hermes-effect/observability"
 *
 * const variables = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://localhost:4318", OTEL_SERVICE_NAME: "my-agents" }
 * const layer = Runtime.layer({ plugins: [OtelPlugin.make(variables)] })
 * ```
 *
 * Source: OpenTelemetry, "Environment Variable Specification".
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Tracer from "effect/Tracer"
import * as TextCut from "../base/domain/TextCut.ts"
import { Environment } from "../base/config/Environment.ts"
import * as TraceContext from "../hooks/TraceContext.ts"
import * as Plugin from "../agent/plugin/Plugin.ts"
import type { RunRecord } from "../store/RunRecord.ts"
import { JoinedText } from "./JoinedText.ts"
import * as Attributes from "./otel/Attributes.ts"
import * as Metrics from "./otel/Metrics.ts"
import * as OtelSettings from "./otel/OtelSettings.ts"
import * as RunSpans from "./RunSpans.ts"
import * as LiveSpans from "./LiveSpans.ts"
import * as RunTelemetry from "./RunTelemetry.ts"
import * as SpanLog from "./SpanLog.ts"

const agentName = "hermes"

/** Returns the span that a run was started in, as stored in the record. */
const readParentSpan = ({
  start
}: {
  readonly start: Partial<TraceContext.Carrier> | undefined
}): Tracer.AnySpan | undefined => TraceContext.parse(start?.traceparent, start?.tracestate)

/**
 * Creates functions that determine the trace of a run. Active calls and spans built from the record get the same trace.
 */
const makePlacement = ({ parent, sampler }: OtelSettings.Settings) => {
  /** Most recent run and its trace id, because successive spans mostly belong to one run. */
  let newest = { turnId: "", traceId: "" }
  const getOwnTraceId = (turnId: string): string => {
    if (newest.turnId !== turnId) newest = { turnId, traceId: RunSpans.makeTraceId(turnId) }
    return newest.traceId
  }
  const resolveTrace = (above: Tracer.AnySpan | undefined, turnId: string) => {
    const traceId = above?.traceId.padStart(32, "0") ?? getOwnTraceId(turnId)
    return { traceId, sampled: sampler(above, traceId), traceState: TraceContext.findTraceState(above) }
  }
  const makePlaceSpan = (context: Context.Context<never>, turnId: string, spanId: string): Tracer.AnySpan => {
    const { sampled, traceId, traceState } = resolveTrace(TraceContext.findNearestSpan(context) ?? parent, turnId)
    const annotations = traceState === undefined ? undefined : Context.make(TraceContext.TraceState, traceState)
    return Tracer.externalSpan({ traceId, spanId, sampled, annotations })
  }
  const resolveRunTrace: RunSpans.View["trace"] = (run) => {
    const above = readParentSpan(run) ?? parent
    return { ...resolveTrace(above, run.turnId), parentSpanId: above?.spanId }
  }
  const places: RunTelemetry.Places = {
    attempt: (context, { turnId }, { apiRequestId }) =>
      makePlaceSpan(context, turnId, RunSpans.makeAttemptSpanId(apiRequestId)),
    call: (context, { turnId }, { apiRequestId, toolCallId }) =>
      makePlaceSpan(context, turnId, RunSpans.makeCallSpanId(apiRequestId, toolCallId))
  }
  return { trace: resolveRunTrace, places }
}

/** Creates the view of runs that the settings specify. */
export const makeView = (settings: OtelSettings.Settings): RunSpans.View => {
  const { agentUsage, captureContent, conventions, duplicateNames: duplicate, maxValueChars } = settings
  const options = { agentName, agentUsage, captureContent, conventions, duplicate }
  const whole = Attributes.makeView(options, makePlacement(settings).trace)
  if (maxValueChars === undefined) return whole
  const cutValue = (value: RunSpans.Value): RunSpans.Value =>
    typeof value === "string" || value instanceof JoinedText ? TextCut.takeHead(value.toString(), maxValueChars) : value
  return {
    ...whole,
    attributes: (node, outcome, tree) =>
      Object.fromEntries(
        Object.entries(whole.attributes(node, outcome, tree)).flatMap(([name, value]) =>
          value === undefined ? [] : [[name, cutValue(value)]]
        )
      )
  }
}

/** Creates the exporters that the settings request. Pending items are sent when the scope closes. */
const buildExport = (
  variables: Readonly<Record<string, string | undefined>>
): Effect.Effect<Pick<RunTelemetry.Contribution, "middleware">, never, RunRecord | Scope.Scope> =>
  Effect.gen(function* () {
    const { settings, warnings } = OtelSettings.fromVariables(variables)
    for (const warning of warnings) yield* Effect.logWarning(`otel: ${warning}`)
    if (settings === undefined || Object.keys(settings.exports).length === 0) return { middleware: [] }
    const target = `otlp ${settings.traces.url}`
    const isExcluded = (other: string) => other === RunTelemetry.tracerTarget || other === target
    if (!(yield* LiveSpans.claimTarget(target, { excludes: isExcluded, remedy: RunTelemetry.exclusive })))
      return { middleware: [] }
    const { make } = yield* Effect.promise(() => import("./otel/Exporters.ts"))
    const { loggers, metrics, send } = yield* make(settings)
    const run = Effect.runSyncWith(yield* Effect.context<never>())
    yield* LiveSpans.listen(
      makeView(settings),
      {
        close: (span) => {
          const { endedAt: at, spanId, traceId } = span
          const isShown =
            settings.exemplars === "always_on" ||
            (settings.exemplars === "trace_based" && span.sampled && send !== undefined)
          if (metrics !== undefined) {
            const exemplar = isShown ? { traceId, spanId, at } : undefined
            const recordValue: Metrics.MetricRecorder = (instrument, labels, value) =>
              metrics.record(instrument, labels, value, exemplar)
            Metrics.recordSpan(span, agentName, recordValue, settings.conventions)
          }
          if (loggers !== undefined && RunTelemetry.isLogged(span))
            run(SpanLog.logSpan(span, agentName, loggers, settings.conventions))
          send?.(span)
        }
      },
      settings.captureContent && send !== undefined
    )
    // Without a trace exporter, calls must not run in spans, because those would never be exported.
    return {
      middleware:
        send === undefined && loggers === undefined
          ? []
          : RunTelemetry.makeMiddleware(makePlacement(settings).places, loggers)
    }
  })

const details = {
  name: "observability/otel",
  description: "Exports traces, metrics and logs over OTLP, as the standard variables OTEL_* say"
}

/** Creates the plugin with the given variables. */
export const make = (variables: Readonly<Record<string, string | undefined>>): Plugin.Plugin<RunRecord> =>
  Plugin.make({ ...details, build: buildExport(variables) })

/** The plugin, configured by the program's environment variables. */
export const plugin: Plugin.Plugin<Environment | RunRecord> = Plugin.make({
  ...details,
  build: Effect.flatMap(Environment, ({ file, get, process }) =>
    buildExport(Object.fromEntries(Object.keys({ ...file, ...process }).map((name) => [name, get(name)])))
  )
})
