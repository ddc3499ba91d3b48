// Metrics and log records on the wire: both encodings say the same, and OTLP by its definition.
import { assert, describe, it } from "@effect/vitest"
import * as MetricEncoding from "../../src/observe/otlp/MetricEncoding.ts"
import * as MetricPoints from "../../src/observe/otlp/MetricPoints.ts"
import * as LogEncoding from "../../src/observe/otlp/LogEncoding.ts"
import * as SignalEncoding from "../../src/observe/otlp/SignalEncoding.ts"
import * as Otlp from "./support/otlpWire.ts"

const resource = SignalEncoding.makeResource({ "service.name": "hermes" })
const seconds: MetricPoints.Instrument = {
  name: "gen_ai.client.operation.duration",
  description: "Time",
  unit: "s",
  boundaries: [1, 10]
}
const errors: MetricPoints.Instrument = { name: "hermes.errors", description: "Failures", unit: "{error}" }
const span = { traceId: "1".repeat(32), spanId: "2".repeat(16), at: 5 }

const decoded = ({ content, contentType }: SignalEncoding.Body, kind: "LogsData" | "MetricsData"): unknown =>
  contentType === "application/json"
    ? JSON.parse(Buffer.from(content).toString("utf8"))
    : Otlp.decode(Buffer.from(content), kind)

/** Facts of a body without what one of the encodings leaves out: lists and numbers that say nothing. */
const plain = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(plain)
  if (typeof value !== "object" || value === null) return String(value)
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, one]) =>
      name.startsWith("dropped") || (Array.isArray(one) && one.length === 0) ? [] : [[name, plain(one)]]
    )
  )
}

describe("MetricEncoding", () => {
  it("a counter and a histogram with exemplars are the same in both encodings, and OTLP", () => {
    const points = MetricPoints.make("cumulative", 1)
    const labels = { "server.port": "443", "gen_ai.provider.name": "p", "error.type": "é" }
    for (const [value, exemplar] of [
      [0.5, span],
      [0.7, { ...span, spanId: "3".repeat(16) }],
      [100, undefined],
      [10, span]
    ] as const)
      points.record(seconds, labels, value, exemplar)
    points.record(seconds, { "gen_ai.provider.name": "q" }, 2, undefined)
    points.record(errors, { "error.type": "x" }, 1, span)
    points.record(errors, { "error.type": "x" }, 2, undefined)
    const { snapshot } = points.take(9)
    const [json, protobuf] = (["json", "protobuf"] as const).map((encoding) =>
      decoded(MetricEncoding.make(encoding, resource)(snapshot), "MetricsData")
    )
    for (const body of [json, protobuf]) assert.deepStrictEqual(Otlp.complaints(body, "MetricsData"), [])
    assert.deepStrictEqual(plain(json), plain(protobuf))
    const [histogram, counter] = snapshot.metrics
    assert.deepStrictEqual(
      histogram?.points.map(({ buckets, count, exemplars, range, sum }) => [
        count,
        sum,
        buckets,
        range,
        exemplars.map(({ spanId, value }) => [spanId[0], value])
      ]),
      [
        [
          4,
          111.2,
          [2, 1, 1],
          { min: 0.5, max: 100 },
          [
            ["3", 0.7],
            ["2", 10]
          ]
        ],
        [1, 2, [0, 1, 0], { min: 2, max: 2 }, []]
      ]
    )
    assert.deepStrictEqual(
      counter?.points.map(({ exemplars, sum }) => [sum, exemplars.length]),
      [[3, 1]]
    )
  })

  it("sums go on from the beginning, changes from what was sent; labels are the same whichever object has them", () => {
    const totals = (temporality: "cumulative" | "delta") => {
      const points = MetricPoints.make(temporality, 1)
      const count = (value: number) => points.record(seconds, { a: "1", b: "2" }, value, undefined)
      const shown = ({ snapshot }: ReturnType<typeof points.take>) => [
        snapshot.from,
        snapshot.to,
        ...snapshot.metrics.flatMap((metric) =>
          metric.points.map((one) => [one.count, one.sum, one.buckets, one.range?.max])
        )
      ]
      count(2)
      const first = points.take(10)
      count(20)
      const again = points.take(20)
      first.sent()
      again.sent()
      points.record(seconds, { b: "2", a: "1" }, 3, undefined)
      return [shown(first), shown(again), shown(points.take(30))]
    }
    const first = [1, 10, [1, 2, [0, 1, 0], 2]]
    const both = [1, 20, [2, 22, [0, 1, 1], 20]]
    assert.deepStrictEqual(totals("cumulative"), [first, both, [1, 30, [3, 25, [0, 2, 1], 20]]])
    // The second was taken before the first was known to be there.
    assert.deepStrictEqual(totals("delta"), [first, both, [20, 30, [1, 3, [0, 1, 0], undefined]]])
  })
})

describe("LogEncoding", () => {
  it("a record is the same in both encodings, and OTLP", () => {
    const records: ReadonlyArray<LogEncoding.LogRecord> = [
      {
        at: 1,
        observedAt: 2,
        level: "Warn",
        text: "it failed: é",
        attributes: { "error.type": "x", "hermes.count": 3 },
        span: { traceId: span.traceId, spanId: span.spanId }
      },
      { at: 3, observedAt: 3, level: "Info", text: "done", attributes: {}, span: undefined }
    ]
    const of = (encoding: SignalEncoding.Encoding<LogEncoding.LogRecord>) =>
      decoded(SignalEncoding.encodeBody(encoding, records), "LogsData")
    const [json, protobuf] = [
      of(LogEncoding.makeJsonEncoding(resource)),
      of(LogEncoding.makeProtobufEncoding(resource))
    ]
    for (const body of [json, protobuf]) assert.deepStrictEqual(Otlp.complaints(body, "LogsData"), [])
    assert.deepStrictEqual(plain(json), plain(protobuf))
  })
})
