/**
 * A `LanguageModel` that is made with its first call, so that a runtime offers one without loading it.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type * as LanguageModel from "effect/ai/LanguageModel"

/** The service by its key; its module is loaded with the first model that is made. */
export const Model: Context.Service<LanguageModel.LanguageModel, LanguageModel.LanguageModel> =
  Context.Service<LanguageModel.LanguageModel>("effect/ai/LanguageModel")

/** Any of the methods of a model, without the types of its tools. */
type Method<A> = (options: never) => A

/** Makes a model whose methods wait for the model that `make` makes once. */
export const deferModel = (
  make: Effect.Effect<LanguageModel.LanguageModel>
): Effect.Effect<LanguageModel.LanguageModel> =>
  Effect.map(Effect.cached(make), (made) => {
    const generateText: Method<unknown> = (options) => Effect.flatMap(made, (model) => model.generateText(options))
    const generateObject: Method<unknown> = (options) => Effect.flatMap(made, (model) => model.generateObject(options))
    const streamText: Method<unknown> = (options) =>
      Stream.unwrap(Effect.map(made, (model) => model.streamText(options)))
    const deferred = {
      "~effect/ai/LanguageModel": "~effect/ai/LanguageModel",
      generateText,
      generateObject,
      streamText
    }
    // The methods pass their options on unchanged, so they have the overloads of the model.
    return deferred as unknown as LanguageModel.LanguageModel
  })
