import { generateText, simulateReadableStream } from "ai"
import { MockLanguageModelV4 } from "ai/test"
import { FromAiSdk, languageModel } from "../../src/kit/entry/ai-sdk.ts"
import { createHermes } from "../../src/kit/entry/promise.ts"

// In an application: openai("gpt-5.2") of @ai-sdk/openai, or a gateway's model.
const model = new MockLanguageModelV4({
  doStream: {
    stream: simulateReadableStream({
      chunks: [
        { type: "text-start", id: "0" },
        { type: "text-delta", id: "0", delta: "It is cold." },
        { type: "text-end", id: "0" },
        {
          type: "finish",
          finishReason: { unified: "stop", raw: "stop" },
          usage: {
            inputTokens: { total: 20, noCache: 20, cacheRead: 0, cacheWrite: 0 },
            outputTokens: { total: 4, text: 4, reasoning: 0 }
          }
        }
      ]
    })
  }
})

// An agent on a model of the AI SDK …
await using hermes = createHermes({ model: FromAiSdk.layer(model) })

// … and that agent, its whole run with its tools, as a model of the AI SDK.
const { finishReason, text, usage } = await generateText({
  model: languageModel(hermes),
  prompt: "How is the weather in Oslo?"
})
console.log(text, finishReason, usage.inputTokens)
// => It is cold. stop 20
