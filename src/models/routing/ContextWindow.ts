/**
 * Determines the context windows of models. Windows learnt from providers' refusals are stored in
 * `context_length_cache.yaml` in the home directory, under `<model>@<base_url>`.
 *
 * **Details**
 *
 * The size of a call is an estimate without a tokenizer: characters divided by four. Each message is counted once.
 *
 * A window is written only if a provider stated it, and only after a call has succeeded with it; an estimate remains in
 * memory ({@link LearntWindows}). The file is a flat map that people can read and correct; an invalid line is ignored.
 * If two processes write at the same time, at most one entry is lost, which the next refusal restores.
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

/** Name of the file with learnt windows in the home directory. */
export const fileName = "context_length_cache.yaml"

/** Parts of a route that determine its window. */
export type ModelAddress = Pick<Route, "model" | "baseUrl">

/** Stores learnt windows. */
export interface ContextWindows {
  /** Returns the learnt window of a route, or `undefined`. */
  readonly get: (route: ModelAddress) => Effect.Effect<number | undefined>
  /** Stores a window permanently. */
  readonly confirm: (route: ModelAddress, tokens: number) => Effect.Effect<void>
  /** Removes a stored window. */
  readonly forget: (route: ModelAddress) => Effect.Effect<void>
}

/** Returns the key under which the window of a route is stored. */
export const formatKey = ({ baseUrl, model }: ModelAddress): string => `${model}@${baseUrl ?? ""}`

/** Creates an in-memory store of windows. Its contents are lost when the process ends. */
export const makeInMemory = (): ContextWindows => {
  const known = new Map<string, number>()
  return {
    get: (route) => Effect.sync(() => known.get(formatKey(route))),
    confirm: (route, tokens) => Effect.sync(() => void known.set(formatKey(route), tokens)),
    forget: (route) => Effect.sync(() => void known.delete(formatKey(route)))
  }
}

/** Window learnt from a refusal. */
export interface LearntWindow {
  readonly window: number
  /** True if the provider stated the window; false if it is an estimate. */
  readonly stated: boolean
}

/** Windows learnt in this process. */
export interface LearntWindows {
  /**
   * Returns the window of a route: the window that the provider stated, or the smaller one of an estimate and `window`.
   */
  readonly window: (route: ModelAddress, window: number) => number
  /** Stores the window learnt from a refusal in memory. */
  readonly learnt: (route: ModelAddress, learnt: LearntWindow) => void
  /** Records a successful call, which confirms a limit that the provider stated. */
  readonly succeeded: (route: ModelAddress) => Effect.Effect<void>
}

/** Creates the memory of learnt windows. */
export const makeLearntWindows = (windows: ContextWindows): LearntWindows => {
  const memory = new Map<string, LearntWindow>()
  const unconfirmed = new Set<string>()
  return {
    window: (route, window) => {
      const learnt = memory.size === 0 ? undefined : memory.get(formatKey(route))
      if (learnt === undefined) return window
      return learnt.stated ? learnt.window : Math.min(window, learnt.window)
    },
    learnt: (route, learnt) => {
      const key = formatKey(route)
      memory.set(key, learnt)
      if (learnt.stated) unconfirmed.add(key)
      else unconfirmed.delete(key)
    },
    succeeded: (route) =>
      unconfirmed.size === 0
        ? Effect.void
        : Effect.suspend(() => {
            const key = formatKey(route)
            const learnt = memory.get(key)
            return learnt !== undefined && unconfirmed.delete(key) ? windows.confirm(route, learnt.window) : Effect.void
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

/** Opens the store of windows in a home directory. The file is read on first use. */
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

    const writeWindows = (all: ReadonlyMap<string, number>) =>
      Effect.flatMap(Yaml.render(Object.fromEntries(all)), (text) => home_.write(`${text}\n`)).pipe(
        Effect.catch((error) => Effect.logWarning(`${home_.path} cannot be written: ${error.message}`))
      )

    return {
      get: (route) => Effect.map(known, (windows) => windows.get(formatKey(route))),
      confirm: (route, tokens) =>
        writing.withPermit(
          Effect.gen(function* () {
            const windows = yield* known
            if (windows.get(formatKey(route)) === tokens) return
            windows.set(formatKey(route), tokens)
            yield* writeWindows(new Map([...(yield* read), [formatKey(route), tokens]]))
          })
        ),
      forget: (route) =>
        writing.withPermit(
          Effect.gen(function* () {
            const key = formatKey(route)
            ;(yield* known).delete(key)
            const all = yield* read
            if (all.delete(key)) yield* writeWindows(all)
          })
        )
    }
  })

type RoutePlace = Pick<Route, "provider" | "model" | "baseUrl">

/**
 * Tests whether a route has the provider and address of the `model` section. The names of a plugin's provider are known
 * only to the plugin.
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
 * Tests whether a route is the main model's: it has the same model, in any form of its id, and the provider and address
 * of the `model` section.
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

/** Returns the window that the user configured for a route: for the main model, or for a model of a named endpoint. */
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
 * Computes the window to request from Ollama, which otherwise uses a small default: `model.ollama_num_ctx`, otherwise
 * the detected window, but at most `model.context_length`.
 */
export const makeOllamaBody = (
  settings: { readonly ollamaNumCtx?: number | undefined; readonly contextLength?: number | undefined },
  detected: number | undefined
): Route["extraBody"] => {
  const wanted = settings.ollamaNumCtx ?? detected
  if (wanted === undefined) return undefined
  return { options: { num_ctx: Math.min(wanted, settings.contextLength ?? wanted) } }
}
