/**
 * The routes that the user's settings mean: the primary, and the fallbacks behind it, each with its keys. Pure.
 *
 * **Details**
 *
 * A key that the user gave for a route comes before those of the provider's pool (`<provider>.api_keys`); a pool's keys are
 * for the provider's own address. A fallback that can not be used is left out and said; the primary has to be right.
 *
 * **Gotchas**
 *
 * `OPENAI_BASE_URL` stands in the settings like every variable; the rules about keys need to know that it was the
 * environment that named the address, so it is left for them to find there.
 *
 * Source: `hermes-llm.md` §2.3, §5 and §17.
 *
 * @since 0.1.0
 */
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Derived from "../config/Derived.ts"
import type { Environment } from "../config/Environment.ts"
import type { Values } from "../config/Settings.ts"
import type { ConfigError } from "../domain/AgentError.ts"
import type { Route } from "../domain/Route.ts"
import * as Directory from "./ProviderDirectory.ts"
import type { Lookup } from "./RouteKeys.ts"
import type { ChainEntry } from "./RoutedModelRouter.ts"
import * as Routes from "./Routes.ts"

/** What the routes come from. */
export interface Configured {
  readonly settings: Values
  readonly environment: Environment["Service"]
}

/** The routes, and what of the settings makes none: a line each. */
export interface Chain {
  readonly entries: readonly [ChainEntry, ...ReadonlyArray<ChainEntry>]
  readonly problems: ReadonlyArray<string>
}

type Said = Omit<Routes.ModelSettings, "customProviders">

const lookup = ({ environment }: Configured): Lookup => (name) => {
  const value = environment.get(name)
  return value === undefined ? undefined : Redacted.make(value)
}

const canonical = (provider: string): string => Directory.find(provider)?.name ?? provider

/** What stands under a provider, by whichever of its names. */
const ofProvider = <A>(record: Readonly<Record<string, A>>, provider: string): A | undefined =>
  Object.entries(record).find(([name]) => canonical(name) === canonical(provider))?.[1]

const pooledKeys = (settings: Values, provider: string | undefined): ReadonlyArray<Redacted.Redacted<string>> =>
  provider === undefined ? [] : ofProvider(settings.credentials, provider)?.apiKeys ?? []

const millis = (seconds: number | undefined): number | undefined => seconds === undefined ? undefined : seconds * 1000

/** Of the model, of its provider, of all. */
const withDeadline = (route: Route, { network, providers }: Values): Route => {
  const own = ofProvider(providers, route.provider)
  const seconds = own?.models[route.model]?.timeoutSeconds ?? own?.requestTimeoutSeconds ?? network.requestTimeoutSeconds
  return seconds === undefined ? route : { ...route, requestTimeoutMillis: seconds * 1000 }
}

const limitsOf = ({ model, provider }: Route, { network, providers }: Values): ChainEntry["limits"] => {
  const own = ofProvider(providers, provider)
  const stale = own?.models[model]?.staleTimeoutSeconds ?? own?.staleTimeoutSeconds
  return {
    stream: millis(stale ?? network.streamStaleTimeoutSeconds),
    call: millis(stale ?? network.callStaleTimeoutSeconds)
  }
}

const entryOf = (configured: Configured, said: Said): Result.Result<ChainEntry, ConfigError> => {
  const { settings } = configured
  const pool = said.baseUrl === undefined ? pooledKeys(settings, said.provider) : []
  const [first] = pool
  const model = {
    ...said,
    ...(said.apiKey === undefined && first !== undefined ? { apiKey: first } : {}),
    customProviders: settings.customProviders
  }
  return Result.map(Routes.resolve(model, lookup(configured)), (found): ChainEntry => {
    const route = withDeadline(found, settings)
    const own = pool.length === 0 || route.apiKey === undefined || pool.includes(route.apiKey) ? [] : [route.apiKey]
    return {
      route,
      credentials: [...own, ...pool].map((key) => ({ key })),
      strategy: ofProvider(settings.credentialPoolStrategies, route.provider),
      limits: limitsOf(route, settings)
    }
  })
}

const primaryEntry = (configured: Configured): Result.Result<ChainEntry, ConfigError> => {
  const { apiKey, apiMode, baseUrl, default: model, provider } = configured.settings.model
  const fromEnvironment = baseUrl !== undefined && baseUrl === configured.environment.get("OPENAI_BASE_URL")
  return entryOf(configured, { provider, model, baseUrl: fromEnvironment ? undefined : baseUrl, apiKey, apiMode })
}

/** The route that is asked first. */
export const primary = (configured: Configured): Result.Result<Route, ConfigError> =>
  Result.map(primaryEntry(configured), ({ route }) => route)

/** All of them, in order. The stand-in is nobody's primary with fallbacks: it always answers. */
export const chain = (configured: Configured): Result.Result<Chain, ConfigError> =>
  Result.map(primaryEntry(configured), (first) => {
    const further: Array<ChainEntry> = []
    const problems: Array<string> = []
    for (const fallback of Derived.fallbacks(configured.settings)) {
      const entry = entryOf(configured, fallback)
      if (Result.isSuccess(entry)) further.push(entry.success)
      else problems.push(`the fallback ${fallback.provider} (${fallback.model}) is left out: ${entry.failure.message}`)
    }
    return { entries: [first, ...further], problems }
  })
