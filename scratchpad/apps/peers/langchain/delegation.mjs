import { createAgent, tool } from "langchain"
import * as z from "zod"

const askAgent = async (agent, content) =>
  (await agent.invoke({ messages: [{ role: "user", content }] })).messages.at(-1).text

const asTool = (agent, name, description) =>
  tool(({ message }) => askAgent(agent, message), { name, description, schema: z.object({ message: z.string() }) })

export const write = async (model, subject, find) => {
  const search = tool(({ words }) => find(words), {
    name: "search",
    description: "Finds facts",
    schema: z.object({ words: z.string() })
  })
  const researcher = createAgent({ model, systemPrompt: "List facts.", tools: [search] })
  const writer = createAgent({ model, systemPrompt: "Write plainly.", tools: [] })
  const editor = createAgent({
    model,
    systemPrompt: "Have the researcher collect facts, and the writer write an article about them.",
    tools: [asTool(researcher, "researcher", "Collects facts"), asTool(writer, "writer", "Writes an article")]
  })
  return await askAgent(editor, subject)
}
