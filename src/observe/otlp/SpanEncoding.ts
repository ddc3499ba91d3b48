/**
 * Spans in OTLP form, in both encodings. A span is encoded once, when it ends.
 *
 * Source: `opentelemetry/proto/trace/v1/trace.proto`.
 */
import type { Resource } from "effect/observability/OtlpResource"
import { redactText } from "../../base/domain/Redaction.ts"
import type { Event, Span } from "../RunSpans.ts"
import * as Protobuf from "./Protobuf.ts"
import * as SignalEncoding from "./SignalEncoding.ts"

const { writeAttributes, encodeAttributes, toNanos } = SignalEncoding

const kinds = { internal: 1, client: 3 } as const

/**
 * Returns the start and end of a span in nanoseconds. Spans that begin in the same millisecond are distinguished by
 * their order.
 */
const computeTimes = ({ endedAt, order, startedAt }: Span): { readonly start: bigint; readonly end: bigint } => {
  const start = toNanos(startedAt) + BigInt(order)
  const end = toNanos(endedAt)
  return { start, end: end < start ? start : end }
}

const toStatus = ({ outcome }: Span): { readonly code: number; readonly message?: string } =>
  outcome._tag === "Failed" ? { code: 2, message: redactText(outcome.failure.message) } : { code: 0 }

const encodeEvent = ({ at, attributes, name }: Event): string =>
  `{"name":${JSON.stringify(name)},"timeUnixNano":"${toNanos(at)}",` +
  `"attributes":[${encodeAttributes(attributes)}],"droppedAttributesCount":0}`

/** Encodes a span as JSON. */
const encodeSpan = (span: Span): string => {
  const { end, start } = computeTimes(span)
  const { attributes, events, kind, name, parentSpanId, spanId, traceId, traceState } = span
  return (
    `{"traceId":"${traceId}","spanId":"${spanId}",` +
    (traceState === undefined ? "" : `"traceState":${JSON.stringify(traceState)},`) +
    (parentSpanId === undefined ? "" : `"parentSpanId":"${parentSpanId}",`) +
    `"name":${JSON.stringify(name)},"kind":${kinds[kind]},"startTimeUnixNano":"${start}","endTimeUnixNano":"${end}",` +
    `"attributes":[${encodeAttributes(attributes)}],"droppedAttributesCount":0,` +
    `"events":[${events.map(encodeEvent).join(",")}],"droppedEventsCount":0,` +
    `"status":${JSON.stringify(toStatus(span))},"links":[],"droppedLinksCount":0}`
  )
}

/** Returns the JSON form of a span as an object. */
export const toJson = (span: Span): object => JSON.parse(encodeSpan(span)) as object

const writeEvent = ({ at: when, attributes, name }: Event): void => {
  writeAttributes(3, attributes)
  Protobuf.writeDelimited(2, Protobuf.writeText, name)
  Protobuf.writeTime(1, toNanos(when))
}

const writeStatus = ({ code, message = "" }: ReturnType<typeof toStatus>): void => {
  Protobuf.writeNumber(3, code)
  if (message !== "") Protobuf.writeDelimited(2, Protobuf.writeText, message)
}

const writeSpan = (span: Span): void => {
  const { end, start } = computeTimes(span)
  Protobuf.writeDelimited(15, writeStatus, toStatus(span))
  for (const one of span.events.toReversed()) Protobuf.writeDelimited(11, writeEvent, one)
  writeAttributes(9, span.attributes)
  Protobuf.writeTime(8, end)
  Protobuf.writeTime(7, start)
  Protobuf.writeNumber(6, kinds[span.kind])
  Protobuf.writeDelimited(5, Protobuf.writeText, span.name)
  if (span.parentSpanId !== undefined) Protobuf.writeDelimited(4, Protobuf.writeHexBytes, span.parentSpanId)
  if (span.traceState !== undefined && span.traceState !== "")
    Protobuf.writeDelimited(3, Protobuf.writeText, span.traceState)
  Protobuf.writeDelimited(2, Protobuf.writeHexBytes, span.spanId)
  Protobuf.writeDelimited(1, Protobuf.writeHexBytes, span.traceId)
}

const form: SignalEncoding.Form<Span> = {
  names: ["resourceSpans", "scopeSpans", "spans"],
  text: encodeSpan,
  write: writeSpan
}

/** Creates the JSON encoding of spans. */
export const createJsonEncoding = (resource: Resource, schemaUrl: string | undefined) =>
  SignalEncoding.makeJsonEncoding(form, resource, schemaUrl)

/** Creates the protobuf encoding of spans. */
export const createProtobufEncoding = (resource: Resource, schemaUrl: string | undefined) =>
  SignalEncoding.makeProtobufEncoding(form, resource, schemaUrl)
