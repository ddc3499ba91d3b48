/**
 * Provides facts about the model of a route: context window, output limit, capabilities and price. The sources are, in
 * this order: the user's settings, refusals, the model's endpoint, and the tables in this package.
 *
 * **Details**
 *
 * The window is the first of: `model.context_length` or the `context_length` of a named endpoint; the limit learned
 * from a refusal (`ContextWindow`); the endpoint's own list of models, for unknown and local endpoints; the lists of
 * OpenRouter and Nous; the family's entry in the table; 128 000. A model that no source lists gets safe defaults
 * (tools, no images, no price) and one notice.
 *
 * **Gotchas**
 *
 * `model.context_length` applies to the main model only; the window of a fallback is determined separately. Anthropic's
 * list of models is not requested, because its windows are in the table.
 *
 * **Example** (Computing the free part of a window)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import type { Route, Usage } from "hermes-effect"
 * import { Catalogue } from "hermes-effect/routing"
 *
 * export const left = (route: Route.Route, usage: Usage.Usage) =>
 *   Effect.gen(function*() {
 *     const catalogue = yield* Catalogue.Catalogue
 *     const { tokens } = yield* catalogue.window(route)
 *     return tokens - usage.inputTokens - usage.outputTokens
 *   })
 *
 * console.log(Catalogue.defaultWindow)
 * // => 128000
 * ```
 *
 * Source: `hermes-llm.md` §4.2, §10.1, §12.3.
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import type * as Scope from "effect/Scope"
import { formatInteger } from "../../base/domain/TextCut.ts"
import { Home } from "../../base/config/Environment.ts"
import { Settings, type Values } from "../../base/config/Settings.ts"
import * as Costs from "../../base/domain/Cost.ts"
import type { Route } from "../../base/domain/Route.ts"
import * as ModelAbilities from "../provider/ModelAbilities.ts"
import {
  type CallFacts,
  Catalogue,
  type ModelFacts,
  type RouteIdentity,
  type Service,
  type Window
} from "./CataloguePort.ts"
import * as EndpointMemory from "./catalogue/EndpointMemory.ts"
import * as ModelTables from "./catalogue/ModelTables.ts"
import * as ModelLists from "./catalogue/ModelLists.ts"
import * as ContextWindow from "./ContextWindow.ts"
import * as RouteDetection from "./RouteDetection.ts"
import * as Pricing from "./Pricing.ts"
import * as Directory from "./ProviderDirectory.ts"

export { Catalogue, requireWindow } from "./CataloguePort.ts"
export type { CallFacts, ModelFacts, RouteIdentity, Service, Window, WindowSource } from "./CataloguePort.ts"

/** Context window assumed for an unknown model, in tokens. */
export const defaultWindow = 128_000

/** Dependencies of a catalogue. */
export interface Options {
  readonly settings: Pick<Values, "model" | "customProviders">
  readonly windows: ContextWindow.ContextWindows
  readonly lists: ModelLists.ModelLists
  readonly get: ModelLists.GetJson
  readonly post: ModelLists.PostJson
  /** Stores which endpoints do not answer. Without this option they are remembered only within the process. */
  readonly endpoints?:
    | Pick<EndpointMemory.EndpointMemory, "isSilent" | "setSilent" | "setWindow" | "window">
    | undefined
  /** Scope of background requests to endpoints. Without this option each request runs until it is answered. */
  readonly scope?: Scope.Scope | undefined
}

/** Time in milliseconds after which the facts about a route are looked up again. */
const lifetime = 300_000

/** Maximum time that a call waits for the model list of a service such as OpenRouter. */
const patience = "5 seconds"

const openRouter = "https://openrouter.ai/api/v1"

const isClaude = (model: string): boolean => model.toLowerCase().includes("claude")

/**
 * Tests whether the reported cost of a route is in US dollars. OpenRouter's credits are dollars; the `cost` of other
 * providers has no defined unit.
 */
const isCostReported = ({ baseUrl, provider }: RouteIdentity): boolean =>
  provider === "openrouter" || RouteDetection.isUnder(RouteDetection.parseAddress(baseUrl).host, "openrouter.ai")

const makeCostFunction = (route: RouteIdentity, price: Pricing.Pricing | undefined): CallFacts["cost"] => {
  const billing = Pricing.findBillingMode(route)
  const isTold = isCostReported(route)
  return (usage, reported) =>
    isTold && reported !== undefined ? Costs.fromReportedUsd(reported) : Pricing.estimateCost(usage, price, billing)
}

/** Sources of facts, and facts that were looked up before. */
interface FactSources extends Options, ReturnType<typeof EndpointMemory.makeAsker> {
  readonly probing: ReturnType<typeof ContextWindow.makeLearntWindows>
  /** Models whose unknown window was reported. */
  readonly noticed: Set<string>
  readonly memory: WeakMap<RouteIdentity, { readonly until: number; readonly late: number; readonly known: CallFacts }>
  /** Cached answers of local servers, so that the servers are not queried before each call. */
  readonly local: Map<string, ModelLists.ServedWindow | undefined>
}

const hasOwnEndpoint = (route: RouteIdentity): boolean => {
  const { host } = RouteDetection.parseAddress(route.baseUrl)
  return host !== "" && Directory.findByHost(host) === undefined
}

const findServedWindow = (
  { local, get, post, endpoints, getAsked }: FactSources,
  route: RouteIdentity
): Effect.Effect<ModelLists.ServedWindow | undefined> =>
  Effect.suspend(() => {
    if (!RouteDetection.isLocal(RouteDetection.parseAddress(route.baseUrl).host)) return Effect.succeed(undefined)
    const { baseUrl = "", model } = route
    const key = `${model}@${baseUrl}`
    if (local.has(key)) return Effect.succeed(local.get(key))
    const asked = Effect.tap(ModelLists.findLocalWindow(route, get, post), (found) =>
      found === undefined ? Effect.void : (endpoints?.setWindow(key, found) ?? Effect.void)
    )
    const known = endpoints?.window(key) ?? Effect.succeed(undefined)
    const window = Effect.flatMap(known, (known) => (known === undefined ? asked : Effect.succeed(known))).pipe(
      Effect.map((found) => found ?? undefined),
      Effect.tap((found) => Effect.sync(() => local.set(key, found)))
    )
    return getAsked(baseUrl, `window of ${model}`, window)
  })

/** Finds the model in the model list of its endpoint, if that list is requested for the route. */
const findListing = (
  { lists, getAsked }: FactSources,
  route: RouteIdentity
): Effect.Effect<ModelLists.Listed | undefined> => {
  const { apiKey, baseUrl, model, provider } = route
  if (provider === "openrouter")
    return Effect.map(lists.at(openRouter), (models) => ModelLists.findBySuffix(models, model))
  if (provider === "nous")
    return Effect.map(lists.at(openRouter), (models) => ModelLists.findBySuffix(models, ModelTables.stripVendor(model)))
  return baseUrl !== undefined && hasOwnEndpoint(route)
    ? Effect.map(
        getAsked(baseUrl, "list", lists.at(baseUrl, apiKey)),
        (models) => models && ModelLists.findModel(models, model)
      )
    : Effect.succeed(undefined)
}

const resolveWindow = Effect.fnUntraced(function* (
  sources: FactSources,
  route: RouteIdentity
): Effect.fn.Return<Window> {
  const own = ContextWindow.findConfiguredWindow(sources.settings, route)
  if (own !== undefined) return { tokens: own, source: "config" }
  const learnt = yield* sources.windows.get(route)
  if (learnt !== undefined) return { tokens: learnt, source: "learnt" }
  if (route.provider === "offline") return { tokens: defaultWindow, source: "default" }
  const here = yield* findServedWindow(sources, route)
  if (here !== undefined) return { tokens: here.tokens, source: "local" }
  const listed = yield* findListing(sources, route)
  if (listed?.window !== undefined) {
    return {
      tokens: listed.window,
      source: route.provider === "openrouter" || route.provider === "nous" ? "openrouter" : "endpoint"
    }
  }
  const family = ModelTables.findFamily(route.model)
  return family === undefined
    ? { tokens: defaultWindow, source: "default" }
    : { tokens: family.window, source: "table" }
})

/**
 * Applies the window learnt from a refusal in this process. It takes precedence over all other sources, but does not
 * enlarge the window that the user has set.
 */
const applyLearntWindow = ({ probing }: FactSources, route: RouteIdentity, window: Window): Window => {
  const tokens = probing.window(route, window.tokens)
  return tokens === window.tokens || (window.source === "config" && tokens > window.tokens)
    ? window
    : { tokens, source: "learnt" }
}

const findWindow = (sources: FactSources, route: RouteIdentity): Effect.Effect<Window> =>
  Effect.map(resolveWindow(sources, route), (window) => applyLearntWindow(sources, route, window))

/** Returns the price that the user set for the main model, or `undefined`. */
const findConfiguredPrice = ({ settings }: FactSources, route: RouteIdentity): Pricing.Pricing | undefined =>
  ContextWindow.isMain(settings.model, route) ? Pricing.toConfiguredPrice(settings.model.price ?? {}) : undefined

const findPrice = (
  sources: FactSources,
  route: RouteIdentity,
  listed: ModelLists.Listed | undefined
): Effect.Effect<Pricing.Pricing | undefined> => {
  const own = findConfiguredPrice(sources, route)
  if (own !== undefined) return Effect.succeed(own)
  switch (Pricing.findBillingMode(route)) {
    case "official_docs_snapshot":
      return Effect.succeed(Pricing.findTabledPrice(route))
    case "official_models_api":
      return route.provider === "nous" && route.baseUrl !== undefined
        ? Effect.map(sources.lists.at(route.baseUrl, route.apiKey), (models) =>
            Pricing.toListedPrice(ModelLists.findModel(models, route.model), route.baseUrl)
          )
        : Effect.succeed(Pricing.toListedPrice(listed, route.baseUrl))
    default:
      return Effect.succeed(undefined)
  }
}

const collectFacts = Effect.fnUntraced(function* (
  sources: FactSources,
  route: RouteIdentity
): Effect.fn.Return<ModelFacts> {
  const listed = yield* findListing(sources, route)
  const family = ModelTables.findFamily(route.model)
  return {
    window: yield* findWindow(sources, route),
    output: listed?.output ?? (isClaude(route.model) ? ModelAbilities.findOutputLimit(route.model) : family?.output),
    vision: listed?.vision ?? family?.vision,
    reasoning: listed?.reasoning ?? family?.reasoning,
    tools: listed?.tools ?? family?.tools,
    caching: family?.caching,
    price: yield* findPrice(sources, route, listed),
    known: listed !== undefined || family !== undefined
  }
})

/** Returns the facts about a route, using only the tables. */
const readTableFacts = (sources: FactSources, route: RouteIdentity): CallFacts => {
  const family = ModelTables.findFamily(route.model)
  const billing = Pricing.findBillingMode(route)
  const price =
    findConfiguredPrice(sources, route) ??
    (billing === "official_docs_snapshot" ? Pricing.findTabledPrice(route) : undefined)
  return {
    window:
      family === undefined ? { tokens: defaultWindow, source: "default" } : { tokens: family.window, source: "table" },
    cost: makeCostFunction(route, price)
  }
}

const lookUpFacts = (sources: FactSources, route: RouteIdentity): Effect.Effect<CallFacts> =>
  Effect.all([resolveWindow(sources, route), findListing(sources, route)]).pipe(
    Effect.flatMap(([window, listed]) =>
      Effect.map(findPrice(sources, route, listed), (price): CallFacts => {
        return { window, cost: makeCostFunction(route, price) }
      })
    ),
    Effect.timeoutOrElse({ duration: patience, orElse: () => Effect.succeed(readTableFacts(sources, route)) })
  )

const applyLearntFacts = (sources: FactSources, route: RouteIdentity, facts: CallFacts): CallFacts => {
  const window = applyLearntWindow(sources, route, facts.window)
  return window === facts.window ? facts : { ...facts, window }
}

const findCallFacts = (sources: FactSources, route: RouteIdentity): Effect.Effect<CallFacts> =>
  Effect.clockWith((clock) => {
    const now = clock.currentTimeMillisUnsafe()
    const found = sources.memory.get(route)
    if (found !== undefined && now < found.until && found.late === sources.late())
      return Effect.succeed(applyLearntFacts(sources, route, found.known))
    return Effect.map(lookUpFacts(sources, route), (fresh) => {
      sources.memory.set(route, { until: now + lifetime, late: sources.late(), known: fresh })
      return applyLearntFacts(sources, route, fresh)
    })
  })

const makeUnknownWindowNotice = Effect.fnUntraced(function* (sources: FactSources, route: RouteIdentity) {
  const { noticed } = sources
  const key = `${route.model}@${route.baseUrl ?? ""}`
  if (noticed.has(key) || route.provider === "offline") return undefined
  const found = (yield* findCallFacts(sources, route)).window
  if (found.source !== "default") return undefined
  noticed.add(key)
  return `Context size of "${route.model}" is unknown; assuming ${formatInteger(found.tokens)} tokens. Set model.context_length to change this.`
})

const extraBody = Effect.fnUntraced(function* (
  sources: FactSources,
  route: RouteIdentity
): Effect.fn.Return<Route["extraBody"]> {
  const { settings } = sources
  const contextLength = ContextWindow.findConfiguredWindow(settings, route)
  const ollamaNumCtx = ContextWindow.isMain(settings.model, route) ? settings.model.ollamaNumCtx : undefined
  const found =
    ollamaNumCtx === undefined
      ? yield* Effect.timeoutOrElse(findServedWindow(sources, route), {
          duration: patience,
          orElse: () => Effect.succeed(undefined)
        })
      : undefined
  return ContextWindow.makeOllamaBody(
    { ollamaNumCtx, contextLength },
    found?.isOllama === true ? found.tokens : undefined
  )
})

/** Creates a catalogue. */
export const make = (options: Options): Service => {
  const { endpoints, lists, scope, windows } = options
  const probing = ContextWindow.makeLearntWindows(windows)
  const sources: FactSources = {
    ...options,
    ...EndpointMemory.makeAsker(endpoints, scope),
    probing,
    noticed: new Set(),
    memory: new WeakMap(),
    local: new Map()
  }
  return {
    extraBody: (route) => extraBody(sources, route),
    probing,
    separate: () => make({ ...options, windows: ContextWindow.makeInMemory() }),
    known: (route) => findCallFacts(sources, route),
    window: (route) => findWindow(sources, route),
    facts: (route) => collectFacts(sources, route),
    notice: (route) => makeUnknownWindowNotice(sources, route),
    cost: (route, usage) =>
      Effect.map(collectFacts(sources, route), ({ price }) =>
        Pricing.estimateCost(usage, price, Pricing.findBillingMode(route))
      ),
    listed: ({ apiKey, baseUrl, provider }) => {
      const at = baseUrl ?? Directory.findProvider(provider)?.baseUrl
      return at === undefined ? Effect.succeed([]) : lists.at(at, apiKey)
    }
  }
}

/** Adds the fields to a route that its server requires in each request. */
export const addExtraBody = (catalogue: Pick<Service, "extraBody">, route: Route): Effect.Effect<Route> =>
  Effect.map(catalogue.extraBody(route), (extra) =>
    extra === undefined ? route : { ...route, extraBody: { ...extra, ...route.extraBody } }
  )

/**
 * Creates a catalogue that uses only the tables in this package. It reads no file and queries no endpoint. An
 * application knows its own models, so no notice is returned for models that the tables do not contain.
 */
export const makeBundled = (model: Partial<Values["model"]> = {}): Service => ({
  ...make({
    settings: { model: { provider: "auto", streaming: true, ...model }, customProviders: [] },
    windows: ContextWindow.makeInMemory(),
    lists: ModelLists.none,
    get: () => Effect.succeed(undefined),
    post: () => Effect.succeed(undefined)
  }),
  notice: () => Effect.succeed(undefined)
})

/**
 * Creates the catalogue of a program. Files are read and endpoints are queried only when needed. Pending requests end
 * when the scope closes.
 */
export const makeHome = Effect.fnUntraced(function* (
  directory: string,
  settings: Options["settings"],
  endpoints: EndpointMemory.EndpointMemory
): Effect.fn.Return<Service, never, FileSystem.FileSystem | Path.Path | Scope.Scope> {
  const { get, post } = yield* ModelLists.lazy
  return make({
    settings,
    windows: yield* ContextWindow.openFile(directory),
    lists: yield* ModelLists.make(directory, get),
    get,
    post,
    endpoints,
    scope: yield* Effect.scope
  })
})

/** Provides the result of {@link makeHome} for the settings and home directory in the context. */
export const layerHome: Layer.Layer<Catalogue, never, Settings | Home | FileSystem.FileSystem | Path.Path> =
  Layer.effect(
    Catalogue,
    Effect.gen(function* () {
      const { root } = yield* Home
      return yield* makeHome(root, yield* Settings, yield* EndpointMemory.openFile(root))
    })
  )
