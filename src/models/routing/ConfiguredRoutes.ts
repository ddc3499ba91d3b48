/**
 * Resolves the routes that the user's settings define: the primary route and its fallbacks, each with its keys. All
 * functions are pure.
 *
 * **Details**
 *
 * A key that the user sets for a route precedes the keys of the provider's pool (`<provider>.api_keys`); a pool's keys
 * are used only for the provider's own address. An invalid setting is an error that names its location. A route that
 * only lacks a key is skipped and reported, as long as another route remains: a fallback, or a primary that has a
 * fallback.
 *
 * A fallback may differ from the primary in any setting. A fallback equal to the primary is omitted, so that a flag may
 * select a route that the file lists as a fallback. A fallback that repeats an earlier one is an error, because it
 * would make the chain circular.
 *
 * Routes of child agents inherit from the main model, like one settings source from another (`RouteStatement`). A child
 * agent with the same address uses the same protocol and key. A child agent with another address inherits nothing.
 *
 * Source: `hermes-llm.md` §2.3, §5, §17.3 and §17.6.
 */
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as DerivedSettings from "../../base/config/DerivedSettings.ts"
import type { Environment } from "../../base/config/Environment.ts"
import * as KnownProviders from "../../base/config/KnownProviders.ts"
import * as SettingSources from "../../base/config/SettingSources.ts"
import * as RouteStatement from "../../base/config/RouteStatement.ts"
import type { Values } from "../../base/config/Settings.ts"
import { ConfigError } from "../../base/domain/AgentError.ts"
import type { Route } from "../../base/domain/Route.ts"
import * as Directory from "./ProviderDirectory.ts"
import type { Credential } from "./CredentialPool.ts"
import * as RouteDetection from "./RouteDetection.ts"
import * as RouteKeys from "./RouteKeys.ts"
import type { ChainEntry } from "./RoutedModelRouter.ts"
import * as Routes from "./Routes.ts"

/** Sources from which routes are resolved. */
export interface RouteSources {
  readonly settings: Values
  readonly environment: Environment["Service"]
  /** Credentials obtained by logins, which are used instead of keys. */
  readonly logins?: ReadonlyMap<string, Credential> | undefined
  /** Providers that plugins define. */
  readonly brought?: ReadonlyArray<Directory.ProviderNames> | undefined
}

/** The resolved routes, and a message for each setting that does not result in a route. */
export interface Chain {
  readonly entries: readonly [ChainEntry, ...ReadonlyArray<ChainEntry>]
  readonly problems: ReadonlyArray<string>
}

/** Route settings described by one section. */
export type SectionSettings = Omit<Routes.ModelSettings, "customProviders" | "otherProviders" | "logins">

/** Creates a lookup of variables in the process environment, in `.env`, or in both. */
export const makeLookup =
  (environment: Environment["Service"]): RouteKeys.Lookup =>
  (name, source) => {
    const value =
      source === undefined
        ? environment.get(name)
        : (source === "environment" ? environment.process : environment.file)[name]
    return value === undefined || value === "" ? undefined : Redacted.make(value)
  }

/** Describes the sources of a section's address and key. */
export const describeSources = (
  sources: Values["sources"],
  section: ReadonlyArray<string | number>
): Pick<SectionSettings, "addressFrom" | "apiKeyAt"> => {
  const address = [...section, "base_url"]
  const level = SettingSources.findLevel(sources, address)
  const namesProvider = level === SettingSources.findLevel(sources, [...section, "provider"])
  return {
    addressFrom: { level, label: SettingSources.describeSource(sources, address), namesProvider },
    apiKeyAt: SettingSources.describeSource(sources, [...section, "api_key"])
  }
}

/** Creates the route settings of the main model. */
export const makeMainStatement = ({ model, sources }: Pick<Values, "model" | "sources">): SectionSettings => {
  const { apiKey, apiMode, baseUrl, default: name, provider } = model
  return { provider, model: name, baseUrl, apiKey, apiMode, ...describeSources(sources, ["model"]) }
}

const canonical = KnownProviders.canonicalize

/** Finds the entry of a provider under any of its names. */
const findByProvider = <A>(record: Readonly<Record<string, A>>, provider: string): A | undefined =>
  Object.entries(record).find(([name]) => canonical(name) === canonical(provider))?.[1]

const isKey = (key: Redacted.Redacted<string> | undefined): boolean =>
  key !== undefined && Redacted.value(key).trim() !== ""

const findPooledKeys = (
  settings: Values,
  provider: string | undefined
): ReadonlyArray<Redacted.Redacted<string>> | undefined =>
  provider === undefined ? undefined : findByProvider(settings.credentials, provider)?.apiKeys.filter(isKey)

/**
 * Returns the keys of a provider's pool that may be sent to a route: to the provider's own address, or to an address
 * from the same settings source as the keys.
 */
const findPoolFor = (settings: Values, { addressFrom, baseUrl, provider = "auto" }: SectionSettings) => {
  const isOpen = canonical(provider) === "custom"
  const isBeside = isOpen && addressFrom?.level === SettingSources.findLevel(settings.sources, [provider, "api_keys"])
  return baseUrl === undefined
    ? isOpen
      ? undefined
      : findPooledKeys(settings, provider)
    : isBeside
      ? findPooledKeys(settings, provider)
      : undefined
}

/** Tests whether the only problem of a route is a missing key. */
const wantsKey = ({ path }: ConfigError): boolean =>
  /(^|\.)api_key$|^[A-Z][A-Z0-9_]*$/.test(path) && !path.endsWith("BASE_URL")

const explainEmptyPool =
  (provider: string) =>
  (error: ConfigError): ConfigError =>
    wantsKey(error)
      ? new ConfigError({
          path: `${provider}.api_keys`,
          message: `${provider}.api_keys has no key in it: add one (without the list: ${error.message})`
        })
      : error

const toMillis = (seconds: number | undefined): number | undefined =>
  seconds === undefined ? undefined : seconds * 1000

/**
 * Adds timeouts to a route: the ones configured for the model, otherwise for its provider, otherwise for the network. A
 * provider's request timeout also limits the wait between bytes.
 */
const addDeadlines = (route: Route, { network, providers }: Values): Route => {
  const own = findByProvider(providers, route.provider)
  const seconds = own?.models[route.model]?.timeoutSeconds ?? own?.requestTimeoutSeconds
  const request = toMillis(seconds ?? network.requestTimeoutSeconds)
  const read = toMillis(seconds ?? network.streamReadTimeoutSeconds)
  return {
    ...route,
    ...(request === undefined ? {} : { requestTimeoutMillis: request }),
    ...(read === undefined ? {} : { readTimeoutMillis: read })
  }
}

const readLimits = ({ model, provider }: Route, { network, providers }: Values): ChainEntry["limits"] => {
  const own = findByProvider(providers, provider)
  const stale = own?.models[model]?.staleTimeoutSeconds ?? own?.staleTimeoutSeconds
  return {
    stream: toMillis(stale ?? network.streamStaleTimeoutSeconds),
    call: toMillis(stale ?? network.callStaleTimeoutSeconds)
  }
}

/**
 * Creates the route of a plugin's provider, or returns `undefined` if no plugin defines the provider. All settings
 * except the provider are optional.
 */
const makePluginRoute = (
  { brought = [] }: RouteSources,
  { apiKey, apiMode, baseUrl, model, provider }: SectionSettings
): Route | undefined => {
  const source = provider === undefined ? undefined : Directory.findNamed(brought, provider)
  return source === undefined
    ? undefined
    : {
        provider: source.name,
        model: model ?? source.name,
        apiMode: apiMode ?? "chat_completions",
        ...(baseUrl === undefined ? {} : { baseUrl }),
        ...(apiKey === undefined ? {} : { apiKey })
      }
}

/** Returns the login of the route's provider, if it may be sent to the route's address. */
const findLogins = ({ logins }: RouteSources, { baseUrl, provider }: Route): ReadonlyArray<Credential> => {
  const login = logins?.get(provider)
  const entry = Directory.findProvider(provider)
  return login !== undefined && entry !== undefined && RouteKeys.mayLogIn(entry, baseUrl, login) ? [login] : []
}

const isRouteKey =
  (route: Route) =>
  ({ key }: Credential): boolean =>
    route.apiKey !== undefined && Redacted.value(key) === Redacted.value(route.apiKey)

const makeUnguardedEntry = (
  configured: RouteSources,
  said: SectionSettings
): Result.Result<ChainEntry, ConfigError> => {
  const { settings } = configured
  const plugged = makePluginRoute(configured, said)
  if (plugged !== undefined) {
    const source = {
      address: plugged.baseUrl === undefined ? "the plugin's own" : (said.addressFrom?.label ?? "model.base_url"),
      key: plugged.apiKey === undefined ? "none" : (said.apiKeyAt ?? "model.api_key")
    }
    return Result.succeed({ route: addDeadlines(plugged, settings), limits: readLimits(plugged, settings), source })
  }
  const given = findPoolFor(settings, said)
  const pool = given ?? []
  const [first] = pool
  const model = {
    ...said,
    ...(said.apiKey === undefined && first !== undefined
      ? { apiKey: first, apiKeyAt: `${said.provider ?? ""}.api_keys` }
      : {}),
    customProviders: settings.customProviders,
    otherProviders: configured.brought?.flatMap(({ aliases = [], name }) => [name, ...aliases]),
    logins: configured.logins
  }
  const resolved = Routes.traceRoute(model, makeLookup(configured.environment))
  const checked = given?.length === 0 ? Result.mapError(resolved, explainEmptyPool(said.provider ?? "")) : resolved
  return Result.map(checked, ({ route: found, ...source }): ChainEntry => {
    const route = addDeadlines(found, settings)
    const logins = findLogins(configured, route)
    const listed = pool.map((key): Credential => ({ key }))
    const others = [...listed, ...logins]
    const own =
      others.length === 0 || route.apiKey === undefined || others.some(isRouteKey(route)) ? [] : [{ key: route.apiKey }]
    return {
      route,
      credentials: [...own, ...others],
      strategy: findByProvider(settings.credentialPoolStrategies, route.provider),
      limits: readLimits(route, settings),
      source
    }
  })
}

const makeEntry = (configured: RouteSources, said: SectionSettings): Result.Result<ChainEntry, ConfigError> =>
  Result.flatMap(makeUnguardedEntry(configured, said), (entry) =>
    Result.map(DerivedSettings.addGuardrail(entry.route, configured.settings), (route) => ({ ...entry, route }))
  )

/** Resolves a route that a section of the settings describes, with the keys that the settings have for it. */
export const resolveSection: (
  configured: RouteSources,
  said: SectionSettings
) => Result.Result<ChainEntry, ConfigError> = makeEntry

/**
 * Resolves a route with these keys alone. Neither a pool of the settings, nor the environment, nor a login
 * contributes a key or an address.
 */
export const resolveWithKeys = (
  { brought, settings }: RouteSources,
  said: SectionSettings,
  [first, ...others]: readonly [Redacted.Redacted<string>, ...ReadonlyArray<Redacted.Redacted<string>>]
): Result.Result<ChainEntry, ConfigError> =>
  Result.map(
    makeEntry(
      {
        settings: { ...settings, credentials: {} },
        environment: { get: () => undefined, process: {}, file: {} },
        brought
      },
      { ...said, apiKey: first }
    ),
    (entry) => ({ ...entry, credentials: [first, ...others].map((key) => ({ key })) })
  )

const makePrimaryEntry = (configured: RouteSources): Result.Result<ChainEntry, ConfigError> =>
  makeEntry(configured, makeMainStatement(configured.settings))

const listStatements = (settings: Values): ReadonlyArray<Pick<SectionSettings, "baseUrl" | "provider">> => [
  settings.model,
  settings.delegation,
  ...DerivedSettings.listFallbacks(settings),
  ...DerivedSettings.listTenantRoutes(settings)
]

/** Returns the providers in the settings that are not built in, so that only a plugin can define them. */
export const findUnknownProviders = (settings: Values): ReadonlyArray<Directory.ProviderNames> => {
  const own = new Set(settings.customProviders.map(({ name }) => name.trim().toLowerCase()))
  return listStatements(settings).flatMap(({ provider = "auto" }) => {
    const name = provider.trim().toLowerCase()
    const isKnown = name === "" || name === "auto" || name.startsWith("custom:") || own.has(name)
    return isKnown || Directory.findProvider(name) !== undefined ? [] : [{ name }]
  })
}

/** Tests whether a route in the settings may need a login. */
export const mayLogIn = (settings: Values): boolean =>
  listStatements(settings).some(({ baseUrl, provider }) => {
    const named = provider === undefined ? undefined : Directory.findProvider(provider)
    return (named ?? Directory.findByHost(RouteDetection.parseAddress(baseUrl).host))?.login === true
  })

/** Resolves the primary route. */
export const resolvePrimary = (configured: RouteSources): Result.Result<Route, ConfigError> =>
  Result.map(makePrimaryEntry(configured), ({ route }) => route)

/** Lists variables that contain a usable key, each with the flags that select its provider. */
const listAvailableKeys = (lookup: RouteKeys.Lookup): ReadonlyArray<string> => {
  const found = Directory.entries.flatMap(({ keyVariables, name }) => {
    const variable = keyVariables.find((one) => lookup(one) !== undefined)
    return variable === undefined || name === "custom" ? [] : [{ name, variable }]
  })
  // A variable read by several providers is listed only with the first of them.
  return found
    .filter(({ variable }, index) => found.findIndex((other) => other.variable === variable) === index)
    .map(({ name, variable }) => `${variable} is set: --provider ${name} --model NAME`)
}

/** Tests whether the settings select the built-in offline model. */
const asksForStandIn = ({ model }: Values): boolean =>
  canonical(model.provider) === Routes.offline.provider || model.default === Routes.offline.model

/**
 * Returns an error if the settings select neither a model nor the offline model, otherwise `undefined`. The offline
 * model cannot answer questions, so its reply would look like a success to a user who expects a model.
 */
export const findMissingModel = (configured: RouteSources): ConfigError | undefined => {
  const route = resolvePrimary(configured)
  const isMissing = Result.isSuccess(route) && route.success.provider === Routes.offline.provider
  if (!isMissing || asksForStandIn(configured.settings)) return undefined
  const keys = listAvailableKeys(makeLookup(configured.environment))
  return new ConfigError({
    path: "model.default",
    message:
      "no model is configured: run `hermes model`, or set model.provider and model.default (--provider and --model)" +
      `${keys.length === 0 ? "" : `; ${keys.join("; ")}`}; --provider offline asks for the built-in stand-in`
  })
}

/** Creates the route settings of the `delegation` section, which inherit from the main model. */
const makeChildStatement = ({ delegation, model, sources }: Values): SectionSettings | undefined => {
  const { apiKey, apiMode, baseUrl, model: name, provider } = delegation
  if ([apiKey, apiMode, baseUrl, name, provider].every((value) => value === undefined)) return undefined
  const { addressFrom, apiKeyAt } = describeSources(sources, ["delegation"])
  return RouteStatement.merge(makeMainStatement({ model, sources }), {
    provider,
    model: name,
    baseUrl,
    apiKey,
    apiMode,
    ...(baseUrl === undefined ? {} : { addressFrom }),
    ...(apiKey === undefined ? {} : { apiKeyAt })
  })
}

/**
 * Resolves the route for delegated work if the `delegation` section specifies one. Missing settings are inherited from
 * the main model if provider and address are the same. Returns `undefined` if the route equals the main route, so that
 * parent and child agents share keys.
 */
export const resolveDelegated = (configured: RouteSources): Result.Result<ChainEntry | undefined, ConfigError> => {
  const statement = makeChildStatement(configured.settings)
  if (statement === undefined) return Result.succeed(undefined)
  return Result.mapBoth(makeEntry(configured, statement), {
    onFailure: relocateError("delegation"),
    onSuccess: (entry) => {
      const first = makePrimaryEntry(configured)
      return Result.isSuccess(first) && isSame(first.success, entry) ? undefined : entry
    }
  })
}

/** Converts an error about the `model` section to the same error about another section. */
export const relocateError =
  (at: string) =>
  (error: ConfigError): ConfigError => {
    const renameKeys = (text: string): string =>
      text.replaceAll(
        /\bmodel\.(provider|base_url|api_key|default)\b/g,
        (_, key: string) => `${at}.${key === "default" ? "model" : key}`
      )
    return new ConfigError({ path: renameKeys(error.path), message: renameKeys(error.message) })
  }

const resolveFallbacks = (configured: RouteSources) =>
  DerivedSettings.listFallbacks(configured.settings).map((fallback, index) => {
    const { fallbackProviders, sources } = configured.settings
    const isOld = fallbackProviders.length === 0
    const at = isOld ? "fallback_model" : `fallback_providers[${index}]`
    const said = {
      ...fallback,
      ...describeSources(sources, isOld ? ["fallback_model"] : ["fallback_providers", index])
    }
    return { at, fallback, entry: Result.mapError(makeEntry(configured, said), relocateError(at)) }
  })

const isSame = (a: ChainEntry, b: ChainEntry): boolean => Routes.isSame(a.route, b.route)

const formatRouteName = ({ route }: ChainEntry): string => `${route.provider} (${route.model})`

/** Resolves all routes, in the order in which they are tried. */
export const resolveChain = (configured: RouteSources): Result.Result<Chain, ConfigError> =>
  Result.gen(function* () {
    const found = makePrimaryEntry(configured)
    if (Result.isFailure(found) && !wantsKey(found.failure)) return yield* Result.fail(found.failure)
    const primary = Result.isSuccess(found) ? found.success : undefined
    const taken: Array<{ readonly at: string; readonly entry: ChainEntry }> = []
    const problems: Array<string> = []
    for (const { at, entry, fallback } of resolveFallbacks(configured)) {
      if (Result.isFailure(entry)) {
        if (!wantsKey(entry.failure)) return yield* Result.fail(entry.failure)
        problems.push(`the fallback ${fallback.provider} (${fallback.model}) is left out: ${entry.failure.message}`)
        continue
      }
      const { success } = entry
      if (primary !== undefined && isSame(primary, success)) continue
      const earlier = taken.find(({ entry }) => isSame(entry, success))
      if (earlier !== undefined) {
        const message = `${at} comes back to ${formatRouteName(success)}, which ${earlier.at} tries before: remove it`
        return yield* Result.fail(new ConfigError({ path: at, message }))
      }
      taken.push({ at, entry: success })
    }
    const rest = taken.map(({ entry }) => entry)
    if (primary !== undefined) return { entries: [primary, ...rest], problems }
    const [first, ...others] = rest
    // If no other route is available, the error of the primary route is reported.
    if (first === undefined) return yield* Result.map(found, (entry): Chain => ({ entries: [entry], problems }))
    const why = Result.isFailure(found) ? found.failure.message : ""
    return {
      entries: [first, ...others],
      problems: [`${why}; until then ${formatRouteName(first)} answers`, ...problems]
    }
  })

const explainEntry = ({ route, source }: ChainEntry, role: string): string =>
  `${role}: ${route.model} of ${route.provider} by ${route.apiMode}${route.baseUrl === undefined ? "" : ` at ${route.baseUrl}`}; ` +
  `address from ${source?.address ?? "its provider"}; key from ${source?.key ?? "its provider"}`

/** Describes the sources of each route's address and key, and unused settings, one line each. Keys are never shown. */
export const explainChain = (
  { sources }: Pick<Values, "sources">,
  [first, ...fallbacks]: Chain["entries"],
  child: ChainEntry | undefined
): ReadonlyArray<string> => [
  ...(first.route.provider === Routes.offline.provider ? [] : [explainEntry(first, "model")]),
  ...fallbacks.map((entry) => explainEntry(entry, "fallback")),
  ...(child === undefined ? [] : [explainEntry(child, "delegation")]),
  ...(sources?.unused ?? [])
]
