// A collector of OTLP over HTTP on the loopback interface, and what Langfuse's ingestion demands of what it gets.
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { IncomingHttpHeaders } from "node:http"
import { webServer } from "../../support/webServer.ts"
import * as Otlp from "./otlpWire.ts"

export interface Received {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  /** Spans in the JSON form, whatever they were sent in; anything else as it was sent. */
  readonly body: string
}

interface Value {
  readonly stringValue?: string
  readonly intValue?: number | string
  readonly doubleValue?: number
  readonly boolValue?: boolean
  readonly arrayValue?: { readonly values: ReadonlyArray<Value> }
}

interface KeyValue {
  readonly key: string
  readonly value: Value
}

export interface WireSpan {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly traceState?: string
  readonly name: string
  readonly kind: number
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly attributes: ReadonlyArray<KeyValue>
  readonly events?: ReadonlyArray<{ readonly name: string }>
  readonly status: { readonly code?: number; readonly message?: string }
}

/** A span as tests read it. */
export interface Seen {
  readonly span: WireSpan
  readonly name: string
  readonly at: Readonly<Record<string, unknown>>
  readonly children: ReadonlyArray<Seen>
}

const plain = (value: Value): unknown =>
  value.stringValue ??
  value.doubleValue ??
  value.boolValue ??
  (value.intValue === undefined ? undefined : Number(value.intValue)) ??
  value.arrayValue?.values.map(plain)

export const attributes = (list: ReadonlyArray<KeyValue>): Readonly<Record<string, unknown>> =>
  Object.fromEntries(list.map(({ key, value }) => [key, plain(value)]))

/** What a server answers; it does when `Effect.never` is not said. */
export type Answer =
  | { readonly status?: number; readonly headers?: Record<string, string>; readonly body?: string | Buffer }
  | "hang"

const readable = (path: string, type: string | undefined, body: string, bytes: Buffer): string =>
  type === "application/x-protobuf" && path.endsWith("/v1/traces")
    ? JSON.stringify(Otlp.decode(bytes, "TracesData"))
    : body

/** A collector, until the scope ends. `answer` is asked for each request. */
export const collector = (answer: (index: number) => Answer = () => ({})) =>
  Effect.gen(function* () {
    const requests: Array<Received> = []
    const url = yield* webServer(({ headers, url: path = "" }, response, body, bytes) => {
      const said = answer(requests.length)
      requests.push({ path, headers, body: readable(path, headers["content-type"], body, bytes) })
      if (said === "hang") return
      response.writeHead(said.status ?? 200, { "content-type": "application/json", ...said.headers })
      response.end(said.body ?? "{}")
    })
    /** Spans that were sent, or those to one path. */
    const spans = (place?: string): ReadonlyArray<WireSpan> =>
      requests
        .filter(({ path }) => (place === undefined ? path.endsWith("/v1/traces") : path === place))
        .flatMap(({ body }) => {
          const {
            resourceSpans
          }: { resourceSpans: ReadonlyArray<{ scopeSpans: ReadonlyArray<{ spans: ReadonlyArray<WireSpan> }> }> } =
            JSON.parse(body)
          return resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans))
        })
    return { url, requests, spans, trees: () => trees(spans()) }
  })

const before = (a: WireSpan, b: WireSpan): number =>
  BigInt(a.startTimeUnixNano) === BigInt(b.startTimeUnixNano)
    ? a.spanId < b.spanId
      ? -1
      : 1
    : BigInt(a.startTimeUnixNano) < BigInt(b.startTimeUnixNano)
      ? -1
      : 1

/** The trees that spans make, each level in the order in which it began. A parent that is not there makes a root. */
export const trees = (spans: ReadonlyArray<WireSpan>): ReadonlyArray<Seen> => {
  // Ids are unique in their trace.
  const idOf = (trace: string, span: string) => `${trace} ${span}`
  const ids = new Set(spans.map(({ spanId, traceId }) => idOf(traceId, spanId)))
  assert.strictEqual(ids.size, spans.length, "every span is sent once")
  const below = (parent: string | undefined): ReadonlyArray<Seen> =>
    spans
      .filter(({ parentSpanId, traceId }) => {
        const above = parentSpanId === undefined ? undefined : idOf(traceId, parentSpanId)
        return parent === undefined ? above === undefined || !ids.has(above) : above === parent
      })
      .toSorted(before)
      .map((span) => ({
        span,
        name: span.name,
        at: attributes(span.attributes),
        children: below(idOf(span.traceId, span.spanId))
      }))
  return below(undefined)
}

/** A tree by names. */
export type Names = string | ReadonlyArray<Names>
export const names = ({ children, name }: Seen): Names =>
  children.length === 0 ? name : [name, ...children.map(names)]

/** All spans of a tree. */
export const all = (tree: Seen): ReadonlyArray<Seen> => [tree, ...tree.children.flatMap(all)]

export const json = (seen: Seen | undefined, key: string): unknown => {
  const value = seen?.at[key]
  return typeof value === "string" ? JSON.parse(value) : undefined
}

const types = [
  "span",
  "generation",
  "event",
  "embedding",
  "agent",
  "tool",
  "chain",
  "retriever",
  "guardrail",
  "evaluator"
]

/** What Langfuse demands of a request: who sends it, and what it reads of each span. */
export const ingest = ({ body, headers, path }: Received, keys: string): void => {
  assert.strictEqual(path, "/api/public/otel/v1/traces")
  assert.strictEqual(headers.authorization, `Basic ${Buffer.from(keys).toString("base64")}`)
  assert.strictEqual(headers["content-type"], "application/x-protobuf")
  assert.strictEqual(headers["x-langfuse-ingestion-version"], "4")
  assert.isUndefined(headers["traceparent"])
  assert.isUndefined(headers["b3"])
  const request: {
    resourceSpans: ReadonlyArray<{
      resource: { attributes: ReadonlyArray<KeyValue> }
      scopeSpans: ReadonlyArray<{ scope: { name: string }; spans: ReadonlyArray<WireSpan> }>
    }>
  } = JSON.parse(body)
  for (const { resource, scopeSpans } of request.resourceSpans) {
    assert.isString(attributes(resource.attributes)["service.name"])
    for (const { scope, spans } of scopeSpans) {
      assert.notMatch(scope.name, /^langfuse-sdk/u, "which would be read as a client of Langfuse's own")
      for (const span of spans) {
        assert.match(span.traceId, /^[0-9a-f]{32}$/u)
        assert.match(span.spanId, /^[0-9a-f]{16}$/u)
        if (span.parentSpanId !== undefined) assert.match(span.parentSpanId, /^[0-9a-f]{16}$/u)
        assert.match(span.startTimeUnixNano, /^\d+$/u)
        assert.isTrue(BigInt(span.endTimeUnixNano) >= BigInt(span.startTimeUnixNano))
        const at = attributes(span.attributes)
        assert.include(types, at["langfuse.observation.type"])
        assert.include(["DEFAULT", "WARNING", "ERROR"], at["langfuse.observation.level"] ?? "DEFAULT")
        assert.isArray(at["langfuse.trace.tags"])
        for (const [key, value] of Object.entries(at)) {
          if (key.endsWith("_details")) {
            for (const count of Object.values(JSON.parse(String(value)) as Record<string, unknown>))
              assert.isAtLeast(Number(count), 0)
          } else if (key !== "langfuse.trace.tags") assert.isString(value, key)
        }
        const first = at["langfuse.observation.completion_start_time"]
        if (first !== undefined) assert.isFalse(Number.isNaN(Date.parse(String(first))))
      }
    }
  }
}
