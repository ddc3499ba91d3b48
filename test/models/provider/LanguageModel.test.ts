import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import type { StreamPart, ToolDefinition } from "../../../src/base/domain/ModelCall.ts"
import * as Usage from "../../../src/base/domain/Usage.ts"
import * as FromLanguageModel from "../../../src/models/provider/FromLanguageModel.ts"
import * as Offline from "../../../src/models/provider/Offline.ts"
import * as Scripted from "../../../src/models/provider/Scripted.ts"
import * as ToLanguageModel from "../../../src/models/provider/ToLanguageModel.ts"
import { call, converse, textOf, user } from "./support/converse.ts"

const Double = Tool.make("double", {
  description: "Doubles a number",
  parameters: Schema.Struct({ n: Schema.Finite }),
  success: Schema.Finite
})
const toolkit = Toolkit.make(Double)
const handlers = toolkit.toLayer({ double: ({ n }) => Effect.succeed(n * 2) })

const scripted = (...turns: ReadonlyArray<Scripted.Turn>) =>
  ToLanguageModel.layer.pipe(Layer.provideMerge(Scripted.layer(turns)))

describe("ToLanguageModel", () => {
  it.effect("generates text", () =>
    Effect.gen(function* () {
      const response = yield* LanguageModel.generateText({ prompt: "hi" })
      assert.strictEqual(response.text, "hello")
      assert.strictEqual(response.reasoningText, "hm")
      assert.strictEqual(response.finishReason, "stop")
      assert.strictEqual(response.usage.inputTokens.total, 9)
      const [request] = yield* Effect.flatMap(Scripted.Inspection, ({ requests }) => requests)
      assert.notProperty(request, "tools")
      assert.notProperty(request, "stream")
    }).pipe(Effect.provide(scripted(Scripted.complete({ text: "hello", reasoning: "hm", usage: { input: 9 } }))))
  )

  it.effect("runs the tools of a toolkit", () =>
    Effect.gen(function* () {
      const response = yield* LanguageModel.generateText({ prompt: "double 21", toolkit })
      assert.deepStrictEqual(
        response.toolResults.map(({ result }) => result),
        [42]
      )
      const [asked] = yield* Effect.flatMap(Scripted.Inspection, ({ calls }) => calls)
      assert.deepInclude(asked?.tools[0], { name: "double", description: "Doubles a number" })
      const again = yield* LanguageModel.generateText({
        prompt: Prompt.concat(Prompt.make("double 21"), Prompt.fromResponseParts(response.content)),
        toolkit
      })
      assert.strictEqual(again.text, "42")
      const [first, second] = yield* Effect.flatMap(Scripted.Inspection, ({ calls }) => calls)
      assert.strictEqual(second?.messages.at(-1)?.role, "tool")
      assert.strictEqual(second?.tools, first?.tools)
    }).pipe(
      Effect.provide(handlers),
      Effect.provide(
        scripted(Scripted.complete({ toolCalls: [{ name: "double", params: { n: 21 } }] }), Scripted.complete("42"))
      )
    )
  )

  it.effect("streams", () =>
    Effect.gen(function* () {
      const parts = yield* Stream.runCollect(LanguageModel.streamText({ prompt: "hi", toolkit }))
      const text = parts.flatMap((part) => (part.type === "text-delta" ? [part.delta] : []))
      assert.deepStrictEqual(text, ["a ", "b"])
      assert.strictEqual(parts.find((part) => part.type === "tool-result")?.result, 2)
      assert.strictEqual(parts.at(-1)?.type, "finish")
    }).pipe(
      Effect.provide(handlers),
      Effect.provide(
        scripted(Scripted.complete({ pieces: ["a ", "b"], toolCalls: [{ name: "double", params: { n: 1 } }] }))
      )
    )
  )

  it.effect("generates objects", () =>
    Effect.gen(function* () {
      const response = yield* LanguageModel.generateObject({
        prompt: "who?",
        objectName: "person",
        schema: Schema.Struct({ name: Schema.String })
      })
      assert.deepStrictEqual(response.value, { name: "Ada" })
      const [request] = yield* Effect.flatMap(Scripted.Inspection, ({ requests }) => requests)
      assert.deepInclude(request?.["response_format"], { type: "json_schema" })
    }).pipe(Effect.provide(scripted(Scripted.complete('{"name":"Ada"}'))))
  )

  it.effect("passes tool choices on", () =>
    Effect.gen(function* () {
      for (const toolChoice of ["required", { tool: "double" }, { mode: "required", oneOf: ["double"] }] as const) {
        yield* LanguageModel.generateText({ prompt: "x", toolkit, toolChoice })
      }
      const calls = yield* Effect.flatMap(Scripted.Inspection, ({ calls }) => calls)
      assert.deepStrictEqual(
        calls.map(({ toolChoice }) => toolChoice),
        ["required", { tool: "double" }, "required"]
      )
    }).pipe(
      Effect.provide(handlers),
      Effect.provide(scripted(Scripted.complete("a"), Scripted.complete("b"), Scripted.complete("c")))
    )
  )

  it.effect("fails with the provider's reason, whole and streamed", () =>
    Effect.gen(function* () {
      const whole = yield* Effect.flip(LanguageModel.generateText({ prompt: "x" }))
      const streamed = yield* Effect.flip(Stream.runDrain(LanguageModel.streamText({ prompt: "x" })))
      assert.deepStrictEqual([whole.reason._tag, streamed.reason._tag], ["RateLimitError", "RateLimitError"])
    }).pipe(
      Effect.provide(
        scripted(Scripted.fail(new AiError.RateLimitError({})), Scripted.fail(new AiError.RateLimitError({})))
      )
    )
  )
})

const usage = { inputTokens: { total: 5, uncached: 5 }, outputTokens: { total: 2 } }
const finish = { type: "finish", reason: "stop", usage } as const

/** A model of somebody else's making. */
const foreign = (answers: {
  readonly whole?: ReadonlyArray<Response.PartEncoded>
  readonly pieces?: ReadonlyArray<Response.StreamPartEncoded>
}) => {
  const asked: Array<LanguageModel.ProviderOptions> = []
  return Effect.map(
    LanguageModel.make({
      generateText: (options) => Effect.sync(() => (asked.push(options), [...(answers.whole ?? [])])),
      streamText: (options) => Stream.suspend(() => (asked.push(options), Stream.fromIterable(answers.pieces ?? [])))
    }),
    (model) => ({ asked, provider: FromLanguageModel.make(model, { provider: "foreign", model: "m" }) })
  )
}

const definition: ToolDefinition = {
  name: "double",
  description: "Doubles",
  parameters: { type: "object", properties: { n: { type: "number" } }, required: ["n"] }
}

describe("FromLanguageModel", () => {
  it.effect("asks with the encoded prompt and hands calls on untouched, even of tools that nobody declared", () =>
    Effect.gen(function* () {
      const { asked, provider } = yield* foreign({
        whole: [
          { type: "text", text: "well" },
          { type: "tool-call", id: "1", name: "double", params: { n: "no number" } },
          { type: "tool-call", id: "2", name: "nobody", params: { a: 1 } },
          finish
        ]
      })
      assert.deepInclude(provider.info, { provider: "foreign", model: "m", apiMode: "language_model" })
      const request = yield* provider.prepare(call([user("hi")], { tools: [definition] }))
      assert.deepStrictEqual(Object.keys(request), ["prompt", "tools", "tool_choice"])
      assert.doesNotThrow(() => JSON.stringify(request))
      const response = yield* provider.execute(request)
      assert.deepStrictEqual(
        response.parts.map((part) => (part.type === "tool-call" ? [part.name, part.params] : [part.type])),
        [["text"], ["double", { n: "no number" }], ["nobody", { a: 1 }]]
      )
      assert.deepInclude(Usage.fromResponse(response.usage), { inputTokens: 5, outputTokens: 2 })
      assert.deepStrictEqual(
        asked[0]?.tools.map((tool) => Tool.getJsonSchema(tool)),
        [definition.parameters]
      )
      assert.deepStrictEqual(asked[0]?.prompt.content[0], user("hi"))
    })
  )

  it.effect("takes a request that middleware has rewritten or sent through JSON", () =>
    Effect.gen(function* () {
      const { asked, provider } = yield* foreign({ whole: [{ type: "text", text: "ok" }, finish] })
      const request = yield* provider.prepare(call([user("hi")]))
      yield* provider.execute(JSON.parse(JSON.stringify({ ...request, tool_choice: "none" })))
      assert.deepStrictEqual(asked[0]?.prompt.content[0], user("hi"))
      const error = yield* Effect.flip(provider.execute({ prompt: "text" }))
      assert.strictEqual(error.reason._tag, "InvalidRequestError")
    })
  )

  it.effect("streams through onPart", () =>
    Effect.gen(function* () {
      const { provider } = yield* foreign({
        pieces: [
          { type: "response-metadata", id: "r1", modelId: "m-1" },
          { type: "text-start", id: "0" },
          { type: "text-delta", id: "0", delta: "a" },
          { type: "text-delta", id: "0", delta: "b" },
          { type: "text-end", id: "0" },
          { type: "tool-params-start", id: "x", name: "web", providerExecuted: true },
          { type: "tool-params-delta", id: "x", delta: "{}" },
          { type: "tool-params-end", id: "x" },
          { type: "tool-call", id: "c", name: "nobody", params: { a: 1 } },
          finish
        ]
      })
      const seen: Array<StreamPart> = []
      const request = yield* provider.prepare(call([user("hi")], { stream: true }))
      const response = yield* provider.execute(request, {
        onPart: (parts) =>
          Effect.sync(() => {
            seen.push(...parts)
            return parts.filter((part) => part.type !== "text-delta" || part.delta !== "b")
          })
      })
      assert.strictEqual(textOf(response), "a")
      assert.deepInclude(response, { id: "r1", model: "m-1", finishReason: "stop" })
      assert.deepStrictEqual(
        seen.map(({ type }) => type),
        ["response-metadata", "text-start", "text-delta", "text-delta", "text-end", "tool-call", "finish"]
      )
      assert.include(JSON.stringify(response.raw), '"ab"')
    })
  )

  it.effect("reads its own raw answers", () =>
    Effect.gen(function* () {
      const { provider } = yield* foreign({ whole: [{ type: "text", text: "ok" }, finish] })
      const response = yield* provider.execute(yield* provider.prepare(call([user("hi")])))
      const again = yield* provider.decode(JSON.parse(JSON.stringify(response.raw)))
      assert.deepStrictEqual(again.parts, response.parts)
      assert.deepStrictEqual(again.usage, response.usage)
      assert.strictEqual(
        (yield* Effect.flip(provider.decode({ content: [{ type: "x" }] }))).reason._tag,
        "InvalidOutputError"
      )
    })
  )

  it.effect("fails when a stream is cut or reports an error", () =>
    Effect.gen(function* () {
      const request = yield* (yield* foreign({})).provider.prepare(call([user("hi")], { stream: true }))
      const cut = yield* foreign({ pieces: [{ type: "text-delta", id: "0", delta: "a" }] })
      assert.strictEqual((yield* Effect.flip(cut.provider.execute(request))).reason._tag, "InvalidResponseError")
      const broken = yield* foreign({ pieces: [{ type: "error", error: "boom" }, finish] })
      assert.include((yield* Effect.flip(broken.provider.execute(request))).message, "boom")
    })
  )

  it.effect("asks for a structured answer in words", () =>
    Effect.gen(function* () {
      const { asked, provider } = yield* foreign({ whole: [{ type: "text", text: "{}" }, finish] })
      const responseFormat = { type: "json", name: "x", schema: { type: "object", title: "T" } } as const
      const system = Prompt.systemMessage({ content: "Be brief." })
      yield* provider.execute(yield* provider.prepare(call([system, user("hi")], { responseFormat })))
      assert.deepStrictEqual(
        asked[0]?.prompt.content.map(({ role }) => role),
        ["system", "user"]
      )
      assert.include(JSON.stringify(asked[0]?.prompt.content[0]), '\\"title\\":\\"T\\"')
    })
  )
})

describe("FromLanguageModel and ToLanguageModel", () => {
  it.effect("a provider there and back is the same provider to its user", () =>
    Effect.gen(function* () {
      const offline = yield* Offline.make()
      const model = yield* ToLanguageModel.make(offline)
      const provider = FromLanguageModel.make(model, { provider: "offline", model: "offline" })
      const tools = {
        double: { parameters: ["n"], run: ({ n }: Record<string, unknown>) => ({ result: String(Number(n) * 2) }) }
      }
      for (const stream of [false, true]) {
        const said = 'Use the double tool with {"n":"21"} and reply with exactly the result'
        const direct = yield* converse(offline, said, tools, { stream })
        const around = yield* converse(provider, said, tools, { stream })
        assert.deepStrictEqual([around.text, around.steps, around.ids], [direct.text, direct.steps, direct.ids])
        assert.strictEqual(around.text, "42")
      }
    })
  )

  it.effect("a model there and back runs toolkits", () =>
    Effect.gen(function* () {
      const inner = yield* LanguageModel.LanguageModel
      const model = yield* ToLanguageModel.make(FromLanguageModel.make(inner, { provider: "p", model: "m" }))
      const response = yield* model.generateText({ prompt: "double 4", toolkit })
      assert.deepStrictEqual(
        response.toolResults.map(({ result }) => result),
        [8]
      )
      const streamed = yield* Stream.runCollect(model.streamText({ prompt: "double 4", toolkit }))
      assert.strictEqual(streamed.find((part) => part.type === "tool-result")?.result, 8)
    }).pipe(
      Effect.provide(handlers),
      Effect.provide(
        scripted(
          Scripted.complete({ toolCalls: [{ name: "double", params: { n: 4 } }] }),
          Scripted.complete({ toolCalls: [{ name: "double", params: { n: 4 } }] })
        )
      )
    )
  )
})
