import * as Clock from "effect/Clock"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import { Middleware, Plugin } from "hermes-effect"

export default Plugin.fromValue({
  name: "llm-execution",
  middleware: [
    Middleware.llmExecution({
      name: "time_llm_execution",
      wrap: (next) =>
        Effect.fnUntraced(function* (request) {
          const started = yield* Clock.currentTimeMillis
          const response = yield* next(request)
          yield* Console.log(`llm_execution elapsed_ms=${(yield* Clock.currentTimeMillis) - started}`)
          return response
        })
    })
  ]
})
