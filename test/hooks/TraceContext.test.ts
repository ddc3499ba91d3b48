import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Tracer from "effect/Tracer"
import type { IncomingHttpHeaders } from "node:http"
import * as CommandEnvironment from "../../src/places/CommandEnvironment.ts"
import * as TraceContext from "../../src/hooks/TraceContext.ts"
import { CodeSettings } from "../../src/tools/builtin/BuiltinSettings.ts"
import { NestedCalls } from "../../src/tools/ToolContext.ts"
import * as ExecuteCode from "../../src/tools/builtin/ExecuteCode.ts"
import { callTool } from "../support/callTool.ts"
import { bench, nodeLayer } from "../support/terminalTools.ts"
import { webServer } from "../support/webServer.ts"
import { connected, everythingHttp, fixtureOf, section } from "../tools/mcp/support/servers.ts"

const traceId = "0af7651916cd43dd8448eb211c80319c"
const spanId = "b7ad6b7169203331"
const traceparent = `00-${traceId}-${spanId}-01`
const state = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"
const stateful = Effect.withParentSpan(
  Tracer.externalSpan({ traceId, spanId, annotations: Context.make(TraceContext.TraceState, state) })
)
const traced = Effect.withParentSpan(Tracer.externalSpan({ traceId, spanId }))

describe("Trace of a fiber", () => {
  it.effect("is that of the nearest span that somebody keeps", () =>
    Effect.gen(function* () {
      assert.isUndefined(yield* TraceContext.current)
      assert.isUndefined(yield* Effect.withSpan(TraceContext.current, "nobody keeps it"))
      assert.deepStrictEqual(yield* traced(TraceContext.current), { traceparent })
      assert.deepStrictEqual(yield* traced(Effect.withSpan(TraceContext.current, "nobody keeps it")), { traceparent })
      assert.deepStrictEqual(yield* traced(TraceContext.variables), { TRACEPARENT: traceparent })
      assert.deepStrictEqual(yield* TraceContext.variables, {})
    })
  )

  it.effect("is that of a span of the application's own tracer", () =>
    Effect.gen(function* () {
      const spans: Array<Tracer.Span> = []
      const tracer = Tracer.make({
        span: (options) => {
          const span = new Tracer.NativeSpan(options)
          span._traceId = traceId
          span._spanId = spanId
          spans.push(span)
          return span
        }
      })
      const found = yield* Effect.withTracer(Effect.withSpan(TraceContext.current, "own"), tracer)
      assert.deepStrictEqual(found, { traceparent })
      assert.strictEqual(spans.length, 1)
    })
  )

  it("has no form for a span that is kept here, or that W3C has no place for", () => {
    const span = (more: Partial<Tracer.ExternalSpan>) =>
      TraceContext.format({ ...Tracer.externalSpan({ traceId, spanId }), ...more })
    assert.strictEqual(span({ sampled: false }), `00-${traceId}-${spanId}-00`)
    assert.strictEqual(span({ traceId: traceId.slice(16) }), `00-${"0".repeat(16)}${traceId.slice(16)}-${spanId}-01`)
    assert.isUndefined(span({ spanId: "span-1" }))
    assert.isUndefined(span({ traceId: "0".repeat(32) }))
    assert.isUndefined(span({ spanId: "0".repeat(16) }))
    assert.isUndefined(span({ annotations: Context.make(Tracer.DisablePropagation, true) }))
  })

  it("is read as W3C wants it: later versions too, and a malformed tracestate is dropped whole", () => {
    const read = (text: string, state?: string) => {
      const span = TraceContext.parse(text, state)
      return span === undefined ? undefined : [TraceContext.format(span), TraceContext.findTraceState(span)]
    }
    assert.deepStrictEqual(read(traceparent), [traceparent, undefined])
    assert.deepStrictEqual(read(`01-${traceId}-${spanId}-03-more`), [traceparent, undefined])
    for (const wrong of [
      "",
      "00",
      `ff-${traceId}-${spanId}-01`,
      `00-${traceId}-${spanId}-01-more`,
      `00-${"0".repeat(32)}-${spanId}-01`,
      `00-${traceId}-${"0".repeat(16)}-01`,
      `00-${traceId.toUpperCase()}-${spanId}-01`,
      `00-${traceId}-${spanId}-zz`
    ])
      assert.isUndefined(read(wrong), wrong)
    const states: ReadonlyArray<readonly [string, string | undefined]> = [
      [" rojo=00f067aa0ba902b7 , congo=t61rcWkgMzE,", state],
      ["1a@vendor=x", "1a@vendor=x"],
      ["", undefined],
      ["a=1,a=2", undefined],
      ["A=1", undefined],
      ["a", undefined],
      ["a=", undefined],
      ["a=b=c", undefined],
      ["a=\u00e9", undefined],
      [`a=${"x".repeat(257)}`, undefined],
      [Array.from({ length: 33 }, (_, index) => `k${index}=v`).join(","), undefined]
    ]
    for (const [given, wanted] of states) assert.deepStrictEqual(read(traceparent, given), [traceparent, wanted], given)
  })

  it.live("goes to the commands of the terminal", () =>
    Effect.gen(function* () {
      const { terminal } = yield* bench
      const { body } = yield* traced(terminal('echo "<$TRACEPARENT>"'))
      assert.include(body["output"], `<${traceparent}>`)
      const { body: more } = yield* stateful(
        Effect.withSpan(terminal('echo "<$TRACEPARENT $TRACESTATE>"'), "nobody keeps it")
      )
      assert.include(more["output"], `<${traceparent} ${state}>`)
    }).pipe(Effect.scoped, Effect.provide(nodeLayer))
  )

  it.live("goes to the scripts of execute_code", () =>
    Effect.gen(function* () {
      const code = "console.log(process.env.TRACEPARENT)"
      const { text } = yield* traced(
        callTool(ExecuteCode.toolset, "execute_code", { code, language: "javascript" }, { cwd: "/tmp" })
      )
      assert.include(text, traceparent)
    }).pipe(
      Effect.provideService(CodeSettings, {
        mode: "project",
        timeoutSeconds: 30,
        maxToolCalls: 1,
        environment: { passThrough: [], reserved: [] }
      }),
      Effect.provideService(NestedCalls, () => Effect.die("no tools here")),
      Effect.provide(CommandEnvironment.layerLocal.pipe(Layer.provideMerge(NodeServices.layer)))
    )
  )

  it.live("goes to MCP servers with each call", () =>
    Effect.gen(function* () {
      const { call } = yield* connected({ x: fixtureOf("good") })
      const { output } = yield* traced(call("mcp__x__environment", {}))
      assert.include(JSON.stringify(output), `\\"traceparent\\":\\"${traceparent}\\"`)
      const without = yield* call("mcp__x__environment", {})
      assert.notInclude(JSON.stringify(without.output), "traceparent")
    })
  )

  it.live("goes to MCP servers over HTTP in the message and in the headers of its request, with its tracestate", () =>
    Effect.gen(function* () {
      const target = yield* everythingHttp("streamableHttp")
      const seen: Array<{ readonly headers: IncomingHttpHeaders; readonly body: string }> = []
      const url = yield* webServer((request, response, body) => {
        seen.push({ headers: request.headers, body })
        const {
          connection: _,
          host: __,
          "content-length": ___,
          "transfer-encoding": ____,
          ...headers
        } = request.headers
        const pass = async () => {
          // Node gives texts for the headers of this client.
          const given = {
            method: request.method ?? "GET",
            headers: headers as Record<string, string>,
            ...(body === "" ? {} : { body })
          }
          const answer = await fetch(target, given)
          response.writeHead(answer.status, Object.fromEntries(answer.headers))
          if (answer.body !== null) for await (const chunk of answer.body) response.write(chunk)
          response.end()
        }
        pass().catch(() => response.destroy())
      })
      const { call } = yield* connected({ x: section({ url: `${url}/mcp` }) })
      yield* stateful(call("mcp__x__echo", { message: "hi" }))
      const inside = seen.find(({ body }) => body.includes('"tools/call"'))
      assert.deepInclude(JSON.parse(inside?.body ?? "{}").params._meta, { traceparent, tracestate: state })
      assert.deepInclude(inside?.headers, { traceparent, tracestate: state })
      yield* call("mcp__x__echo", { message: '"_meta":{"traceparent":"mine"}' })
      const without = seen.findLast(({ body }) => body.includes('"tools/call"'))
      assert.notProperty(without?.headers, "traceparent")
    })
  )
})
