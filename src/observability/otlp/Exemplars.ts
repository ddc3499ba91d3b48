/**
 * Exemplars of metrics: for each bucket of a histogram and each counter the last value that a span gave, with the span, so that a
 * number leads to a trace. Effect's exporter has none; they are put into what it writes.
 *
 * Source: OpenTelemetry, "Metrics SDK" (exemplars), `opentelemetry/proto/metrics/v1/metrics.proto`.
 */
import * as HttpBody from "effect/http/HttpBody"
import type { KeyValue } from "effect/observability/OtlpResource"

/** A value and the span that gave it. */
export interface Exemplar {
  readonly traceId: string
  readonly spanId: string
  /** Epoch milliseconds. */
  readonly at: number
  readonly value: number
}

/** Exemplars since the last export. */
export interface Exemplars {
  readonly note: (metric: string, labels: Readonly<Record<string, string>>, exemplar: Exemplar) => void
  /** Gives and forgets those of a data point, in the order of their buckets. */
  readonly take: (metric: string, attributes: ReadonlyArray<KeyValue>, bounds: ReadonlyArray<number>) => ReadonlyArray<Exemplar>
}

/** Values of one data point that are looked at between two exports. */
const maxValues = 64

const keyOf = (metric: string, labels: ReadonlyArray<readonly [string, unknown]>): string =>
  JSON.stringify([metric, labels.map(([name, value]) => `${name}=${String(value)}`).toSorted()])

/** An empty store. */
export const make = (): Exemplars => {
  const noted = new Map<string, Array<Exemplar>>()
  /** Keys of a metric's labels, which come again and again. */
  const keys = new WeakMap<object, { readonly metric: string; readonly key: string }>()
  const keyOfLabels = (metric: string, labels: Readonly<Record<string, string>>): string => {
    const known = keys.get(labels)
    if (known?.metric === metric) return known.key
    const key = keyOf(metric, Object.entries(labels))
    keys.set(labels, { metric, key })
    return key
  }
  return {
    note: (metric, labels, exemplar) => {
      const key = keyOfLabels(metric, labels)
      const values = noted.get(key) ?? []
      noted.set(key, values)
      if (values.push(exemplar) > maxValues) values.shift()
    },
    take: (metric, attributes, bounds) => {
      const key = keyOf(metric, attributes.map(({ key, value }) => [key, value.stringValue ?? value.intValue]))
      const last = new Map<number, Exemplar>()
      for (const exemplar of noted.get(key) ?? []) {
        const bucket = bounds.findIndex((bound) => exemplar.value <= bound)
        last.set(bucket < 0 ? bounds.length : bucket, exemplar)
      }
      noted.delete(key)
      return Array.from(last).toSorted(([a], [b]) => a - b).map(([, exemplar]) => exemplar)
    }
  }
}

const nanos = (millis: number): bigint => BigInt(Math.round(millis * 1000)) * 1000n

/** Exemplars in OTLP JSON. */
export const toJson = (exemplars: ReadonlyArray<Exemplar>) =>
  exemplars.map(({ at, spanId, traceId, value }) => ({ timeUnixNano: String(nanos(at)), asDouble: value, spanId, traceId, filteredAttributes: [] }))

const bytesOf = (hex: string): Uint8Array => Uint8Array.from(hex.match(/../gu) ?? [], (pair) => Number.parseInt(pair, 16))

const varint = (value: number): ReadonlyArray<number> => {
  const out: Array<number> = []
  let rest = value
  while (rest > 127) {
    out.push((rest % 128) + 128)
    rest = Math.floor(rest / 128)
  }
  return [...out, rest]
}

const lengthDelimited = (field: number, bytes: Uint8Array): ReadonlyArray<Uint8Array> => [Uint8Array.from([...varint(field * 8 + 2), ...varint(bytes.length)]), bytes]

const concat = (parts: ReadonlyArray<Uint8Array>): Uint8Array => {
  const out = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const part of parts) {
    out.set(part, at)
    at += part.length
  }
  return out
}

const toBytes = ({ at, spanId, traceId, value }: Exemplar): Uint8Array => {
  const fixed = new DataView(new ArrayBuffer(18))
  fixed.setUint8(0, 2 * 8 + 1)
  fixed.setBigUint64(1, nanos(at), true)
  fixed.setUint8(9, 3 * 8 + 1)
  fixed.setFloat64(10, value, true)
  return concat([new Uint8Array(fixed.buffer), ...lengthDelimited(4, bytesOf(spanId)), ...lengthDelimited(5, bytesOf(traceId))])
}

/** Exemplars of a data point, under the number of the field that has them. */
export interface Added {
  readonly field: 5 | 8
  readonly exemplars: ReadonlyArray<Exemplar>
}

/** Fields from metrics to a data point: resource, scope, metric, gauge, sum or histogram, point. */
const path: ReadonlyArray<ReadonlyArray<number>> = [[1], [2], [2], [5, 7, 9], [1]]

/** A message with what `add` gives at the end of each message that the path leads to. */
const rewritten = (bytes: Uint8Array, depth: number, add: () => Uint8Array): Uint8Array => {
  const wanted = path[depth]
  if (wanted === undefined) return concat([bytes, add()])
  const parts: Array<Uint8Array> = []
  let at = 0
  const read = (): number => {
    let [value, scale] = [0, 1]
    for (;;) {
      const byte = bytes[at++] ?? 0
      value += (byte % 128) * scale
      if (byte < 128) return value
      scale *= 128
    }
  }
  while (at < bytes.length) {
    const from = at
    const tag = read()
    const type = tag % 8
    if (type === 2) {
      const length = read()
      const inner = bytes.subarray(at, at + length)
      at += length
      const field = Math.floor(tag / 8)
      parts.push(...(wanted.includes(field) ? lengthDelimited(field, rewritten(inner, depth + 1, add)) : [bytes.subarray(from, at)]))
      continue
    }
    if (type === 0) read()
    else at += type === 1 ? 8 : 4
    parts.push(bytes.subarray(from, at))
  }
  return concat(parts)
}

/** Metrics in protobuf with exemplars, data point by data point; a body in another encoding as it is. */
export const into = (body: HttpBody.HttpBody, points: ReadonlyArray<Added>): HttpBody.HttpBody => {
  if (body._tag !== "Uint8Array" || points.every(({ exemplars }) => exemplars.length === 0)) return body
  let next = 0
  const bytes = rewritten(body.body, 0, () => {
    const { exemplars, field } = points[next++] ?? { field: 5, exemplars: [] }
    return concat(exemplars.flatMap((exemplar) => lengthDelimited(field, toBytes(exemplar))))
  })
  return HttpBody.uint8Array(bytes, body.contentType)
}
