import * as Effect from "effect/Effect"
import { Agent, Middleware, type ModelCall, Runtime, Scripted } from "../../src/index.ts"

const louder = (part: ModelCall.StreamPart): ModelCall.StreamPart =>
  part.type === "text-delta" ? { ...part, delta: part.delta.toUpperCase() } : part

const shout = Middleware.llmExecution({
  name: "shout",
  wrap: (next) => (request) => next(request, { onPart: (parts) => Effect.succeed(parts.map(louder)) })
})

const { text } = await Agent.run({ prompt: "Say hello.", streaming: true }).pipe(
  Effect.provide(Runtime.layer({ provider: Scripted.layer([Scripted.complete("hello")]), middleware: [shout] })),
  Effect.runPromise
)
console.log(text)
// => HELLO
