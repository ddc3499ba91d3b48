import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { Agent, RetryPolicy, Runtime } from "../src/index.ts"

// The first route is asked first, by each of its keys; the others answer when it cannot. Here nobody listens at the
// first.
const routes = [
  {
    provider: "custom",
    model: "gpt-5",
    baseUrl: "http://127.0.0.1:9/v1",
    apiKey: [Redacted.make("key-1"), Redacted.make("key-2")]
  },
  { provider: "offline", model: "offline" }
]

const result = await Agent.run({ prompt: "Reply exactly hello from the second route" }).pipe(
  Effect.provide(Runtime.layer({ routes, retry: RetryPolicy.none })),
  Effect.runPromise
)

console.log(`${result.text} (${result.provider})`)
