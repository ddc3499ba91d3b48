/**
 * Models that a conversation can switch to: the configured model, its fallbacks, and the models listed by their
 * endpoints.
 *
 * A listed model is called on the configured route, with its key: a key is never sent to another address. A permanent
 * choice is written to `model.default` of `config.yaml`, so it is available only for models of the configured provider
 * and address.
 *
 * Source: `hermes-product.md` §1.8, `hermes-llm.md` §2.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type * as Path from "effect/Path"
import * as Result from "effect/Result"
import * as Edit from "../../base/config/Edit.ts"
import { Environment, type Home } from "../../base/config/Environment.ts"
import { Settings } from "../../base/config/Settings.ts"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import type { Route } from "../../base/domain/Route.ts"
import * as ConfiguredRoutes from "../../models/routing/ConfiguredRoutes.ts"
import { ModelRouter } from "../../models/routing/ModelRouter.ts"
import * as Routes from "../../models/routing/Routes.ts"
import { type Failure, makeWorkFailure } from "./Failure.ts"

/** A model, with the route on which it is called. */
export interface ModelChoice {
  /** Route of the model; `undefined` for the router's own choice with its fallbacks. */
  readonly route: Route | undefined
  readonly model: string
  readonly provider: string
  /** Source of the choice: configured, fallback or listed. */
  readonly origin: string
  readonly window: number | undefined
}

/** The models that a user can choose. */
export interface ModelChoices {
  readonly list: Effect.Effect<ReadonlyArray<ModelChoice>>
  /** Makes a model the default of new sessions and returns the path of the changed file. */
  readonly save: (choice: ModelChoice) => Effect.Effect<string, ConfigError | Failure>
}

/** Time limit for an endpoint to list its models. */
const patience = Duration.seconds(5)

/** Collects the choices from the settings, the catalogue and the models that endpoints list. */
export const make: Effect.Effect<
  ModelChoices,
  never,
  Environment | FileSystem.FileSystem | Home | ModelRouter | Path.Path | Settings
> = Effect.gen(function* () {
  const { catalogue, primary, primaryRoute } = yield* ModelRouter
  const settings = yield* Settings
  const environment = yield* Environment
  const context = yield* Effect.context<FileSystem.FileSystem | Home | Path.Path>()

  const readWindow = (route: Route): Effect.Effect<number | undefined> =>
    catalogue === undefined
      ? Effect.undefined
      : Effect.map(catalogue.window(route), ({ source, tokens }) => (source === "default" ? undefined : tokens))

  const listModelsOn = Effect.fnUntraced(function* (route: Route) {
    if (catalogue === undefined) return []
    const listed = yield* Effect.orElseSucceed(Effect.timeout(catalogue.listed(route), patience), () => [])
    return listed
      .map(({ id, window }): ModelChoice => ({
        route: { ...route, model: id },
        model: id,
        provider: route.provider,
        origin: "listed",
        window
      }))
      .sort((a, b) => (a.model < b.model ? -1 : 1))
  })

  const list = Effect.gen(function* () {
    const { model, provider } = yield* primary
    if (primaryRoute === undefined)
      return [{ route: undefined, model, provider, origin: "configured", window: undefined }]
    const first = yield* primaryRoute
    const chain = ConfiguredRoutes.resolveChain({ settings, environment })
    const fallbacks = Result.isSuccess(chain)
      ? chain.success.entries.map(({ route }) => route).filter((route) => !Routes.isSame(route, first))
      : []
    const configured: ReadonlyArray<ModelChoice> = [
      { route: undefined, model, provider, origin: "configured", window: yield* readWindow(first) },
      ...(yield* Effect.forEach(fallbacks, (route) =>
        Effect.map(readWindow(route), (window) => ({
          route,
          model: route.model,
          provider: route.provider,
          origin: "fallback",
          window
        }))
      ))
    ]
    const listed = yield* Effect.forEach([first, ...fallbacks], listModelsOn, { concurrency: 4 })
    const all = [...configured, ...listed.flat()]
    return all.filter(
      (one, index) => all.findIndex((other) => other.model === one.model && other.provider === one.provider) === index
    )
  })

  const save: ModelChoices["save"] = Effect.fnUntraced(function* (choice) {
    const { baseUrl, provider } = yield* primary
    if (choice.provider !== provider || (choice.route !== undefined && choice.route.baseUrl !== baseUrl)) {
      return yield* makeWorkFailure(
        `${choice.model} is served by ` +
          `${choice.provider}${choice.route?.baseUrl === undefined ? "" : ` at ${choice.route.baseUrl}`}, ` +
          "and the settings name another place: make it the default with `hermes model`"
      )
    }
    const { file, key } = yield* Effect.provideContext(Edit.set("model.default", choice.model), context)
    return `${key} in ${file}`
  })

  return { list, save }
})
