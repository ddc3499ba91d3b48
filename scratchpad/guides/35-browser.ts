import { createHermes } from "../../src/kit/entry/promise.ts"

// The server of the application has the key, and knows its users by their cookie.
const answer = { choices: [{ index: 0, message: { role: "assistant", content: "hello" }, finish_reason: "stop" }] }
const hermes = createHermes({
  model: { model: "m", baseUrl: "https://app.example/llm/v1", allowBrowser: true },
  // In a page: (input, init) => fetch(input, { ...init, credentials: "include" })
  fetch: async () => Response.json(answer)
})
console.log((await hermes.run("Hello?")).text)
// => hello
await hermes.dispose()
