import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { Agent, Runtime, Scripted, Toolset } from "../src/index.ts"

const Weather = Tool.make("weather", {
  description: "Current weather of a city",
  parameters: Schema.Struct({ city: Schema.String }),
  success: Schema.Struct({ celsius: Schema.Finite })
}).annotate(Tool.Readonly, true)

const toolkit = Toolkit.make(Weather)
const weather = Toolset.make(
  "weather",
  toolkit,
  toolkit.toLayer({ weather: ({ city }) => Effect.succeed({ celsius: city.length }) })
)

// A real model decides by itself; this one plays a script.
const model = Scripted.layer([
  Scripted.complete({ toolCalls: [{ name: "weather", params: { city: "Oslo" } }] }),
  Scripted.complete("It is 4 degrees in Oslo.")
])

const result = await Agent.run({ prompt: "How warm is it in Oslo?" }).pipe(
  Effect.provide(Runtime.layer({ provider: model, tools: [weather] })),
  Effect.runPromise
)

console.log(result.text)
