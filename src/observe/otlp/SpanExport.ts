/**
 * Export of spans of runs over OTLP, with the ids and times of the record, and with a separate scope and schema. Spans
 * of runs that are not sampled are left out.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { Resource } from "effect/observability/OtlpResource"
import type { Span } from "../RunSpans.ts"
import * as ExportQueue from "./ExportQueue.ts"
import * as SpanEncoding from "./SpanEncoding.ts"
import * as Transport from "./Transport.ts"

/** Collector, resource, batch size and interval of the export. */
export interface Options extends Transport.Target {
  readonly encoding: "json" | "protobuf"
  readonly resource: Resource
  readonly schemaUrl?: string | undefined
  readonly exportIntervalMillis?: number | undefined
  readonly maxBatchSize?: number | undefined
  readonly shutdownMillis: number
  readonly transport: Transport.Options
  /** Called after the collector has accepted a request, with the number of spans in it. */
  readonly onSent?: ((spans: number) => Effect.Effect<void>) | undefined
}

/** Returns a function that accepts spans until the scope closes. */
export const make = (options: Options): Effect.Effect<(span: Span) => void, never, Scope.Scope> =>
  Effect.gen(function* () {
    const { encoding, exportIntervalMillis = 5000, maxBatchSize = 1000, resource, schemaUrl } = options
    const client = yield* Transport.makeClient(options.transport)
    const pace = { ...options, intervalMillis: exportIntervalMillis, maxBatchSize }
    const items =
      encoding === "json"
        ? SpanEncoding.createJsonEncoding(resource, schemaUrl)
        : SpanEncoding.createProtobufEncoding(resource, schemaUrl)
    const push = yield* ExportQueue.make(pace, items, client)
    return (span) => {
      if (span.sampled) push(span)
    }
  })
