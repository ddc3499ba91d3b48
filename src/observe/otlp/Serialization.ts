/**
 * Encodes spans of Effect's tracer as protobuf. The bytes are identical to the output of Effect's own serialization,
 * but each request is written into one buffer. Effect's serialization is still used for metrics and log records,
 * because there are only a few.
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

const { writeDelimited, writeText } = Protobuf

/** Writes a field for each item, in reverse order. */
const writeRepeated = <A>(field: number, items: ReadonlyArray<A>, write: (item: A) => void): void => {
  for (let index = items.length - 1; index >= 0; index--) {
    const item = items[index]
    if (item !== undefined) writeDelimited(field, write, item)
  }
}

const writeOptionalText = (field: number, value: string | undefined): void => {
  if (value !== undefined && value !== "") writeDelimited(field, writeText, value)
}

const writeCount = (field: number, value: number): void => {
  if (value > 0) Protobuf.writeNumber(field, value)
}

const writeInteger = (value: string | number): void => {
  const known = Number(value)
  if (Number.isSafeInteger(known)) Protobuf.writeNumber(3, known)
  else Protobuf.writeBigNumber(3, BigInt(value))
}

const writeAnyValue = (value: AnyValue): void => {
  const { arrayValue, boolValue, bytesValue, doubleValue, intValue, kvlistValue, stringValue } = value
  if (stringValue !== undefined && stringValue !== null) writeDelimited(1, writeText, stringValue)
  else if (boolValue !== undefined && boolValue !== null) Protobuf.writeNumber(2, boolValue ? 1 : 0)
  else if (intValue !== undefined && intValue !== null) writeInteger(intValue)
  else if (doubleValue !== undefined && doubleValue !== null) Protobuf.writeDouble(4, doubleValue)
  else if (arrayValue !== undefined)
    writeDelimited(5, (values) => writeRepeated(1, values, writeAnyValue), arrayValue.values)
  else if (kvlistValue !== undefined)
    writeDelimited(6, (values) => writeRepeated(1, values, writeKeyValue), kvlistValue.values)
  else if (bytesValue !== undefined) writeDelimited(7, Protobuf.writeBytes, bytesValue)
}

const writeKeyValue = ({ key, value }: KeyValue): void => {
  writeDelimited(2, writeAnyValue, value)
  writeDelimited(1, writeText, key)
}

const writeEvent = ({ attributes, droppedAttributesCount, name, timeUnixNano }: OtlpSpan["events"][number]): void => {
  writeCount(4, droppedAttributesCount)
  writeRepeated(3, attributes, writeKeyValue)
  writeDelimited(2, writeText, name)
  Protobuf.writeTime(1, BigInt(timeUnixNano))
}

const writeLink = ({ attributes, droppedAttributesCount, spanId, traceId }: OtlpSpan["links"][number]): void => {
  writeCount(5, droppedAttributesCount)
  writeRepeated(4, attributes, writeKeyValue)
  writeDelimited(2, Protobuf.writeHexBytes, spanId)
  writeDelimited(1, Protobuf.writeHexBytes, traceId)
}

const writeStatus = ({ code, message }: OtlpSpan["status"]): void => {
  Protobuf.writeNumber(3, code)
  writeOptionalText(2, message)
}

const writeSpan = (one: OtlpSpan): void => {
  writeDelimited(15, writeStatus, one.status)
  writeCount(14, one.droppedLinksCount)
  writeRepeated(13, one.links, writeLink)
  writeCount(12, one.droppedEventsCount)
  writeRepeated(11, one.events, writeEvent)
  writeCount(10, one.droppedAttributesCount)
  writeRepeated(9, one.attributes, writeKeyValue)
  Protobuf.writeTime(8, BigInt(one.endTimeUnixNano))
  Protobuf.writeTime(7, BigInt(one.startTimeUnixNano))
  Protobuf.writeNumber(6, one.kind)
  writeDelimited(5, writeText, one.name)
  if (one.parentSpanId !== undefined) writeDelimited(4, Protobuf.writeHexBytes, one.parentSpanId)
  writeDelimited(2, Protobuf.writeHexBytes, one.spanId)
  writeDelimited(1, Protobuf.writeHexBytes, one.traceId)
}

const writeScope = ({ name, version }: ScopeSpan["scope"]): void => {
  writeOptionalText(2, version)
  writeDelimited(1, writeText, name)
}

const writeScopeSpans = ({ schemaUrl, scope, spans }: ScopeSpan): void => {
  writeOptionalText(3, schemaUrl)
  writeRepeated(2, spans, writeSpan)
  writeDelimited(1, writeScope, scope)
}

const writeResource = ({ attributes, droppedAttributesCount }: ResourceSpan["resource"]): void => {
  writeCount(2, droppedAttributesCount)
  writeRepeated(1, attributes, writeKeyValue)
}

const writeResourceSpans = ({ resource, schemaUrl, scopeSpans: scopes }: ResourceSpan): void => {
  writeOptionalText(3, schemaUrl)
  writeRepeated(2, scopes, writeScopeSpans)
  writeDelimited(1, writeResource, resource)
}

/** Encodes a request with spans. */
export const encodeTraces = (data: TraceData): Uint8Array<ArrayBuffer> =>
  Protobuf.collectBytes(() => writeRepeated(1, data.resourceSpans, writeResourceSpans))

/** Serialization service for Effect's exporters. */
export const layer: Layer.Layer<OtlpSerialization> = Layer.effect(
  OtlpSerialization,
  Effect.map(OtlpSerialization, (effects) => ({
    ...effects,
    traces: (data) => HttpBody.uint8Array(encodeTraces(data), "application/x-protobuf")
  }))
).pipe(Layer.provide(layerProtobuf))
