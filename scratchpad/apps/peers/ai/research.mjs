import { generateText, Output, stepCountIs, tool } from "ai"
import * as z from "zod"

export const research = async (model, question, find) => {
  const { output } = await generateText({
    model,
    instructions: "Search before you answer. Name the page of each fact.",
    prompt: question,
    tools: {
      search: tool({
        description: "Finds pages",
        inputSchema: z.object({ words: z.string() }),
        execute: ({ words }) => find(words)
      })
    },
    output: Output.object({ schema: z.object({ answer: z.string(), sources: z.array(z.url()) }) }),
    stopWhen: stepCountIs(10)
  })
  return output
}
