import { createHermes } from "../../src/kit/entry/promise.ts"

interface Env {
  readonly OPENAI_API_KEY?: string
}

// src/worker.ts. Keys are bindings of the Worker, and an agent belongs to the request that makes it.
const worker = {
  fetch: async (request: Request, { OPENAI_API_KEY }: Env): Promise<Response> => {
    await using hermes = createHermes({
      model: OPENAI_API_KEY === undefined ? "offline" : { provider: "openai", model: "gpt-5.2", apiKey: OPENAI_API_KEY }
    })
    return new Response((await hermes.run(await request.text())).text)
  }
}
export default worker

const request = new Request("http://localhost/", { method: "POST", body: "Reply exactly hello" })
console.log(await (await worker.fetch(request, {})).text())
// => hello
