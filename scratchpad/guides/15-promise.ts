import { createHermes, HermesError, tool } from "../../src/kit/entry/promise.ts"
import * as z from "zod"

const weather = tool({
  name: "weather",
  description: "Temperature in a city",
  readonly: true,
  input: z.object({ city: z.string() }),
  execute: ({ city }) => `4 degrees in ${city}`
})

// "offline" answers without a network. A model: { provider: "anthropic", model: "claude-sonnet-4-6", apiKey: "…" }, or
// a list of them.
const ended: Array<string> = []
const hermes = createHermes({
  model: "offline",
  tools: [weather],
  on: { on_session_end: ({ session_id }) => ended.push(session_id) }
})

const { exit, text } = await hermes.run({ prompt: "Reply exactly hello", sessionId: "s1" })
console.log(text, exit, ended)
// => hello text_response [ 's1' ]

let streamed = ""
for await (const event of hermes.stream({ prompt: "Reply exactly and again", sessionId: "s1" })) {
  if (event._tag === "TextDelta") streamed += event.text
}
console.log(streamed)
// => and again

const error: unknown = await hermes
  .run({ prompt: "Never asked", signal: AbortSignal.abort() })
  .catch((error: unknown) => error)
console.log(error instanceof HermesError && error.tag)
// => Aborted

await hermes.dispose()
