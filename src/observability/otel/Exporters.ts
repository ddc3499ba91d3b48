/**
 * The exporters of traces, metrics and logs, as the standard variables want them.
 *
 * Source: OpenTelemetry, "OpenTelemetry Protocol Exporter".
 */
import * as ConfigProvider from "effect/ConfigProvider"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Metric from "effect/Metric"
import * as Scope from "effect/Scope"
import type * as HttpClient from "effect/http/HttpClient"
import * as OtlpLogger from "effect/observability/OtlpLogger"
import * as OtlpMetrics from "effect/observability/OtlpMetrics"
import * as OtlpResource from "effect/observability/OtlpResource"
import type * as OtlpSerialization from "effect/observability/OtlpSerialization"
import * as Exemplars from "../otlp/Exemplars.ts"
import * as SpanExport from "../otlp/SpanExport.ts"
import * as Transport from "../otlp/Transport.ts"
import type { Span } from "../RunSpans.ts"
import { schemaUrl } from "./Attributes.ts"
import type { Export, Settings } from "./OtelSettings.ts"

/** Targets of what is exported; a signal that is not exported is absent. */
export interface Exporters {
  readonly send: ((span: Span) => void) | undefined
  readonly registry: Context.Context<never> | undefined
  readonly exemplars: Exemplars.Exemplars
  readonly loggers: ReadonlySet<Logger.Logger<unknown, unknown>> | undefined
}

const saying = (trouble: Transport.Trouble, place: string): string => {
  switch (trouble._tag) {
    case "Status":
      return `${place} answered with status ${trouble.status}`
    case "Unreachable":
      return `${place} cannot be reached`
    case "Late":
      return `${place} did not answer in time`
    case "TooMany":
      return `${place} takes it too slowly`
    case "Partial":
      return `${place} rejected ${trouble.rejected} items: ${trouble.message}`
  }
}

const warning = (trouble: Transport.Trouble, place: string): string =>
  `otel: telemetry is lost, ${saying(trouble, place)}: check OTEL_EXPORTER_OTLP_ENDPOINT, or disable observability/otel`

/** Target and pace as Effect's exporters take them. */
const pace = ({ compression, exportIntervalMillis, headers, maxBatchSize, shutdownMillis, url }: Export) => ({
  url,
  headers,
  compression,
  exportInterval: exportIntervalMillis,
  maxBatchSize,
  shutdownTimeout: shutdownMillis
})

/** Builds the exporter of a signal in a scope of its own, with what it leaves in the context. */
const build = <A>(
  { encoding, timeoutMillis }: Export,
  layer: Layer.Layer<A, never, HttpClient.HttpClient | OtlpSerialization.OtlpSerialization>,
  told: Set<string>,
  scope: Scope.Scope,
  exemplars?: Exemplars.Exemplars
): Effect.Effect<Context.Context<A>> =>
  Effect.flatMap(Scope.fork(scope), (own) =>
    Layer.buildWithScope(Layer.provide(layer, Transport.layer({ timeoutMillis, told, warning, exemplars }, encoding)), own))

/** The exporters, for as long as the scope lives; at its end what waits is sent, within the time of a request. */
export const make = ({ exports, temporality, variables }: Settings): Effect.Effect<Exporters, never, Scope.Scope> => {
  const registry = Context.make(Metric.MetricRegistry, new Map())
  return Effect.gen(function*() {
    const { LOGS, METRICS, TRACES } = exports
    const told = new Set<string>()
    const exemplars = Exemplars.make()
    // Closing in parallel: signals that still wait are sent side by side, so that a collector which is down is waited for once.
    const scope = yield* Effect.acquireRelease(Scope.make("parallel"), (scope, exit) => Scope.close(scope, exit))
    const own = yield* Scope.fork(scope)
    const send = TRACES && (yield* Effect.provideService(
      SpanExport.make({
        ...TRACES,
        resource: yield* OtlpResource.fromConfig(),
        schemaUrl,
        shutdownMillis: TRACES.shutdownMillis ?? TRACES.timeoutMillis,
        transport: { timeoutMillis: TRACES.timeoutMillis, told, warning }
      }),
      Scope.Scope,
      own
    ))
    const logs = LOGS && (yield* build(LOGS, OtlpLogger.layer({ ...pace(LOGS), mergeWithExisting: false }), told, scope))
    if (METRICS !== undefined) yield* build(METRICS, OtlpMetrics.layer({ ...pace(METRICS), temporality }), told, scope, exemplars)
    return { send, exemplars, registry: METRICS && registry, loggers: logs && Context.get(logs, Logger.CurrentLoggers) }
  }).pipe(
    Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv({ env: variables })),
    Effect.updateContext((input: Context.Context<Scope.Scope>) => Context.merge(input, registry))
  )
}
