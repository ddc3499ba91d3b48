// The rules of providers over the four protocols through the official SDKs, and over the providers without a network.
import { APICallError, type LanguageModelV4Content, type LanguageModelV4StreamPart } from "@ai-sdk/provider"
import { assert, describe, it } from "@effect/vitest"
import { simulateReadableStream } from "ai"
import { MockLanguageModelV4 } from "ai/test"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as AiError from "effect/ai/AiError"
import type { Configurable } from "../../../src/base/domain/ApiMode.ts"
import * as FromAiSdk from "../../../src/models/provider/FromAiSdk.ts"
import * as Offline from "../../../src/models/provider/Offline.ts"
import { Provider, type Service } from "../../../src/models/provider/Provider.ts"
import * as Scripted from "../../../src/models/provider/Scripted.ts"
import * as Chaos from "../../../src/kit/testing/Chaos.ts"
import * as Conformance from "../../../src/kit/testing/Conformance.ts"
import * as ProviderRules from "../../../src/kit/testing/ProviderRules.ts"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { protocols, type WireTurn } from "../../support/wireModel.ts"

const answer: WireTurn = { text: "hello to whoever asks" }
const call: WireTurn = { calls: [{ id: "call_a", name: "lookup", args: '{"key": "a"}' }] }

const overWire = (mode: Configurable) => {
  const protocol = protocols[mode]
  const provider = (handle: Parameters<typeof HttpServer.make>[0]) =>
    Effect.gen(function* () {
      const { url } = yield* HttpServer.make(handle)
      return Context.get(yield* Layer.build(protocol.layer(url)), Provider)
    })
  const saying = (turn: WireTurn) =>
    provider(({ body, url }, response) =>
      /"stream":true/.test(body) || /stream/.test(url)
        ? protocol.stream(turn, response)
        : HttpServer.json(response, 200, protocol.whole(turn))
    )
  return Effect.all({
    answering: saying(answer),
    calling: saying(call),
    failing: provider((_, response) =>
      HttpServer.json(response, 500, { error: { message: "broken", type: "server_error" } })
    ),
    silent: provider(() => {})
  })
}

/** Each turn of a script serves one request, and a rule makes a few. */
const many = (turn: Scripted.Turn) =>
  Effect.map(Scripted.make(Array.from({ length: 8 }, () => turn)), ({ provider }) => provider)

const broken = (rules: ReadonlyArray<Conformance.Result>) =>
  rules.flatMap(({ broken, name }) => (broken === undefined ? [] : [[name, broken.message]]))

describe("rules of providers", () => {
  const modes: ReadonlyArray<Configurable> = [
    "chat_completions",
    "anthropic_messages",
    "codex_responses",
    "bedrock_converse"
  ]
  for (const mode of modes) {
    it.live(`${mode} keeps them`, () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(
          broken(
            yield* Conformance.runRules(
              ProviderRules.rules,
              Layer.effect(ProviderRules.Subject, Effect.orDie(overWire(mode)))
            )
          ),
          []
        )
      })
    )
  }

  it.live("models of the AI SDK keep them", () =>
    Effect.gen(function* () {
      const usage = {
        inputTokens: { total: 9, noCache: 9, cacheRead: 0, cacheWrite: 0 },
        outputTokens: { total: 2, text: 2, reasoning: 0 }
      }
      const finish = (unified: "stop" | "tool-calls") =>
        ({ type: "finish", finishReason: { unified, raw: unified }, usage }) as const
      const saying = (
        content: LanguageModelV4Content,
        pieces: ReadonlyArray<LanguageModelV4StreamPart>,
        unified: "stop" | "tool-calls"
      ) =>
        FromAiSdk.make(
          new MockLanguageModelV4({
            doGenerate: { content: [content], finishReason: { unified, raw: unified }, usage, warnings: [] },
            doStream: async () => ({
              stream: simulateReadableStream({
                chunks: [...pieces, finish(unified)],
                initialDelayInMs: null,
                chunkDelayInMs: null
              })
            })
          })
        )
      const call: LanguageModelV4Content & LanguageModelV4StreamPart = {
        type: "tool-call",
        toolCallId: "call_a",
        toolName: "lookup",
        input: '{"key": "a"}'
      }
      const overloaded = new APICallError({
        message: "overloaded",
        url: "https://api.example.com",
        requestBodyValues: {},
        statusCode: 503
      })
      const tested = {
        answering: saying(
          { type: "text", text: "hello to you" },
          [
            { type: "text-start", id: "0" },
            { type: "text-delta", id: "0", delta: "hello " },
            { type: "text-delta", id: "0", delta: "to you" },
            { type: "text-end", id: "0" }
          ],
          "stop"
        ),
        calling: saying(call, [call], "tool-calls"),
        failing: FromAiSdk.make(
          new MockLanguageModelV4({
            doGenerate: () => Promise.reject(overloaded),
            doStream: () => Promise.reject(overloaded)
          })
        ),
        silent: FromAiSdk.make(
          new MockLanguageModelV4({ doGenerate: () => new Promise(() => {}), doStream: () => new Promise(() => {}) })
        )
      }
      assert.deepStrictEqual(
        broken(yield* Conformance.runRules(ProviderRules.rules, Layer.succeed(ProviderRules.Subject, tested))),
        []
      )
    })
  )

  it.live("those without a network keep them", () =>
    Effect.gen(function* () {
      const scripted = Effect.all({
        answering: many(Scripted.complete({ pieces: ["hello ", "to you"] })),
        calling: many(Scripted.complete({ toolCalls: [{ name: "lookup", params: { key: "a" } }] })),
        failing: many(Scripted.fail(new AiError.InternalProviderError({ description: "overloaded" }))),
        silent: many(Scripted.hang())
      })
      const offline = Effect.map(Offline.make(), (answering) => ({ answering }))
      for (const make of [scripted, offline]) {
        assert.deepStrictEqual(
          broken(yield* Conformance.runRules(ProviderRules.rules, Layer.effect(ProviderRules.Subject, make))),
          []
        )
      }
    })
  )

  it.live("a provider that breaks them is named with each", () =>
    Effect.gen(function* () {
      const odd = (provider: Service): Service => {
        let count = 0
        return {
          ...provider,
          prepare: (asked) => Effect.map(provider.prepare(asked), (request) => ({ ...request, number: ++count })),
          execute: (request, options) =>
            Effect.map(provider.execute(request, options && {}), (response) => ({
              ...response,
              finishReason: "unknown" as const
            })),
          decode: () => Effect.die("unread")
        }
      }
      const results = yield* Conformance.runRules(
        ProviderRules.rules,
        Layer.effect(
          ProviderRules.Subject,
          Effect.map(many(Scripted.complete("hello")), (provider) => ({ answering: odd(provider) }))
        )
      )
      assert.deepStrictEqual(
        broken(results).map(([name]) => name),
        [
          "are the same for the same question, and the question stays as it is",
          "in one piece have text, a reason for their end, and counts that are numbers",
          "in pieces say in their pieces what the whole says",
          "of answers are read back as these answers",
          "that are none fail with AiError"
        ]
      )
    })
  )

  it.live("faults of a seed are the same each time, and of their kinds", () =>
    Effect.gen(function* () {
      const options = { seed: "a", rates: { overloaded: 0.3, limited: 0.2, unreachable: 0.2 } }
      const drawn = (source: Chaos.Source) =>
        Array.from({ length: 200 }, () => source.next(["overloaded", "limited", "unreachable", "cut"]))
      const source = Chaos.make(options)
      const first = drawn(source)
      assert.deepStrictEqual(drawn(Chaos.make(options)), first)
      assert.notDeepEqual(drawn(Chaos.make({ ...options, seed: "b" })), first)
      const share = (fault: Chaos.Fault) => (source.played.get(fault) ?? 0) / 200
      assert.approximately(share("overloaded"), 0.3, 0.1)
      assert.approximately(share("limited"), 0.2, 0.1)
      assert.strictEqual(share("cut"), 0)

      const { provider } = yield* Scripted.make(
        Array.from({ length: 9 }, () => Scripted.complete({ pieces: ["a ", "b ", "c"] }))
      )
      const asked = (rates: Chaos.Options["rates"]) =>
        Effect.gen(function* () {
          const seen: Array<string> = []
          const wrapped = Chaos.wrapProvider(provider, Chaos.make({ seed: 1, rates }))
          const request = yield* wrapped.prepare(ProviderRules.makeQuestion(true))
          const error = yield* wrapped
            .execute(request, {
              onPart: (parts) => Effect.sync(() => (seen.push(...parts.map(({ type }) => type)), parts))
            })
            .pipe(Effect.timeout("50 millis"), Effect.flip)
          return [error._tag === "AiError" ? error.reason._tag : error._tag, seen] as const
        })
      assert.deepStrictEqual(yield* asked({ overloaded: 1 }), ["InternalProviderError", []])
      assert.deepStrictEqual(yield* asked({ limited: 1 }), ["RateLimitError", []])
      assert.deepStrictEqual(yield* asked({ unreachable: 1 }), ["NetworkError", []])
      assert.deepStrictEqual(yield* asked({ silent: 1 }), ["TimeoutError", []])
      const [reason, seen] = yield* asked({ cut: 1 })
      assert.strictEqual(reason, "NetworkError")
      assert.includeMembers([...seen], ["text-delta"])
      assert.notInclude([...seen], "finish")
    })
  )
})
