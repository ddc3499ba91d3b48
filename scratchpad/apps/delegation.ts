// An editor with two sub-agents, one of which searches.
import { createHermes, type ModelChoice, tool } from "../../src/kit/entry/promise.ts"
import * as z from "zod"

export const write = async (model: ModelChoice, subject: string, find: (words: string) => Promise<string>) => {
  const search = tool({
    name: "search",
    description: "Finds facts",
    input: z.object({ words: z.string() }),
    execute: ({ words }) => find(words)
  })
  await using hermes = createHermes({
    model,
    instructions: "Have the researcher collect facts, and the writer write an article about them.",
    agents: [
      { name: "researcher", description: "Collects facts", instructions: "List facts.", tools: [search] },
      { name: "writer", description: "Writes an article", instructions: "Write plainly.", tools: [] }
    ]
  })
  return (await hermes.run(subject)).text
}
