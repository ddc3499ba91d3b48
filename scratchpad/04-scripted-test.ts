import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Agent, ModelRouter, Scripted, SessionStore, ToolRegistry } from "../src/index.ts"

// Any layer of an application can be swapped in a test: here the model, which also tells what it was asked.
const script = Scripted.layer([Scripted.complete("Bonjour."), Scripted.hang()])

const test = Agent.layer({ maxIterations: 5 }).pipe(
  Layer.provideMerge(
    Layer.mergeAll(ModelRouter.layer.pipe(Layer.provideMerge(script)), SessionStore.layerMemory, ToolRegistry.layer([]))
  )
)

const program = Effect.gen(function* () {
  const result = yield* Agent.run({ prompt: "Say hello in French." })
  const { calls } = yield* Scripted.Inspection
  const store = yield* SessionStore.SessionStore
  const stored = yield* store.messages(result.sessionId)
  return { text: result.text, asked: (yield* calls).length, stored: stored.map(({ role }) => role) }
})

console.log(await program.pipe(Effect.provide(test), Effect.runPromise))
