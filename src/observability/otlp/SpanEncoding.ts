/**
 * Spans as OTLP has them, in both encodings. A span is encoded once, when it is over.
 *
 * Source: `opentelemetry/proto/trace/v1/trace.proto`.
 */
import type { Resource } from "effect/observability/OtlpResource"
import { redactText } from "../../domain/Redaction.ts"
import type { Event, Span } from "../RunSpans.ts"
import * as Protobuf from "./Protobuf.ts"
import * as SignalEncoding from "./SignalEncoding.ts"

const { attributesField, attributesText, nanos } = SignalEncoding

const kinds = { internal: 1, client: 3 } as const

/** Start and end; spans of the same millisecond are told apart by their order. */
const timesOf = ({ endedAt, order, startedAt }: Span): { readonly start: bigint; readonly end: bigint } => {
  const start = nanos(startedAt) + BigInt(order)
  const end = nanos(endedAt)
  return { start, end: end < start ? start : end }
}

const statusOf = ({ outcome }: Span): { readonly code: number; readonly message?: string } =>
  outcome._tag === "Failed" ? { code: 2, message: redactText(outcome.failure.message) } : { code: 0 }

const eventText = ({ at, attributes, name }: Event): string =>
  `{"name":${JSON.stringify(name)},"timeUnixNano":"${nanos(at)}","attributes":[${attributesText(attributes)}],"droppedAttributesCount":0}`

/** A span in the JSON form. */
const spanText = (span: Span): string => {
  const { end, start } = timesOf(span)
  const { attributes, events, kind, name, parentSpanId, spanId, traceId, traceState } = span
  return `{"traceId":"${traceId}","spanId":"${spanId}",` +
    (traceState === undefined ? "" : `"traceState":${JSON.stringify(traceState)},`) +
    (parentSpanId === undefined ? "" : `"parentSpanId":"${parentSpanId}",`) +
    `"name":${JSON.stringify(name)},"kind":${kinds[kind]},"startTimeUnixNano":"${start}","endTimeUnixNano":"${end}",` +
    `"attributes":[${attributesText(attributes)}],"droppedAttributesCount":0,"events":[${events.map(eventText).join(",")}],"droppedEventsCount":0,` +
    `"status":${JSON.stringify(statusOf(span))},"links":[],"droppedLinksCount":0}`
}

/** The JSON form of a span as a value. */
export const toJson = (span: Span): object => JSON.parse(spanText(span)) as object

const event = ({ at: when, attributes, name }: Event): void => {
  attributesField(3, attributes)
  Protobuf.delimited(2, Protobuf.text, name)
  Protobuf.time(1, nanos(when))
}

const status = ({ code, message = "" }: ReturnType<typeof statusOf>): void => {
  Protobuf.number(3, code)
  if (message !== "") Protobuf.delimited(2, Protobuf.text, message)
}

const spanMessage = (span: Span): void => {
  const { end, start } = timesOf(span)
  Protobuf.delimited(15, status, statusOf(span))
  for (const one of span.events.toReversed()) Protobuf.delimited(11, event, one)
  attributesField(9, span.attributes)
  Protobuf.time(8, end)
  Protobuf.time(7, start)
  Protobuf.number(6, kinds[span.kind])
  Protobuf.delimited(5, Protobuf.text, span.name)
  if (span.parentSpanId !== undefined) Protobuf.delimited(4, Protobuf.bytesOfHex, span.parentSpanId)
  if (span.traceState !== undefined && span.traceState !== "") Protobuf.delimited(3, Protobuf.text, span.traceState)
  Protobuf.delimited(2, Protobuf.bytesOfHex, span.spanId)
  Protobuf.delimited(1, Protobuf.bytesOfHex, span.traceId)
}

const form: SignalEncoding.Form<Span> = { names: ["resourceSpans", "scopeSpans", "spans"], text: spanText, write: spanMessage }

/** Spans as JSON. */
export const json = (resource: Resource, schemaUrl: string | undefined) => SignalEncoding.json(form, resource, schemaUrl)

/** Spans as protobuf. */
export const protobuf = (resource: Resource, schemaUrl: string | undefined) => SignalEncoding.protobuf(form, resource, schemaUrl)
