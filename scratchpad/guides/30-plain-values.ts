import { createHermes } from "../../src/kit/entry/promise.ts"
import * as z from "zod"

// "offline" answers without a network. A model: { model: "anthropic/claude-sonnet-4-6", apiKey: "…" }.
const hermes = createHermes({ model: "offline" })

const { value } = await hermes.run({
  prompt: [{ type: "text", text: 'Reply exactly { "city": "Oslo", "celsius": 4 }' }],
  history: [
    { role: "user", content: "Where do I live?" },
    { role: "assistant", content: "In Oslo." }
  ],
  output: z.object({ city: z.string(), celsius: z.number() })
})
console.log(value.city, value.celsius)
// => Oslo 4

await hermes.dispose()
