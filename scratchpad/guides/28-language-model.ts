import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as LanguageModel from "effect/ai/LanguageModel"
import { ModelRouter, RetryPolicy, Runtime } from "../../src/index.ts"
import { RoutedLanguageModel } from "../../src/kit/entry/effect-ai.ts"

// Nothing listens at the first address.
const routes = [
  { provider: "custom", model: "large", baseUrl: "http://127.0.0.1:9/v1", apiKey: Redacted.make("key") },
  { provider: "offline", model: "offline" }
]
const retry = RetryPolicy.none

const model = RoutedLanguageModel.layer.pipe(Layer.provide(ModelRouter.layerFromRoutes(routes, { retry })))

const person = LanguageModel.generateObject({
  prompt: 'Reply exactly: {"name":"Ada"}',
  schema: Schema.Struct({ name: Schema.String })
})
const greeting = LanguageModel.generateText({ prompt: "Reply exactly: hello" })

console.log((await Effect.runPromise(Effect.provide(person, model))).value.name)
// => Ada
console.log((await Effect.runPromise(Effect.provide(greeting, Runtime.layer({ routes, retry })))).text)
// => hello
