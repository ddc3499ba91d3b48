// Research: an agent that searches, and an answer that names its sources.
import { createHermes, type HermesOptions, tool } from "../../src/kit/entry/promise.ts"
import * as z from "zod"

export const research = async (
  model: HermesOptions["model"],
  question: string,
  find: (words: string) => Promise<ReadonlyArray<{ url: string; text: string }>>
) => {
  await using hermes = createHermes({
    model,
    instructions: "Search before you answer. Name the page of each fact.",
    tools: [
      tool({
        name: "search",
        description: "Finds pages",
        readonly: true,
        input: z.object({ words: z.string() }),
        execute: ({ words }) => find(words)
      })
    ],
    output: z.object({ answer: z.string(), sources: z.array(z.url()) }),
    maxIterations: 10
  })
  return (await hermes.run(question)).value
}
