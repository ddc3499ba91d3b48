// Models of the specifications v2 and v3 of the AI SDK as providers: what they are asked, what they answer, and models
// that are none.
import type {
  LanguageModelV2,
  LanguageModelV2CallOptions,
  LanguageModelV2StreamPart,
  LanguageModelV3,
  LanguageModelV3CallOptions,
  LanguageModelV3StreamPart
} from "@ai-sdk/provider"
import { assert, describe, it } from "@effect/vitest"
import { simulateReadableStream } from "ai"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import type { AiError } from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import type { ModelCall } from "../../../src/base/domain/ModelCall.ts"
import * as FromAiSdk from "../../../src/models/provider/FromAiSdk.ts"
import * as Conformance from "../../../src/kit/testing/Conformance.ts"
import * as ProviderRules from "../../../src/kit/testing/ProviderRules.ts"

type Kind = "answer" | "call" | "fail" | "silence"

const streamOf = <Part>(chunks: ReadonlyArray<Part>) =>
  simulateReadableStream({ chunks: [...chunks], initialDelayInMs: null, chunkDelayInMs: null })
const overloaded = Object.assign(new Error("overloaded"), {
  name: "AI_APICallError",
  statusCode: 503,
  isRetryable: true,
  url: "https://api.example.com"
})
const never = () => new Promise<never>(() => {})
const call = { type: "tool-call", toolCallId: "call_a", toolName: "lookup", input: '{"key": "a"}' } as const
const textParts = [
  { type: "text-start", id: "0" },
  { type: "text-delta", id: "0", delta: "hello" },
  { type: "text-end", id: "0" }
] as const
const image = { type: "file", mediaType: "image/png", data: "AQID" } as const

interface Settings {
  readonly provider?: string
  readonly usage?: { readonly inputTokens: number; readonly cachedInputTokens?: number }
}

const v2 = (
  kind: Kind,
  seen: Array<LanguageModelV2CallOptions> = [],
  { provider = "older", usage: given = { inputTokens: 9, cachedInputTokens: 4 } }: Settings = {}
): LanguageModelV2 => {
  const usage = { outputTokens: 5, totalTokens: 14, reasoningTokens: 2, ...given }
  const finishReason = kind === "call" ? "tool-calls" : "stop"
  const guarded = <A>(options: LanguageModelV2CallOptions, answer: () => A): PromiseLike<A> => {
    seen.push(options)
    return kind === "fail" ? Promise.reject(overloaded) : kind === "silence" ? never() : Promise.resolve(answer())
  }
  const parts: ReadonlyArray<LanguageModelV2StreamPart> = kind === "call" ? [call] : [...textParts, image]
  return {
    specificationVersion: "v2",
    provider,
    modelId: "m2",
    supportedUrls: {},
    doGenerate: (options) =>
      guarded(options, () => ({
        content: kind === "call" ? [call] : [{ type: "text", text: "hello" }, image],
        finishReason,
        usage,
        warnings: [{ type: "unsupported-setting", setting: "seed" }]
      })),
    doStream: (options) =>
      guarded(options, () => ({
        stream: streamOf<LanguageModelV2StreamPart>([
          { type: "stream-start", warnings: [] },
          ...parts,
          { type: "finish", finishReason, usage }
        ])
      }))
  }
}

const v3 = (kind: Kind, seen: Array<LanguageModelV3CallOptions> = []): LanguageModelV3 => {
  const usage = {
    inputTokens: { total: 9, noCache: 5, cacheRead: 4, cacheWrite: 0 },
    outputTokens: { total: 5, text: 3, reasoning: 2 }
  }
  const finishReason = { unified: kind === "call" ? "tool-calls" : "stop", raw: "r" } as const
  const guarded = <A>(options: LanguageModelV3CallOptions, answer: () => A): PromiseLike<A> => {
    seen.push(options)
    return kind === "fail" ? Promise.reject(overloaded) : kind === "silence" ? never() : Promise.resolve(answer())
  }
  const parts: ReadonlyArray<LanguageModelV3StreamPart> = kind === "call" ? [call] : [...textParts, image]
  return {
    specificationVersion: "v3",
    provider: "older",
    modelId: "m3",
    supportedUrls: {},
    doGenerate: (options) =>
      guarded(options, () => ({
        content: kind === "call" ? [call] : [{ type: "text", text: "hello" }, image],
        finishReason,
        usage,
        warnings: []
      })),
    doStream: (options) =>
      guarded(options, () => ({
        stream: streamOf<LanguageModelV3StreamPart>([...parts, { type: "finish", finishReason, usage }])
      }))
  }
}

/** A question with a file, a call that was made, and its result with a picture. */
const question: ModelCall = {
  messages: [
    Prompt.userMessage({
      content: [
        Prompt.textPart({ text: "What is it?" }),
        Prompt.filePart({ mediaType: "image/png", data: new Uint8Array([1, 2]) }),
        Prompt.filePart({ mediaType: "image/png", data: new URL("https://example.com/a.png") })
      ]
    }),
    Prompt.assistantMessage({
      content: [Prompt.toolCallPart({ id: "c1", name: "lookup", params: { key: "b" }, providerExecuted: false })]
    }),
    Prompt.toolMessage({
      content: [
        Prompt.toolResultPart({
          id: "c1",
          name: "lookup",
          isFailure: false,
          result: "2",
          providerExecuted: false,
          modelOutput: [
            Prompt.textPart({ text: "two" }),
            Prompt.filePart({ mediaType: "image/png", data: new Uint8Array([1, 2, 3]) }),
            Prompt.filePart({ mediaType: "image/png", data: new URL("https://example.com/b.png") })
          ]
        })
      ]
    })
  ],
  tools: [],
  toolChoice: "auto",
  responseFormat: { type: "text" },
  stream: false,
  reasoningEffort: "high"
}

const asked = Effect.fnUntraced(function* (model: FromAiSdk.AiSdkModel, more: Partial<ModelCall> = {}) {
  const warnings: Array<string> = []
  const provider = FromAiSdk.make(model)
  const answer = Effect.flatMap(provider.prepare({ ...question, ...more }), (request) => provider.execute(request))
  const logger = Logger.make(({ message }) => void warnings.push(String(message)))
  const response = yield* Effect.provide(answer, Logger.layer([logger]))
  return { response, warnings }
})

const kinds = { answering: "answer", calling: "call", failing: "fail", silent: "silence" } as const

describe("FromAiSdk with older specifications", () => {
  for (const [version, make] of [
    ["v2", v2],
    ["v3", v3]
  ] as const) {
    it.live(`${version} keeps the rules of providers`, () =>
      Effect.gen(function* () {
        const provider = (kind: Kind) => FromAiSdk.make(make(kind))
        const tested = {
          answering: provider(kinds.answering),
          calling: provider(kinds.calling),
          failing: provider(kinds.failing),
          silent: provider(kinds.silent)
        }
        const results = yield* Conformance.runRules(
          ProviderRules.rules,
          Layer.succeed(ProviderRules.Subject, tested)
        ).pipe(Effect.provide(Logger.layer([])))
        assert.deepStrictEqual(
          results.flatMap(({ broken, name }) => (broken === undefined ? [] : [[name, broken.message]])),
          []
        )
      })
    )

    it.effect(`${version} gives files, usage and the end as v4 does, whole and in pieces`, () =>
      Effect.gen(function* () {
        for (const stream of [false, true]) {
          const { response } = yield* asked(make("answer"), { stream })
          assert.deepStrictEqual(
            response.parts.map((part) =>
              part.type === "text"
                ? part.text
                : part.type === "file"
                  ? [part.mediaType, Array.from(part.data)]
                  : part.type
            ),
            ["hello", ["image/png", [1, 2, 3]]]
          )
          const { inputTokens, outputTokens } = response.usage
          assert.deepStrictEqual(
            [response.finishReason, inputTokens.total, inputTokens.uncached, inputTokens.cacheRead, outputTokens.total],
            ["stop", 9, 5, 4, 5]
          )
        }
      })
    )

    it.effect(`${version} is asked without the effort of reasoning, with a warning`, () =>
      Effect.gen(function* () {
        for (const stream of [false, true]) {
          const { warnings } = yield* asked(make("answer"), { stream })
          assert.isTrue(
            warnings.some((text) => text.includes(`specification ${version} has no setting for it`)),
            warnings.join("\n")
          )
        }
      })
    )
  }

  it.effect("files of a prompt are bare, and those in results have the kinds of the specification", () =>
    Effect.gen(function* () {
      const seen2: Array<LanguageModelV2CallOptions> = []
      const seen3: Array<LanguageModelV3CallOptions> = []
      yield* asked(v2("answer", seen2))
      yield* asked(v3("answer", seen3))
      for (const [options] of [seen2, seen3]) {
        assert.notProperty(options, "reasoning")
        const [said] = options?.prompt ?? []
        assert.deepStrictEqual(said?.role === "user" ? said.content.slice(1) : said, [
          { type: "file", mediaType: "image/png", data: new Uint8Array([1, 2]) },
          { type: "file", mediaType: "image/png", data: new URL("https://example.com/a.png") }
        ])
      }
      const outputOf = (options: LanguageModelV2CallOptions | LanguageModelV3CallOptions | undefined): unknown => {
        const last = options?.prompt.at(-1)
        const [part] = last?.role === "tool" ? last.content : []
        return part?.type === "tool-result" ? part.output : undefined
      }
      assert.deepStrictEqual(outputOf(seen2[0]), {
        type: "content",
        value: [
          { type: "text", text: "two" },
          { type: "media", mediaType: "image/png", data: "AQID" },
          { type: "text", text: "https://example.com/b.png" }
        ]
      })
      assert.deepStrictEqual(outputOf(seen3[0]), {
        type: "content",
        value: [
          { type: "text", text: "two" },
          { type: "file-data", mediaType: "image/png", data: "AQID" },
          { type: "file-url", url: "https://example.com/b.png" }
        ]
      })
    })
  )

  it.effect("v2: tokens of a cache that are counted apart are added", () =>
    Effect.gen(function* () {
      const cases: ReadonlyArray<readonly [Settings, total: number, uncached: number]> = [
        [{ usage: { inputTokens: 9, cachedInputTokens: 4 } }, 9, 5],
        [{ usage: { inputTokens: 9 } }, 9, 9],
        [{ usage: { inputTokens: 9, cachedInputTokens: 90 } }, 99, 9],
        [{ provider: "anthropic.messages", usage: { inputTokens: 9, cachedInputTokens: 4 } }, 13, 9],
        [{ provider: "amazon-bedrock", usage: { inputTokens: 9, cachedInputTokens: 4 } }, 13, 9]
      ]
      for (const [settings, total, uncached] of cases) {
        const {
          response: {
            usage: { inputTokens }
          }
        } = yield* asked(v2("answer", [], settings))
        assert.deepStrictEqual([inputTokens.total, inputTokens.uncached], [total, uncached], JSON.stringify(settings))
      }
    })
  )

  it.effect("anything else is refused by each call, with what it is and what to do", () =>
    Effect.gen(function* () {
      const cases: ReadonlyArray<readonly [unknown, RegExp]> = [
        [
          { specificationVersion: "v1", modelId: "gpt-4" },
          /the model gpt-4 has specification v1 of the AI SDK, .*install a provider for the AI SDK 5 or later/
        ],
        [
          { specificationVersion: "v9", provider: "future", modelId: "m" },
          /specification v9 .* or a newer hermes-effect/
        ],
        ["openai/gpt-5.2", /is a model name, not a model: give what a provider/],
        [{}, /names no specificationVersion/]
      ]
      for (const [given, message] of cases) {
        // Plain code gives anything.
        const provider = FromAiSdk.make(given as FromAiSdk.AiSdkModel)
        for (const failing of [provider.prepare(question), provider.execute({}), provider.decode({})]) {
          const { reason } = yield* Effect.flip(Effect.asVoid<unknown, AiError, never>(failing))
          assert.strictEqual(reason._tag, "InvalidRequestError")
          assert.match(reason.message, message)
          assert.isFalse(reason.isRetryable)
        }
      }
    })
  )
})
