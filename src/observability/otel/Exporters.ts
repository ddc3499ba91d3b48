/**
 * Effect's OTLP exporters, as the standard variables want them, and so that no collector can do harm.
 *
 * **Details**
 *
 * A request has the time that the variables give it. At most {@link maxInFlight} requests of a signal are under way; while
 * a collector holds up so many, what comes is dropped. The user is told once why a collector takes nothing: when it
 * refuses, when three requests in a row failed, or when the last one had failed at the end.
 */
import * as ConfigProvider from "effect/ConfigProvider"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Metric from "effect/Metric"
import * as References from "effect/References"
import * as Scope from "effect/Scope"
import * as Tracer from "effect/Tracer"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as HttpClient from "effect/http/HttpClient"
import { HttpClientError, TransportError } from "effect/http/HttpClientError"
import * as OtlpLogger from "effect/observability/OtlpLogger"
import * as OtlpMetrics from "effect/observability/OtlpMetrics"
import * as OtlpSerialization from "effect/observability/OtlpSerialization"
import * as OtlpTracer from "effect/observability/OtlpTracer"
import { redactValue } from "../../domain/Redaction.ts"
import type { Export, Settings } from "./OtelSettings.ts"

/** Requests of a signal that are under way. */
export const maxInFlight = 4

/** What exports; a signal that is not exported is absent. */
export interface Exporters {
  readonly tracer: Tracer.Tracer | undefined
  readonly registry: Context.Context<never> | undefined
  readonly loggers: ReadonlySet<Logger.Logger<unknown, unknown>> | undefined
}

const failuresInARow = 3

/** A client with the limits of the module. */
const guarded = ({ timeoutMillis }: Export, told: Set<string>) =>
  Effect.gen(function*() {
    const client = yield* HttpClient.HttpClient
    let [inFlight, failures] = [0, 0]
    let trouble = ""
    const tell = Effect.suspend(() => {
      if (told.has(trouble)) return Effect.void
      told.add(trouble)
      return Effect.logWarning(`otel: telemetry is lost, ${trouble}: check OTEL_EXPORTER_OTLP_ENDPOINT, or disable observability/otel`)
    }).pipe(Effect.provideService(References.CurrentLogAnnotations, {}))
    const failed = (what: string, isFinal: boolean): Effect.Effect<void> => {
      trouble = what
      failures++
      return isFinal || failures >= failuresInARow ? tell : Effect.void
    }
    yield* Effect.addFinalizer(() => failures > 0 ? tell : Effect.void)
    return HttpClient.transform(client, (effect, request) => {
      const place = URL.parse(request.url)?.origin ?? "the collector"
      const refuse = (description: string) => new HttpClientError({ reason: new TransportError({ request, description }) })
      return Effect.suspend(() => {
        if (inFlight >= maxInFlight) return Effect.fail(refuse("too many requests are under way"))
        inFlight++
        return effect.pipe(
          Effect.timeoutOrElse({ duration: Duration.millis(timeoutMillis), orElse: () => Effect.fail(refuse("it did not answer in time")) }),
          Effect.tap(({ status }) => {
            if (status >= 400) return failed(`${place} answered with status ${status}`, status < 500 && status !== 429)
            failures = 0
            return Effect.void
          }),
          Effect.tapError(() => failed(`${place} cannot be reached`, false)),
          // One that the end of the program cuts off has failed too.
          Effect.onInterrupt(() => failed(`${place} did not answer in time`, false)),
          Effect.ensuring(Effect.sync(() => {
            inFlight--
          }))
        )
      })
    })
  })

/** A batch is bounded by the exporter. */
const unbounded = { nodes: Number.POSITIVE_INFINITY }

/** Writes what is exported without secrets: what is logged and what spans of tools and applications hold too. */
const redacted = (layer: Layer.Layer<OtlpSerialization.OtlpSerialization>) =>
  Layer.effect(
    OtlpSerialization.OtlpSerialization,
    Effect.map(OtlpSerialization.OtlpSerialization, ({ logs, metrics, traces }) =>
      OtlpSerialization.OtlpSerialization.of({
        // Strings are changed and nothing else.
        logs: (data) => logs(redactValue(data, unbounded) as typeof data),
        traces: (data) => traces(redactValue(data, unbounded) as typeof data),
        metrics
      }))
  ).pipe(Layer.provide(layer))

const serializations = { json: redacted(OtlpSerialization.layerJson), protobuf: redacted(OtlpSerialization.layerProtobuf) }

/** Builds the exporter of a signal in a scope of its own, with what it leaves in the context. */
const build = <A>(
  how: Export,
  layer: Layer.Layer<A, never, HttpClient.HttpClient | OtlpSerialization.OtlpSerialization>,
  told: Set<string>,
  scope: Scope.Scope
): Effect.Effect<Context.Context<A>> =>
  Effect.flatMap(Scope.fork(scope), (own) =>
    Layer.buildWithScope(
      layer.pipe(
        Layer.provide(Layer.effect(HttpClient.HttpClient, guarded(how, told))),
        Layer.provide([FetchHttpClient.layer, serializations[how.encoding]])
      ),
      own
    ))

/** The exporters, for as long as the scope lives; at its end what waits is sent, within the time of a request. */
export const make = ({ exports, variables }: Settings): Effect.Effect<Exporters, never, Scope.Scope> => {
  const registry = Context.make(Metric.MetricRegistry, new Map())
  return Effect.gen(function*() {
    const { LOGS, METRICS, TRACES } = exports
    const told = new Set<string>()
    // What waits is sent side by side in the end, so that a collector which is down is waited for once.
    const scope = yield* Effect.acquireRelease(Scope.make("parallel"), (scope, exit) => Scope.close(scope, exit))
    const traces = TRACES && (yield* build(TRACES, OtlpTracer.layerFromConfig(), told, scope))
    const logs = LOGS && (yield* build(LOGS, OtlpLogger.layerFromConfig({ mergeWithExisting: false }), told, scope))
    if (METRICS !== undefined) yield* build(METRICS, OtlpMetrics.layerFromConfig(), told, scope)
    return {
      tracer: traces && Context.get(traces, Tracer.Tracer),
      registry: METRICS && registry,
      loggers: logs && Context.get(logs, Logger.CurrentLoggers)
    }
  }).pipe(
    Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv({ env: variables })),
    Effect.updateContext((input: Context.Context<Scope.Scope>) => Context.merge(input, registry))
  )
}
