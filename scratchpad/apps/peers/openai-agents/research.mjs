import { Agent, run, tool } from "@openai/agents"
import * as z from "zod"

export const research = async (model, question, find) => {
  const agent = new Agent({
    name: "Research",
    model,
    instructions: "Search before you answer. Name the page of each fact.",
    tools: [
      tool({
        name: "search",
        description: "Finds pages",
        parameters: z.object({ words: z.string() }),
        execute: ({ words }) => find(words)
      })
    ],
    outputType: z.object({ answer: z.string(), sources: z.array(z.string()) })
  })
  return (await run(agent, question, { maxTurns: 10 })).finalOutput
}
