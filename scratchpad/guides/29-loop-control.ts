import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { Agent, Middleware, Runtime, Scripted, Toolset } from "../../src/index.ts"

// Answers known questions without a model call.
const faq = Middleware.lifecycle({
  name: "faq",
  beforeAgent: ({ messages }) =>
    JSON.stringify(messages.at(-1)).includes("opening hours") ? Middleware.endWith("9 to 5.") : Middleware.noChanges
})

// Sends a long answer back to the model. Each call counts towards maxIterations.
const short = Middleware.lifecycle({
  name: "short",
  afterModel: ({ parsedResponse }) =>
    parsedResponse.text.length > 20 ? Middleware.goToModelWith("In at most three words.") : Middleware.noChanges
})

const Submit = Tool.make("submit", {
  description: "Hands the result in",
  parameters: Schema.Struct({ score: Schema.Finite }),
  success: Schema.Struct({ score: Schema.Finite })
}).annotate(Tool.Readonly, true)
const handlers = Toolkit.make(Submit).toLayer({ submit: ({ score }) => Effect.succeed({ score }) })

const program = Effect.gen(function* () {
  for (const prompt of ["What are the opening hours?", "How was the test?", "Submit it"]) {
    const { endedBy, exit, text } = yield* Agent.run({ prompt })
    console.log(exit, endedBy ?? "-", text)
  }
})

const runtime = Runtime.layer({
  provider: Scripted.layer([
    Scripted.complete("It went very well, all things considered."),
    Scripted.complete("Very well."),
    Scripted.complete({ toolCalls: [{ name: "submit", params: { score: 9 } }] })
  ]),
  tools: [Toolset.make("work", Toolkit.make(Submit), handlers)],
  middleware: [faq, short],
  stopTools: ["submit"]
})

await Effect.runPromise(Effect.provide(program, runtime))
// => ended_by_middleware faq 9 to 5.
// => text_response - Very well.
// => stop_tool_triggered submit {
// =>   "score": 9
// => }
