// Research: an agent that searches, and an answer that names its sources.
import { createHermes, type ModelChoice, tool } from "../../src/kit/entry/promise.ts"
import * as z from "zod"

export const research = async (model: ModelChoice, question: string, find: (words: string) => Promise<object>) => {
  const search = tool({
    name: "search",
    description: "Finds pages",
    input: z.object({ words: z.string() }),
    execute: ({ words }) => find(words)
  })
  await using hermes = createHermes({
    model,
    instructions: "Search before you answer. Name the page of each fact.",
    tools: [search],
    output: z.object({ answer: z.string(), sources: z.array(z.url()) }),
    maxIterations: 10
  })
  return (await hermes.run(question)).value
}
