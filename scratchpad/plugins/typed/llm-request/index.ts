import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import { Middleware, Plugin } from "hermes-effect"

const objectOf = (value: unknown): object => (Predicate.isObject(value) ? value : {})

export default Plugin.fromValue({
  name: "llm-request",
  middleware: [
    Middleware.llmRequest({
      name: "tag_llm_request",
      rewrite: (request) => {
        const extraBody: { readonly metadata?: unknown } = objectOf(request["extra_body"])
        const metadata = { ...objectOf(extraBody.metadata), hermes_middleware_demo: true }
        return Effect.succeed(
          Middleware.replacePayload(
            { ...request, extra_body: { ...extraBody, metadata } },
            { source: "middleware-demo", reason: "tagged provider request" }
          )
        )
      }
    })
  ]
})
