import * as Effect from "effect/Effect"
import { Agent, FileTools, Middleware, Runtime } from "../../src/index.ts"

// Rewrites the request of every attempt.
const cool = Middleware.llmRequest({
  name: "cool",
  rewrite: (request) =>
    Effect.succeed(Middleware.replacePayload({ ...request, temperature: 0 }, { reason: "same answers" }))
})

// Wraps every tool call: before it, around it, after it.
const log = Middleware.toolExecution({
  name: "log",
  wrap:
    (next, { toolName }) =>
    (args) =>
      next(args).pipe(
        Effect.tap(() => Effect.sync(() => console.log(`${toolName} done`))),
        Effect.withSpan("my tools")
      )
})

// A policy: when it fails by itself, the call fails too.
const policy = Middleware.llmExecution({
  name: "policy",
  onFailure: "closed",
  wrap: (next) => (request) => {
    if (request["temperature"] !== 0) throw new Error("temperature is not 0")
    return next(request)
  }
})

const result = await Agent.run({ prompt: "Read the file package.json" }).pipe(
  Effect.provide(Runtime.layer({ tools: [FileTools.toolset], middleware: [cool, log, policy] })),
  Effect.runPromise
)
console.log(result.exit)
// => read_file done
// => text_response
