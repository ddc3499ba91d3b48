import { Agent } from "@mastra/core/agent"
import { createTool } from "@mastra/core/tools"
import * as z from "zod"

export const research = async (model, question, find) => {
  const agent = new Agent({
    id: "research",
    name: "Research",
    model,
    instructions: "Search before you answer. Name the page of each fact.",
    tools: {
      search: createTool({
        id: "search",
        description: "Finds pages",
        inputSchema: z.object({ words: z.string() }),
        execute: ({ words }) => find(words)
      })
    }
  })
  const schema = z.object({ answer: z.string(), sources: z.array(z.url()) })
  return (await agent.generate(question, { structuredOutput: { schema }, maxSteps: 10 })).object
}
