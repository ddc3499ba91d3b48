import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as AiError from "effect/ai/AiError"
import { Agent, RetryPolicy, Runtime, Scripted } from "../../src/index.ts"

// One turn for each request.
const model = Scripted.layer([
  Scripted.complete("It is done."),
  Scripted.fail(new AiError.InternalProviderError({ description: "overloaded" }))
])

const program = Effect.gen(function* () {
  const { text } = yield* Agent.run({ prompt: "Do it." })
  const error = yield* Effect.flip(Agent.run({ prompt: "Do it again." }))
  const { calls } = yield* Scripted.Inspection
  return { text, error: error._tag, asked: (yield* calls).length }
})

// Layers are shared by reference: the script that the test looks at is the one that the runtime asks.
const runtime = Layer.merge(model, Runtime.layer({ provider: model, retry: RetryPolicy.none }))

console.log(await program.pipe(Effect.provide(runtime), Effect.runPromise))
// => { text: 'It is done.', error: 'AiError', asked: 2 }
