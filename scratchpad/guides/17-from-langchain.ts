import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { Agent, Middleware, Runtime, Scripted, Toolset } from "../../src/index.ts"

// tool(fn, { name, description, schema })
const Weather = Tool.make("weather", {
  description: "Temperature in a city",
  parameters: Schema.Struct({ city: Schema.String }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Weather)
const weather = Toolset.make(
  "weather",
  toolkit,
  toolkit.toLayer({ weather: ({ city }) => Effect.succeed(`4 degrees in ${city}`) })
)

// createMiddleware({ name, wrapModelCall })
const count = Middleware.wrapModelCall({
  name: "count",
  wrap:
    (next, { apiCallCount }) =>
    (params) =>
      Effect.tap(next(params), () => Effect.sync(() => console.log(`model call ${apiCallCount}`)))
})

// A fake model that answers from a list
const provider = Scripted.layer([
  Scripted.complete({ toolCalls: [{ name: "weather", params: { city: "Oslo" } }] }),
  Scripted.complete("It is cold."),
  Scripted.complete("In Oslo.")
])

// createAgent({ model, tools, middleware, systemPrompt })
const agent = Runtime.layer({ provider, tools: [weather], middleware: [count], instructions: "Answer briefly." })

// agent.invoke({ messages }, { configurable: { thread_id: "t1" } })
const program = Effect.gen(function* () {
  const first = yield* Agent.run({ prompt: "How is the weather in Oslo?", sessionId: "t1" })
  const second = yield* Agent.run({ prompt: "Where?", sessionId: "t1" })
  console.log(first.text, second.text)
})

await program.pipe(Effect.provide(agent), Effect.runPromise)
// => model call 1
// => model call 2
// => model call 1
// => It is cold. In Oslo.
