/**
 * The router of an application that names its routes: built from values where a program builds it from settings.
 *
 * **Details**
 *
 * The first route is the primary, the rest are its fallbacks in order. Provider, address and protocol are resolved as
 * for a program's settings (`Routes`); a key is sent only to the address of its own route, and the environment is not
 * read. Several keys of a route form a pool. Facts learned about windows, endpoints and keys stay in memory for the
 * lifetime of the router.
 *
 * A mistake is a `ConfigError` with one line that names the route's field. Every key is registered as a secret.
 *
 * Source: `ARCHITECTURE.md` §5, `hermes-llm.md` §2.3, §10.1, §17.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import { ConfigError } from "../../base/domain/AgentError.ts"
import type { Configurable } from "../../base/domain/ApiMode.ts"
import type { Abilities } from "../../base/domain/Route.ts"
import * as Secrets from "../../base/domain/Secrets.ts"
import * as Catalogue from "./Catalogue.ts"
import * as ModelLists from "./catalogue/ModelLists.ts"
import * as ContextWindow from "./ContextWindow.ts"
import type { ModelRouter, Policies } from "./ModelRouter.ts"
import * as OpenRoute from "./OpenRoute.ts"
import type { RetryPolicy } from "./RetryPolicy.ts"
import * as RoutedModelRouter from "./RoutedModelRouter.ts"
import type { RouterStatus } from "./ModelRouter.ts"
import * as Routes from "./Routes.ts"

/** A model, who serves it, and with which key. */
export interface ModelRoute {
  /** Name of a provider (`anthropic`, `openrouter`, `custom`); found out from `baseUrl` when absent. */
  readonly provider?: string | undefined
  readonly model: string
  /** The key, or several that take turns. */
  readonly apiKey?: Redacted.Redacted<string> | ReadonlyArray<Redacted.Redacted<string>> | undefined
  /** Address of the endpoint; the provider's own when absent. */
  readonly baseUrl?: string | undefined
  /** Protocol of the endpoint; found out from provider and address when absent. */
  readonly apiMode?: Configurable | undefined
  /** Headers of this route alone. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Abilities of the endpoint that cannot be inferred from its protocol and address, for example with a gateway. */
  readonly abilities?: Partial<Abilities> | undefined
  /** Repeats failed calls on this route; the policy of the runtime when absent. */
  readonly retry?: RetryPolicy | undefined
}

/** Failures of a runtime over these routes; `never` without routes. */
export type RoutesError<Routes> = [Routes] extends [never] ? never : ConfigError

/** A runtime has one provider or a list of routes, never both. */
export type OneModel = { readonly provider?: undefined } | { readonly routes?: undefined }

type Chain = RoutedModelRouter.Options["chain"]
type Entry = Chain[0]

const fields: Readonly<Record<string, string>> = {
  provider: "provider",
  base_url: "baseUrl",
  api_key: "apiKey",
  default: "model"
}

/** An error of the settings as one of a route of the list. */
const relocateError =
  (index: number, { provider }: ModelRoute) =>
  ({ message, path }: ConfigError): ConfigError => {
    const at = `routes[${index}]`
    if (path === "model.default")
      return new ConfigError({ path: `${at}.model`, message: `${at}.model is empty: name a model` })
    // A key is missing: nothing but the route itself can name one.
    if (path === "model.api_key" || /^[A-Z][A-Z0-9_]*$/.test(path)) {
      return new ConfigError({
        path: `${at}.apiKey`,
        message: `${at}: no API key${provider === undefined ? "" : ` for ${provider}`}. Set ${at}.apiKey`
      })
    }
    const renameKeys = (text: string): string =>
      text.replaceAll(/\bmodel\.(provider|base_url|api_key|default)\b/g, (_, key: string) => `${at}.${fields[key]}`)
    return new ConfigError({
      path: renameKeys(path),
      message: renameKeys(message.replace(` (or ${Routes.endpointVariable})`, ""))
    })
  }

const listKeys = ({ apiKey = [] }: ModelRoute): ReadonlyArray<Redacted.Redacted<string>> =>
  (Redacted.isRedacted(apiKey) ? [apiKey] : apiKey).filter((key) => Redacted.value(key).trim() !== "")

const makeEntry = (route: ModelRoute, index: number): Result.Result<Entry, ConfigError> => {
  const { abilities, apiMode, baseUrl, headers, model, provider, retry } = route
  const keys = listKeys(route)
  const resolved = Routes.resolveRoute({ apiKey: keys[0], apiMode, baseUrl, headers, model, provider }, () => undefined)
  return Result.mapBoth(resolved, {
    onFailure: relocateError(index, route),
    onSuccess: (resolved) => ({
      route: abilities === undefined ? resolved : { ...resolved, abilities },
      credentials: keys.map((key) => ({ key })),
      retry
    })
  })
}

/** Resolves the routes of an application, or names the first mistake in them. */
export const resolveChain = (routes: ReadonlyArray<ModelRoute>): Result.Result<Chain, ConfigError> =>
  Result.gen(function* () {
    const entries: Array<Entry> = []
    for (const [index, route] of routes.entries()) {
      const entry = yield* makeEntry(route, index)
      const earlier = entries.findIndex((other) => Routes.isSamePlace(other.route, entry.route))
      if (earlier !== -1) {
        const path = `routes[${index}]`
        const name = `${entry.route.provider} (${entry.route.model})`
        const message = `${path} repeats routes[${earlier}], ${name}. Remove it, or give routes[${earlier}] both keys`
        return yield* Result.fail(new ConfigError({ path, message }))
      }
      entries.push(entry)
    }
    const [primary, ...fallbacks] = entries
    return primary === undefined
      ? yield* Result.fail(
          new ConfigError({
            path: "routes",
            message: "routes is empty: name at least one, such as { provider, model, apiKey }"
          })
        )
      : [primary, ...fallbacks]
  })

/** A catalogue that asks endpoints about their models, and caches the answers in memory. */
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
  // An application knows its own models.
  return { ...made, notice: () => Effect.succeed(undefined) }
})

/** The router over an application's routes. */
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
