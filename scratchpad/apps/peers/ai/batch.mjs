import { generateText, Output } from "ai"
import * as z from "zod"

export const extract = async (model, texts) => {
  const output = Output.object({ schema: z.object({ name: z.string(), total: z.number() }) })
  const results = []
  const queue = texts.entries()
  const work = async () => {
    for (const [index, text] of queue) {
      const run = generateText({ model, instructions: "Extract the invoice.", prompt: text, output })
      results[index] = await run.then(
        (result) => result.output,
        (error) => ({ error: String(error) })
      )
    }
  }
  await Promise.all(Array.from({ length: 4 }, work))
  return results
}
