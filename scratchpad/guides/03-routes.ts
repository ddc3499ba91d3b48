import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { Agent, type RunEvent, RetryPolicy, Runtime } from "../../src/index.ts"

// Nothing listens at the first address.
const routes = [
  {
    provider: "custom",
    model: "large",
    baseUrl: "http://127.0.0.1:9/v1",
    apiKey: [Redacted.make("key-1"), Redacted.make("key-2")]
  },
  { provider: "offline", model: "offline" }
]

const onEvent = (events: ReadonlyArray<RunEvent.RunEvent>) =>
  Effect.sync(() => {
    for (const event of events) {
      if (event._tag === "RouteChanged") console.log(`${event.from.model} -> ${event.to.model}: ${event.reason}`)
    }
  })

const { provider, text } = await Agent.run({ prompt: "Reply exactly: hello", onEvent }).pipe(
  Effect.provide(Runtime.layer({ routes, retry: RetryPolicy.none })),
  Effect.runPromise
)
console.log(`${text} from ${provider}`)
// => large -> offline: timeout
// => hello from offline
