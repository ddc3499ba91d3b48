import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { Agent, Middleware, Runtime, Scripted } from "../../src/index.ts"

const Weather = Schema.Struct({ city: Schema.String, celsius: Schema.Int })

// Asks each model call of a run for JSON of this form, in the way that the provider has for it.
const asJson = Middleware.wrapModelCall({
  name: "weather as JSON",
  wrap: (next) => (params) =>
    next({
      ...params,
      call: {
        ...params.call,
        responseFormat: { type: "json", name: "weather", schema: Schema.toJsonSchemaDocument(Weather).schema }
      }
    })
})

const decode = Schema.decodeUnknownEffect(Schema.fromJsonString(Weather))

// An answer that does not fit is told to the model once, in the same session; a second one fails with a `SchemaError`.
const ask = Effect.fn("ask")(function* (prompt: string) {
  const first = yield* Agent.run({ prompt })
  return yield* Effect.catchTag(decode(first.text), "SchemaError", ({ message }) =>
    Effect.flatMap(Agent.run({ prompt: `That is not the JSON: ${message}`, sessionId: first.sessionId }), ({ text }) =>
      decode(text)
    )
  )
})

const model = Scripted.layer([
  Scripted.complete("It is 4 degrees in Oslo."),
  Scripted.complete('{"city":"Oslo","celsius":4}')
])

const program = Effect.gen(function* () {
  const { celsius, city } = yield* ask("How is the weather in Oslo?")
  const { calls } = yield* Scripted.Inspection
  return { city, celsius, asked: (yield* calls).map(({ responseFormat }) => responseFormat.type) }
})

console.log(
  await program.pipe(
    Effect.provide(Layer.merge(model, Runtime.layer({ provider: model, middleware: [asJson] }))),
    Effect.runPromise
  )
)
// => { city: 'Oslo', celsius: 4, asked: [ 'json', 'json' ] }
