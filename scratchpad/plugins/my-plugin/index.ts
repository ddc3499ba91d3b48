import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { Hooks, Middleware, Plugin, Toolset } from "hermes-effect"

// The model reads the description and calls the tool with arguments of this shape.
const Greet = Tool.make("my_plugin_greet", {
  description: "Greets a person by name",
  parameters: Schema.Struct({ name: Schema.String }),
  success: Schema.String
}).annotate(Tool.Readonly, true)

const toolkit = Toolkit.make(Greet)

export default Plugin.fromValue({
  name: "my-plugin",
  tools: [
    Toolset.make(
      "my-plugin",
      toolkit,
      toolkit.toLayer({ my_plugin_greet: ({ name }) => Effect.succeed(`Hello, ${name}!`) })
    )
  ],
  hooks: [
    // Runs after each tool call without changing it.
    Hooks.on("post_tool_call", ({ duration_ms, tool_name }) => Effect.logDebug(`${tool_name} took ${duration_ms} ms`))
  ],
  middleware: [
    // Runs around each request to a provider.
    Middleware.llmExecution({
      name: "timing",
      wrap: (next) => (request) => next(request).pipe(Effect.withSpan("my-plugin.request"))
    })
  ]
})
