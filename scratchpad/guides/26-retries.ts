import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import { Agent, FallbackPolicy, RetryPolicy, type RunEvent, Runtime } from "../../src/index.ts"

// The default, for one minute at most.
const patient = RetryPolicy.make({ attempts: 20 }).pipe(Schedule.upTo({ duration: "1 minute" }))

// A model on this machine: short waits, and three attempts.
const local = Schedule.spaced("50 millis").pipe(RetryPolicy.onlyRetryable, RetryPolicy.attempts(3))

// Rate limits are waited out. Other failures leave the route after the retries, for twice as long each time.
const loyal = FallbackPolicy.make({
  leave: ({ reason }) => (reason === "billing" ? "at once" : "after retries"),
  cooldown: Schedule.exponential("1 minute")
})

console.log(`default: ${await Effect.runPromise(RetryPolicy.describePolicy(RetryPolicy.default))}`)
console.log(`patient: ${await Effect.runPromise(RetryPolicy.describePolicy(patient))}`)
console.log(`local: ${await Effect.runPromise(RetryPolicy.describePolicy(local))}`)
// => default: 3 attempts, waits of 5-7.5, 10-15 s
// => patient: waits of 5-7.5, 10-15, 20-30, 40-60 s
// => local: 3 attempts, waits of 0.05, 0.05 s

// Nothing listens at the first address.
const routes = [
  { provider: "custom", model: "large", baseUrl: "http://127.0.0.1:9/v1", apiKey: Redacted.make("key"), retry: local },
  { provider: "offline", model: "offline" }
]

const onEvent = (events: ReadonlyArray<RunEvent.RunEvent>) =>
  Effect.sync(() => {
    for (const event of events) {
      if (event._tag === "Waiting") console.log(`attempt ${event.attempt} in ${event.millis} ms`)
      if (event._tag === "RouteChanged") console.log(`${event.from.model} -> ${event.to.model}: ${event.reason}`)
    }
  })

const { text } = await Agent.run({ prompt: "Reply exactly: hello", onEvent }).pipe(
  Effect.provide(Runtime.layer({ routes, retry: patient, fallback: loyal })),
  Effect.runPromise
)
console.log(text)
// => attempt 2 in 50 ms
// => attempt 3 in 50 ms
// => large -> offline: timeout
// => hello
