import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import OpenAI from "openai"
import { Runtime } from "../../src/index.ts"
import { AgentServer } from "../../src/kit/entry/server.ts"

const program = Effect.gen(function* () {
  // `hermes serve` does this with the agent of the settings, on port 8642.
  const { key, url } = yield* AgentServer.serve({ port: 0, cwd: process.cwd() })
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key === undefined ? "" : Redacted.value(key) })
  const answer = yield* Effect.promise(() =>
    client.chat.completions.create({ model: "hermes", messages: [{ role: "user", content: "Reply exactly hello" }] })
  )
  return answer.choices[0]?.message.content
})

console.log(await program.pipe(Effect.scoped, Effect.provide(Runtime.layer()), Effect.runPromise))
// => hello
