/**
 * Spans as OTLP has them, in both encodings. A span is encoded once, when it is over; a request puts encoded spans together.
 *
 * **Details**
 *
 * Protobuf is written from its end to its beginning: the length of a message, which stands before it, is known then, and no text is
 * copied from one message into the next.
 *
 * Source: OpenTelemetry Protocol, "OTLP/HTTP", `opentelemetry/proto/trace/v1/trace.proto`.
 */
import * as HttpBody from "effect/http/HttpBody"
import type { Resource } from "effect/observability/OtlpResource"
import { redactText } from "../../domain/Redaction.ts"
import { type Event, scope, type Span, type Value } from "../RunSpans.ts"

/** Encoding of the spans of one resource. */
export interface Encoding<A> {
  readonly encode: (span: Span) => A
  /** Characters or bytes of an encoded span. */
  readonly sizeOf: (encoded: A) => number
  readonly body: (spans: ReadonlyArray<A>) => HttpBody.HttpBody
}

const kinds = { internal: 1, client: 3 } as const

const nanos = (millis: number): bigint => BigInt(Math.round(millis * 1000)) * 1000n

/** Start and end; spans of the same millisecond are told apart by their order. */
const timesOf = ({ endedAt, order, startedAt }: Span): { readonly start: bigint; readonly end: bigint } => {
  const start = nanos(startedAt) + BigInt(order)
  const end = nanos(endedAt)
  return { start, end: end < start ? start : end }
}

const statusOf = ({ outcome }: Span): { readonly code: number; readonly message?: string } =>
  outcome._tag === "Failed" ? { code: 2, message: redactText(outcome.failure.message) } : { code: 0 }

/** Bound of the integers of OTLP. */
const int64Bound = 2 ** 63

const isInteger = (value: number): boolean => Number.isInteger(value) && value >= -int64Bound && value < int64Bound

/** Makes a function of attribute names that keeps its results; the conventions have few names. */
const ofName = <A>(make: (name: string) => A): (name: string) => A => {
  const known = new Map<string, A>()
  return (name) => {
    const before = known.get(name)
    if (before !== undefined) return before
    if (known.size >= maxNames) known.clear()
    const made = make(name)
    known.set(name, made)
    return made
  }
}

const maxNames = 1024

const valueText = (value: Value): string => {
  switch (typeof value) {
    case "string":
      return `{"stringValue":${JSON.stringify(value)}}`
    case "boolean":
      return `{"boolValue":${value}}`
    case "number":
      if (isInteger(value)) return `{"intValue":${Number.isSafeInteger(value) ? JSON.stringify(value) : `"${BigInt(value)}"`}}`
      // JSON has no number for NaN and the infinities.
      return `{"doubleValue":${Number.isFinite(value) ? JSON.stringify(value) : `"${value}"`}}`
    default:
      return `{"arrayValue":{"values":[${value.map(valueText).join(",")}]}}`
  }
}

const keyText = ofName((name) => `{"key":${JSON.stringify(name)},"value":`)

const attributesText = (attributes: Span["attributes"]): string => {
  let out = ""
  for (const name of Object.keys(attributes)) {
    const value = attributes[name]
    if (value !== undefined) out += `${out === "" ? "" : ","}${keyText(name)}${valueText(value)}}`
  }
  return out
}

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

/** Spans as JSON. */
export const json = (resource: Resource, schemaUrl: string | undefined): Encoding<string> => {
  const schema = schemaUrl === undefined ? {} : { schemaUrl }
  const head = JSON.stringify({ resourceSpans: [{ resource, ...schema, scopeSpans: [{ scope, ...schema, spans: [] }] }] })
  const end = "]}]}]}"
  return {
    encode: spanText,
    sizeOf: ({ length }) => length,
    body: (spans) => HttpBody.text(head.slice(0, -end.length) + spans.join(",") + end, "application/json")
  }
}

const encoder = new TextEncoder()

/** Buffer that is filled from its end on; `at` is the first byte that is written. */
let buffer = new Uint8Array(65_536)
let at = buffer.length

/** Makes room for so many bytes before what is written. */
const claim = (count: number): void => {
  if (count > at) {
    const larger = new Uint8Array(Math.max(buffer.length * 2, buffer.length + count))
    larger.set(buffer.subarray(at), larger.length - buffer.length + at)
    at += larger.length - buffer.length
    buffer = larger
  }
  at -= count
}

const bytes = (given: Uint8Array): void => {
  claim(given.length)
  buffer.set(given, at)
}

/** An integer; a negative one has ten bytes. */
const varint = (value: number): void => {
  if (value < 0 || !Number.isSafeInteger(value)) return bigVarint(BigInt.asUintN(64, BigInt(value)))
  let length = 1
  for (let rest = value; rest > 127; rest = Math.floor(rest / 128)) length++
  claim(length)
  let rest = value
  for (let index = 0; index < length; index++) {
    buffer[at + index] = (rest % 128) + (index < length - 1 ? 128 : 0)
    rest = Math.floor(rest / 128)
  }
}

const bigVarint = (value: bigint): void => {
  const out: Array<number> = []
  for (let rest = value; rest > 0n; rest >>= 7n) out.push(Number(rest & 127n) + (rest > 127n ? 128 : 0))
  bytes(Uint8Array.from(out))
}

const wire = { varint: 0, fixed64: 1, delimited: 2 } as const

const tag = (field: number, type: number): void => varint(field * 8 + type)

/** A field of what `write` writes. */
const delimited = <A>(field: number, write: (value: A) => void, value: A): void => {
  const end = buffer.length - at
  write(value)
  varint(buffer.length - at - end)
  tag(field, wire.delimited)
}

/** Longest text that is written character by character: a call of the encoder costs more. */
const shortText = 48

/** Writes a short text of ASCII; false, with nothing written, of every other one. */
const ascii = (value: string): boolean => {
  const { length } = value
  for (let index = 0; index < length; index++) if (value.charCodeAt(index) > 127) return false
  claim(length)
  for (let index = 0; index < length; index++) buffer[at + index] = value.charCodeAt(index)
  return true
}

/** Writes where the longest encoding would begin, and moves it to its end. */
const text = (value: string): void => {
  if (value.length <= shortText && ascii(value)) return
  const room = value.length * 3
  claim(room)
  const { written } = encoder.encodeInto(value, buffer.subarray(at, at + room))
  buffer.copyWithin(at + room - written, at, at + written)
  at += room - written
}

const bytesOfHex = (hex: string): void => {
  claim(hex.length / 2)
  for (let index = 0; index < hex.length; index += 2) buffer[at + index / 2] = Number.parseInt(hex.slice(index, index + 2), 16)
}

const number = (field: number, value: number): void => {
  varint(value)
  tag(field, wire.varint)
}

const fixed = (field: number, set: (view: DataView) => void): void => {
  claim(8)
  set(new DataView(buffer.buffer, at, 8))
  tag(field, wire.fixed64)
}

const time = (field: number, value: bigint): void => fixed(field, (view) => view.setBigUint64(0, value, true))

const anyValue = (value: Value): void => {
  switch (typeof value) {
    case "string":
      return delimited(1, text, value)
    case "boolean":
      return number(2, value ? 1 : 0)
    case "number":
      return isInteger(value) ? number(3, value) : fixed(4, (view) => view.setFloat64(0, value, true))
    default:
      return delimited(5, values, value)
  }
}

const values = (list: ReadonlyArray<string>): void => {
  for (const value of list.toReversed()) delimited(1, anyValue, value)
}

/** Field of an attribute's name. */
const keyField = ofName((key) => {
  const name = encoder.encode(key)
  const length: Array<number> = []
  let rest = name.length
  for (; rest > 127; rest = Math.floor(rest / 128)) length.push((rest % 128) + 128)
  return Uint8Array.from([8 + wire.delimited, ...length, rest, ...name])
})

const attribute = (key: string, value: Value): void => {
  delimited(2, anyValue, value)
  bytes(keyField(key))
}

const attributesField = (field: number, attributes: Span["attributes"]): void => {
  const names = Object.keys(attributes)
  for (let index = names.length - 1; index >= 0; index--) {
    const name = names[index] ?? ""
    const value = attributes[name]
    if (value === undefined) continue
    const end = buffer.length - at
    attribute(name, value)
    varint(buffer.length - at - end)
    tag(field, wire.delimited)
  }
}

const event = ({ at: when, attributes, name }: Event): void => {
  attributesField(3, attributes)
  delimited(2, text, name)
  time(1, nanos(when))
}

const status = ({ code, message = "" }: ReturnType<typeof statusOf>): void => {
  number(3, code)
  if (message !== "") delimited(2, text, message)
}

const spanMessage = (span: Span): void => {
  const { end, start } = timesOf(span)
  delimited(15, status, statusOf(span))
  for (const one of span.events.toReversed()) delimited(11, event, one)
  attributesField(9, span.attributes)
  time(8, end)
  time(7, start)
  number(6, kinds[span.kind])
  delimited(5, text, span.name)
  if (span.parentSpanId !== undefined) delimited(4, bytesOfHex, span.parentSpanId)
  if (span.traceState !== undefined && span.traceState !== "") delimited(3, text, span.traceState)
  delimited(2, bytesOfHex, span.spanId)
  delimited(1, bytesOfHex, span.traceId)
}

/** The largest buffer that is kept for the next span. */
const maxKept = 1_048_576

/** Bytes of what `write` writes. */
const written = (write: () => void): Uint8Array<ArrayBuffer> => {
  at = buffer.length
  write()
  const out = buffer.slice(at)
  if (buffer.length > maxKept) buffer = new Uint8Array(65_536)
  return out
}

/** Spans as protobuf; an encoded one is a field of its list. */
export const protobuf = (resource: Resource, schemaUrl: string | undefined): Encoding<Uint8Array> => {
  const schema = (): void => {
    if (schemaUrl !== undefined) delimited(3, text, schemaUrl)
  }
  const ofResource = (): void => {
    attributesField(1, Object.fromEntries(resource.attributes.map(({ key, value }) =>
      [key, value.stringValue ?? value.boolValue ?? Number(value.intValue ?? value.doubleValue)] as const)))
  }
  const ofScope = (): void => {
    delimited(2, text, scope.version)
    delimited(1, text, scope.name)
  }
  return {
    encode: (span) => written(() => delimited(2, spanMessage, span)),
    sizeOf: ({ length }) => length,
    body: (spans) => {
      const scopeSpans = (): void => {
        schema()
        for (const one of spans.toReversed()) bytes(one)
        delimited(1, ofScope, undefined)
      }
      const resourceSpans = (): void => {
        schema()
        delimited(2, scopeSpans, undefined)
        delimited(1, ofResource, undefined)
      }
      return HttpBody.uint8Array(written(() => delimited(1, resourceSpans, undefined)), "application/x-protobuf")
    }
  }
}
