import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { Agent, Hooks, Plugin, Runtime, Scripted, Toolset } from "../../src/index.ts"

const Count = Tool.make("count", { description: "Counts calls", success: Schema.Finite }).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Count)

// Built once, within a scope: what it acquires is released when the plugin is unloaded.
const counter = Plugin.make({
  name: "counter",
  build: Effect.gen(function* () {
    let calls = 0
    yield* Effect.addFinalizer(() => Effect.sync(() => console.log(`${calls} call`)))
    return {
      tools: [Toolset.make("counter", toolkit, toolkit.toLayer({ count: () => Effect.sync(() => ++calls) }))],
      hooks: [
        Hooks.on("post_tool_call", ({ result }) => Effect.sync(() => console.log(`result: ${JSON.stringify(result)}`)))
      ]
    }
  })
})

const provider = Scripted.layer([Scripted.complete({ toolCalls: [{ name: "count" }] }), Scripted.complete("One.")])

const { text } = await Agent.run({ prompt: "Count." }).pipe(
  Effect.provide(Runtime.layer({ provider, plugins: [counter] })),
  Effect.runPromise
)
console.log(text)
// => result: "1"
// => 1 call
// => One.
