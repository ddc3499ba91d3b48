/**
 * The routes of an application that specifies them as values instead of settings.
 *
 * **Details**
 *
 * The first route is the primary; the others are its fallbacks, in order. Provider, address and protocol are resolved
 * as for a program's settings (`Routes`). A key is sent only to the address of its route, and the environment is not
 * read. An invalid route fails with a `ConfigError` whose message names the route's field.
 */
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import { ConfigError } from "../../base/domain/AgentError.ts"
import type { Configurable } from "../../base/domain/ApiMode.ts"
import type { Abilities } from "../../base/domain/Route.ts"
import type { RetryPolicy } from "./RetryPolicy.ts"
import type * as RoutedModelRouter from "./RoutedModelRouter.ts"
import * as Routes from "./Routes.ts"

/** A model, with the provider that serves it and the key to use. */
export interface ModelRoute {
  /** Name of a provider (`anthropic`, `openrouter`, `custom`); defaults to the provider of `baseUrl`. */
  readonly provider?: string | undefined
  readonly model: string
  /** The key, or several keys that form a pool. */
  readonly apiKey?: Redacted.Redacted<string> | ReadonlyArray<Redacted.Redacted<string>> | undefined
  /** Address of the endpoint. Defaults to the provider's address. */
  readonly baseUrl?: string | undefined
  /** Protocol of the endpoint. By default it is determined from the provider and address. */
  readonly apiMode?: Configurable | undefined
  /** Additional headers for this route. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /**
   * Capabilities of the endpoint that cannot be inferred from its protocol and address, for example behind a gateway.
   */
  readonly abilities?: Partial<Abilities> | undefined
  /** Permits requests from a web page, which shows the key to everybody who opens it. Defaults to `false`. */
  readonly allowBrowser?: boolean | undefined
  /** Policy for retries on this route. Defaults to the runtime's policy. */
  readonly retry?: RetryPolicy | undefined
}

/** Errors that can occur when a runtime with these routes is created; `never` without routes. */
export type RoutesError<Routes> = [Routes] extends [never] ? never : ConfigError

/** Constraint that a runtime has either a provider or a list of routes, but not both. */
export type OneModel = { readonly provider?: undefined } | { readonly routes?: undefined }

type Chain = RoutedModelRouter.Options["chain"]
type Entry = Chain[0]

const fields: Readonly<Record<string, string>> = {
  provider: "provider",
  base_url: "baseUrl",
  api_key: "apiKey",
  default: "model"
}

/** Converts an error about the settings to an error about a route in the list. */
const relocateError =
  (index: number, { provider }: ModelRoute) =>
  ({ message, path }: ConfigError): ConfigError => {
    const at = `routes[${index}]`
    if (path === "model.default")
      return new ConfigError({ path: `${at}.model`, message: `${at}.model is empty: name a model` })
    // A key is missing. Only the route itself can specify one.
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

/** Returns the keys of a route that are not blank. */
export const listKeys = ({ apiKey = [] }: ModelRoute): ReadonlyArray<Redacted.Redacted<string>> =>
  (Redacted.isRedacted(apiKey) ? [apiKey] : apiKey).filter((key) => Redacted.value(key).trim() !== "")

/** Resolves one route of a list. */
export const resolveEntry = (route: ModelRoute, index: number): Result.Result<Entry, ConfigError> => {
  const { abilities, allowBrowser, apiMode, baseUrl, headers, model, provider, retry } = route
  const keys = listKeys(route)
  const resolved = Routes.resolveRoute({ apiKey: keys[0], apiMode, baseUrl, headers, model, provider }, () => undefined)
  return Result.mapBoth(resolved, {
    onFailure: relocateError(index, route),
    onSuccess: (resolved) => ({
      route: {
        ...resolved,
        ...(abilities === undefined ? {} : { abilities }),
        ...(allowBrowser === undefined ? {} : { allowBrowser })
      },
      credentials: keys.map((key) => ({ key })),
      retry
    })
  })
}

/** Resolves the routes of an application. Fails with the first invalid field. */
export const resolveChain = (routes: ReadonlyArray<ModelRoute>): Result.Result<Chain, ConfigError> =>
  Result.gen(function* () {
    const entries: Array<Entry> = []
    for (const [index, route] of routes.entries()) {
      const entry = yield* resolveEntry(route, index)
      const earlier = entries.findIndex((other) => Routes.isSame(other.route, entry.route))
      if (earlier !== -1) {
        const path = `routes[${index}]`
        const name = `${entry.route.provider} (${entry.route.model})`
        const message = `${path} repeats routes[${earlier}], ${name}, with the same key. Remove it`
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
