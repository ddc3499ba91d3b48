import { Agent, run, tool } from "@openai/agents"
import * as z from "zod"

export const write = async (model, subject, find) => {
  const search = tool({
    name: "search",
    description: "Finds facts",
    parameters: z.object({ words: z.string() }),
    execute: ({ words }) => find(words)
  })
  const researcher = new Agent({ name: "researcher", model, instructions: "List facts.", tools: [search] })
  const writer = new Agent({ name: "writer", model, instructions: "Write plainly." })
  const editor = new Agent({
    name: "editor",
    model,
    instructions: "Have the researcher collect facts, and the writer write an article about them.",
    tools: [
      researcher.asTool({ toolName: "researcher", toolDescription: "Collects facts" }),
      writer.asTool({ toolName: "writer", toolDescription: "Writes an article" })
    ]
  })
  return (await run(editor, subject)).finalOutput
}
