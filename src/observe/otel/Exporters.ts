/**
 * The exporters of traces, metrics and logs that the standard variables configure.
 *
 * Source: OpenTelemetry, "OpenTelemetry Protocol Exporter".
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Scope from "effect/Scope"
import type { Resource } from "effect/observability/OtlpResource"
import * as ExportQueue from "../otlp/ExportQueue.ts"
import * as LogEncoding from "../otlp/LogEncoding.ts"
import * as MetricEncoding from "../otlp/MetricEncoding.ts"
import * as MetricPoints from "../otlp/MetricPoints.ts"
import * as SignalEncoding from "../otlp/SignalEncoding.ts"
import * as SpanExport from "../otlp/SpanExport.ts"
import * as Transport from "../otlp/Transport.ts"
import type { Span } from "../RunSpans.ts"
import type { Export, Settings } from "./OtelSettings.ts"

/** Export targets by signal. A signal that is not exported is absent. */
export interface Exporters {
  readonly send: ((span: Span) => void) | undefined
  readonly metrics: MetricPoints.MetricPoints | undefined
  readonly loggers: ReadonlySet<Logger.Logger<unknown, unknown>> | undefined
}

const describeTrouble = (trouble: Transport.Trouble, place: string): string => {
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

const formatWarning = (trouble: Transport.Trouble, place: string): string =>
  `otel: telemetry is lost, ${describeTrouble(trouble, place)}: ` +
  `check OTEL_EXPORTER_OTLP_ENDPOINT, or disable observability/otel`

const decodeValue = (text: string): string => {
  try {
    return decodeURIComponent(text.trim())
  } catch {
    // The value is not URL-encoded.
    return text.trim()
  }
}

/** Builds the resource that describes the program from the variables. */
const buildResource = (variables: Settings["variables"]): Resource => {
  const pairs = (variables["OTEL_RESOURCE_ATTRIBUTES"] ?? "").split(",").flatMap((pair) => {
    const at = pair.indexOf("=")
    return at <= 0 ? [] : [[decodeValue(pair.slice(0, at)), decodeValue(pair.slice(at + 1))] as const]
  })
  const [name, version] = [variables["OTEL_SERVICE_NAME"], variables["OTEL_SERVICE_VERSION"]]
  return SignalEncoding.makeResource({
    ...Object.fromEntries(pairs),
    ...(name === undefined ? {} : { "service.name": name }),
    ...(version === undefined ? {} : { "service.version": version })
  })
}

/** Interval between two exports of metrics, and between two exports of log records, in milliseconds. */
const [metricMillis, logMillis] = [10_000, 1000]

const maxLogRecords = 1000

/** Exports metrics. */
const exportMetrics = Effect.fnUntraced(function* (
  target: Export,
  { conventions, temporality }: Settings,
  resource: Resource,
  options: Transport.Options
) {
  const clock = yield* Clock.Clock
  const points = MetricPoints.make(temporality ?? "cumulative", clock.currentTimeMillisUnsafe())
  const body = MetricEncoding.make(target.encoding, resource, conventions.schemaUrl)
  const pace = {
    ...target,
    intervalMillis: target.exportIntervalMillis ?? metricMillis,
    shutdownMillis: target.shutdownMillis ?? shutdownMillis
  }
  yield* ExportQueue.exportPeriodically(
    pace,
    yield* Transport.makeClient(options),
    () => {
      const { sent, snapshot } = points.take(clock.currentTimeMillisUnsafe())
      return { body: body(snapshot), sent: Effect.sync(sent) }
    },
    () => undefined
  )
  return points
})

/** Exports log records. */
const exportLogs = Effect.fnUntraced(function* (
  target: Export,
  { conventions: { schemaUrl } }: Settings,
  resource: Resource,
  options: Transport.Options
) {
  const clock = yield* Clock.Clock
  const pace = {
    ...target,
    intervalMillis: target.exportIntervalMillis ?? logMillis,
    maxBatchSize: target.maxBatchSize ?? maxLogRecords,
    shutdownMillis: target.shutdownMillis ?? shutdownMillis
  }
  const client = yield* Transport.makeClient(options)
  const push = yield* ExportQueue.make(
    pace,
    target.encoding === "json"
      ? LogEncoding.makeJsonEncoding(resource, schemaUrl)
      : LogEncoding.makeProtobufEncoding(resource, schemaUrl),
    client
  )
  return Logger.make((said) => push(LogEncoding.toLogRecord(said, clock.currentTimeMillisUnsafe())))
})

/** Maximum time that the shutdown waits for metrics and log records, in milliseconds. */
const shutdownMillis = 3000

/**
 * Creates exporters that run until the scope closes. Pending items are then sent, within the time limit of a request.
 */
export const make = (settings: Settings): Effect.Effect<Exporters, never, Scope.Scope> =>
  Effect.gen(function* () {
    const {
      conventions,
      exports: { LOGS, METRICS, TRACES },
      variables
    } = settings
    const resource = buildResource(variables)
    const told = new Set<string>()
    // Finalizers run in parallel: pending signals are sent concurrently, so that an unreachable collector delays the
    // shutdown only once.
    const scope = yield* Effect.acquireRelease(Scope.make("parallel"), (scope, exit) => Scope.close(scope, exit))
    const provideIn = <A, B>(
      target: A | undefined,
      build: (target: A) => Effect.Effect<B, never, Scope.Scope>
    ): Effect.Effect<B | undefined> =>
      target === undefined
        ? Effect.undefined
        : Effect.flatMap(Scope.fork(scope), (own) => Scope.provide(build(target), own))
    const makeTransportOptions = ({ timeoutMillis }: Export): Transport.Options => ({
      timeoutMillis,
      told,
      warning: formatWarning
    })
    const send = yield* provideIn(TRACES, (target) =>
      SpanExport.make({
        ...target,
        resource,
        schemaUrl: conventions.schemaUrl,
        shutdownMillis: target.shutdownMillis ?? target.timeoutMillis,
        transport: makeTransportOptions(target)
      })
    )
    const logger = yield* provideIn(LOGS, (target) =>
      exportLogs(target, settings, resource, makeTransportOptions(target))
    )
    const metrics = yield* provideIn(METRICS, (target) =>
      exportMetrics(target, settings, resource, makeTransportOptions(target))
    )
    return { send, metrics, loggers: logger && new Set([logger]) }
  })
