/**
 * Requests the model lists of endpoints, each at most once an hour across all runs. They are sent with the transport of
 * the application, if it replaced the transport of model calls.
 *
 * **Details**
 *
 * A list is cached in memory and, unless its endpoint is on the local machine or network, in `cache/models.json` in the
 * home directory. If it does not arrive within five seconds, the last known list is used regardless of its age, or an
 * empty list; the list is not requested again for five minutes. Model lists never cause a call to fail, and never delay
 * it by more than these five seconds.
 *
 * The window is searched under ten field names at any depth of an entry, and accepted if it is between 1 024 and 10 000
 * 000 tokens. Prices per token are converted to prices per million tokens; negative prices, which mean that the price
 * varies, are ignored.
 *
 * Local servers are queried in this order: llama.cpp (`/v1/props`), Ollama (`/api/show`: `num_ctx` of the model file
 * before the model's maximum), LM Studio (`/api/v0/models`: the loaded instance before the maximum), vLLM and all
 * others (`/models`).
 *
 * Source: `hermes-llm.md` §10.1, §12.3.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type * as Path from "effect/Path"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import type * as HttpClient from "effect/http/HttpClient"
import type { HttpClientError } from "effect/http/HttpClientError"
import type * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as Json from "../../../base/domain/Json.ts"
import type { Route } from "../../../base/domain/Route.ts"
import * as ModelTransport from "../../../base/platform/ModelTransport.ts"
import * as RouteDetection from "../RouteDetection.ts"
import * as HomeFile from "../HomeFile.ts"

/** One model in a list. All fields except the id are optional. */
export const Listed = Schema.Struct({
  id: Schema.String,
  window: Schema.optionalKey(Schema.Int),
  output: Schema.optionalKey(Schema.Int),
  vision: Schema.optionalKey(Schema.Boolean),
  reasoning: Schema.optionalKey(Schema.Boolean),
  tools: Schema.optionalKey(Schema.Boolean),
  /** Prices in US dollars per token, as given in the list. */
  prices: Schema.optionalKey(
    Schema.Struct({
      input: Schema.optionalKey(Schema.String),
      output: Schema.optionalKey(Schema.String),
      cacheRead: Schema.optionalKey(Schema.String),
      cacheWrite: Schema.optionalKey(Schema.String),
      request: Schema.optionalKey(Schema.String)
    })
  )
})
/** One model in a list. */
export type Listed = typeof Listed.Type

const windowNames = [
  "context_length",
  "context_window",
  "max_context_length",
  "max_position_embeddings",
  "max_model_len",
  "max_input_tokens",
  "max_sequence_length",
  "max_seq_len",
  "n_ctx_train",
  "n_ctx"
]

/** Parses a window size in tokens. Returns `undefined` if the value is not plausible. */
export const parseWindow = (value: unknown): number | undefined => {
  const number = typeof value === "string" && /^\d+$/.test(value) ? Number(value) : value
  return typeof number === "number" && Number.isInteger(number) && number >= 1_024 && number <= 10_000_000
    ? number
    : undefined
}

/**
 * Finds a plausible window under the first matching field name at any depth. Outer fields take precedence over inner
 * ones.
 */
const findDeepWindow = (value: unknown, names: ReadonlyArray<string>, depth = 0): number | undefined => {
  if (!Json.isFields(value) || depth > 4) return undefined
  for (const name of names) {
    const found = parseWindow(value[name])
    if (found !== undefined) return found
  }
  for (const inner of Object.values(value)) {
    const found = findDeepWindow(inner, names, depth + 1)
    if (found !== undefined) return found
  }
  return undefined
}

const selectTexts = (value: unknown): ReadonlyArray<string> | undefined =>
  Array.isArray(value) ? value.filter((item) => typeof item === "string") : undefined

const readPrice = (prices: Json.Fields, names: ReadonlyArray<string>): string | undefined => {
  const found = names
    .map((name) => prices[name])
    .find((value) => typeof value === "string" || typeof value === "number")
  return found === undefined ? undefined : String(found)
}

const omitUndefined = <A extends object>(given: A): { readonly [K in keyof A]?: Exclude<A[K], undefined> } =>
  // The cast is safe: only entries whose value is `undefined` are omitted.
  Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as never

const readPrices = (entry: Json.Fields): Listed["prices"] => {
  const pricing = Json.readFields(entry["pricing"])
  const prices = omitUndefined({
    input: readPrice(pricing, ["prompt", "input"]),
    output: readPrice(pricing, ["completion", "output"]),
    cacheRead: readPrice(pricing, ["cache_read", "cached_prompt", "input_cache_read"]),
    cacheWrite: readPrice(pricing, ["cache_write", "cache_creation", "input_cache_write"]),
    request: readPrice(pricing, ["request"])
  })
  return Object.keys(prices).length === 0 ? undefined : prices
}

const readEntries = (value: unknown): ReadonlyArray<Listed> => {
  const entry = Json.readFields(value)
  const id = entry["id"] ?? entry["name"] ?? entry["model"]
  if (typeof id !== "string" || id === "") return []
  const inputs = selectTexts(Json.readFields(entry["architecture"])["input_modalities"])
  const parameters = selectTexts(entry["supported_parameters"])
  const output = Json.readFields(entry["top_provider"])["max_completion_tokens"] ?? entry["max_output_tokens"]
  return [
    {
      id,
      ...omitUndefined({
        window: findDeepWindow(entry, windowNames),
        output: typeof output === "number" && Number.isInteger(output) && output > 0 ? output : undefined,
        vision: inputs?.includes("image"),
        reasoning: parameters?.some((name) => name === "reasoning" || name === "include_reasoning"),
        tools: parameters?.includes("tools"),
        prices: readPrices(entry)
      })
    }
  ]
}

/** Reads the models from a body. Returns an empty array if the body is not a model list. */
export const readList = (body: unknown): ReadonlyArray<Listed> => {
  const list = Array.isArray(body) ? body : (Json.readFields(body)["data"] ?? Json.readFields(body)["models"])
  return Array.isArray(list) ? list.flatMap(readEntries) : []
}

/**
 * Finds the entry of a model: the entry with its exact id, otherwise the only entry of the list, otherwise an entry
 * whose id contains the model's id or is contained in it.
 */
export const findModel = (models: ReadonlyArray<Listed>, model: string): Listed | undefined => {
  const wanted = model.toLowerCase()
  const [only] = models
  return (
    models.find(({ id }) => id.toLowerCase() === wanted) ??
    (models.length === 1 ? only : undefined) ??
    models.find(({ id }) => id.toLowerCase().includes(wanted) || wanted.includes(id.toLowerCase()))
  )
}

/** Finds a bare id in a list of several vendors' models: by the exact id, or by the part of an id after the vendor. */
export const findBySuffix = (models: ReadonlyArray<Listed>, model: string): Listed | undefined => {
  const wanted = model.toLowerCase()
  return (
    models.find(({ id }) => id.toLowerCase() === wanted) ??
    models.find(({ id }) => id.toLowerCase().endsWith(`/${wanted}`))
  )
}

/** Requests JSON from a URL. Returns `undefined` if there is no answer, and `null` if its status is not successful. */
export type GetJson = (url: string, key: Redacted.Redacted<string> | undefined) => Effect.Effect<unknown>

/** Provides the model lists of endpoints. */
export interface ModelLists {
  /** Returns the models at a base URL (`…/v1`), or an empty array if they are unknown. */
  readonly at: (baseUrl: string, key?: Redacted.Redacted<string> | undefined) => Effect.Effect<ReadonlyArray<Listed>>
}

const Entry = Schema.Struct({ at: Schema.Finite, models: Schema.Array(Listed) })
type Entry = typeof Entry.Type
const Saved = Schema.fromJsonString(
  Schema.Struct({ version: Schema.Literal(1), lists: Schema.Record(Schema.String, Entry) })
)
type Saved = typeof Saved.Type

const hour = 3_600_000
const again = 300_000

/**
 * Posts a JSON body to a URL and returns the JSON answer. Returns `undefined` if there is no answer, and `null` if its
 * status is not successful.
 */
export type PostJson = (url: string, body: unknown) => Effect.Effect<unknown>

/** Implementation without any model lists. */
export const none: ModelLists = { at: () => Effect.succeed([]) }

const nothing: Saved = { version: 1, lists: {} }

/** Creates model lists that are cached only in memory. */
export const makeInMemory = (get: GetJson): Effect.Effect<ModelLists> =>
  makeOverStore({ load: Effect.succeed(nothing), save: () => Effect.void }, get)

/** Creates model lists that are also cached in a home directory. */
export const make = (home: string, get: GetJson): Effect.Effect<ModelLists, never, FileSystem.FileSystem | Path.Path> =>
  Effect.flatMap(HomeFile.makeMemory(home, "cache/models.json", Saved, nothing), (stored) => makeOverStore(stored, get))

const makeOverStore = ({ load, save }: HomeFile.Memory<Saved>, get: GetJson): Effect.Effect<ModelLists> =>
  Effect.gen(function* () {
    const memory = new Map<string, Entry>()
    const asking = yield* Semaphore.make(1)

    const cacheEntry = (url: string, entry: Entry): ReadonlyArray<Listed> => {
      memory.set(url, entry)
      return entry.models
    }

    const fetchModels = Effect.fnUntraced(function* (url: string, key: Redacted.Redacted<string> | undefined) {
      const now = yield* Clock.currentTimeMillis
      const isFresh = ({ at }: Entry): boolean => now - at < hour
      const known = memory.get(url)
      if (known !== undefined && isFresh(known)) return known.models
      const isLocal = RouteDetection.isLocal(RouteDetection.parseAddress(url).host)
      const stored = (yield* load).lists[url]
      if (stored !== undefined && isFresh(stored)) return cacheEntry(url, stored)
      const answer = yield* get(`${url}/models`, key)
      const found = readList(answer)
      const isEmpty = found.length === 0
      const models = isEmpty ? (known?.models ?? stored?.models ?? []) : found
      const soon = now - hour + again
      // A local server may soon serve another model, and an endpoint without a list may get one.
      const entry = { at: isLocal || isEmpty ? soon : now, models }
      if (answer !== undefined) yield* save({ version: 1, lists: { ...(yield* load).lists, [url]: entry } })
      return cacheEntry(url, isEmpty ? entry : { at: now, models })
    })

    return {
      at: (baseUrl, key) =>
        Effect.gen(function* () {
          const known = memory.get(baseUrl)
          if (known !== undefined && (yield* Clock.currentTimeMillis) - known.at < hour) return known.models
          return yield* asking.withPermit(fetchModels(baseUrl, key))
        })
    }
  })

/** Functions that request JSON with GET and POST. */
interface JsonRequests {
  readonly get: GetJson
  readonly post: PostJson
}

const readResponse =
  (url: string) =>
  (asked: Effect.Effect<HttpClientResponse.HttpClientResponse, HttpClientError>): Effect.Effect<unknown> =>
    asked.pipe(
      Effect.flatMap((response) => (response.status === 200 ? response.json : Effect.succeed(null))),
      Effect.timeout("5 seconds"),
      Effect.catch((error) => Effect.as(Effect.logDebug(`${url}: ${error.message}`), undefined))
    )

/** Creates a `GetJson` that uses an HTTP client. */
export const makeGetJson =
  (client: HttpClient.HttpClient): GetJson =>
  (url, key) =>
    client
      .get(url, key === undefined ? undefined : { headers: { authorization: `Bearer ${Redacted.value(key)}` } })
      .pipe(readResponse(url))

/** Creates a `PostJson` that uses an HTTP client. */
export const makePostJson =
  (client: HttpClient.HttpClient): PostJson =>
  (url, body) =>
    Effect.flatMap(
      Effect.promise(() => import("effect/http/HttpBody")),
      ({ jsonUnsafe }) => readResponse(url)(client.post(url, { body: jsonUnsafe(body) }))
    )

const makeClient = (transport: ModelTransport.HttpTransport | undefined): Effect.Effect<HttpClient.HttpClient> =>
  Effect.gen(function* () {
    const [{ Fetch, layer }, { HttpClient, transformResponse }] = yield* Effect.promise(() =>
      Promise.all([import("effect/http/FetchHttpClient"), import("effect/http/HttpClient")])
    )
    const client = yield* Effect.provide(HttpClient, layer)
    if (transport === undefined) return client
    return transformResponse(client, Effect.provideService(Fetch, transport))
  })

/**
 * Requests that use the transport of the application, or `fetch`. The HTTP client is loaded with the first request,
 * because most program starts make no request.
 */
export const lazy: Effect.Effect<JsonRequests, never, Scope.Scope> = Effect.gen(function* () {
  const transport = yield* ModelTransport.makeReplaced
  const client = yield* Effect.cached(makeClient(transport))
  return {
    get: (url, key) => Effect.flatMap(client, (client) => makeGetJson(client)(url, key)),
    post: (url, body) => Effect.flatMap(client, (client) => makePostJson(client)(url, body))
  }
})

const stripVersionSuffix = (baseUrl: string): string => baseUrl.replace(/\/v1$/, "")

/** Reads the window with which a llama.cpp server was started. */
export const readLlamaCppWindow = (body: unknown): number | undefined => {
  const props = Json.readFields(body)
  return parseWindow(Json.readFields(props["default_generation_settings"])["n_ctx"]) ?? parseWindow(props["n_ctx"])
}

/** Reads the window from Ollama: `num_ctx` in the model's parameters, otherwise its maximum. */
export const readOllamaWindow = (body: unknown): number | undefined => {
  const { model_info, parameters } = Json.readFields(body)
  const set = typeof parameters === "string" ? /^num_ctx\s+(\d+)/m.exec(parameters)?.[1] : undefined
  const most = Object.entries(Json.readFields(model_info)).find(([name]) => name.endsWith(".context_length"))?.[1]
  return parseWindow(set) ?? parseWindow(most)
}

/** Reads the window from LM Studio: the window of the loaded instance, otherwise the model's maximum. */
export const readLmStudioWindow = (body: unknown, model: string): number | undefined => {
  const { data } = Json.readFields(body)
  const entry = Array.isArray(data) ? Json.readFields(data.find((item) => Json.readFields(item)["id"] === model)) : {}
  return parseWindow(entry["loaded_context_length"]) ?? parseWindow(entry["max_context_length"])
}

/** Context window of a model on a local server. For Ollama, every request must contain it. */
export const ServedWindow = Schema.Struct({ tokens: Schema.Finite, isOllama: Schema.Boolean })
/** Context window of a model on a local server. For Ollama, every request must contain it. */
export type ServedWindow = typeof ServedWindow.Type

const toServedWindow = (tokens: number): ServedWindow => ({ tokens, isOllama: false })

/**
 * Requests the window of a model from a local server. Returns `null` if the server does not report it, and `undefined`
 * if no server answers.
 */
export const findLocalWindow = (
  route: Pick<Route, "apiKey" | "baseUrl" | "model">,
  get: GetJson,
  post: PostJson
): Effect.Effect<ServedWindow | null | undefined> =>
  Effect.gen(function* () {
    const { apiKey, baseUrl, model } = route
    if (baseUrl === undefined) return undefined
    const root = stripVersionSuffix(baseUrl)
    const props = yield* get(`${root}/v1/props`, apiKey)
    const started = readLlamaCppWindow(props)
    if (started !== undefined) return toServedWindow(started)
    const show = yield* post(`${root}/api/show`, { model, name: model })
    const shown = readOllamaWindow(show)
    if (shown !== undefined) return { tokens: shown, isOllama: true }
    const studio = yield* get(`${root}/api/v0/models`, apiKey)
    const loaded = readLmStudioWindow(studio, model)
    if (loaded !== undefined) return toServedWindow(loaded)
    const list = yield* get(`${baseUrl}/models`, apiKey)
    const listed = findModel(readList(list), model)?.window
    if (listed !== undefined) return toServedWindow(listed)
    return [props, show, studio, list].every((answer) => answer === undefined) ? undefined : null
  })
