/**
 * Resolves the user's settings to one route, or to a one-line error about a missing setting. Resolution is pure:
 * secrets from the environment are read through a lookup function.
 *
 * **Details**
 *
 * If an address is set but no provider, the provider that owns the host is used, otherwise `custom`. If a model is set
 * but neither provider nor address, a provider with a key is chosen. If neither provider, model nor address is set, the
 * route is the offline model. The settings of a program name the model of a key in the environment before that
 * (`DefaultModel`).
 *
 * **Gotchas**
 *
 * `RouteKeys` selects the key of a route, `OpenRoute` the headers that its endpoint requires.
 *
 * Source: `hermes-llm.md` §2.2 to §2.4, §5.1.
 */
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import type { Level } from "../../base/config/SettingSources.ts"
import { ConfigError } from "../../base/domain/AgentError.ts"
import type { Configurable } from "../../base/domain/ApiMode.ts"
import * as EndpointAddress from "../../base/domain/EndpointAddress.ts"
import type { Route } from "../../base/domain/Route.ts"
import * as RouteDetection from "./RouteDetection.ts"
import * as Directory from "./ProviderDirectory.ts"
import * as Keys from "./RouteKeys.ts"

/** An endpoint to which the user gave a name (`custom_providers` of `config.yaml`). */
export interface NamedEndpoint {
  readonly name: string
  readonly baseUrl: string
  readonly apiKey?: Redacted.Redacted<string> | undefined
  /** Environment variable that contains the endpoint's key. */
  readonly keyEnv?: string | undefined
  readonly apiMode?: Configurable | undefined
}

/** Settings of a model: the `model` section of the configuration, merged with flags. */
export interface ModelSettings {
  readonly provider?: string | undefined
  readonly model?: string | undefined
  readonly baseUrl?: string | undefined
  readonly apiKey?: Redacted.Redacted<string> | undefined
  /** Environment variable that contains the key for this route (`key_env` of a fallback). */
  readonly keyEnv?: string | undefined
  readonly apiMode?: Configurable | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
  readonly customProviders?: ReadonlyArray<NamedEndpoint> | undefined
  /** Names of providers that are defined elsewhere, for suggestions after a misspelled name. */
  readonly otherProviders?: ReadonlyArray<string> | undefined
  readonly logins?: Keys.RouteCredentials["logins"]
  /** Source of `baseUrl`, and whether it also specifies the provider. Defaults to the configuration file. */
  readonly addressFrom?: { readonly level: Level; readonly label: string; readonly namesProvider: boolean } | undefined
  /** Description of the source of `apiKey`. */
  readonly apiKeyAt?: string | undefined
}

/** A route, with the names of the sources of its address and key. */
interface TracedRoute {
  readonly route: Route
  readonly address: string
  readonly key: string
}

/** Route of the built-in offline model. */
export const offline: Route = { provider: "offline", model: "offline", apiMode: "chat_completions" }

/** A chosen provider whose key and protocol have not been determined yet. */
interface ProviderChoice extends Keys.Claim {
  readonly name: string
  /** Provider name from which the protocol is detected; `undefined` if the provider was inferred from the address. */
  readonly detectAs: string | undefined
  readonly baseUrl: string | undefined
  /** Location in which the user specified the address. */
  readonly addressAt: string
  /** Source of the address; `undefined` for the provider's default address. */
  readonly addressFrom: string | undefined
  readonly apiMode?: Configurable | undefined
}

type RouteResult<A> = Result.Result<A, ConfigError>

const failWith = (path: string, message: string): RouteResult<never> => Result.fail(new ConfigError({ path, message }))

const trimToValue = (text: string | undefined): string | undefined => {
  const trimmed = text?.trim()
  return trimmed === "" ? undefined : trimmed
}

/** Environment variable that may contain the address of an endpoint. */
export const endpointVariable = "OPENAI_BASE_URL"
const ownAddress = "model.base_url"

/** An address specified by the environment, with its source. */
interface EnvironmentAddress {
  readonly baseUrl: string
  readonly source: Keys.VariableLevel
  readonly label: string
}

const formatSourceLabel = (source: Keys.VariableLevel): string =>
  source === "env-file" ? `.env: ${endpointVariable}` : endpointVariable

const findEnvironmentAddress = (lookup: Keys.Lookup): EnvironmentAddress | undefined => {
  const source = Keys.findSource(lookup, endpointVariable)
  const value = source === undefined ? undefined : lookup(endpointVariable, source)
  return source === undefined || value === undefined
    ? undefined
    : { baseUrl: Redacted.value(value).trim(), source, label: formatSourceLabel(source) }
}

/** Returns the address configured by the user, and the source whose environment variables may be used with it. */
const describeOwnAddress = ({ addressFrom, baseUrl }: ModelSettings) => {
  const { label = ownAddress, level = "file", namesProvider = false } = addressFrom ?? {}
  const source = level === "environment" || level === "env-file" ? level : undefined
  return {
    baseUrl: trimToValue(baseUrl),
    addressAt: label.startsWith("config.yaml: ") ? label.slice("config.yaml: ".length) : label,
    from: label,
    source,
    isEndpoint: source !== undefined && label === formatSourceLabel(source),
    namesProvider
  }
}

const findNamedEndpoint = (settings: ModelSettings, name: string): NamedEndpoint | undefined => {
  const wanted = (name.startsWith("custom:") ? name.slice("custom:".length) : name).trim().toLowerCase()
  return settings.customProviders?.find((endpoint) => endpoint.name.trim().toLowerCase() === wanted)
}

const failForUnknownProvider = (settings: ModelSettings, name: string): RouteResult<never> => {
  const own = settings.customProviders?.map((endpoint) => endpoint.name.trim().toLowerCase()) ?? []
  const near = Directory.findNearestName(name, [...own, ...(settings.otherProviders ?? [])])
  return failWith(
    "model.provider",
    `model.provider: unknown provider "${name}": ${near === undefined ? "" : `did you mean "${near}"? `}` +
      "For an endpoint of your own use the provider custom with model.base_url"
  )
}

/** Chooses an endpoint of the user. If the route has another address, the key of the endpoint is not used there. */
const chooseEndpoint = (
  endpoint: NonNullable<ReturnType<typeof findNamedEndpoint>>,
  own: ReturnType<typeof describeOwnAddress>
): ProviderChoice => {
  const label = `custom_providers (${endpoint.name})`
  const isMoved =
    own.baseUrl !== undefined &&
    EndpointAddress.normalizeAddress(own.baseUrl) !== EndpointAddress.normalizeAddress(endpoint.baseUrl)
  return {
    name: `custom:${endpoint.name.trim().toLowerCase()}`,
    entry: Directory.custom,
    detectAs: "custom",
    baseUrl: own.baseUrl ?? endpoint.baseUrl,
    addressAt: own.baseUrl === undefined ? `${label}.base_url` : own.addressAt,
    addressFrom: own.baseUrl === undefined ? `${label}.base_url` : own.from,
    keyVariables: [],
    endpoint: isMoved ? undefined : { apiKey: endpoint.apiKey, keyEnv: endpoint.keyEnv, label },
    apiMode: isMoved ? undefined : endpoint.apiMode
  }
}

const chooseByName = (settings: ModelSettings, lookup: Keys.Lookup, name: string): RouteResult<ProviderChoice> => {
  const endpoint = findNamedEndpoint(settings, name)
  const own = describeOwnAddress(settings)
  if (endpoint !== undefined) return Result.succeed(chooseEndpoint(endpoint, own))
  const entry = Directory.findProvider(name)
  if (entry === undefined) return failForUnknownProvider(settings, name)
  // A key configured for the route is meant for OpenAI itself, so the address in the environment applies only to a
  // route without such a key.
  const isOpen =
    entry.name === "custom" ||
    (entry.name === "openai" && settings.apiKey === undefined && settings.keyEnv === undefined)
  const fromEnvironment = own.baseUrl === undefined && isOpen ? findEnvironmentAddress(lookup) : undefined
  return Result.succeed({
    name: entry.name,
    entry,
    detectAs: entry.name,
    baseUrl: own.baseUrl ?? fromEnvironment?.baseUrl ?? entry.baseUrl,
    addressAt: fromEnvironment === undefined ? own.addressAt : endpointVariable,
    ofEnvironment: fromEnvironment !== undefined,
    addressFrom: fromEnvironment?.label ?? (own.baseUrl === undefined ? undefined : own.from),
    keyVariables: entry.keyVariables,
    // The server of a `custom` route is unknown, so a key is used only from the source that specifies the address. A
    // provider's variable applies to an address that the same source specifies for that provider.
    pairedWith:
      fromEnvironment?.source ??
      ((entry.name !== "custom" && own.namesProvider) || own.isEndpoint ? own.source : undefined)
  })
}

const chooseByAddress = (
  baseUrl: string,
  at: Pick<ReturnType<typeof describeOwnAddress>, "addressAt" | "from" | "isEndpoint" | "source">
): ProviderChoice => {
  const detected = RouteDetection.detectRoute({ model: "", baseUrl })
  const found =
    detected.apiMode === "bedrock_converse"
      ? Directory.findProvider("bedrock")
      : Directory.findByHost(RouteDetection.parseAddress(baseUrl).host)
  const entry = found ?? Directory.custom
  return {
    name: entry.name,
    entry,
    detectAs: entry === Directory.custom ? undefined : entry.name,
    baseUrl,
    addressAt: at.addressAt,
    addressFrom: at.from,
    keyVariables: at.isEndpoint ? [...entry.keyVariables, "OPENAI_API_KEY"] : entry.keyVariables,
    pairedWith: at.isEndpoint ? at.source : undefined
  }
}

const chooseByModel = (settings: ModelSettings, lookup: Keys.Lookup, model: string): RouteResult<ProviderChoice> => {
  const vendor = model.includes("/") ? model.slice(0, model.indexOf("/")) : undefined
  const maker =
    vendor === undefined
      ? Directory.entries.find((entry) => entry.families.some((family) => model.toLowerCase().startsWith(family)))
      : Directory.findProvider(vendor)
  const hasKey = (entry: Directory.Entry): boolean => Keys.findFirstSet(lookup, entry.keyVariables) !== undefined
  const aggregator =
    vendor === undefined ? undefined : Directory.entries.find((entry) => entry.aggregator && hasKey(entry))
  const entry = aggregator ?? (maker !== undefined && hasKey(maker) ? maker : undefined)
  if (entry !== undefined)
    return Result.map(chooseByName(settings, lookup, entry.name), (choice) => ({ ...choice, ofEnvironment: true }))
  const recommended = [...new Set([...(maker?.keyVariables.slice(0, 1) ?? []), "OPENROUTER_API_KEY"])]
  return failWith(
    "model.provider",
    `no provider is configured for the model "${model}": set model.provider, or ${Keys.joinAlternatives(recommended)}, or model.base_url`
  )
}

const chooseProvider = (settings: ModelSettings, lookup: Keys.Lookup): RouteResult<ProviderChoice | undefined> => {
  const provider = trimToValue(settings.provider)
  const model = trimToValue(settings.model)
  if (provider !== undefined && provider.toLowerCase() !== "auto") return chooseByName(settings, lookup, provider)
  const own = describeOwnAddress(settings)
  if (own.baseUrl !== undefined) return Result.succeed(chooseByAddress(own.baseUrl, own))
  const fromEnvironment = findEnvironmentAddress(lookup)
  if (fromEnvironment !== undefined) {
    const { baseUrl, label, source } = fromEnvironment
    return Result.succeed({
      ...chooseByAddress(baseUrl, { addressAt: endpointVariable, from: label, isEndpoint: true, source }),
      ofEnvironment: true
    })
  }
  if (model === undefined || model === offline.model) return Result.succeed(undefined)
  return chooseByModel(settings, lookup, model)
}

const checkAddress = (choice: ProviderChoice): RouteResult<string | undefined> => {
  const { addressAt, baseUrl, entry } = choice
  if (baseUrl === undefined) {
    if (entry.baseUrl !== undefined || entry.authentication === "aws") return Result.succeed(undefined)
    const variable = entry.name === "custom" ? ` (or ${endpointVariable})` : ""
    return failWith("model.base_url", `the provider "${choice.name}" needs an address: set model.base_url${variable}`)
  }
  // If the host is missing, a URL parser would interpret the next path segment as the host.
  const url = /^https?:\/\/[^/]/i.test(baseUrl.trim()) ? URL.parse(baseUrl.trim()) : null
  if (url === null || url.hostname === "") {
    return failWith(addressAt, `${addressAt}: "${baseUrl}" is not an address: write it like https://host/v1`)
  }
  if (url.username !== "" || url.password !== "") {
    return failWith(
      addressAt,
      `${addressAt}: the address must not carry a user or password: put the key in model.api_key`
    )
  }
  return Result.succeed(baseUrl)
}

/**
 * Returns a model id in the provider's form: direct providers get the bare id, aggregators the complete id
 * (`hermes-llm.md` §2.3).
 */
const toModelId = (entry: Directory.Entry, model: string): string => {
  const slash = model.indexOf("/")
  if (slash < 0 || entry.aggregator || entry.authentication === "optional") return model
  return Directory.findProvider(model.slice(0, slash)) === entry ? model.slice(slash + 1) : model
}

/** Resolves the settings to a route, with the sources of its address and key. */
export const traceRoute = (settings: ModelSettings, lookup: Keys.Lookup): RouteResult<TracedRoute> =>
  Result.gen(function* () {
    const choice = yield* chooseProvider(settings, lookup)
    if (choice === undefined || choice.entry.name === offline.provider)
      return { route: offline, address: "none", key: "none" }
    const { entry } = choice
    const baseUrl = yield* checkAddress(choice)
    const asked = trimToValue(settings.model)
    if (asked === undefined) {
      return yield* failWith(
        "model.default",
        `no model is named for the provider "${choice.name}": set model.default (or pass --model)`
      )
    }
    const model = toModelId(entry, asked)
    const { host } = RouteDetection.parseAddress(baseUrl)
    const { from, key: apiKey } = yield* Keys.resolveKey(choice, baseUrl, settings, lookup)
    const found = RouteDetection.detectRoute({
      provider: choice.detectAs,
      model,
      baseUrl,
      apiMode: settings.apiMode ?? choice.apiMode
    })
    const regionVariable =
      RouteDetection.readHostRegion(host) === undefined
        ? Keys.findFirstSet(lookup, ["AWS_REGION", "AWS_DEFAULT_REGION"])
        : undefined
    const region =
      found.region === undefined || regionVariable === undefined ? found.region : Redacted.value(regionVariable)
    const { headers } = settings
    const route: Route = {
      provider: choice.name,
      model,
      apiMode: found.apiMode,
      ...(found.baseUrl === undefined ? {} : { baseUrl: found.baseUrl }),
      ...(found.query === undefined ? {} : { query: found.query }),
      ...(apiKey === undefined ? {} : { apiKey }),
      ...(headers === undefined ? {} : { headers }),
      ...(region === undefined ? {} : { region })
    }
    return { route, address: choice.addressFrom ?? "the provider's own", key: from }
  })

/** Resolves the settings to a route; see {@link traceRoute}. */
export const resolveRoute = (settings: ModelSettings, lookup: Keys.Lookup): RouteResult<Route> =>
  Result.map(traceRoute(settings, lookup), ({ route }) => route)

/** Tests whether two routes have the same provider, address and model, regardless of their keys. */
export const isSamePlace = (a: Route, b: Route): boolean =>
  a.provider === b.provider && a.model === b.model && a.baseUrl === b.baseUrl && a.apiMode === b.apiMode

const readKey = ({ apiKey }: Route): string => (apiKey === undefined ? "" : Redacted.value(apiKey))

/** Tests whether two routes are the same, including their keys. */
export const isSame = (a: Route, b: Route): boolean => isSamePlace(a, b) && readKey(a) === readKey(b)
