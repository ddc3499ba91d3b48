import * as Effect from "effect/Effect"
import { Middleware, Plugin } from "hermes-effect"

export default Plugin.fromValue({
  name: "tool-execution",
  middleware: [
    Middleware.toolExecution({
      name: "annotate_tool_execution",
      wrap:
        (next, { toolName }) =>
        (args) =>
          // Metrics, logging, or external routing can happen here.
          next(args).pipe(Effect.annotateLogs({ tool: toolName }))
    })
  ]
})
