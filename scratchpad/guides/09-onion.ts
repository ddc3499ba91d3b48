import * as Effect from "effect/Effect"
import { Agent, FileTools, Middleware, Runtime } from "../../src/index.ts"

const say = (line: string) => Effect.sync(() => console.log(line))

const around = <A, E, R>(name: string, call: Effect.Effect<A, E, R>) =>
  Effect.andThen(say(`${name} {`), Effect.ensuring(call, say(`} ${name}`)))

const middleware = [
  Middleware.lifecycle({
    name: "phases",
    beforeAgent: () => say("beforeAgent"),
    beforeModel: () => say("beforeModel"),
    afterModel: () => say("afterModel"),
    beforeTool: () => say("beforeTool"),
    afterTool: () => say("afterTool"),
    afterAgent: () => say("afterAgent"),
    wrapModelCall: (next) => (params) => around("wrapModelCall", next(params)),
    wrapToolCall: (next) => (args) => around("wrapToolCall", next(args))
  }),
  Middleware.llmRequest({ name: "request", rewrite: () => Effect.as(say("llmRequest"), Middleware.unchanged) }),
  Middleware.llmExecution({ name: "execution", wrap: (next) => (request) => around("llmExecution", next(request)) }),
  Middleware.toolRequest({ name: "request", rewrite: () => Effect.as(say("toolRequest"), Middleware.unchanged) }),
  Middleware.toolExecution({ name: "execution", wrap: (next) => (args) => around("toolExecution", next(args)) })
]

await Agent.run({ prompt: "Read the file package.json" }).pipe(
  Effect.provide(Runtime.layer({ tools: [FileTools.toolset], middleware })),
  Effect.runPromise
)
// => beforeAgent
// => beforeModel
// => wrapModelCall {
// => llmRequest
// => llmExecution {
// => } llmExecution
// => } wrapModelCall
// => afterModel
// => toolRequest
// => beforeTool
// => wrapToolCall {
// => toolExecution {
// => } toolExecution
// => } wrapToolCall
// => afterTool
// => beforeModel
// => wrapModelCall {
// => llmRequest
// => llmExecution {
// => } llmExecution
// => } wrapModelCall
// => afterModel
// => afterAgent
