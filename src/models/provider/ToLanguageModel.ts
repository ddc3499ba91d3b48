/**
 * Adapts a provider to the `LanguageModel` of `effect/ai`, so that `generateText`, `streamText`, `generateObject` and
 * toolkits work with it.
 *
 * A call is sent once: `RoutedLanguageModel` adds retries, key pools and failover.
 *
 * **Gotchas**
 *
 * Tools that only a vendor's own API can run (`Tool.providerDefined`) are refused. Every streamed part is decoded with
 * `Schema`; to avoid this cost, the loop of a run uses the provider directly.
 *
 * **Example** (Asking a provider without an agent)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import * as LanguageModel from "effect/ai/LanguageModel"
 * import { Offline, ToLanguageModel } from "hermes-effect"
 *
 * const model = ToLanguageModel.layer.pipe(Layer.provide(Offline.layer()))
 *
 * const program = LanguageModel.generateText({ prompt: "Reply exactly hello" }).pipe(Effect.provide(model))
 *
 * console.log((await Effect.runPromise(program)).text)
 * // => hello
 * ```
 *
 * Source: `ARCHITECTURE.md` §2.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as History from "../../base/domain/History.ts"
import * as Route from "../../base/domain/Route.ts"
import { Model } from "./DeferredLanguageModel.ts"
import * as LanguageModelBridge from "./LanguageModelBridge.ts"
import { Provider } from "./Provider.ts"
import type * as ProviderPort from "./Provider.ts"

/** Creates a `LanguageModel` from a provider. */
export const make = (provider: ProviderPort.Service): Effect.Effect<LanguageModel.LanguageModel> =>
  LanguageModelBridge.make((call, reader) =>
    Effect.flatMap(
      provider.prepare({
        ...call,
        messages: History.toSendableMessages(call.messages, Route.abilities(provider.info))
      }),
      (request) => provider.execute(request, reader)
    )
  )

/** Provides the run's `Provider` as a `LanguageModel`. */
export const layer: Layer.Layer<LanguageModel.LanguageModel, never, Provider> = Layer.effect(
  Model,
  Effect.flatMap(Provider, make)
)
