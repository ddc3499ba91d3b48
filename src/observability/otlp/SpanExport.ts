/**
 * Sends spans of runs by Effect's OTLP exporter, which batches them, repeats what may succeed later, and sends what waits when
 * the scope ends.
 *
 * **Details**
 *
 * Two things are added to it. A batch is sent when its spans are as large as {@link maxRequestChars}, because collectors refuse
 * larger requests and a span of a model call holds whole texts. Spans have the ids and times of the record, and a scope and a
 * schema of their own, which Effect's tracer does not give them.
 */
import * as Effect from "effect/Effect"
import * as FiberSet from "effect/FiberSet"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as OtlpExporter from "effect/observability/OtlpExporter"
import type { Resource } from "effect/observability/OtlpResource"
import type { Span } from "../RunSpans.ts"
import * as SpanEncoding from "./SpanEncoding.ts"
import * as Transport from "./Transport.ts"

/** Characters or bytes of the spans of one request, unless a single span has more. */
export const maxRequestChars = 2_000_000

/** Collector, resource and pace. */
export interface Options {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly compression?: "gzip" | "none" | undefined
  readonly encoding: "json" | "protobuf"
  readonly resource: Resource
  readonly schemaUrl?: string | undefined
  readonly exportIntervalMillis?: number | undefined
  readonly maxBatchSize?: number | undefined
  readonly shutdownMillis: number
  readonly transport: Transport.Options
  /** Told how many spans a request took. */
  readonly onSent?: ((spans: number) => Effect.Effect<void>) | undefined
}

/** A way to hand in spans, for as long as the scope lives. Spans of runs that are not sampled are left out. */
export const make = (options: Options): Effect.Effect<(span: Span) => void, never, Scope.Scope> => {
  const { encoding, resource, schemaUrl } = options
  return encoding === "json"
    ? makeWith(options, SpanEncoding.json(resource, schemaUrl))
    : makeWith(options, SpanEncoding.protobuf(resource, schemaUrl))
}

const makeWith = <A>(options: Options, { body, encode, sizeOf }: SpanEncoding.Encoding<A>): Effect.Effect<(span: Span) => void, never, Scope.Scope> =>
  Effect.gen(function*() {
    const { headers, onSent, url } = options
    const services = yield* Layer.build(Layer.merge(Transport.layerClient(options.transport), OtlpExporter.layerFlusher))
    return yield* Effect.gen(function*() {
      const { flush } = yield* OtlpExporter.Flusher
      let size = 0
      const { push } = yield* OtlpExporter.make({
        label: "hermes-effect",
        url,
        headers,
        compression: options.compression,
        exportInterval: options.exportIntervalMillis ?? 5000,
        maxBatchSize: options.maxBatchSize ?? 1000,
        shutdownTimeout: options.shutdownMillis,
        // The exporter hands in what was pushed.
        body: (spans: Array<A>) => {
          size = 0
          return [body(spans), onSent?.(spans.length) ?? Effect.void]
        }
      })
      const sending = yield* FiberSet.make<void>()
      const sendNow = yield* FiberSet.runtime(sending)<never>()
      yield* Effect.addFinalizer(() =>
        Effect.suspend(() => {
          sendNow(flush)
          return Effect.timeoutOption(FiberSet.awaitEmpty(sending), options.shutdownMillis)
        })
      )
      return (span: Span): void => {
        if (!span.sampled) return
        const encoded = encode(span)
        const more = sizeOf(encoded)
        if (size > 0 && size + more > maxRequestChars) sendNow(flush)
        size += more
        push(encoded)
      }
    }).pipe(Effect.provideContext(services))
  })
