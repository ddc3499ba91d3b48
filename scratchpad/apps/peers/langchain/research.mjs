import { createAgent, modelCallLimitMiddleware, tool } from "langchain"
import * as z from "zod"

export const research = async (model, question, find) => {
  const search = tool(async ({ words }) => JSON.stringify(await find(words)), {
    name: "search",
    description: "Finds pages",
    schema: z.object({ words: z.string() })
  })
  const agent = createAgent({
    model,
    systemPrompt: "Search before you answer. Name the page of each fact.",
    tools: [search],
    responseFormat: z.object({ answer: z.string(), sources: z.array(z.url()) }),
    middleware: [modelCallLimitMiddleware({ runLimit: 10 })]
  })
  const { structuredResponse } = await agent.invoke({ messages: [{ role: "user", content: question }] })
  return structuredResponse
}
