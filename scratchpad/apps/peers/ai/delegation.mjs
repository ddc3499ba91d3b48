import { stepCountIs, ToolLoopAgent, tool } from "ai"
import * as z from "zod"

const asTool = (agent, description) =>
  tool({
    description,
    inputSchema: z.object({ message: z.string() }),
    execute: async ({ message }, { abortSignal }) => (await agent.generate({ prompt: message, abortSignal })).text
  })

export const write = async (model, subject, find) => {
  const search = tool({
    description: "Finds facts",
    inputSchema: z.object({ words: z.string() }),
    execute: ({ words }) => find(words)
  })
  const researcher = new ToolLoopAgent({ model, instructions: "List facts.", tools: { search } })
  const writer = new ToolLoopAgent({ model, instructions: "Write plainly." })
  const editor = new ToolLoopAgent({
    model,
    instructions: "Have the researcher collect facts, and the writer write an article about them.",
    tools: { researcher: asTool(researcher, "Collects facts"), writer: asTool(writer, "Writes an article") },
    stopWhen: stepCountIs(90)
  })
  return (await editor.generate({ prompt: subject })).text
}
