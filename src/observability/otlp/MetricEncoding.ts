/**
 * Metrics as OTLP has them, in both encodings.
 *
 * Source: `opentelemetry/proto/metrics/v1/metrics.proto`.
 */
import type { Resource } from "effect/observability/OtlpResource"
import type { Attributes, Value } from "../RunSpans.ts"
import type { Exemplar, Labels, Metric, Point, Snapshot } from "./MetricPoints.ts"
import * as Protobuf from "./Protobuf.ts"
import * as SignalEncoding from "./SignalEncoding.ts"

const { attributesField, attributesText, nanos } = SignalEncoding

/** A metric with the time that it is of. */
interface Timed extends Metric, Pick<Snapshot, "from" | "temporality" | "to"> {}

const temporalities = { delta: 1, cumulative: 2 } as const

/** Labels as attributes, sorted; a port is a number. */
const attributesOf = (labels: Labels): Attributes => {
  const out: Record<string, Value> = {}
  for (const name of Object.keys(labels).toSorted()) {
    const value = labels[name] ?? ""
    out[name] = name === "server.port" ? Number(value) : value
  }
  return out
}

/** A number of JSON, which has none for NaN and the infinities. */
const double = (value: number): string => Number.isFinite(value) ? JSON.stringify(value) : `"${value}"`

const exemplarText = ({ at, spanId, traceId, value }: Exemplar): string =>
  `{"timeUnixNano":"${nanos(at)}","asDouble":${double(value)},"spanId":"${spanId}","traceId":"${traceId}","filteredAttributes":[]}`

const pointText = ({ instrument: { boundaries }, from, to }: Timed, { buckets, count, exemplars, labels, range, sum }: Point): string =>
  `{"attributes":[${attributesText(attributesOf(labels))}],"startTimeUnixNano":"${nanos(from)}","timeUnixNano":"${nanos(to)}",` +
  (boundaries === undefined
    ? `"asDouble":${double(sum)}`
    : `"count":${count},"sum":${double(sum)},${range === undefined ? "" : `"min":${double(range.min)},"max":${double(range.max)},`}` +
      `"bucketCounts":[${buckets.join(",")}],"explicitBounds":[${boundaries.map(double).join(",")}]`) +
  `${exemplars.length === 0 ? "" : `,"exemplars":[${exemplars.map(exemplarText).join(",")}]`}}`

const metricText = (metric: Timed): string => {
  const { instrument: { boundaries, description, name, unit }, points, temporality } = metric
  const data = `{"aggregationTemporality":${temporalities[temporality]},` +
    `${boundaries === undefined ? "\"isMonotonic\":true," : ""}"dataPoints":[${points.map((point) => pointText(metric, point)).join(",")}]}`
  return `{"name":${JSON.stringify(name)},"description":${JSON.stringify(description)},"unit":${JSON.stringify(unit)},"${boundaries === undefined ? "sum" : "histogram"}":${data}}`
}

const exemplarMessage = ({ at, spanId, traceId, value }: Exemplar): void => {
  Protobuf.delimited(5, Protobuf.bytesOfHex, traceId)
  Protobuf.delimited(4, Protobuf.bytesOfHex, spanId)
  Protobuf.double(3, value)
  Protobuf.time(2, nanos(at))
}

const exemplarsField = (field: number, exemplars: ReadonlyArray<Exemplar>): void => {
  for (const exemplar of exemplars.toReversed()) Protobuf.delimited(field, exemplarMessage, exemplar)
}

const numberPoint = ({ from, to }: Timed, { exemplars, labels, sum }: Point): void => {
  attributesField(7, attributesOf(labels))
  exemplarsField(5, exemplars)
  Protobuf.double(4, sum)
  Protobuf.time(3, nanos(to))
  Protobuf.time(2, nanos(from))
}

const histogramPoint = ({ from, instrument: { boundaries = [] }, to }: Timed, { buckets, count, exemplars, labels, range, sum }: Point): void => {
  if (range !== undefined) {
    Protobuf.double(12, range.max)
    Protobuf.double(11, range.min)
  }
  attributesField(9, attributesOf(labels))
  exemplarsField(8, exemplars)
  for (const bound of boundaries.toReversed()) Protobuf.double(7, bound)
  for (const one of buckets.toReversed()) Protobuf.time(6, BigInt(one))
  Protobuf.double(5, sum)
  Protobuf.time(4, BigInt(count))
  Protobuf.time(3, nanos(to))
  Protobuf.time(2, nanos(from))
}

const metricMessage = (metric: Timed): void => {
  const { instrument: { boundaries, description, name, unit }, points, temporality } = metric
  Protobuf.message(boundaries === undefined ? 7 : 9, () => {
    if (boundaries === undefined) Protobuf.number(3, 1)
    Protobuf.number(2, temporalities[temporality])
    const pointMessage = boundaries === undefined ? numberPoint : histogramPoint
    for (const point of points.toReversed()) Protobuf.message(1, () => pointMessage(metric, point))
  })
  Protobuf.delimited(3, Protobuf.text, unit)
  Protobuf.delimited(2, Protobuf.text, description)
  Protobuf.delimited(1, Protobuf.text, name)
}

const form: SignalEncoding.Form<Timed> = { names: ["resourceMetrics", "scopeMetrics", "metrics"], text: metricText, write: metricMessage }

/** Makes a function that writes snapshots. */
export const make = (encoding: "json" | "protobuf", resource: Resource): (snapshot: Snapshot) => SignalEncoding.Body => {
  const items = encoding === "json" ? SignalEncoding.json(form, resource, undefined) : SignalEncoding.protobuf(form, resource, undefined)
  return ({ metrics, ...time }) => SignalEncoding.bodyOf(items, metrics.map((metric) => ({ ...metric, ...time })))
}
