// A router as the `LanguageModel` of effect/ai: its routes, keys and retries are invisible to those who use the model.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as TestClock from "effect/testing/TestClock"
import type { StreamPart } from "../../../src/base/domain/ModelCall.ts"
import * as H from "../../../src/index.ts"
import { RoutedLanguageModel } from "../../../src/kit/entry/effect-ai.ts"
import * as Fake from "../../support/fakeModel.ts"
import * as S from "./support.ts"

const overloaded = S.http(503, "overloaded")

/** A model over routes a and b; `keys` are those of a. */
const modelOver = (script: S.Script, keys: ReadonlyArray<string> = []) =>
  Effect.gen(function* () {
    const { asked, open } = S.world(script)
    const router = yield* S.router({
      chain: [{ route: S.route("a"), credentials: keys.map(S.key) }, { route: S.route("b") }],
      open
    })
    return { asked, model: yield* RoutedLanguageModel.make({ router, interceptors: S.bare }) }
  })

/** Runs an effect while its waits are skipped. */
const withoutWaits = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(Effect.exit(effect))
    yield* TestClock.adjust("10 minutes")
    return yield* yield* Fiber.join(fiber)
  })

const opening: ReadonlyArray<StreamPart> = [
  Response.makePart("response-metadata", {}),
  Response.makePart("text-start", { id: "0" })
]
const said = (delta: string): StreamPart => Response.makePart("text-delta", { id: "0", delta })

const readText = (parts: ReadonlyArray<Response.AnyPart>) =>
  parts.flatMap((part) => (part.type === "text-delta" ? [part.delta] : [])).join("")

describe("a routed LanguageModel", () => {
  it.effect("repeats a call that the provider refuses for its load", () =>
    Effect.gen(function* () {
      const { asked, model } = yield* modelOver({ a: [S.fails(overloaded), Fake.text("hello")], b: [] })
      const { text, usage } = yield* withoutWaits(model.generateText({ prompt: "hi" }))
      assert.deepStrictEqual([text, usage.inputTokens.total], ["hello", 10])
      assert.deepStrictEqual(asked, ["a", "a"])
    })
  )

  it.effect("takes the next key, then the next route", () =>
    Effect.gen(function* () {
      const refused = S.fails(S.http(401, "invalid key"))
      const byKey = yield* modelOver({ a: [refused, Fake.text("from a")], b: [] }, ["k1", "k2"])
      assert.strictEqual((yield* byKey.model.generateText({ prompt: "hi" })).text, "from a")
      assert.deepStrictEqual(byKey.asked, ["a:k1", "a:k2"])
      const byRoute = yield* modelOver({ a: [S.fails(overloaded)], b: [Fake.text("from b")] })
      assert.strictEqual((yield* withoutWaits(byRoute.model.generateText({ prompt: "hi" }))).text, "from b")
      assert.deepStrictEqual(byRoute.asked, ["a", "a", "a", "b"])
    })
  )

  it.effect("begins each call at the first route", () =>
    Effect.gen(function* () {
      const { asked, model } = yield* modelOver({
        a: [S.fails(S.http(402, "no credits")), Fake.text("from a")],
        b: [Fake.text("from b")]
      })
      const ask = Effect.map(model.generateText({ prompt: "hi" }), ({ text }) => text)
      // A route that refused for money is left alone for a minute.
      assert.deepStrictEqual([yield* ask, yield* ask], ["from b", "from b"])
      yield* TestClock.adjust("2 minutes")
      assert.strictEqual(yield* ask, "from a")
      assert.deepStrictEqual(asked, ["a", "b", "b", "a"])
    })
  )

  it.effect("fails with the last failure when no route can answer", () =>
    Effect.gen(function* () {
      const { model } = yield* modelOver({ a: [S.fails(overloaded)], b: [S.fails(S.http(401, "invalid key"))] })
      const error = yield* Effect.flip(withoutWaits(model.generateText({ prompt: "hi" })))
      assert.strictEqual(error.reason._tag, "AuthenticationError")
    })
  )

  it.effect("streams the answer of the attempt that succeeds, and nothing of those that failed before", () =>
    Effect.gen(function* () {
      const { asked, model } = yield* modelOver({
        a: [S.fails(overloaded), S.breaks(overloaded, ...opening), Fake.pieces("he", "llo")],
        b: []
      })
      const parts = yield* withoutWaits(Stream.runCollect(model.streamText({ prompt: "hi" })))
      assert.strictEqual(readText(parts), "hello")
      assert.deepStrictEqual(
        parts.map(({ type }) => type),
        ["text-start", "text-delta", "text-delta"]
      )
      assert.deepStrictEqual(asked, ["a", "a", "a"])
    })
  )

  it.effect("fails a stream that breaks after its first content at once, and never adds another answer", () =>
    Effect.gen(function* () {
      const call = Response.makePart("tool-call", { id: "1", name: "x", params: {}, providerExecuted: false })
      for (const content of [said("hel"), Response.makePart("reasoning-delta", { id: "1", delta: "hm" }), call]) {
        const { asked, model } = yield* modelOver({
          a: [S.breaks(overloaded, ...opening, content), Fake.pieces("other")],
          b: [Fake.text("third")]
        })
        const seen: Array<string> = []
        // No time passes: nothing is waited for.
        const error = yield* model
          .streamText({ prompt: "hi", disableToolCallResolution: true, toolCallValidation: "deferred" })
          .pipe(
            Stream.runForEach((part) => Effect.sync(() => seen.push(part.type))),
            Effect.flip
          )
        assert.strictEqual(error.reason._tag, "InternalProviderError")
        assert.deepStrictEqual(seen, ["response-metadata", "text-start", content.type])
        assert.deepStrictEqual(asked, ["a"])
      }
    })
  )

  it.effect("streams an answer that comes whole", () =>
    Effect.gen(function* () {
      const { model } = yield* modelOver({ a: [Fake.text("hello")], b: [] })
      const parts = yield* Stream.runCollect(model.streamText({ prompt: "hi" }))
      assert.strictEqual(readText(parts), "hello")
      assert.strictEqual(parts.at(-1)?.type, "finish")
    })
  )

  it.effect("generates objects, and runs the tools of a toolkit", () =>
    Effect.gen(function* () {
      const Double = Tool.make("double", { parameters: Schema.Struct({ n: Schema.Finite }), success: Schema.Finite })
      const toolkit = Toolkit.make(Double)
      const { model } = yield* modelOver({
        a: [
          S.fails(overloaded),
          Fake.text('{"name":"Ada"}'),
          S.fails(overloaded),
          Fake.calls(Fake.call("1", "double", { n: 21 }))
        ],
        b: []
      })
      const object = yield* withoutWaits(
        model.generateObject({ prompt: "who?", schema: Schema.Struct({ name: Schema.String }) })
      )
      assert.deepStrictEqual(object.value, { name: "Ada" })
      const { toolResults } = yield* withoutWaits(model.generateText({ prompt: "double 21", toolkit })).pipe(
        Effect.provide(toolkit.toLayer({ double: ({ n }) => Effect.succeed(n * 2) }))
      )
      assert.deepStrictEqual(
        toolResults.map(({ result }) => result),
        [42]
      )
    })
  )

  it.effect("stops its attempts with the call, and with the reader of a stream", () =>
    Effect.gen(function* () {
      let interrupted = 0
      const hangs: Fake.Turn = () => Effect.onInterrupt(Effect.never, () => Effect.sync(() => interrupted++))
      const { model } = yield* modelOver({ a: [hangs], b: [] })
      for (const asked of [model.generateText({ prompt: "x" }), Stream.runDrain(model.streamText({ prompt: "x" }))]) {
        const fiber = yield* Effect.forkChild(asked, { startImmediately: true })
        yield* Effect.yieldNow
        yield* Fiber.interrupt(fiber)
      }
      assert.strictEqual(interrupted, 2)
    })
  )

  it.effect("sends its settings, and turns a failure of middleware into an AiError", () =>
    Effect.gen(function* () {
      class Veto extends Schema.TaggedError<Veto>()("Veto", { message: Schema.String }) {}
      const { open, prepared } = S.world({ a: [Fake.text("ok")] })
      const router = yield* S.router({ chain: [{ route: S.route("a") }], open })
      const settings = { temperature: 0.5, maxOutputTokens: 7 }
      const layer = RoutedLanguageModel.layerWith(settings).pipe(
        Layer.provide(Layer.succeed(H.ModelRouter.ModelRouter, router))
      )
      yield* Effect.provide(LanguageModel.generateText({ prompt: "x" }), layer)
      assert.deepInclude(prepared[0], settings)
      const model = yield* RoutedLanguageModel.make({
        router: { ...router, call: <E>() => Effect.fail(new Veto({ message: "not now" }) as E) },
        interceptors: S.bare
      })
      const error = yield* Effect.flip(model.generateText({ prompt: "x" }))
      assert.isTrue(AiError.isAiError(error))
      assert.include(error.message, "not now")
    })
  )
})

describe("the LanguageModel of a runtime", () => {
  const routes = [
    { provider: "custom", model: "large", baseUrl: "http://127.0.0.1:9/v1", apiKey: Redacted.make("key-1") },
    { provider: "offline", model: "offline" }
  ]

  it.live("asks the routes of its agent", () =>
    Effect.gen(function* () {
      const { text } = yield* LanguageModel.generateText({ prompt: "Reply exactly hello" })
      assert.strictEqual(text, "hello")
      const parts = yield* Stream.runCollect(LanguageModel.streamText({ prompt: "Reply exactly hello" }))
      assert.strictEqual(readText(parts), "hello")
    }).pipe(Effect.provide(H.Runtime.layer({ routes, retry: H.RetryPolicy.none })))
  )

  it.effect("within a run is charged to it, is in its record, and is seen by the hooks", () =>
    Effect.gen(function* () {
      const Ask = Tool.make("ask", { success: Schema.String }).annotate(Tool.Readonly, true)
      const toolkit = Toolkit.make(Ask)
      const ask = Effect.gen(function* () {
        const model = Option.getOrThrow(yield* Effect.serviceOption(LanguageModel.LanguageModel))
        return (yield* Effect.orDie(model.generateText({ prompt: "inner" }))).text
      })
      const tools = [H.Toolset.make("ask", toolkit, toolkit.toLayer({ ask: () => ask }))]
      const platforms: Array<string> = []
      const hooks = [
        H.Hooks.observer(
          { label: "platforms" },
          { post_api_request: ({ platform }) => Effect.sync(() => platforms.push(platform)) }
        )
      ]
      const provider = H.Scripted.layer([
        H.Scripted.complete({ toolCalls: [{ name: "ask", params: {} }], usage: { input: 1, output: 1 } }),
        H.Scripted.complete({ text: "from inside", usage: { input: 100, output: 10 } }),
        H.Scripted.complete({ text: "done", usage: { input: 1, output: 1 } })
      ])
      yield* Effect.gen(function* () {
        const { sessionId, text, usage } = yield* H.Agent.run({ prompt: "Go." })
        assert.deepStrictEqual([text, usage.inputTokens, usage.outputTokens], ["done", 102, 12])
        assert.deepStrictEqual(platforms, ["library", "auxiliary:language_model", "library"])
        const record = yield* H.RunRecord.RunRecord
        const entries = yield* Stream.runCollect(record.read({ sessionId }))
        assert.deepStrictEqual(
          entries.flatMap(({ event }) => (event._tag === "AttemptStarted" ? [event.task] : [])),
          [undefined, "language_model", undefined]
        )
      }).pipe(Effect.provide(H.Runtime.layer({ provider, tools, hooks })))
    })
  )
})
