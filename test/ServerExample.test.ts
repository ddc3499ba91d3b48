// The example of scratchpad/server with every layer swapped: model, invoices, tenants, tracer; no port is opened.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Tracer from "effect/Tracer"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServer from "effect/http/HttpServer"
import { Assistant, Invoices, invoices, quota, Tenants } from "../scratchpad/server/Assistant.ts"
import { routes } from "../scratchpad/server/Routes.ts"
import { Runtime, Scripted, RunTelemetry } from "../src/index.ts"

const call = Scripted.complete({ toolCalls: [{ name: "open_invoices", params: {} }] })

describe("the server example", () => {
  it("streams a tenant's own invoices, refuses the quota typed, and traces both", async () => {
    const spans: Array<Tracer.Span> = []
    const tracer = Tracer.make({
      span: (options) => {
        const span = new Tracer.NativeSpan(options)
        spans.push(span)
        return span
      }
    })
    const assistant = Runtime.make(Assistant, {
      provider: Scripted.layer([call, Scripted.complete("One is open."), call]),
      tools: [invoices],
      middleware: [quota],
      ...RunTelemetry.make({ agentName: "test" })
    })
    const asked: Array<string> = []
    const { dispose, handler } = HttpRouter.toWebHandler(
      routes.pipe(
        Layer.provideMerge(assistant),
        Layer.provide(
          Layer.mock(Invoices, {
            open: (tenant) => {
              asked.push(tenant)
              return Effect.succeed([`an invoice of ${tenant}`])
            }
          })
        ),
        Layer.provideMerge(
          Layer.succeed(
            Tenants,
            new Map([
              ["k1", { name: "one", modelCalls: 2 }],
              ["k2", { name: "two", modelCalls: 1 }]
            ])
          )
        ),
        Layer.provideMerge(Layer.succeed(Tracer.Tracer, tracer)),
        Layer.provide(HttpServer.layerServices)
      )
    )
    const ask = async (key: string, body: string) => {
      const response = await handler(
        new Request("http://test/ask", {
          method: "POST",
          headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
          body
        })
      )
      return {
        status: response.status,
        events: (await response.text())
          .split("\n\n")
          .filter((line) => line !== "")
          .map((line) => JSON.parse(line.replace(/^data: /, "")))
      }
    }
    const question = JSON.stringify({ prompt: "What is open?" })
    try {
      assert.include(await (await handler(new Request("http://test/"))).text(), "<form>")
      assert.deepStrictEqual(await ask("k1", question), {
        status: 200,
        events: [
          { tool: "open_invoices" },
          { text: "One " },
          { text: "is " },
          { text: "open." },
          { exit: "text_response" }
        ]
      })
      assert.deepStrictEqual(await ask("k2", question), {
        status: 200,
        events: [{ tool: "open_invoices" }, { error: "two has used up its model calls" }]
      })
      assert.deepStrictEqual(asked, ["one", "two"])
      assert.strictEqual((await ask("k3", question)).status, 401)
      assert.strictEqual((await ask("k1", "no json")).status, 400)
      const traced = spans.filter(({ name }) => name === "POST /ask").map(({ attributes }) => attributes.get("tenant"))
      assert.deepStrictEqual(traced, ["one", "two", undefined, "one"])
      assert.isTrue(spans.some(({ name }) => name === "execute_tool open_invoices"))
    } finally {
      await dispose()
    }
  })
})
