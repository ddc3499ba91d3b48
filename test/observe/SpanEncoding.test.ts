// Spans on the wire: the bytes and the JSON that Effect's serialisation makes of the same data.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as HttpBody from "effect/http/HttpBody"
import * as OtlpResource from "effect/observability/OtlpResource"
import * as OtlpSerialization from "effect/observability/OtlpSerialization"
import type { TraceData } from "effect/observability/OtlpTracer"
import * as Serialization from "../../src/observe/otlp/Serialization.ts"
import { type Body, encodeBody } from "../../src/observe/otlp/SignalEncoding.ts"
import * as SpanEncoding from "../../src/observe/otlp/SpanEncoding.ts"
import { makeGrowingParts, JoinedText, makeParts } from "../../src/observe/JoinedText.ts"
import { scope, type Span, type Value } from "../../src/observe/RunSpans.ts"
import type { Run } from "../../src/observe/RunTree.ts"
import { effectProp } from "../support/property.ts"
import * as Otlp from "./support/otlpWire.ts"

const node: Run = {
  kind: "run",
  sessionId: "s",
  turnId: "t",
  startedAt: 1,
  start: undefined,
  endedAt: 2,
  end: undefined,
  child: undefined,
  messages: [],
  steps: [],
  sideTasks: [],
  asides: [],
  children: []
}

const Text = Schema.Union([
  Schema.String,
  Schema.Literals([
    "",
    "null",
    "\u{1F600} é",
    "x".repeat(100_000),
    "é".repeat(70_000),
    "a".repeat(127),
    "a".repeat(128)
  ])
])
const Numeric = Schema.Union([
  Schema.Int,
  Schema.Number,
  Schema.Literals([0, -1, 127, 128, 2 ** 53, 2 ** 60, -(2 ** 62), 2 ** 63])
])
const Name = Schema.Literals(["gen_ai.input.messages", "b", "", "\u00fc"])
const Attribute = Schema.Union([Text, Numeric, Schema.Boolean, Schema.Array(Text).check(Schema.isMaxLength(4))])
const Attributes = Schema.Record(Name, Attribute)
/** Those that are undefined are none. */
const SparseAttributes = Schema.Record(Name, Schema.UndefinedOr(Attribute))
const Millis = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 4_000_000_000_000 }))
const Failure = Schema.Struct({ type: Schema.Literal("x"), message: Schema.Literals(["", "it failed"]) })

const Drawn = Schema.Struct({
  traceId: Schema.Literals(["0123456789abcdef".repeat(2), "f".repeat(32)]),
  spanId: Schema.Literals(["0123456789abcdef", "f0".repeat(8)]),
  parentSpanId: Schema.UndefinedOr(Schema.Literal("00ff".repeat(4))),
  traceState: Schema.UndefinedOr(Schema.Literals(["", "a=b"])),
  name: Text,
  kind: Schema.Literals(["internal", "client"]),
  startedAt: Millis,
  endedAt: Millis,
  order: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1000 })),
  attributes: SparseAttributes,
  events: Schema.Array(Schema.Struct({ name: Text, at: Millis, attributes: Attributes })).check(Schema.isMaxLength(3)),
  outcome: Schema.Union([
    Schema.Struct({ _tag: Schema.Literal("Done") }),
    Schema.Struct({ _tag: Schema.Literal("Cut") }),
    Schema.Struct({ _tag: Schema.Literal("Failed"), failure: Failure })
  ])
})
const input = {
  drawn: Schema.Array(Drawn).check(Schema.isMaxLength(5)),
  schema: Schema.UndefinedOr(Schema.Literal("https://opentelemetry.io/schemas/1.41.1"))
}
const spansOf = (drawn: ReadonlyArray<typeof Drawn.Type>): ReadonlyArray<Span> =>
  drawn.map((one) => ({ ...one, node, sampled: true }))

const resource = OtlpResource.make({
  serviceName: "hermes",
  serviceVersion: "1",
  attributes: { team: "a", shard: 3, beta: true }
})

/** Body of spans by Effect, from their JSON form. */
const byEffect = (spans: ReadonlyArray<Span>, schemaUrl: string | undefined) =>
  Effect.map(OtlpSerialization.OtlpSerialization, ({ traces }) => {
    const schema = schemaUrl === undefined ? {} : { schemaUrl }
    // The JSON form is what OTLP says of it; Effect's type is that of its own tracer.
    const data = {
      resourceSpans: [
        { resource, ...schema, scopeSpans: [{ scope, ...schema, spans: spans.map(SpanEncoding.toJson) }] }
      ]
    } as TraceData
    return traces(data)
  })

const bytesOf = (body: HttpBody.HttpBody | Body): Buffer => {
  if ("content" in body) return Buffer.from(body.content)
  assert.strictEqual(body._tag, "Uint8Array")
  return Buffer.from(body._tag === "Uint8Array" ? body.body : [])
}

/** Spans of a decoded request, which has one resource and one scope. */
interface Sent {
  readonly resourceSpans: readonly [{ readonly scopeSpans: readonly [{ readonly spans: ReadonlyArray<unknown> }] }]
}

/** A value that JSON has no number for is a text in the JSON form alone. */
const isFinite = ({ attributes, events }: Span): boolean =>
  [attributes, ...events.map((event) => event.attributes)].every((facts) =>
    Object.values(facts).every((one) => typeof one !== "number" || Number.isFinite(one))
  )

/** A case is up to a megabyte of text. */
const few = { arbitrary: { runs: 40 } }

describe("SpanEncoding", () => {
  effectProp(
    "an attribute that is undefined is none, in both",
    { drawn: Drawn },
    ({ drawn }) =>
      Effect.sync(() => {
        const sparse: Span = { ...drawn, node, sampled: true }
        const dense: Span = {
          ...sparse,
          attributes: Object.fromEntries(Object.entries(drawn.attributes).filter(([, value]) => value !== undefined))
        }
        for (const encoding of [
          SpanEncoding.createJsonEncoding(resource, undefined),
          SpanEncoding.createProtobufEncoding(resource, undefined)
        ]) {
          assert.isTrue(bytesOf(encodeBody(encoding, [sparse])).equals(bytesOf(encodeBody(encoding, [dense]))))
        }
      }),
    few
  )

  effectProp(
    "is in protobuf, byte for byte, what Effect makes of the JSON form, and OTLP by its definition",
    input,
    ({ drawn, schema }) =>
      Effect.gen(function* () {
        const spans = spansOf(drawn)
        const own = bytesOf(encodeBody(SpanEncoding.createProtobufEncoding(resource, schema), spans))
        Otlp.decode(own, "TracesData")
        if (spans.every(isFinite)) assert.isTrue(own.equals(bytesOf(yield* byEffect(spans, schema))))
      }).pipe(Effect.provide(OtlpSerialization.layerProtobuf)),
    few
  )

  effectProp(
    "Telemetry's serialisation is Effect's, byte for byte, also of what only other spans have",
    input,
    ({ drawn, schema }) =>
      Effect.gen(function* () {
        // Effect's tracer knows no trace state.
        const own = spansOf(drawn.map((one) => ({ ...one, traceState: undefined })))
          .filter(isFinite)
          .map(SpanEncoding.toJson)
        const value = {
          arrayValue: {
            values: [
              { stringValue: "" },
              { bytesValue: Uint8Array.of(0, 255) },
              { intValue: "-9223372036854775808" },
              {}
            ]
          }
        }
        const attributes = [
          {
            key: "kept",
            value: {
              kvlistValue: {
                values: [
                  { key: "k", value },
                  { key: "d", value: { doubleValue: 0.5 } }
                ]
              }
            }
          }
        ]
        const links = [{ traceId: "ab".repeat(16), spanId: "cd".repeat(8), attributes, droppedAttributesCount: 2 }]
        const spans = own.map((one) => ({
          ...one,
          links,
          droppedLinksCount: 300,
          droppedEventsCount: 1,
          droppedAttributesCount: 1
        }))
        const version = schema === undefined ? {} : { schemaUrl: schema, version: "1" }
        // The JSON form is what OTLP says of it; Effect's type is that of its own tracer.
        const data = {
          resourceSpans: [
            {
              resource: { ...resource, droppedAttributesCount: 1 },
              ...version,
              scopeSpans: [{ scope: { name: "s", ...version }, ...version, spans: [...own, ...spans] }]
            }
          ]
        } as TraceData
        const { traces } = yield* OtlpSerialization.OtlpSerialization
        const { traces: ours } = yield* Effect.provide(OtlpSerialization.OtlpSerialization, Serialization.layer)
        assert.isTrue(bytesOf(ours(data)).equals(bytesOf(traces(data))))
      }).pipe(Effect.provide(OtlpSerialization.layerProtobuf)),
    few
  )

  effectProp(
    "is in JSON what Effect makes of it",
    input,
    ({ drawn, schema }) =>
      Effect.gen(function* () {
        const spans = spansOf(drawn)
        const own = bytesOf(encodeBody(SpanEncoding.createJsonEncoding(resource, schema), spans)).toString("utf8")
        assert.deepStrictEqual(JSON.parse(own), JSON.parse(bytesOf(yield* byEffect(spans, schema)).toString("utf8")))
      }).pipe(Effect.provide(OtlpSerialization.layerJson)),
    few
  )

  effectProp(
    "has one canonical form in both, and another one where anything of it differs",
    input,
    ({ drawn }) =>
      Effect.sync(() => {
        const spans = spansOf(drawn)
        const wrap = (list: ReadonlyArray<unknown>) => ({ resourceSpans: [{ scopeSpans: [{ spans: list }] }] })
        const json = (list: ReadonlyArray<Span>) => Otlp.canonical(wrap(list.map(SpanEncoding.toJson)), "TracesData")
        for (const one of spans) {
          const decoded: unknown = Otlp.decode(
            bytesOf(encodeBody(SpanEncoding.createProtobufEncoding(resource, undefined), [one])),
            "TracesData"
          )
          // A decoded request of one span has this form.
          const {
            resourceSpans: [first]
          } = decoded as Sent
          assert.deepStrictEqual(Otlp.canonical(wrap(first.scopeSpans[0].spans), "TracesData"), json([one]))
          const others: ReadonlyArray<Span> = [
            { ...one, name: `${one.name}x` },
            { ...one, startedAt: one.startedAt + 1, endedAt: one.endedAt + 2 },
            { ...one, parentSpanId: "1234".repeat(4) },
            { ...one, attributes: { ...one.attributes, more: 0 } },
            { ...one, attributes: { ...one.attributes, more: false } },
            { ...one, attributes: { ...one.attributes, more: "" } },
            { ...one, events: [...one.events, { name: "", at: 0, attributes: {} }] },
            { ...one, outcome: { _tag: "Failed", failure: { type: "x", message: "another" } } }
          ]
          for (const other of others) assert.notDeepEqual(json([other]), json([one]))
          const forms = others.slice(3, 6).map((other) => JSON.stringify(json([other])))
          assert.strictEqual(new Set(forms).size, 3, "zero, false and the empty text of a value are themselves")
        }
      }),
    few
  )

  effectProp(
    "a text of parts is in both what the same text in one piece is",
    { before: Text, parts: Schema.Array(Text).check(Schema.isMaxLength(4)), after: Text },
    ({ after, before, parts }) =>
      Effect.sync(() => {
        const joined = new JoinedText(before, makeParts(parts.map((text) => ({ text }))), after)
        const span = (value: Value): Span => ({
          node,
          traceId: "1".repeat(32),
          spanId: "1".repeat(16),
          parentSpanId: undefined,
          sampled: true,
          name: "s",
          kind: "client",
          startedAt: 1,
          endedAt: 2,
          order: 0,
          attributes: { value },
          events: [],
          outcome: { _tag: "Done" }
        })
        assert.strictEqual(joined.toString(), before + parts.join(",") + after)
        const [json, protobuf] = [
          SpanEncoding.createJsonEncoding(resource, undefined),
          SpanEncoding.createProtobufEncoding(resource, undefined)
        ]
        const inJson = (value: Value) => bytesOf(encodeBody(json, [span(value)]))
        const inProtobuf = (value: Value) => bytesOf(encodeBody(protobuf, [span(value)]))
        // Twice: the second one has its parts from the first.
        for (const of of [inJson, inProtobuf, inJson, inProtobuf])
          assert.isTrue(of(joined).equals(of(joined.toString())))
      }),
    few
  )

  const short: ReadonlyArray<Value> = [
    "",
    "a",
    "1",
    "true",
    "a".repeat(64),
    "a".repeat(65),
    "\u00fc",
    1,
    0,
    -1,
    0.5,
    Number.NaN,
    2 ** 60,
    true,
    false
  ]
  const Place = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: short.length - 1 }))
  let names = 0

  effectProp(
    "an attribute is the same whatever had its name before",
    { places: Schema.Array(Place).check(Schema.isMaxLength(24)) },
    ({ places }) =>
      Effect.sync(() => {
        const span = (name: string, value: Value): Span => ({
          node,
          traceId: "1".repeat(32),
          spanId: "1".repeat(16),
          parentSpanId: undefined,
          sampled: true,
          name: "s",
          kind: "client",
          startedAt: 1,
          endedAt: 2,
          order: 0,
          attributes: { [name]: value },
          events: [],
          outcome: { _tag: "Done" }
        })
        for (const encoding of [
          SpanEncoding.createJsonEncoding(resource, undefined),
          SpanEncoding.createProtobufEncoding(resource, undefined)
        ]) {
          const of = (name: string, value: Value) =>
            bytesOf(encodeBody(encoding, [span(name, value)])).toString("latin1")
          for (const place of places) {
            const value = short[place] ?? ""
            const fresh = `name${String(names++).padStart(12, "0")}`
            assert.strictEqual(of("a name of others", value), of(fresh, value).replaceAll(fresh, "a name of others"))
          }
        }
      }),
    few
  )

  const Step = Schema.Struct({
    texts: Schema.Array(Text).check(Schema.isMaxLength(3)),
    shown: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 4 }))
  })

  effectProp(
    "the last parts of a list that grows are the same as a list of their own",
    { steps: Schema.Array(Step).check(Schema.isMaxLength(12)) },
    ({ steps }) =>
      Effect.sync(() => {
        const parts = makeGrowingParts()
        const all: Array<string> = []
        const [json, protobuf] = [
          SpanEncoding.createJsonEncoding(resource, undefined),
          SpanEncoding.createProtobufEncoding(resource, undefined)
        ]
        let first = 0
        for (const { shown, texts } of steps) {
          for (const text of texts) {
            parts.add({ text })
            all.push(text)
          }
          first = Math.max(first, all.length - shown)
          const windows = [first, Math.max(0, first - 2), all.length].map(
            (from) => [parts.from(from), all.slice(from)] as const
          )
          assert.strictEqual(parts.length(), all.length)
          for (const [window, expected] of windows) {
            const joined = new JoinedText("[", window, "]")
            assert.strictEqual(joined.toString(), `[${expected.join(",")}]`)
            const span = (value: Value): Span => ({
              node,
              traceId: "1".repeat(32),
              spanId: "1".repeat(16),
              parentSpanId: undefined,
              sampled: true,
              name: "s",
              kind: "client",
              startedAt: 1,
              endedAt: 2,
              order: 0,
              attributes: { value },
              events: [],
              outcome: { _tag: "Done" }
            })
            assert.isTrue(
              bytesOf(encodeBody(protobuf, [span(joined)])).equals(
                bytesOf(encodeBody(protobuf, [span(joined.toString())]))
              )
            )
            assert.isTrue(
              bytesOf(encodeBody(json, [span(joined)])).equals(bytesOf(encodeBody(json, [span(joined.toString())])))
            )
          }
        }
      })
  )

  it("NaN and the infinities are doubles in both", () => {
    const span: Span = {
      node,
      traceId: "1".repeat(32),
      spanId: "1".repeat(16),
      parentSpanId: undefined,
      sampled: true,
      name: "s",
      kind: "client",
      startedAt: 1,
      endedAt: 2,
      order: 0,
      attributes: { a: Number.NaN, b: Number.NEGATIVE_INFINITY },
      events: [],
      outcome: { _tag: "Done" }
    }
    const protobuf = SpanEncoding.createProtobufEncoding(resource, undefined)
    assert.include(
      JSON.stringify(SpanEncoding.toJson(span)),
      `{"doubleValue":"NaN"}},{"key":"b","value":{"doubleValue":"-Infinity"}`
    )
    const decoded = Otlp.decode(bytesOf(encodeBody(protobuf, [span])), "TracesData")
    assert.include(
      JSON.stringify(decoded, (_, one: unknown) => (typeof one === "number" ? String(one) : one)),
      `{"doubleValue":"NaN"}},{"key":"b","value":{"doubleValue":"-Infinity"}`
    )
  })
})
