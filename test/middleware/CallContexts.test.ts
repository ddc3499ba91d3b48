// Contexts of calls: the cost of the run so far, and the annotations of a tool, in typed and in plain middleware.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../src/agent/Agent.ts"
import * as Cost from "../../src/base/domain/Cost.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import * as Plain from "../../src/middleware/Plain.ts"
import * as PlainLifecycle from "../../src/middleware/PlainLifecycle.ts"
import { Provider } from "../../src/models/provider/Provider.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import * as Fake from "../support/fakeModel.ts"

const Look = Tool.make("look", { success: Schema.String })
  .annotate(Tool.Readonly, true)
  .annotate(Tool.Destructive, false)
  .annotate(Tool.OpenWorld, true)
const toolkit = Toolkit.make(Look)
const tools = [Toolset.make("look", toolkit, toolkit.toLayer({ look: () => Effect.succeed("seen") }))]

const fake = () => Fake.make(Fake.calls(Fake.call("c1", "look", {})), Fake.text("done"))

const run = (middleware: ReadonlyArray<Middleware.Any>) =>
  Agent.run({ prompt: "Look" }).pipe(
    Effect.provide(
      Runtime.layer({
        provider: Layer.succeed(Provider, fake().provider),
        tools,
        // Plain middleware needs no services.
        middleware: middleware as ReadonlyArray<Middleware.Contained>
      })
    )
  )

const pass = (call: Plain.Envelope) => (call["next_call"] as () => unknown)()

describe("the context of a model call", () => {
  it.effect("has the usage and the cost of the run so far", () => {
    const seen: Array<readonly [string, number | undefined, Cost.Spent | undefined]> = []
    const plain: Array<readonly [string, unknown, unknown]> = []
    const note = (who: string, { cost, usage }: Middleware.CallPurpose) =>
      void seen.push([who, usage?.requestCount, cost])
    const notePlain = (who: string, call: Plain.Envelope) =>
      void plain.push([who, (call["usage"] as Record<string, number>)["request_count"], call["cost"]])
    const priced = { usd: 0.5, status: "estimated", source: "user_override" } as const
    return Effect.gen(function* () {
      yield* run([
        Middleware.wrapModelCall({
          name: "priced",
          wrap: (next, context) => (params) => {
            note("wrap_model_call", context)
            return Effect.map(next(params), (answer) => ({
              ...answer,
              cost: { ...Cost.fromReportedUsd(0.5), status: priced.status, source: priced.source }
            }))
          }
        }),
        Middleware.llmExecution({
          name: "attempt",
          wrap: (next, context) => (request) => {
            note("llm_execution", context)
            return next(request)
          }
        }),
        Middleware.llmRequest({
          name: "request",
          rewrite: (_, context) => Effect.sync(() => (note("llm_request", context), Middleware.unchanged))
        }),
        Plain.wrapModelCall({ name: "plain" }, (call) => (notePlain("wrap_model_call", call), pass(call))),
        Plain.llmExecution({ name: "plain" }, (call) => (notePlain("llm_execution", call), pass(call)))
      ])
      const nothing = { usd: null, status: "unknown", source: "none" } as const
      assert.deepStrictEqual(seen, [
        ["wrap_model_call", 0, nothing],
        ["llm_request", 0, nothing],
        ["llm_execution", 0, nothing],
        ["wrap_model_call", 1, priced],
        ["llm_request", 1, priced],
        ["llm_execution", 1, priced]
      ])
      assert.deepStrictEqual(plain, [
        ["wrap_model_call", 0, nothing],
        ["llm_execution", 0, nothing],
        ["wrap_model_call", 1, priced],
        ["llm_execution", 1, priced]
      ])
    })
  })
})

describe("the context of a tool call", () => {
  it.effect("has the annotations of the tool in every kind", () => {
    const seen: Array<readonly [string, unknown]> = []
    const note = (who: string, { annotations }: { readonly annotations: Middleware.ToolAnnotations }) =>
      void seen.push([who, { ...annotations }])
    const plain: Array<readonly [string, unknown]> = []
    const notePlain = (who: string, call: object) => void plain.push([who, { ...Reflect.get(call, "annotations") }])
    const lifecycle = PlainLifecycle.make(
      { name: "plain" },
      { before_tool: (call: object) => void notePlain("before_tool", call) }
    )
    return Effect.gen(function* () {
      yield* run([
        Middleware.toolRequest({
          name: "request",
          rewrite: (_, context) => Effect.sync(() => (note("tool_request", context), Middleware.unchanged))
        }),
        Middleware.lifecycle({
          name: "phases",
          beforeTool: (input) => note("before_tool", input),
          afterTool: (input) => note("after_tool", input)
        }),
        Middleware.wrapToolCall({
          name: "call",
          wrap: (next, context) => (args) => (note("wrap_tool_call", context), next(args))
        }),
        Middleware.toolExecution({
          name: "execution",
          wrap: (next, context) => (args) => (note("tool_execution", context), next(args))
        }),
        Plain.toolRequest({ name: "plain" }, (call) => void notePlain("tool_request", call)),
        Plain.toolExecution({ name: "plain" }, (call) => (notePlain("tool_execution", call), pass(call))),
        lifecycle
      ])
      const stated = { readonly: true, destructive: false, openWorld: true }
      assert.deepStrictEqual(
        seen,
        ["tool_request", "before_tool", "wrap_tool_call", "tool_execution", "after_tool"].map((who) => [who, stated])
      )
      assert.deepStrictEqual(
        plain,
        ["tool_request", "before_tool", "tool_execution"].map((who) => [
          who,
          { readonly: true, destructive: false, open_world: true }
        ])
      )
    })
  })
})
