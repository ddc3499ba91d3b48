// The AI SDK, through its provider for APIs in the form of OpenAI's, against the served agent: text, streams, tools of
// the caller.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { world } from "../support/servedAgent.ts"

/** The parts of the packages that are used here: they are installed for this folder alone. */
interface AiSdk {
  readonly generateText: (
    options: object
  ) => Promise<{
    readonly text: string
    readonly finishReason: string
    readonly usage: { readonly inputTokens?: number; readonly outputTokens?: number }
    readonly steps: ReadonlyArray<unknown>
  }>
  readonly streamText: (options: object) => {
    readonly textStream: AsyncIterable<string>
    readonly reasoningText: PromiseLike<string | undefined>
    readonly finishReason: PromiseLike<string>
  }
  readonly tool: (options: object) => object
  readonly jsonSchema: (schema: object) => object
  readonly stepCountIs?: (count: number) => object
  readonly isStepCount?: (count: number) => object
}
interface Provider {
  readonly createOpenAICompatible: (options: object) => (model: string) => object
}

const load = <A>(name: string): Effect.Effect<A> => Effect.promise((): Promise<A> => import(name))

/** Versions of the AI SDK, each with the provider that is made for it. */
const versions = [
  { sdk: "ai-5", provider: "@ai-sdk/openai-compatible-1" },
  { sdk: "ai-6", provider: "@ai-sdk/openai-compatible-2" },
  { sdk: "ai", provider: "@ai-sdk/openai-compatible" }
] as const

describe.each(versions)("$sdk against the served agent", ({ provider, sdk }) => {
  it.live("generates, streams, and runs its own tools beside those of the agent", () =>
    Effect.gen(function* () {
      const { generateText, isStepCount, jsonSchema, stepCountIs, streamText, tool } = yield* load<AiSdk>(sdk)
      const { createOpenAICompatible } = yield* load<Provider>(provider)
      const { apiKey, seen, url } = yield* world({
        "Say hello": [{ text: "Hello there." }],
        think: [{ thought: "Hm, ", text: ["Well ", "thought."] }],
        weather: [
          { calls: [["todo", { todos: [{ id: "1", content: "ask" }] }]] },
          {
            text: "I ask.",
            calls: [
              ["weather", { place: "Rome" }],
              ["weather", { place: "Oslo" }]
            ]
          },
          { text: "Warm and cold." }
        ]
      })
      const model = createOpenAICompatible({ name: "hermes", baseURL: `${url}/v1`, apiKey, includeUsage: true })(
        "hermes"
      )
      yield* Effect.promise(async () => {
        const { finishReason, text, usage } = await generateText({ model, system: "Be short.", prompt: "Say hello" })
        assert.deepStrictEqual(
          [text, finishReason, usage.inputTokens, usage.outputTokens],
          ["Hello there.", "stop", 100, 10]
        )
        assert.include(JSON.stringify(seen.at(-1)?.messages[0]), "Be short.")

        const streamed = streamText({ model, prompt: "think" })
        let said = ""
        for await (const piece of streamed.textStream) said += piece
        assert.deepStrictEqual(
          [said, await streamed.reasoningText, await streamed.finishReason],
          ["Well thought.", "Hm, ", "stop"]
        )

        const places: Array<string> = []
        const weather = tool({
          description: "The weather",
          inputSchema: jsonSchema({ type: "object", properties: { place: { type: "string" } } }),
          execute: ({ place }: { readonly place: string }) => {
            places.push(place)
            return Promise.resolve(place === "Rome" ? "30 degrees" : "-10 degrees")
          }
        })
        const stopWhen = (isStepCount ?? stepCountIs)?.(5)
        const result = await generateText({ model, tools: { weather }, stopWhen, prompt: "What is the weather?" })
        assert.deepStrictEqual([result.text, result.steps.length, places], ["Warm and cold.", 2, ["Rome", "Oslo"]])
        const results = () =>
          seen
            .at(-1)
            ?.messages.filter(({ role }) => role === "tool")
            .map(({ content }) => content)
            .slice(1)
        assert.deepStrictEqual(results(), ["30 degrees", "-10 degrees"])

        const steps = streamText({ model, tools: { weather }, stopWhen, prompt: "What is the weather?" })
        said = ""
        for await (const piece of steps.textStream) said += piece
        assert.deepStrictEqual(
          [said, await steps.finishReason, places.slice(2)],
          ["I ask.Warm and cold.", "stop", ["Rome", "Oslo"]]
        )
        assert.deepStrictEqual(results(), ["30 degrees", "-10 degrees"])
      })
    })
  )
})
