import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Middleware, type ModelCall, Runtime } from "../../src/index.ts"
import { Conformance, ModeRules } from "../../src/kit/entry/testing.ts"

const mask = (part: ModelCall.StreamPart): ModelCall.StreamPart =>
  part.type === "text-delta" ? { ...part, delta: part.delta.replaceAll("SECRET", "[x]") } : part

// A redactor that forgets the titles, summaries and judgements besides a run.
const redactor = Middleware.llmExecution({
  name: "redactor",
  onFailure: "closed",
  wrap:
    (next, { task }) =>
    (request) =>
      task === undefined ? next(request, { onPart: (parts) => Effect.succeed(parts.map(mask)) }) : next(request)
})

const subject = Layer.succeed(ModeRules.Subject, {
  runtime: (parts) => Runtime.layer({ ...parts, middleware: [redactor] })
})
const results = await Effect.runPromise(Conformance.runRules(ModeRules.rules, subject))

for (const { about, broken, name } of results) if (broken !== undefined) console.log(`${about}: ${name}`)
// => removes the text: serve, streamed
// => removes the text: serve, not streamed
// => removes the text: acp
// => removes the text: side task
// => removes the text: language model, not streamed
// => removes the text: language model, streamed
