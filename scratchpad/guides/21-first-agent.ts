import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { Agent, Runtime, Scripted, Toolset } from "../../src/index.ts"

// 1. A tool: its name, description and types, and what it does.
const Stock = Tool.make("stock", {
  description: "Pieces of an article in stock",
  parameters: Schema.Struct({ article: Schema.String }),
  success: Schema.Int
}).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Stock)
const stock = Toolset.make(
  "stock",
  toolkit,
  toolkit.toLayer({ stock: ({ article }) => Effect.succeed(article === "lamp" ? 3 : 0) })
)

// 2. A model. This one plays a script: it calls the tool, then it answers. A real one in place of `provider`, with
//    `Redacted` of `effect`: routes: [{ provider: "anthropic", model: "claude-sonnet-4-6", apiKey:
//    Redacted.make(process.env.ANTHROPIC_API_KEY ?? "") }]
const provider = Scripted.layer([
  Scripted.complete({ toolCalls: [{ name: "stock", params: { article: "lamp" } }] }),
  Scripted.complete("Three lamps are left.")
])

// 3. The agent: a layer, which is built when the program runs.
const agent = Runtime.layer({ provider, tools: [stock], instructions: "You answer for a shop. Be brief." })

// 4. A run. `Agent.run` gives its result, `Agent.stream` its events as they happen.
const program = Agent.stream({ prompt: "How many lamps do we have?" }).pipe(
  Stream.runForEach((event) =>
    Effect.sync(() => {
      if (event._tag === "ToolFinished") console.log(`${event.name}: ${event.output}`)
      if (event._tag === "RunFinished") console.log(`${event.text} (${event.exit}, ${event.steps} steps)`)
    })
  )
)

await program.pipe(Effect.provide(agent), Effect.runPromise)
// => stock: 3
// => Three lamps are left. (text_response, 2 steps)
