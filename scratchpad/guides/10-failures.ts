import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Schedule from "effect/Schedule"
import * as AiError from "effect/ai/AiError"
import { Agent, AgentError, Middleware, RetryPolicy, Runtime, Scripted } from "../../src/index.ts"
import { Retry } from "../../src/kit/entry/middleware.ts"

const overloaded = Scripted.fail(new AiError.InternalProviderError({ description: "overloaded" }))

/** What a run gives with some middleware: its text, or the message of its failure. */
const outcome = (name: string, middleware: Middleware.LlmExecution | Middleware.WrapModelCall) =>
  Agent.run({ prompt: "Say hello." }).pipe(
    Effect.match({ onSuccess: ({ text }) => text, onFailure: ({ message }) => message }),
    Effect.map((text) => console.log(`${name}: ${text}`)),
    Effect.provide(
      Runtime.layer({
        provider: Scripted.layer([overloaded, Scripted.complete("hello")]),
        retry: RetryPolicy.none,
        middleware: [middleware]
      })
    ),
    Effect.provide(Logger.layer([]))
  )

// A veto: it fails before `next`.
const veto = Middleware.llmExecution({
  name: "veto",
  wrap: () => () => Effect.fail(new AgentError.ExecutionBlocked({ reason: "no calls on Sundays", metadata: {} }))
})

// A translation: it fails after `next` failed. The type of the error is known inside.
const translation = Middleware.llmExecution({
  name: "translation",
  wrap: (next) => (request) =>
    next(request).pipe(
      Effect.catchTag("AiError", ({ reason }) =>
        Effect.fail(new AgentError.ExecutionBlocked({ reason: `the model is away (${reason._tag})`, metadata: {} }))
      )
    )
})

// A fault of its own, after `next`: one warning, and what came from below stands.
const open = Middleware.wrapModelCall({
  name: "open",
  wrap: (next) => (params) => Effect.ensuring(next(params), Effect.die("a bug"))
})

// The same of a policy.
const closed = Middleware.wrapModelCall({ name: "closed", onFailure: "closed", wrap: () => () => Effect.die("a bug") })

await Effect.runPromise(
  Effect.all([
    outcome("veto", veto),
    outcome("translation", translation),
    outcome("open", open),
    outcome("closed", closed),
    outcome("retry", Retry.modelCalls({ schedule: Schedule.forever }))
  ])
)
// => veto: blocked by middleware: no calls on Sundays
// => translation: blocked by middleware: the model is away (InternalProviderError)
// => open: Scripted.execute: Internal provider error: overloaded
// => closed: wrap_model_call middleware "closed" failed and is registered to fail closed: a bug
// => retry: hello
