import * as Effect from "effect/Effect"
import * as Tracer from "effect/Tracer"
import { Agent, FileTools, Runtime } from "../../src/index.ts"

// Stands in for the tracer of an application.
const names: Array<string> = []
const tracer = Tracer.make({
  span: (options) => {
    names.push(options.name)
    return new Tracer.NativeSpan(options)
  }
})

await Agent.run({ prompt: "Read the file package.json" }).pipe(
  Effect.withTracer(tracer),
  Effect.provide(Runtime.layer({ tools: [FileTools.toolset] })),
  Effect.runPromise
)
console.log(names.filter((name) => /^(?:Agent|chat|execute_tool)/.test(name)).join(", "))
// => Agent.run, chat offline, execute_tool read_file, chat offline
