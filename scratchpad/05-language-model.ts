import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as LanguageModel from "effect/ai/LanguageModel"
import { Agent, FromLanguageModel, Offline, Provider, Runtime, ToLanguageModel } from "../src/index.ts"

// A provider of this runtime is a `LanguageModel` of effect/ai …
const model = ToLanguageModel.layer.pipe(Layer.provide(Offline.layer()))

// … and any `LanguageModel` is a provider for an agent.
const provider = Layer.effect(
  Provider.Provider,
  Effect.map(LanguageModel.LanguageModel, (languageModel) =>
    FromLanguageModel.make(languageModel, { provider: "mine", model: "mine-1" })
  )
).pipe(Layer.provide(model))

const direct = LanguageModel.generateText({ prompt: "Reply exactly: from a LanguageModel" }).pipe(Effect.provide(model))
const through = Agent.run({ prompt: "Reply exactly: through an agent" }).pipe(
  Effect.provide(Runtime.layer({ provider }))
)

console.log((await Effect.runPromise(direct)).text)
console.log((await Effect.runPromise(through)).text)
