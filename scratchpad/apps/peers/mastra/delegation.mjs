import { Agent } from "@mastra/core/agent"
import { createTool } from "@mastra/core/tools"
import * as z from "zod"

export const write = async (model, subject, find) => {
  const search = createTool({
    id: "search",
    description: "Finds facts",
    inputSchema: z.object({ words: z.string() }),
    execute: ({ words }) => find(words)
  })
  const make = (id, description, instructions, rest) =>
    new Agent({ id, name: id, description, model, instructions, ...rest })
  const editor = make(
    "editor",
    "Edits",
    "Have the researcher collect facts, and the writer write an article about them.",
    {
      agents: {
        researcher: make("researcher", "Collects facts", "List facts.", { tools: { search } }),
        writer: make("writer", "Writes an article", "Write plainly.", {})
      }
    }
  )
  return (await editor.generate(subject)).text
}
