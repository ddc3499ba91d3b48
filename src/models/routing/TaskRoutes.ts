/**
 * Chooses the routes that can perform a side task, in the order in which they are tried. All functions are pure.
 *
 * **Details**
 *
 * An explicit route is the only candidate. A route is explicit if the call, merged over `auxiliary.<task>`
 * (`RouteStatement`), specifies an address or a provider other than `auto`. An explicit provider that is unavailable is
 * replaced by the automatic choice only for images, and only if no address is specified.
 *
 * The automatic choice uses this order (`ARCHITECTURE.md` §7, D7 and D8):
 *
 * | for | order |
 * | --- | --- |
 * | text | OpenRouter, Nous, the custom endpoint, Codex, Anthropic, the other providers with a key |
 * | images | the main model (if it accepts images), OpenRouter, Nous, Codex, Anthropic, the custom endpoint |
 *
 * Each provider uses its small model (`Defaults`), the custom endpoint the main model. For text, the main provider is
 * tried last, so that a runtime without other providers can still summarize.
 *
 * **Gotchas**
 *
 * If the main model is the offline model, side tasks that are not configured do not run: the user has not agreed to the
 * use of keys from the environment, and the offline model can neither summarize nor read images. A provider whose pool
 * of keys is exhausted is unavailable, even if the environment has a key. A model id of the form `vendor/model` is
 * ignored if the automatically chosen provider is not an aggregator.
 *
 * Source: `hermes-llm.md` §5.1 to §5.3, the usage document (auxiliary client).
 */
import type * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as DerivedSettings from "../../base/config/DerivedSettings.ts"
import * as RouteStatement from "../../base/config/RouteStatement.ts"
import type { Values } from "../../base/config/Settings.ts"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import type { Configurable } from "../../base/domain/ApiMode.ts"
import type { Route, RouteInfo } from "../../base/domain/Route.ts"
import * as ModelTables from "./catalogue/ModelTables.ts"
import * as ConfiguredRoutes from "./ConfiguredRoutes.ts"
import * as RouteDetection from "./RouteDetection.ts"
import * as Directory from "./ProviderDirectory.ts"
import { type Lookup, findSource } from "./RouteKeys.ts"
import * as Routes from "./Routes.ts"
import type { TenantRoutes } from "./TenantRoutes.ts"

/** An available key of a pool, or the state that all keys are disabled. */
export type PoolKey = { readonly _tag: "Spent" } | { readonly _tag: "Key"; readonly key: Redacted.Redacted<string> }

/** Facts on which the choice of routes depends. */
export interface TaskSurroundings {
  readonly settings: Pick<Values, "model" | "auxiliary" | "customProviders" | "sources">
  readonly lookup: Lookup
  /** The main route; its key is optional. */
  readonly main: RouteInfo
  readonly pool: (provider: string) => PoolKey | undefined
  /** Providers that must not be used at the moment. */
  readonly resting: ReadonlySet<string>
}

/** Route settings of a single call. */
export interface Overrides {
  readonly provider?: string | undefined
  readonly model?: string | undefined
  readonly baseUrl?: string | undefined
  readonly apiKey?: Redacted.Redacted<string> | undefined
  readonly apiMode?: Configurable | undefined
}

/** A route that can perform a task. */
export interface Candidate {
  /** Name of the candidate in messages, which also identifies it after a failure. */
  readonly label: string
  /** Route of the candidate; `undefined` for the main route, which the router already has. */
  readonly route: Route | undefined
}

/** Candidate routes for a task. */
export interface CandidateChoice {
  /** True if the route was specified explicitly, so that no other route is tried. */
  readonly explicit: boolean
  readonly candidates: ReadonlyArray<Candidate>
}

/** Models for text tasks by provider. Providers after Anthropic are tried in the order of this table. */
const textModels: Readonly<Record<string, string>> = {
  openrouter: "google/gemini-3-flash-preview",
  nous: "google/gemini-3-flash-preview",
  "openai-codex": "gpt-5.1-codex-mini",
  anthropic: "claude-haiku-4-5-20251001",
  gemini: "gemini-3-flash-preview",
  zai: "glm-4.5-flash",
  "kimi-coding": "kimi-k2-turbo-preview",
  minimax: "MiniMax-M2.5",
  "minimax-cn": "MiniMax-M2.5",
  openai: "gpt-5-mini",
  deepseek: "deepseek-chat",
  xai: "grok-4-1-fast-non-reasoning",
  alibaba: "qwen-flash",
  mistral: "mistral-small-latest",
  groq: "openai/gpt-oss-20b",
  "opencode-zen": "gemini-3-flash",
  "opencode-go": "glm-5",
  xiaomi: "mimo-v2-flash"
}

/** Models for images, if different from the main model. */
const visionModels: Readonly<Record<string, string>> = {
  openrouter: "google/gemini-3-flash-preview",
  nous: "google/gemini-3-flash-preview",
  xiaomi: "mimo-v2-omni",
  zai: "glm-4.6v"
}

/** Model used at a custom endpoint if there is no main model. */
const customModel = "gpt-4o-mini"

/** Finds the model for a provider in a table. */
const findModel = (table: Readonly<Record<string, string>>, provider: string): string | undefined =>
  Object.hasOwn(table, provider) ? table[provider] : undefined

const mainCandidate: Candidate = { label: "main", route: undefined }

const toNamedEndpoints = (endpoints: Values["customProviders"]): ReadonlyArray<Routes.NamedEndpoint> => endpoints

const resolveTaskRoute = (
  { lookup, settings }: TaskSurroundings,
  model: Omit<Routes.ModelSettings, "customProviders">
) => Routes.resolveRoute({ ...model, customProviders: toNamedEndpoints(settings.customProviders) }, lookup)

const isOffline = ({ main }: TaskSurroundings): boolean => main.provider === "offline"

/**
 * Returns the model if the automatic choice can use it at a provider, otherwise `undefined`. Only aggregators accept
 * `vendor/model` ids.
 */
const keepIfSuitable = (model: string | undefined, provider: string): string | undefined =>
  model === undefined || !model.includes("/") || Directory.findProvider(provider)?.aggregator === true
    ? model
    : undefined

type Task = Overrides &
  Pick<ConfiguredRoutes.SectionSettings, "addressFrom" | "apiKeyAt"> & { readonly images: boolean }

const findDefaultModel = (provider: string, images: boolean): string | undefined =>
  (images ? findModel(visionModels, provider) : undefined) ?? findModel(textModels, provider)

const listAtProvider = (world: TaskSurroundings, task: Task, provider: string): ReadonlyArray<Candidate> => {
  const model = keepIfSuitable(task.model, provider) ?? findDefaultModel(provider, task.images)
  const key = world.pool(provider)
  if (model === undefined || world.resting.has(provider) || key?._tag === "Spent") return []
  const route = resolveTaskRoute(world, { provider, model, ...(key === undefined ? {} : { apiKey: key.key }) })
  return Result.isSuccess(route) ? [{ label: provider, route: route.success }] : []
}

/**
 * Returns the custom endpoint: the main model's endpoint if it is complete, otherwise the endpoint in the environment.
 */
const findCustomEndpoint = ({ lookup, settings }: TaskSurroundings): ConfiguredRoutes.SectionSettings | undefined => {
  const main = ConfiguredRoutes.makeMainStatement(settings)
  const { baseUrl, provider = "auto" } = main
  const isFree = provider === "auto" || provider === "custom" || provider === "openai" || provider.startsWith("custom:")
  if (!isFree || baseUrl === undefined)
    return findSource(lookup, Routes.endpointVariable) === undefined ? undefined : {}
  const { host, path } = RouteDetection.parseAddress(baseUrl)
  const isOther =
    RouteDetection.isUnder(host, "openrouter.ai") ||
    (RouteDetection.isUnder(host, "chatgpt.com") && path.includes("codex"))
  return host === "" || isOther ? undefined : main
}

const listAtEndpoint = (world: TaskSurroundings, task: Task): ReadonlyArray<Candidate> => {
  const endpoint = findCustomEndpoint(world)
  if (endpoint === undefined) return []
  const model = keepIfSuitable(task.model, "custom") ?? world.settings.model.default ?? customModel
  const route = resolveTaskRoute(world, { ...endpoint, provider: "custom", model })
  return Result.isSuccess(route) ? [{ label: "custom", route: route.success }] : []
}

const others = Object.keys(textModels).filter(
  (name) => !["openrouter", "nous", "openai-codex", "anthropic"].includes(name)
)

/**
 * Returns the main model as a candidate for images, or its provider's model for images. Returns no candidate if the
 * model does not accept images.
 */
const listMainForImages = (world: TaskSurroundings, task: Task): ReadonlyArray<Candidate> => {
  const { model, provider } = world.main
  if (model === "") return []
  const own = findModel(visionModels, provider)
  if (own !== undefined) return listAtProvider(world, task, provider)
  return ModelTables.findFamily(model)?.vision === false ? [] : [mainCandidate]
}

const removeDuplicates = (candidates: ReadonlyArray<Candidate>): ReadonlyArray<Candidate> =>
  candidates.filter(({ label }, index) => candidates.findIndex((other) => other.label === label) === index)

/** Lists the candidates of the automatic choice. */
const listAutomaticCandidates = (world: TaskSurroundings, task: Task): ReadonlyArray<Candidate> => {
  if (isOffline(world)) return []
  const tryProviders = (...providers: ReadonlyArray<string>) =>
    providers.flatMap((provider) => listAtProvider(world, task, provider))
  return removeDuplicates(
    task.images
      ? [
          ...listMainForImages(world, task),
          ...tryProviders("openrouter", "nous", "openai-codex", "anthropic"),
          ...listAtEndpoint(world, task)
        ]
      : [
          ...tryProviders("openrouter", "nous"),
          ...listAtEndpoint(world, task),
          ...tryProviders("openai-codex", "anthropic", ...others),
          mainCandidate
        ]
  )
}

const resolveExplicit = (
  world: TaskSurroundings,
  name: string,
  task: Task,
  provider: string
): Result.Result<Candidate, ConfigError> => {
  const { main, settings } = world
  const { addressFrom, apiKey, apiKeyAt, apiMode, baseUrl } = task
  if (provider === "main" && baseUrl === undefined && task.model === undefined) return Result.succeed(mainCandidate)
  const own = {
    baseUrl,
    apiKey,
    apiMode,
    ...(baseUrl === undefined ? {} : { addressFrom }),
    ...(apiKey === undefined ? {} : { apiKeyAt })
  }
  const place =
    provider === "main"
      ? RouteStatement.merge(ConfiguredRoutes.makeMainStatement(settings), own)
      : { ...own, provider: baseUrl !== undefined && provider === "auto" ? "custom" : provider }
  const canonical = Directory.findProvider(place.provider ?? "auto")?.name ?? place.provider ?? "auto"
  const isMain = canonical === main.provider
  const model =
    task.model ??
    (isMain && !task.images ? main.model : undefined) ??
    findDefaultModel(canonical, task.images) ??
    settings.model.default
  // The keys of a pool are used only for the provider's own address.
  const pooled = place.baseUrl === undefined ? world.pool(canonical) : undefined
  const key = place.apiKey ?? (pooled?._tag === "Key" ? pooled.key : undefined)
  const route = resolveTaskRoute(world, { ...place, model, ...(key === undefined ? {} : { apiKey: key }) })
  return Result.mapBoth(route, {
    onFailure: ConfiguredRoutes.relocateError(`auxiliary.${name}`),
    onSuccess: (route) => ({ label: canonical, route })
  })
}

/** Chooses the candidate routes for a task. */
export const chooseCandidates = (
  world: TaskSurroundings,
  name: string,
  overrides: Overrides,
  images: boolean
): Result.Result<CandidateChoice, ConfigError> => {
  const { apiKey, apiMode, baseUrl, model, provider: wanted } = DerivedSettings.readAuxiliaryTask(world.settings, name)
  const configured: Overrides = { apiKey, apiMode, baseUrl, provider: wanted, model }
  const place = RouteStatement.merge(configured, overrides)
  const task: Task = {
    ...place,
    images,
    ...(overrides.baseUrl === undefined
      ? ConfiguredRoutes.describeSources(world.settings.sources, ["auxiliary", name])
      : {})
  }
  const provider = place.provider?.trim().toLowerCase() ?? "auto"
  if (provider === "auto" && task.baseUrl === undefined) {
    return Result.succeed({ explicit: false, candidates: listAutomaticCandidates(world, task) })
  }
  const found = resolveExplicit(world, name, task, provider)
  if (Result.isSuccess(found)) return Result.succeed({ explicit: true, candidates: [found.success] })
  return images && task.baseUrl === undefined
    ? Result.succeed({ explicit: false, candidates: listAutomaticCandidates(world, { ...task, model: undefined }) })
    : Result.fail(found.failure)
}

/** Name of the route of a tenant that applies to all side tasks without a route. */
const everyTask = "default"

/**
 * Chooses the routes of a side task for a tenant with its own routes: the tenant's route for the task, otherwise the
 * route of its runs. Returns `undefined` if the tenant has neither a route for the task nor own keys, so that the
 * routes of the runtime apply. Routes that a call names do not apply, because they have other keys.
 */
export const chooseTenantCandidates = (
  routes: TenantRoutes,
  task: string,
  { provider }: Overrides
): CandidateChoice | undefined => {
  const own = provider === "main" ? undefined : (routes.tasks.get(task) ?? routes.tasks.get(everyTask))
  if (own !== undefined) return { explicit: true, candidates: [{ label: "tenant", route: own.entry.route }] }
  return routes.hasOwnKeys || !routes.mayShareKeys ? { explicit: false, candidates: [mainCandidate] } : undefined
}
