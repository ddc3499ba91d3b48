/**
 * Spans of Effect's tracer as protobuf, byte for byte what Effect's own serialisation makes of them: each request
 * is written into one buffer. Metrics and log records, of which there are few, are written by Effect's.
 *
 * Source: `opentelemetry/proto/trace/v1/trace.proto`.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as HttpBody from "effect/http/HttpBody"
import type { AnyValue, KeyValue } from "effect/observability/OtlpResource"
import { layerProtobuf, OtlpSerialization } from "effect/observability/OtlpSerialization"
import type { ResourceSpan, ScopeSpan, TraceData } from "effect/observability/OtlpTracer"
import * as Protobuf from "./Protobuf.ts"

type OtlpSpan = ScopeSpan["spans"][number]

const { delimited, text } = Protobuf

/** Writes a field for each item; fields are written from the last on. */
const repeated = <A>(field: number, items: ReadonlyArray<A>, write: (item: A) => void): void => {
  for (let index = items.length - 1; index >= 0; index--) {
    const item = items[index]
    if (item !== undefined) delimited(field, write, item)
  }
}

const present = (field: number, value: string | undefined): void => {
  if (value !== undefined && value !== "") delimited(field, text, value)
}

const counted = (field: number, value: number): void => {
  if (value > 0) Protobuf.number(field, value)
}

const integer = (value: string | number): void => {
  const known = Number(value)
  if (Number.isSafeInteger(known)) Protobuf.number(3, known)
  else Protobuf.bigNumber(3, BigInt(value))
}

const anyValue = (value: AnyValue): void => {
  const { arrayValue, boolValue, bytesValue, doubleValue, intValue, kvlistValue, stringValue } = value
  if (stringValue !== undefined && stringValue !== null) delimited(1, text, stringValue)
  else if (boolValue !== undefined && boolValue !== null) Protobuf.number(2, boolValue ? 1 : 0)
  else if (intValue !== undefined && intValue !== null) integer(intValue)
  else if (doubleValue !== undefined && doubleValue !== null) Protobuf.double(4, doubleValue)
  else if (arrayValue !== undefined) delimited(5, (values) => repeated(1, values, anyValue), arrayValue.values)
  else if (kvlistValue !== undefined) delimited(6, (values) => repeated(1, values, keyValue), kvlistValue.values)
  else if (bytesValue !== undefined) delimited(7, Protobuf.bytes, bytesValue)
}

const keyValue = ({ key, value }: KeyValue): void => {
  delimited(2, anyValue, value)
  delimited(1, text, key)
}

const event = ({ attributes, droppedAttributesCount, name, timeUnixNano }: OtlpSpan["events"][number]): void => {
  counted(4, droppedAttributesCount)
  repeated(3, attributes, keyValue)
  delimited(2, text, name)
  Protobuf.time(1, BigInt(timeUnixNano))
}

const link = ({ attributes, droppedAttributesCount, spanId, traceId }: OtlpSpan["links"][number]): void => {
  counted(5, droppedAttributesCount)
  repeated(4, attributes, keyValue)
  delimited(2, Protobuf.bytesOfHex, spanId)
  delimited(1, Protobuf.bytesOfHex, traceId)
}

const status = ({ code, message }: OtlpSpan["status"]): void => {
  Protobuf.number(3, code)
  present(2, message)
}

const span = (one: OtlpSpan): void => {
  delimited(15, status, one.status)
  counted(14, one.droppedLinksCount)
  repeated(13, one.links, link)
  counted(12, one.droppedEventsCount)
  repeated(11, one.events, event)
  counted(10, one.droppedAttributesCount)
  repeated(9, one.attributes, keyValue)
  Protobuf.time(8, BigInt(one.endTimeUnixNano))
  Protobuf.time(7, BigInt(one.startTimeUnixNano))
  Protobuf.number(6, one.kind)
  delimited(5, text, one.name)
  if (one.parentSpanId !== undefined) delimited(4, Protobuf.bytesOfHex, one.parentSpanId)
  delimited(2, Protobuf.bytesOfHex, one.spanId)
  delimited(1, Protobuf.bytesOfHex, one.traceId)
}

const scopeOf = ({ name, version }: ScopeSpan["scope"]): void => {
  present(2, version)
  delimited(1, text, name)
}

const scopeSpans = ({ schemaUrl, scope, spans }: ScopeSpan): void => {
  present(3, schemaUrl)
  repeated(2, spans, span)
  delimited(1, scopeOf, scope)
}

const resourceOf = ({ attributes, droppedAttributesCount }: ResourceSpan["resource"]): void => {
  counted(2, droppedAttributesCount)
  repeated(1, attributes, keyValue)
}

const resourceSpans = ({ resource, schemaUrl, scopeSpans: scopes }: ResourceSpan): void => {
  present(3, schemaUrl)
  repeated(2, scopes, scopeSpans)
  delimited(1, resourceOf, resource)
}

/** Bytes of a request of spans. */
export const encodeTraces = (data: TraceData): Uint8Array<ArrayBuffer> => Protobuf.written(() => repeated(1, data.resourceSpans, resourceSpans))

/** The serialisation as Effect's exporters take it. */
export const layer: Layer.Layer<OtlpSerialization> = Layer.effect(
  OtlpSerialization,
  Effect.map(OtlpSerialization, (effects) => ({
    ...effects,
    traces: (data) => HttpBody.uint8Array(encodeTraces(data), "application/x-protobuf")
  }))
).pipe(Layer.provide(layerProtobuf))
