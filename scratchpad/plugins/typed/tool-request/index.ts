import * as Effect from "effect/Effect"
import { Middleware, Plugin } from "hermes-effect"

export default Plugin.fromValue({
  name: "tool-request",
  middleware: [
    Middleware.toolRequest({
      name: "normalize_terminal_workdir",
      rewrite: (args, { toolName }) =>
        Effect.succeed(
          toolName === "terminal"
            ? Middleware.replacePayload(
                { workdir: "/tmp/hermes-middleware-demo", ...args },
                { source: "middleware-demo", reason: "defaulted terminal workdir" }
              )
            : Middleware.unchanged
        )
    })
  ]
})
