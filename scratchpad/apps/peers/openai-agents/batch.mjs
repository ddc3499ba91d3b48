import { Agent, run } from "@openai/agents"
import * as z from "zod"

export const extract = async (model, texts) => {
  const agent = new Agent({
    name: "Extract",
    model,
    instructions: "Extract the invoice.",
    outputType: z.object({ name: z.string(), total: z.number() })
  })
  const results = []
  const queue = texts.entries()
  const work = async () => {
    for (const [index, text] of queue) {
      results[index] = await run(agent, text).then(
        (result) => result.finalOutput,
        (error) => ({ error: String(error) })
      )
    }
  }
  await Promise.all(Array.from({ length: 4 }, work))
  return results
}
