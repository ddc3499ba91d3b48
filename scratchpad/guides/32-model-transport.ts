import { createHermes } from "../../src/kit/entry/promise.ts"

// A gateway that wants each request signed. Tests answer here without a network.
const answer = { choices: [{ index: 0, message: { role: "assistant", content: "canned" }, finish_reason: "stop" }] }
const hermes = createHermes({
  model: { model: "m", baseUrl: "http://models.test/v1" },
  fetch: async (input, init) => {
    const headers = new Headers(init?.headers)
    headers.set("x-signature", "signed")
    return String(input).endsWith("/chat/completions") ? Response.json(answer) : new Response(null, { status: 404 })
  }
})
console.log((await hermes.run("Hello?")).text)
// => canned
await hermes.dispose()
