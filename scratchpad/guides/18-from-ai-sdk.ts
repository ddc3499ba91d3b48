import { createHermes, tool } from "../../src/kit/entry/promise.ts"
import * as z from "zod"

// tool({ description, inputSchema, execute })
const weather = tool({
  name: "weather",
  description: "Temperature in a city",
  readonly: true,
  input: z.object({ city: z.string() }),
  execute: ({ city }) => `4 degrees in ${city}`
})

// One agent for the process; the loop ends with the answer, or after `maxIterations` model calls.
await using hermes = createHermes({ model: "offline", tools: [weather], maxIterations: 5 })

// generateText({ model, tools, stopWhen, prompt })
const { exit, text } = await hermes.run({ prompt: "Reply exactly hello" })
console.log(text, exit)
// => hello text_response

// streamText(…).stream
let streamed = ""
for await (const event of hermes.stream({ prompt: "Reply exactly in pieces", signal: AbortSignal.timeout(60_000) })) {
  if (event._tag === "TextDelta") streamed += event.text
  if (event._tag === "RunFinished") console.log(streamed, event.usage.outputTokens > 0)
}
// => in pieces true
