/**
 * The routes that the user's settings mean: the primary, and the fallbacks behind it, each with its keys. Pure.
 *
 * **Details**
 *
 * A key that the user gave for a route comes before those of the provider's pool (`<provider>.api_keys`); a pool's keys are
 * for the provider's own address. What is wrong is an error that names its place; only what wants a key is left out and
 * said, as long as something is left: a fallback without a key, or a primary without one that has a fallback.
 *
 * A fallback may differ from the primary in anything. One that is the primary itself is left out, so that a flag may choose
 * what the file has as a fallback; one that says again what an earlier one said would make the chain a circle.
 *
 * **Gotchas**
 *
 * `OPENAI_BASE_URL` stands in the settings like every variable; the rules about keys need to know that it was the
 * environment that named the address, so it is left for them to find there.
 *
 * Source: `hermes-llm.md` §2.3, §5, §17.3 and §17.6.
 *
 * @since 0.1.0
 */
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Derived from "../config/Derived.ts"
import type { Environment } from "../config/Environment.ts"
import type { Values } from "../config/Settings.ts"
import { ConfigError } from "../domain/AgentError.ts"
import type { Route } from "../domain/Route.ts"
import * as Directory from "./ProviderDirectory.ts"
import type { Credential } from "./CredentialPool.ts"
import * as Detection from "./Detection.ts"
import type { Lookup } from "./RouteKeys.ts"
import type { ChainEntry } from "./RoutedModelRouter.ts"
import * as Routes from "./Routes.ts"

/** What the routes come from. */
export interface Configured {
  readonly settings: Values
  readonly environment: Environment["Service"]
  /** What logins gave in place of keys. */
  readonly logins?: ReadonlyMap<string, Credential> | undefined
  /** Providers that plugins bring. */
  readonly brought?: ReadonlyArray<Directory.Named> | undefined
}

/** The routes, and what of the settings makes none: a line each. */
export interface Chain {
  readonly entries: readonly [ChainEntry, ...ReadonlyArray<ChainEntry>]
  readonly problems: ReadonlyArray<string>
}

type Said = Omit<Routes.ModelSettings, "customProviders" | "otherProviders" | "logins">

const lookup = ({ environment }: Configured): Lookup => (name) => {
  const value = environment.get(name)
  return value === undefined ? undefined : Redacted.make(value)
}

const canonical = (provider: string): string => Directory.find(provider)?.name ?? provider

/** What stands under a provider, by whichever of its names. */
const ofProvider = <A>(record: Readonly<Record<string, A>>, provider: string): A | undefined =>
  Object.entries(record).find(([name]) => canonical(name) === canonical(provider))?.[1]

const isKey = (key: Redacted.Redacted<string> | undefined): boolean => key !== undefined && Redacted.value(key).trim() !== ""

const pooledKeys = (
  settings: Values,
  provider: string | undefined
): ReadonlyArray<Redacted.Redacted<string>> | undefined =>
  provider === undefined ? undefined : ofProvider(settings.credentials, provider)?.apiKeys.filter(isKey)

/** Whether it is only for want of a key that a route can not be taken. */
const wantsKey = ({ path }: ConfigError): boolean =>
  /(^|\.)api_key$|^[A-Z][A-Z0-9_]*$/.test(path) && path !== Routes.endpointVariable

const emptyPool = (provider: string) => (error: ConfigError): ConfigError =>
  wantsKey(error)
    ? new ConfigError({
      path: `${provider}.api_keys`,
      message: `${provider}.api_keys has no key in it: add one (without the list: ${error.message})`
    })
    : error

const millis = (seconds: number | undefined): number | undefined => seconds === undefined ? undefined : seconds * 1000

/** Of the model, of its provider, of all. What a provider is given for a request holds between bytes too. */
const withDeadlines = (route: Route, { network, providers }: Values): Route => {
  const own = ofProvider(providers, route.provider)
  const seconds = own?.models[route.model]?.timeoutSeconds ?? own?.requestTimeoutSeconds
  const request = millis(seconds ?? network.requestTimeoutSeconds)
  const read = millis(seconds ?? network.streamReadTimeoutSeconds)
  return {
    ...route,
    ...(request === undefined ? {} : { requestTimeoutMillis: request }),
    ...(read === undefined ? {} : { readTimeoutMillis: read })
  }
}

const limitsOf = ({ model, provider }: Route, { network, providers }: Values): ChainEntry["limits"] => {
  const own = ofProvider(providers, provider)
  const stale = own?.models[model]?.staleTimeoutSeconds ?? own?.staleTimeoutSeconds
  return {
    stream: millis(stale ?? network.streamStaleTimeoutSeconds),
    call: millis(stale ?? network.callStaleTimeoutSeconds)
  }
}

/** What a provider of a plugin is asked for: everything but the name of the model may be absent. */
const broughtRoute = ({ brought = [] }: Configured, { apiKey, apiMode, baseUrl, model, provider }: Said): Route | undefined => {
  const source = provider === undefined ? undefined : Directory.named(brought, provider)
  return source === undefined ? undefined : {
    provider: source.name,
    model: model ?? source.name,
    apiMode: apiMode ?? "chat_completions",
    ...(baseUrl === undefined ? {} : { baseUrl }),
    ...(apiKey === undefined ? {} : { apiKey })
  }
}

/** The login that may answer at a route: where a key of the environment might. */
const loginOf = ({ logins }: Configured, { baseUrl, provider }: Route): ReadonlyArray<Credential> => {
  const login = logins?.get(provider)
  const entry = Directory.find(provider)
  const { host } = Detection.address(baseUrl)
  return login !== undefined && entry !== undefined && (Directory.owns(entry, host) || Detection.isLocal(host)) ? [login] : []
}

const isKeyOf = (route: Route) => ({ key }: Credential): boolean =>
  route.apiKey !== undefined && Redacted.value(key) === Redacted.value(route.apiKey)

const unguardedEntry = (configured: Configured, said: Said): Result.Result<ChainEntry, ConfigError> => {
  const { settings } = configured
  const plugged = broughtRoute(configured, said)
  if (plugged !== undefined) return Result.succeed({ route: withDeadlines(plugged, settings), limits: limitsOf(plugged, settings) })
  const given = said.baseUrl === undefined ? pooledKeys(settings, said.provider) : undefined
  const pool = given ?? []
  const [first] = pool
  const model = {
    ...said,
    ...(said.apiKey === undefined && first !== undefined ? { apiKey: first } : {}),
    customProviders: settings.customProviders,
    otherProviders: configured.brought?.flatMap(({ aliases = [], name }) => [name, ...aliases]),
    logins: configured.logins === undefined ? undefined : new Map([...configured.logins].map(([name, { key }]) => [name, key]))
  }
  const resolved = Routes.resolve(model, lookup(configured))
  const checked = given?.length === 0 ? Result.mapError(resolved, emptyPool(said.provider ?? "")) : resolved
  return Result.map(checked, (found): ChainEntry => {
    const route = withDeadlines(found, settings)
    const logins = loginOf(configured, route)
    const listed = pool.map((key): Credential => ({ key }))
    const others = [...listed, ...logins]
    const own = others.length === 0 || route.apiKey === undefined || others.some(isKeyOf(route)) ? [] : [{ key: route.apiKey }]
    return {
      route,
      credentials: [...own, ...others],
      strategy: ofProvider(settings.credentialPoolStrategies, route.provider),
      limits: limitsOf(route, settings)
    }
  })
}

const entryOf = (configured: Configured, said: Said): Result.Result<ChainEntry, ConfigError> =>
  Result.flatMap(unguardedEntry(configured, said), (entry) =>
    Result.map(Derived.guarded(entry.route, configured.settings), (route) => ({ ...entry, route })))

const primaryEntry = (configured: Configured): Result.Result<ChainEntry, ConfigError> => {
  const { apiKey, apiMode, baseUrl, default: model, provider } = configured.settings.model
  const fromEnvironment = baseUrl !== undefined && baseUrl === configured.environment.get(Routes.endpointVariable)
  return entryOf(configured, { provider, model, baseUrl: fromEnvironment ? undefined : baseUrl, apiKey, apiMode })
}

const sayings = (settings: Values): ReadonlyArray<Pick<Said, "baseUrl" | "provider">> => [
  settings.model,
  settings.delegation,
  ...Derived.fallbacks(settings)
]

/** Providers that the settings name and only a plugin can bring. */
export const unknown = (settings: Values): ReadonlyArray<Directory.Named> => {
  const own = new Set(settings.customProviders.map(({ name }) => name.trim().toLowerCase()))
  return sayings(settings).flatMap(({ provider = "auto" }) => {
    const name = provider.trim().toLowerCase()
    const isKnown = name === "" || name === "auto" || name.startsWith("custom:") || own.has(name)
    return isKnown || Directory.find(name) !== undefined ? [] : [{ name }]
  })
}

/** Whether a login may matter: some route of the settings is, or may be, one that users log in to. */
export const mayLogIn = (settings: Values): boolean =>
  sayings(settings).some(({ baseUrl, provider }) => {
    const named = provider === undefined ? undefined : Directory.find(provider)
    return (named ?? Directory.atHost(Detection.address(baseUrl).host))?.login === true
  })

/** The route that is asked first. */
export const primary = (configured: Configured): Result.Result<Route, ConfigError> =>
  Result.map(primaryEntry(configured), ({ route }) => route)

/**
 * The route that delegated work takes, where the `delegation` section names one of its own. What it does not say is the
 * main model's; one that comes out the same is none, so that parent and children share keys.
 */
export const delegated = (configured: Configured): Result.Result<ChainEntry | undefined, ConfigError> => {
  const { delegation, model: main } = configured.settings
  const { apiKey, baseUrl, model, provider } = delegation
  if (model === undefined && provider === undefined && baseUrl === undefined) return Result.succeed(undefined)
  const elsewhere = provider !== undefined && provider !== main.provider
  const own = entryOf(configured, {
    provider: provider ?? main.provider,
    model: model ?? main.default,
    baseUrl: baseUrl ?? (elsewhere ? undefined : main.baseUrl),
    apiKey: apiKey ?? (elsewhere || baseUrl !== undefined ? undefined : main.apiKey),
    apiMode: elsewhere || baseUrl !== undefined ? undefined : main.apiMode
  })
  return Result.mapBoth(own, {
    onFailure: relocated("delegation"),
    onSuccess: (entry) => {
      const first = primaryEntry(configured)
      return Result.isSuccess(first) && isSame(first.success, entry) ? undefined : entry
    }
  })
}

/** An error of the `model` section as one of a fallback. */
const relocated = (at: string) => (error: ConfigError): ConfigError => {
  const move = (text: string): string =>
    text.replaceAll(/\bmodel\.(provider|base_url|api_key|default)\b/g, (_, key: string) =>
      `${at}.${key === "default" ? "model" : key}`)
  return new ConfigError({ path: move(error.path), message: move(error.message) })
}

const fallbacks = (configured: Configured) =>
  Derived.fallbacks(configured.settings).map((fallback, index) => {
    const at = configured.settings.fallbackProviders.length === 0 ? "fallback_model" : `fallback_providers[${index}]`
    return { at, fallback, entry: Result.mapError(entryOf(configured, fallback), relocated(at)) }
  })

const keyOf = ({ apiKey }: Route): string => apiKey === undefined ? "" : Redacted.value(apiKey)

const isSame = ({ route: a }: ChainEntry, { route: b }: ChainEntry): boolean =>
  a.provider === b.provider && a.model === b.model && a.baseUrl === b.baseUrl && a.apiMode === b.apiMode
  && keyOf(a) === keyOf(b)

const nameOf = ({ route }: ChainEntry): string => `${route.provider} (${route.model})`

/** All of them, in order. */
export const chain = (configured: Configured): Result.Result<Chain, ConfigError> =>
  Result.gen(function*() {
    const found = primaryEntry(configured)
    if (Result.isFailure(found) && !wantsKey(found.failure)) return yield* Result.fail(found.failure)
    const primary = Result.isSuccess(found) ? found.success : undefined
    const taken: Array<{ readonly at: string; readonly entry: ChainEntry }> = []
    const problems: Array<string> = []
    for (const { at, entry, fallback } of fallbacks(configured)) {
      if (Result.isFailure(entry)) {
        if (!wantsKey(entry.failure)) return yield* Result.fail(entry.failure)
        problems.push(`the fallback ${fallback.provider} (${fallback.model}) is left out: ${entry.failure.message}`)
        continue
      }
      const { success } = entry
      if (primary !== undefined && isSame(primary, success)) continue
      const earlier = taken.find(({ entry }) => isSame(entry, success))
      if (earlier !== undefined) {
        const message = `${at} comes back to ${nameOf(success)}, which ${earlier.at} tries before: remove it`
        return yield* Result.fail(new ConfigError({ path: at, message }))
      }
      taken.push({ at, entry: success })
    }
    const rest = taken.map(({ entry }) => entry)
    if (primary !== undefined) return { entries: [primary, ...rest], problems }
    const [first, ...others] = rest
    // There is no primary, so this is why.
    if (first === undefined) return yield* Result.map(found, (entry): Chain => ({ entries: [entry], problems }))
    const why = Result.isFailure(found) ? found.failure.message : ""
    return { entries: [first, ...others], problems: [`${why}; until then ${nameOf(first)} answers`, ...problems] }
  })

/**
 * The chain after the user has switched to another primary: entries of the old and of the new primary's provider are no
 * longer wanted.
 */
export const switched = ({ entries: [from, ...rest], problems }: Chain, to: ChainEntry): Chain => {
  const away = new Set([from.route.provider, to.route.provider])
  return { entries: [to, ...rest.filter(({ route }) => !away.has(route.provider))], problems }
}
