/**
 * Encoding and transport of OTLP requests by Effect's exporters, under this package's scope and so that no collector can do
 * harm.
 *
 * **Details**
 *
 * At most {@link maxInFlight} requests are under way, each within its time, and {@link maxWaiting} wait for them; a further one
 * fails. The user is told once of each trouble with a collector: at once when it refuses a request or drops some of it, else when
 * three requests in a row failed, or when the last one had failed at the end.
 *
 * Requests go by the transport of model calls: through a proxy of the environment, never to another host.
 *
 * Source: OpenTelemetry Protocol, "OTLP/HTTP Response".
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as References from "effect/References"
import * as Semaphore from "effect/Semaphore"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as HttpClient from "effect/http/HttpClient"
import { HttpClientError, TransportError } from "effect/http/HttpClientError"
import type * as HttpClientResponse from "effect/http/HttpClientResponse"
import type { LogsData } from "effect/observability/OtlpLogger"
import type { MetricsData } from "effect/observability/OtlpMetrics"
import type { KeyValue } from "effect/observability/OtlpResource"
import * as OtlpSerialization from "effect/observability/OtlpSerialization"
import * as Json from "../../domain/Json.ts"
import { redactValue } from "../../domain/Redaction.ts"
import { scope } from "../RunSpans.ts"
import * as Exemplars from "./Exemplars.ts"

/** Requests of a client that are under way. */
export const maxInFlight = 4

/** Requests that wait for those. */
export const maxWaiting = 16

const failuresInARow = 3

/** Trouble with a collector. */
export type Trouble =
  | { readonly _tag: "Status"; readonly status: number }
  | { readonly _tag: "Unreachable" }
  | { readonly _tag: "Late" }
  | { readonly _tag: "TooMany" }
  /** It took a request and dropped some of it. */
  | { readonly _tag: "Partial"; readonly rejected: number; readonly message: string }

/** Properties of a client. */
export interface Options {
  readonly timeoutMillis: number
  /** The warning about a trouble; `place` is the origin of the collector. */
  readonly warning: (trouble: Trouble, place: string) => string
  /** Warnings that were given. */
  readonly told: Set<string>
  /** Exemplars of the metrics that are sent. */
  readonly exemplars?: Exemplars.Exemplars | undefined
}

/** Reads the number of rejected items of an answer. */
const complaintOf = (body: string): Trouble | undefined => {
  const parsed = Option.getOrUndefined(Json.parse(body))
  const partial = Predicate.hasProperty(parsed, "partialSuccess") ? parsed.partialSuccess : undefined
  if (!Predicate.isObject(partial)) return undefined
  const [, rejected] = Object.entries(partial).find(([name]) => name.startsWith("rejected")) ?? []
  return Number(rejected) > 0 ? { _tag: "Partial", rejected: Number(rejected), message: String(partial["errorMessage"] ?? "") } : undefined
}

const partialOf = (response: HttpClientResponse.HttpClientResponse): Effect.Effect<Trouble | undefined> =>
  response.headers["content-type"]?.includes("json") === true
    // The body that the exporter reads too; not every collector answers with JSON.
    ? response.arrayBuffer.pipe(
      Effect.map((bytes) => complaintOf(new TextDecoder().decode(bytes))),
      Effect.orElseSucceed(() => undefined)
    )
    : Effect.succeed(undefined)

/** A client with the limits of this module. */
export const client = ({ timeoutMillis, told, warning }: Options) =>
  Effect.gen(function*() {
    const inner = yield* HttpClient.HttpClient
    const permits = yield* Semaphore.make(maxInFlight)
    let [begun, failures] = [0, 0]
    let last: readonly [Trouble, string] | undefined
    const tell = Effect.suspend(() => {
      const message = last === undefined ? undefined : warning(...last)
      if (message === undefined || told.has(message)) return Effect.void
      told.add(message)
      return Effect.logWarning(message)
    }).pipe(Effect.provideService(References.CurrentLogAnnotations, {}))
    const failed = (trouble: Trouble, place: string, isFinal: boolean): Effect.Effect<void> =>
      Effect.suspend(() => {
        last = [trouble, place]
        failures++
        return isFinal || failures >= failuresInARow ? tell : Effect.void
      })
    yield* Effect.addFinalizer(() => failures > 0 ? tell : Effect.void)
    return HttpClient.transform(inner, (effect, request) => {
      const place = URL.parse(request.url)?.origin ?? "the collector"
      const refuse = (description: string) => new HttpClientError({ reason: new TransportError({ request, description }) })
      const sent = effect.pipe(
        Effect.tapError(() => failed({ _tag: "Unreachable" }, place, false)),
        Effect.timeoutOrElse({
          duration: Duration.millis(timeoutMillis),
          orElse: () => Effect.andThen(failed({ _tag: "Late" }, place, false), Effect.fail(refuse("it did not answer in time")))
        }),
        Effect.tap((response) => {
          const { status } = response
          if (status >= 400) return failed({ _tag: "Status", status }, place, status < 500 && status !== 429)
          failures = 0
          return Effect.flatMap(partialOf(response), (trouble) => {
            if (trouble === undefined) return Effect.void
            last = [trouble, place]
            return tell
          })
        }),
        // One that the end of the program cuts off has failed too.
        Effect.onInterrupt(() => failed({ _tag: "Late" }, place, false))
      )
      return Effect.suspend(() => {
        if (begun >= maxInFlight + maxWaiting) {
          return Effect.andThen(failed({ _tag: "TooMany" }, place, true), Effect.fail(refuse("too many requests are under way")))
        }
        begun++
        return Effect.ensuring(permits.withPermit(sent), Effect.sync(() => {
          begun--
        }))
      })
    })
  })

/** The transport of model calls, which takes a third of the CPU of the platform's `fetch` for a request, and is loaded already. */
const layerFetch: Layer.Layer<never> = Layer.effect(
  FetchHttpClient.Fetch,
  Effect.acquireRelease(
    Effect.map(Effect.promise(() => import("../../platform/HttpTransport.ts")), ({ make }) => make()),
    ({ close }) => Effect.sync(close)
  )
)

/** A client with the limits of this module, over HTTP. */
export const layerClient = (options: Options): Layer.Layer<HttpClient.HttpClient> =>
  Layer.effect(HttpClient.HttpClient, client(options)).pipe(Layer.provide(FetchHttpClient.layer), Layer.provide(layerFetch))

/** Every string of a batch is looked at; its number is bounded by the exporter. */
const unbounded = { nodes: Number.POSITIVE_INFINITY }

/** Labels of a data point as the conventions have them: without the one that tells Effect's exporter a unit, ports as numbers. */
const labelsOf = (attributes: ReadonlyArray<KeyValue>): Array<KeyValue> =>
  attributes
    .filter(({ key }) => key !== "unit")
    .map((one) => one.key === "server.port" ? { key: one.key, value: { intValue: Number(one.value.stringValue) } } : one)
    .toSorted((a, b) => a.key < b.key ? -1 : 1)

/** Puts metrics under the scope, with labels of the conventions and exemplars; those are returned too, point by point. */
const labelled = ({ resourceMetrics }: MetricsData, exemplars: Exemplars.Exemplars | undefined) => {
  const added: Array<Exemplars.Added> = []
  const data: MetricsData = {
    resourceMetrics: resourceMetrics.map((resource) => ({
      ...resource,
      scopeMetrics: resource.scopeMetrics.map(({ metrics, ...rest }) => {
        for (const { gauge, histogram, name, sum } of metrics) {
          for (const point of (gauge ?? sum)?.dataPoints ?? []) {
            point.attributes = labelsOf(point.attributes)
            const found = exemplars?.take(name, point.attributes, []) ?? []
            added.push({ field: 5, exemplars: found })
            if (found.length > 0) point.exemplars = Exemplars.toJson(found)
          }
          for (const point of histogram?.dataPoints ?? []) {
            point.attributes = labelsOf(point.attributes ?? [])
            const found = exemplars?.take(name, point.attributes, point.explicitBounds ?? []) ?? []
            added.push({ field: 8, exemplars: found })
            if (found.length > 0) point.exemplars = Exemplars.toJson(found)
          }
        }
        return { ...rest, scope, metrics }
      })
    }))
  }
  return { data, added }
}

/** Puts log records under the scope, where Effect's exporter names the service, without its own facts about fibers. */
const scoped = ({ resourceLogs }: LogsData): LogsData => ({
  resourceLogs: resourceLogs.map((resource) => ({
    ...resource,
    scopeLogs: resource.scopeLogs.map(({ logRecords = [], ...logs }) => ({
      ...logs,
      scope,
      logRecords: logRecords.map((one) => ({
        ...one,
        attributes: one.attributes.filter(({ key }) => !key.startsWith("effect.")).toSorted((a, b) => a.key < b.key ? -1 : 1)
      }))
    }))
  }))
})

/** Writes log records without secrets: they hold text of models, tools and applications. */
const redacted = (layer: Layer.Layer<OtlpSerialization.OtlpSerialization>, exemplars: Exemplars.Exemplars | undefined) =>
  Layer.effect(
    OtlpSerialization.OtlpSerialization,
    Effect.map(OtlpSerialization.OtlpSerialization, ({ logs, metrics, traces }) =>
      OtlpSerialization.OtlpSerialization.of({
        // Strings are changed and nothing else.
        logs: (data) => logs(scoped(redactValue(data, unbounded) as typeof data)),
        traces,
        metrics: (given) => {
          const { added, data } = labelled(given, exemplars)
          return Exemplars.into(metrics(data), added)
        }
      }))
  ).pipe(Layer.provide(layer))

const serializations = { json: OtlpSerialization.layerJson, protobuf: OtlpSerialization.layerProtobuf }

/** Client and encoding for Effect's exporters of logs and metrics. */
export const layer = (options: Options, encoding: "json" | "protobuf") =>
  Layer.merge(
    layerClient(options),
    redacted(serializations[encoding], options.exemplars)
  )
