/**
 * Windows of models, and the tokens that a call takes of them. Windows that were learnt from providers' refusals are
 * stored in `context_length_cache.yaml` of the home directory under `<model>@<base_url>`.
 *
 * **Details**
 *
 * The size of a call is an estimate without a tokenizer: characters divided by four. Each message is counted once.
 *
 * Only what a provider said itself is written, and only once a call has succeeded with it; a guess stays in memory
 * ({@link LearntWindows}). The file is a flat map, so that people can read and correct it; a line that is no window is
 * passed over. Two processes that write at once lose at most one entry, which the next refusal brings back.
 *
 * Source: `hermes-llm.md` §2.5, §10.1, §10.2, §11.
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type * as Path from "effect/Path"
import * as Semaphore from "effect/Semaphore"
import * as RouteStatement from "../../base/config/RouteStatement.ts"
import type { Values } from "../../base/config/Settings.ts"
import * as Yaml from "../../base/config/Yaml.ts"
import * as EndpointAddress from "../../base/domain/EndpointAddress.ts"
import * as Json from "../../base/domain/Json.ts"
import type { Route } from "../../base/domain/Route.ts"
import * as ModelTables from "./catalogue/ModelTables.ts"
import * as HomeFile from "./HomeFile.ts"
import * as ModelLists from "./catalogue/ModelLists.ts"
import * as Directory from "./ProviderDirectory.ts"

/** The name of the file in the home directory. */
export const fileName = "context_length_cache.yaml"

/** Parts of a route that its window depends on. */
export type ModelAddress = Pick<Route, "model" | "baseUrl">

/** Windows that were learnt. */
export interface ContextWindows {
  /** Finds the window of a route; undefined when none was learnt. */
  readonly get: (route: ModelAddress) => Effect.Effect<number | undefined>
  /** Remembers a window for good. */
  readonly confirm: (route: ModelAddress, tokens: number) => Effect.Effect<void>
}

/** The key of a route. */
export const formatKey = ({ baseUrl, model }: ModelAddress): string => `${model}@${baseUrl ?? ""}`

/** Nothing outlives the process. */
export const makeInMemory = (): ContextWindows => {
  const known = new Map<string, number>()
  return {
    get: (route) => Effect.sync(() => known.get(formatKey(route))),
    confirm: (route, tokens) => Effect.sync(() => void known.set(formatKey(route), tokens))
  }
}

/** Window learnt from a refusal. */
export interface LearntWindow {
  readonly window: number
  /** Stated by the provider itself. */
  readonly stated: boolean
}

/** Windows learnt in this process. */
export interface LearntWindows {
  /** Returns the window of a route: the guess in memory, or else `window`. */
  readonly window: (route: ModelAddress, window: number) => number
  /** Remembers what a refusal taught. */
  readonly learnt: (route: ModelAddress, learnt: LearntWindow) => void
  /** A call has succeeded: a limit that its provider had stated is true. */
  readonly succeeded: (route: ModelAddress) => Effect.Effect<void>
}

/** Makes a memory of learnt windows. */
export const makeLearntWindows = (windows: ContextWindows): LearntWindows => {
  const memory = new Map<string, LearntWindow>()
  return {
    window: (route, window) =>
      memory.size === 0 ? window : Math.min(window, memory.get(formatKey(route))?.window ?? window),
    learnt: (route, learnt) => {
      memory.set(formatKey(route), learnt)
    },
    succeeded: (route) =>
      memory.size === 0
        ? Effect.void
        : Effect.suspend(() => {
            const key = formatKey(route)
            const learnt = memory.get(key)
            if (learnt === undefined || !learnt.stated) return Effect.void
            memory.set(key, { ...learnt, stated: false })
            return windows.confirm(route, learnt.window)
          })
  }
}

const decodeEntries = (value: unknown): Map<string, number> =>
  new Map(
    Object.entries(Json.readFields(value)).flatMap(([key, tokens]): ReadonlyArray<[string, number]> => {
      const plausible = ModelLists.parseWindow(tokens)
      return plausible === undefined ? [] : [[key, plausible]]
    })
  )

/** The file in a home directory, read when it is first asked. */
export const openFile = (home: string): Effect.Effect<ContextWindows, never, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const home_ = yield* HomeFile.make(home, fileName)
    const writing = yield* Semaphore.make(1)

    const read: Effect.Effect<Map<string, number>> = home_.read.pipe(
      Effect.flatMap((text) =>
        text === undefined || text.trim() === "" ? Effect.succeed({}) : Yaml.read(text, home_.path)
      ),
      Effect.catch((error) =>
        Effect.as(Effect.logWarning(`${home_.path} is not used, remove it: ${error.message}`), {})
      ),
      Effect.map(decodeEntries)
    )
    const known = yield* Effect.cached(read)

    return {
      get: (route) => Effect.map(known, (windows) => windows.get(formatKey(route))),
      confirm: (route, tokens) =>
        writing.withPermit(
          Effect.gen(function* () {
            const windows = yield* known
            if (windows.get(formatKey(route)) === tokens) return
            windows.set(formatKey(route), tokens)
            const all = new Map([...(yield* read), [formatKey(route), tokens]])
            yield* home_
              .write(`${yield* Yaml.render(Object.fromEntries(all))}\n`)
              .pipe(Effect.catch((error) => Effect.logWarning(`${home_.path} cannot be written: ${error.message}`)))
          })
        )
    }
  })

type RoutePlace = Pick<Route, "provider" | "model" | "baseUrl">

/**
 * Returns whether a route is at the provider and address that the section names; a plugin's provider has names only the
 * plugin knows.
 */
const isThere = ({ baseUrl, provider }: Values["model"], route: RoutePlace): boolean => {
  const isNamed = provider === "auto" || provider === "custom" || Directory.findProvider(provider) !== undefined
  const own = { provider, baseUrl: EndpointAddress.parseAddress(baseUrl).baseUrl }
  const other = {
    provider: isNamed ? route.provider : undefined,
    baseUrl: baseUrl === undefined ? undefined : route.baseUrl
  }
  return !RouteStatement.listSuperseded(own, other).includes("contextLength")
}

/**
 * Returns whether a route is the main model's: its model, under any form of its id, where the section says that it is
 * served.
 */
export const isMain = (section: Values["model"], route: RoutePlace): boolean => {
  const { default: main } = section
  const { model } = route
  return (
    main !== undefined &&
    (main === model || ModelTables.stripVendor(main) === model || ModelTables.stripProvider(main) === model) &&
    isThere(section, route)
  )
}

/** The window that the user names for a route: of the main model, or of a model of a named endpoint. */
export const findConfiguredWindow = (
  { customProviders, model }: Pick<Values, "model" | "customProviders">,
  route: RoutePlace
): number | undefined => {
  const name = route.provider.startsWith("custom:") ? route.provider.slice("custom:".length) : undefined
  const endpoint = customProviders.find(
    (endpoint) =>
      endpoint.name.trim().toLowerCase() === name || (name === undefined && endpoint.baseUrl === route.baseUrl)
  )
  const own =
    endpoint !== undefined && Object.hasOwn(endpoint.models, route.model) ? endpoint.models[route.model] : undefined
  return (isMain(model, route) ? model.contextLength : undefined) ?? own?.contextLength
}

/**
 * Computes the window to request from Ollama, which otherwise uses a small default: `model.ollama_num_ctx`, else the
 * detected window, never more than `model.context_length`.
 */
export const makeOllamaBody = (
  settings: { readonly ollamaNumCtx?: number | undefined; readonly contextLength?: number | undefined },
  detected: number | undefined
): Route["extraBody"] => {
  const wanted = settings.ollamaNumCtx ?? detected
  if (wanted === undefined) return undefined
  return { options: { num_ctx: Math.min(wanted, settings.contextLength ?? wanted) } }
}
