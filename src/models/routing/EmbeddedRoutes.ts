/**
 * Creates the router of an application that specifies its routes as values instead of settings.
 *
 * **Details**
 *
 * `RouteChain` resolves the routes. Several keys of a route form a pool. Facts learned about windows, endpoints and keys are stored in memory for
 * the lifetime of the router.
 *
 * Every key is registered as a secret.
 *
 * Source: `ARCHITECTURE.md` §5, `hermes-llm.md` §2.3, §10.1, §17.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import * as Secrets from "../../base/domain/Secrets.ts"
import * as Catalogue from "./Catalogue.ts"
import * as ModelLists from "./catalogue/ModelLists.ts"
import * as ContextWindow from "./ContextWindow.ts"
import type { ModelRouter, Policies } from "./ModelRouter.ts"
import * as OpenRoute from "./OpenRoute.ts"
import * as RoutedModelRouter from "./RoutedModelRouter.ts"
import type { RouterStatus } from "./ModelRouter.ts"
import { type ModelRoute, resolveChain } from "./RouteChain.ts"

/** A catalogue that requests model lists from endpoints and caches them in memory. */
const catalogue = Effect.gen(function* () {
  const { get, post } = yield* ModelLists.lazy
  const made = Catalogue.make({
    settings: { model: { provider: "auto", streaming: true }, customProviders: [] },
    windows: ContextWindow.makeInMemory(),
    lists: yield* ModelLists.makeInMemory(get),
    get,
    post,
    scope: yield* Effect.scope
  })
  // An application knows its own models, so it needs no notice about unknown ones.
  return { ...made, notice: () => Effect.succeed(undefined) }
})

/** Provides the router for an application's routes. */
export const layer = (
  routes: ReadonlyArray<ModelRoute>,
  { fallback, retry }: Policies = {}
): Layer.Layer<ModelRouter | RouterStatus, ConfigError> =>
  Layer.unwrap(
    Effect.gen(function* () {
      const entries = yield* Effect.fromResult(resolveChain(routes))
      yield* Secrets.registerSecrets(entries)
      const given = Option.getOrUndefined(yield* Effect.serviceOption(Catalogue.Catalogue))
      const known = given ?? (yield* catalogue)
      return RoutedModelRouter.layer({
        retry,
        fallback,
        chain: entries,
        catalogue: known,
        open: (route) => Effect.flatMap(Catalogue.addExtraBody(known, route), OpenRoute.open)
      })
    })
  )
