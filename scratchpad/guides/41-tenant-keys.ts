import { createHermes } from "../../src/kit/entry/promise.ts"

const place = { provider: "custom", baseUrl: "https://models.example/v1" }

// The keys of customers, as the application's database returns them.
const keys = new Map([["acme", "key-of-acme-4f6a1c"]])

const hermes = createHermes({
  model: { ...place, model: "small", apiKey: "key-of-the-application" },
  tenants: async (id) => {
    const apiKey = keys.get(id)
    return apiKey === undefined ? { id } : { id, model: { ...place, model: "large", apiKey } }
  },
  // Answers in place of the endpoint.
  fetch: async (url, options) => {
    if (!String(url).endsWith("/chat/completions")) return new Response(null, { status: 404 })
    const { model } = JSON.parse(String(options?.body))
    const isOwn = new Headers(options?.headers).get("authorization") === "Bearer key-of-acme-4f6a1c"
    const message = { role: "assistant", content: `${model}, with the ${isOwn ? "tenant's" : "shared"} key` }
    return Response.json({ model, choices: [{ index: 0, message, finish_reason: "stop" }] })
  }
})

for (const tenant of ["acme", "globex"]) {
  const { text } = await hermes.run({ prompt: "Hello", tenant, streaming: false })
  console.log(`${tenant}: ${text}`)
}
// => acme: large, with the tenant's key
// => globex: small, with the shared key

await hermes.dispose()
