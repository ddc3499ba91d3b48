import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { Agent, Runtime, Scripted } from "../../src/index.ts"

const Weather = Schema.Struct({ city: Schema.String, celsius: Schema.Int })

// The result carries the decoded value, in its type. The first answer is prose, so it is sent back once.
const ask = Effect.gen(function* () {
  const { steps, value } = yield* Agent.run({ prompt: "How is the weather in Oslo?", output: Weather })
  return `${value.city}: ${value.celsius} degrees, after ${steps} steps`
})

// The value as it arrives: JSON of which any part may be missing.
const watch = Agent.stream({ prompt: "And in Bergen?", output: Weather }).pipe(
  Stream.runFold(
    () => "",
    (city, event) => (event._tag === "ValueDelta" ? (event.value.city ?? city) : city)
  )
)

const model = Scripted.layer([
  Scripted.complete("It is 4 degrees in Oslo."),
  Scripted.complete('{ "city": "Oslo", "celsius": 4 }'),
  Scripted.complete('{ "city": "Bergen", "celsius": 7 }')
])

console.log(await Effect.all([ask, watch]).pipe(Effect.provide(Runtime.layer({ provider: model })), Effect.runPromise))
// => [ 'Oslo: 4 degrees, after 2 steps', 'Bergen' ]
