/**
 * Metrics in OTLP form, in both encodings.
 *
 * Source: `opentelemetry/proto/metrics/v1/metrics.proto`.
 */
import type { Resource } from "effect/observability/OtlpResource"
import type { Attributes, Value } from "../RunSpans.ts"
import type { Exemplar, Labels, Metric, Point, Snapshot } from "./MetricPoints.ts"
import * as Protobuf from "./Protobuf.ts"
import * as SignalEncoding from "./SignalEncoding.ts"

const { writeAttributes, encodeAttributes, toNanos } = SignalEncoding

/** A metric with its temporality and time range. */
interface TimedMetric extends Metric, Pick<Snapshot, "from" | "temporality" | "to"> {}

const temporalities = { delta: 1, cumulative: 2 } as const

/** Converts labels to sorted attributes. A port becomes a number. */
const toAttributes = (labels: Labels): Attributes => {
  const out: Record<string, Value> = {}
  for (const name of Object.keys(labels).toSorted()) {
    const value = labels[name] ?? ""
    out[name] = name === "server.port" ? Number(value) : value
  }
  return out
}

/** Encodes a number as JSON. NaN and infinities are encoded as strings. */
const encodeDouble = (value: number): string => (Number.isFinite(value) ? JSON.stringify(value) : `"${value}"`)

const encodeExemplar = ({ at, spanId, traceId, value }: Exemplar): string =>
  `{"timeUnixNano":"${toNanos(at)}","asDouble":${encodeDouble(value)},` +
  `"spanId":"${spanId}","traceId":"${traceId}","filteredAttributes":[]}`

const encodePoint = (
  { instrument: { boundaries }, from, to }: TimedMetric,
  { buckets, count, exemplars, labels, range, sum }: Point
): string =>
  `{"attributes":[${encodeAttributes(toAttributes(labels))}],"startTimeUnixNano":"${toNanos(from)}",` +
  `"timeUnixNano":"${toNanos(to)}",` +
  (boundaries === undefined
    ? `"asDouble":${encodeDouble(sum)}`
    : `"count":${count},"sum":${encodeDouble(sum)},${range === undefined ? "" : `"min":${encodeDouble(range.min)},"max":${encodeDouble(range.max)},`}` +
      `"bucketCounts":[${buckets.join(",")}],"explicitBounds":[${boundaries.map(encodeDouble).join(",")}]`) +
  `${exemplars.length === 0 ? "" : `,"exemplars":[${exemplars.map(encodeExemplar).join(",")}]`}}`

const encodeMetric = (metric: TimedMetric): string => {
  const {
    instrument: { boundaries, description, name, unit },
    points,
    temporality
  } = metric
  const data =
    `{"aggregationTemporality":${temporalities[temporality]},` +
    `${boundaries === undefined ? '"isMonotonic":true,' : ""}` +
    `"dataPoints":[${points.map((point) => encodePoint(metric, point)).join(",")}]}`
  return `{"name":${JSON.stringify(name)},"description":${JSON.stringify(description)},"unit":${JSON.stringify(unit)},"${boundaries === undefined ? "sum" : "histogram"}":${data}}`
}

const writeExemplar = ({ at, spanId, traceId, value }: Exemplar): void => {
  Protobuf.writeDelimited(5, Protobuf.writeHexBytes, traceId)
  Protobuf.writeDelimited(4, Protobuf.writeHexBytes, spanId)
  Protobuf.writeDouble(3, value)
  Protobuf.writeTime(2, toNanos(at))
}

const writeExemplars = (field: number, exemplars: ReadonlyArray<Exemplar>): void => {
  for (const exemplar of exemplars.toReversed()) Protobuf.writeDelimited(field, writeExemplar, exemplar)
}

const writeNumberPoint = ({ from, to }: TimedMetric, { exemplars, labels, sum }: Point): void => {
  writeAttributes(7, toAttributes(labels))
  writeExemplars(5, exemplars)
  Protobuf.writeDouble(4, sum)
  Protobuf.writeTime(3, toNanos(to))
  Protobuf.writeTime(2, toNanos(from))
}

const writeHistogramPoint = (
  { from, instrument: { boundaries = [] }, to }: TimedMetric,
  { buckets, count, exemplars, labels, range, sum }: Point
): void => {
  if (range !== undefined) {
    Protobuf.writeDouble(12, range.max)
    Protobuf.writeDouble(11, range.min)
  }
  writeAttributes(9, toAttributes(labels))
  writeExemplars(8, exemplars)
  for (const bound of boundaries.toReversed()) Protobuf.writeDouble(7, bound)
  for (const one of buckets.toReversed()) Protobuf.writeTime(6, BigInt(one))
  Protobuf.writeDouble(5, sum)
  Protobuf.writeTime(4, BigInt(count))
  Protobuf.writeTime(3, toNanos(to))
  Protobuf.writeTime(2, toNanos(from))
}

const writeMetric = (metric: TimedMetric): void => {
  const {
    instrument: { boundaries, description, name, unit },
    points,
    temporality
  } = metric
  Protobuf.writeMessage(boundaries === undefined ? 7 : 9, () => {
    if (boundaries === undefined) Protobuf.writeNumber(3, 1)
    Protobuf.writeNumber(2, temporalities[temporality])
    const pointMessage = boundaries === undefined ? writeNumberPoint : writeHistogramPoint
    for (const point of points.toReversed()) Protobuf.writeMessage(1, () => pointMessage(metric, point))
  })
  Protobuf.writeDelimited(3, Protobuf.writeText, unit)
  Protobuf.writeDelimited(2, Protobuf.writeText, description)
  Protobuf.writeDelimited(1, Protobuf.writeText, name)
}

const form: SignalEncoding.Form<TimedMetric> = {
  names: ["resourceMetrics", "scopeMetrics", "metrics"],
  text: encodeMetric,
  write: writeMetric
}

/** Creates a function that encodes snapshots. */
export const make = (
  encoding: "json" | "protobuf",
  resource: Resource,
  schemaUrl?: string
): ((snapshot: Snapshot) => SignalEncoding.Body) => {
  const items =
    encoding === "json"
      ? SignalEncoding.makeJsonEncoding(form, resource, schemaUrl)
      : SignalEncoding.makeProtobufEncoding(form, resource, schemaUrl)
  return ({ metrics, ...time }) =>
    SignalEncoding.encodeBody(
      items,
      metrics.map((metric) => ({ ...metric, ...time }))
    )
}
