import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import { Hooks, Plugin } from "hermes-effect"

const report = (span: object): Effect.Effect<void> => Console.log(JSON.stringify(span))

export default Plugin.make({
  name: "observer",
  build: Effect.gen(function* () {
    let spans = 0
    yield* Effect.addFinalizer(() => report({ span: "all", at: "end", spans }))
    const started = (span: object): Effect.Effect<void> =>
      Effect.suspend(() => {
        spans++
        return report(span)
      })
    const observer = Hooks.observer(
      { label: "observer" },
      {
        pre_api_request: ({ api_request_id, model, request, turn_id }) =>
          started({ span: "llm", at: "start", id: api_request_id, turn: turn_id, model, method: request.method }),
        post_api_request: ({ api_duration, api_request_id, response, usage }) =>
          report({
            span: "llm",
            at: "end",
            id: api_request_id,
            finish: response.finish_reason,
            usage,
            seconds: api_duration
          }),
        pre_tool_call: ({ args, tool_call_id, tool_name }) =>
          started({ span: "tool", at: "start", id: tool_call_id, tool: tool_name, args }),
        post_tool_call: ({ duration_ms, result, status, tool_call_id }) =>
          report({ span: "tool", at: "end", id: tool_call_id, status, result, millis: duration_ms })
      }
    )
    return { hooks: [observer] }
  })
})
