import { Agent } from "@mastra/core/agent"
import * as z from "zod"

export const extract = async (model, texts) => {
  const agent = new Agent({ id: "extract", name: "Extract", model, instructions: "Extract the invoice." })
  const schema = z.object({ name: z.string(), total: z.number() })
  const results = []
  const queue = texts.entries()
  const work = async () => {
    for (const [index, text] of queue) {
      results[index] = await agent.generate(text, { structuredOutput: { schema } }).then(
        (result) => result.object,
        (error) => ({ error: String(error) })
      )
    }
  }
  await Promise.all(Array.from({ length: 4 }, work))
  return results
}
