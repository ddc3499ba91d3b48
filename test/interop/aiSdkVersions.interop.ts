// The AI SDK 5 and 6: their models as providers, by the rules of providers over real HTTP, and the agent as a language
// model for them.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { languageModel } from "../../src/kit/entry/ai-sdk.ts"
import { createHermes, type Hermes, tool } from "../../src/kit/entry/promise.ts"
import * as FromAiSdk from "../../src/models/provider/FromAiSdk.ts"
import * as Scripted from "../../src/models/provider/Scripted.ts"
import * as Conformance from "../../src/kit/testing/Conformance.ts"
import * as ProviderRules from "../../src/kit/testing/ProviderRules.ts"
import * as HttpServer from "../models/provider/HttpServer.ts"
import { protocols, type WireTurn } from "../support/wireModel.ts"
import * as z from "zod"

/** The parts of the packages that are used here: they are installed for this folder alone. */
interface AiSdk {
  readonly generateText: (options: object) => Promise<Generated>
  readonly streamText: (options: object) => {
    readonly fullStream: AsyncIterable<{
      readonly type: string
      readonly text?: string
      readonly toolName?: string
      readonly output?: unknown
    }>
  }
}
interface Generated {
  readonly text: string
  readonly finishReason: string
  readonly usage: { readonly inputTokens?: number; readonly outputTokens?: number }
  readonly toolResults: ReadonlyArray<{ readonly toolName: string; readonly output: unknown }>
  readonly providerMetadata?: { readonly hermes?: { readonly exit?: string } }
}
interface Compatible {
  readonly createOpenAICompatible: (options: object) => (model: string) => FromAiSdk.AiSdkModel
}

const load = <A>(name: string): Effect.Effect<A> => Effect.promise((): Promise<A> => import(name))

const answer: WireTurn = { text: "hello to whoever asks" }
const call: WireTurn = { calls: [{ id: "call_a", name: "lookup", args: '{"key": "a"}' }] }

/** Providers over models of a package, each with a server behind it. */
const subjects = (name: string) =>
  Effect.gen(function* () {
    const { createOpenAICompatible } = yield* load<Compatible>(name)
    const { stream, whole } = protocols.chat_completions
    const provider = (handle: Parameters<typeof HttpServer.make>[0]) =>
      Effect.map(HttpServer.make(handle), ({ url }) =>
        FromAiSdk.make(
          createOpenAICompatible({ name: "local", baseURL: `${url}/v1`, apiKey: "k", includeUsage: true })("m")
        )
      )
    const saying = (turn: WireTurn) =>
      provider(({ body }, response) =>
        /"stream":true/.test(body) ? stream(turn, response) : HttpServer.json(response, 200, whole(turn))
      )
    return yield* Effect.all({
      answering: saying(answer),
      calling: saying(call),
      failing: provider((_, response) =>
        HttpServer.json(response, 500, { error: { message: "broken", type: "server_error" } })
      ),
      silent: provider(() => {})
    })
  })

const double = tool({
  name: "double",
  description: "Doubles a number",
  input: z.object({ n: z.number() }),
  execute: ({ n }) => n * 2
})

const used = async <A>(use: (hermes: Hermes) => Promise<A>): Promise<A> => {
  await using hermes = createHermes({
    model: Scripted.layer([
      Scripted.complete({
        text: "I double it.",
        toolCalls: [{ name: "double", params: { n: 21 } }],
        usage: { input: 10, output: 4 }
      }),
      Scripted.complete({ text: "It is 42.", usage: { input: 10, output: 4 } })
    ]),
    tools: [double]
  })
  return await use(hermes)
}

Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false })

const versions = [
  { sdk: "ai-5", provider: "@ai-sdk/openai-compatible-1", specificationVersion: "v2" },
  { sdk: "ai-6", provider: "@ai-sdk/openai-compatible-2", specificationVersion: "v3" },
  // The AI SDK 6 takes models of v2 too.
  { sdk: "ai-6", provider: "@ai-sdk/openai-compatible-2", specificationVersion: "v2" }
] as const

describe("versions of the AI SDK", () => {
  for (const { provider, sdk, specificationVersion } of versions) {
    it.live(`a model of ${provider} keeps the rules of providers`, () =>
      Effect.gen(function* () {
        const results = yield* Conformance.runRules(
          ProviderRules.rules,
          Layer.effect(ProviderRules.Subject, subjects(provider))
        )
        assert.deepStrictEqual(
          results.flatMap(({ broken, name }) => (broken === undefined ? [] : [[name, broken.message]])),
          []
        )
      })
    )

    it.live(`${sdk} generates and streams with an agent as a model of ${specificationVersion}`, () =>
      Effect.gen(function* () {
        const { generateText, streamText } = yield* load<AiSdk>(sdk)
        const prompt = "Double 21."
        const whole = yield* Effect.promise(() =>
          used((hermes) => generateText({ model: languageModel(hermes, { specificationVersion }), prompt }))
        )
        assert.deepStrictEqual(
          [whole.text, whole.finishReason, whole.usage.inputTokens, whole.usage.outputTokens],
          ["I double it.\n\nIt is 42.", "stop", 20, 8]
        )
        // The AI SDK 5 fails at a call of a tool that it was not given.
        const hasCalls = specificationVersion === "v3"
        assert.deepStrictEqual(
          whole.toolResults.map(({ output, toolName }) => [toolName, output]),
          hasCalls ? [["double", "42"]] : []
        )
        assert.strictEqual(whole.providerMetadata?.hermes?.exit, "text_response")
        const streamed = yield* Effect.promise(() =>
          used(async (hermes) => {
            let text = ""
            const seen: Array<string> = []
            for await (const part of streamText({ model: languageModel(hermes, { specificationVersion }), prompt })
              .fullStream) {
              if (part.type === "text-delta") text += part.text
              if (part.type === "tool-result") seen.push(`${part.toolName} ${String(part.output)}`)
              assert.notStrictEqual(part.type, "error")
            }
            return [text, seen]
          })
        )
        assert.deepStrictEqual(streamed, ["I double it.\n\nIt is 42.", hasCalls ? ["double 42"] : []])
      })
    )
  }
})
