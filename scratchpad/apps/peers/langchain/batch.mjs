import { createAgent } from "langchain"
import * as z from "zod"

export const extract = async (model, texts) => {
  const agent = createAgent({
    model,
    systemPrompt: "Extract the invoice.",
    tools: [],
    responseFormat: z.object({ name: z.string(), total: z.number() })
  })
  const inputs = texts.map((content) => ({ messages: [{ role: "user", content }] }))
  const results = await agent.graph.batch(inputs, { maxConcurrency: 4 }, { returnExceptions: true })
  return results.map((one) => (one instanceof Error ? { error: String(one) } : one.structuredResponse))
}
