/**
 * Lists of models as endpoints serve them, each asked for at most once an hour, by all runs together.
 *
 * **Details**
 *
 * A list is kept in memory and, unless it is of this machine or its network, in `cache/models.json` of the home directory.
 * One that cannot be had within five seconds is replaced by the last one that is known, however old, else by none; it
 * is not asked for again for five minutes. A call is never failed, nor held up longer, by a list.
 *
 * Source: `hermes-llm.md` §10.1 (cached an hour).
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type * as Path from "effect/Path"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import * as Detection from "../Detection.ts"
import * as HomeFile from "./HomeFile.ts"
import * as ModelList from "./ModelList.ts"
import type * as HttpClient from "effect/http/HttpClient"
import type { HttpClientError } from "effect/http/HttpClientError"
import type * as HttpClientResponse from "effect/http/HttpClientResponse"

/** Asks an address for JSON: undefined when there is no answer, or one that is no success. */
export type GetJson = (url: string, key: Redacted.Redacted<string> | undefined) => Effect.Effect<unknown>

/** Lists of models, by endpoint. */
export interface ModelLists {
  /** The models at a base URL (`…/v1`); an empty list when they are not known. */
  readonly at: (
    baseUrl: string,
    key?: Redacted.Redacted<string> | undefined
  ) => Effect.Effect<ReadonlyArray<ModelList.Listed>>
}

const Entry = Schema.Struct({ at: Schema.Finite, models: Schema.Array(ModelList.Listed) })
type Entry = typeof Entry.Type
const Saved = Schema.fromJsonString(Schema.Struct({ version: Schema.Literal(1), lists: Schema.Record(Schema.String, Entry) }))
type Saved = typeof Saved.Type

const hour = 3_600_000
const again = 300_000

/** The same with a question. */
export type PostJson = (url: string, body: unknown) => Effect.Effect<unknown>

/** Nothing is listed anywhere. */
export const none: ModelLists = { at: () => Effect.succeed([]) }

/** Place where lists outlive the process. */
interface Storage {
  readonly load: Effect.Effect<Saved>
  readonly save: (url: string, entry: Entry) => Effect.Effect<void>
}

const nothing: Saved = { version: 1, lists: {} }

/** Lists that are kept in memory alone. */
export const memory = (get: GetJson): Effect.Effect<ModelLists> =>
  over({ load: Effect.succeed(nothing), save: () => Effect.void }, get)

/** Lists that are also kept in a home directory. */
export const make = (
  home: string,
  get: GetJson
): Effect.Effect<ModelLists, never, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function*() {
    const file = yield* HomeFile.make(home, "cache/models.json")
    const load: Effect.Effect<Saved> = file.read.pipe(
      Effect.flatMap((text) => text === undefined ? Effect.succeed(undefined) : Schema.decodeUnknownEffect(Saved)(text)),
      Effect.catch((error) => Effect.as(Effect.logDebug(`${file.path} is not used: ${error.message}`), undefined)),
      Effect.map((saved) => saved ?? nothing)
    )
    const save = (url: string, entry: Entry): Effect.Effect<void> =>
      Effect.gen(function*() {
        const saved = yield* load
        yield* file.write(yield* Schema.encodeEffect(Saved)({ version: 1, lists: { ...saved.lists, [url]: entry } }))
      }).pipe(Effect.catch((error) => Effect.logDebug(`${file.path} cannot be written: ${error.message}`)))
    return yield* over({ load, save }, get)
  })

const over = ({ load, save }: Storage, get: GetJson): Effect.Effect<ModelLists> =>
  Effect.gen(function*() {
    const memory = new Map<string, Entry>()
    const asking = yield* Semaphore.make(1)

    const keep = (url: string, entry: Entry): ReadonlyArray<ModelList.Listed> => {
      memory.set(url, entry)
      return entry.models
    }

    const ask = Effect.fnUntraced(function*(url: string, key: Redacted.Redacted<string> | undefined) {
      const now = yield* Clock.currentTimeMillis
      const isFresh = ({ at }: Entry): boolean => now - at < hour
      const known = memory.get(url)
      if (known !== undefined && isFresh(known)) return known.models
      const isLocal = Detection.isLocal(Detection.address(url).host)
      const saved = isLocal ? undefined : (yield* load).lists[url]
      if (saved !== undefined && isFresh(saved)) return keep(url, saved)
      const models = ModelList.read(yield* get(`${url}/models`, key))
      if (models.length === 0) return keep(url, { at: now - hour + again, models: known?.models ?? saved?.models ?? [] })
      const entry = { at: now, models }
      if (!isLocal) yield* save(url, entry)
      return keep(url, entry)
    })

    return {
      at: (baseUrl, key) =>
        Effect.gen(function*() {
          const known = memory.get(baseUrl)
          if (known !== undefined && (yield* Clock.currentTimeMillis) - known.at < hour) return known.models
          return yield* asking.withPermit(ask(baseUrl, key))
        })
    }
  })

/** Both ways of asking. */
export interface Asking {
  readonly get: GetJson
  readonly post: PostJson
}

const read = (url: string) =>
(asked: Effect.Effect<HttpClientResponse.HttpClientResponse, HttpClientError>): Effect.Effect<unknown> =>
  asked.pipe(
    Effect.flatMap((response) => response.status === 200 ? response.json : Effect.succeed(undefined)),
    Effect.timeout("5 seconds"),
    Effect.catch((error) => Effect.as(Effect.logDebug(`${url}: ${error.message}`), undefined))
  )

/** A `GetJson` over an HTTP client. */
export const getJson = (client: HttpClient.HttpClient): GetJson => (url, key) =>
  client.get(url, key === undefined ? undefined : { headers: { authorization: `Bearer ${Redacted.value(key)}` } }).pipe(
    read(url)
  )

/** A `PostJson` over an HTTP client. */
export const postJson = (client: HttpClient.HttpClient): PostJson => (url, body) =>
  Effect.flatMap(
    Effect.promise(() => import("effect/http/HttpBody")),
    ({ jsonUnsafe }) => read(url)(client.post(url, { body: jsonUnsafe(body) }))
  )

const client = Effect.flatMap(
  Effect.promise(() => Promise.all([import("effect/http/FetchHttpClient"), import("effect/http/HttpClient")])),
  ([{ layer }, { HttpClient }]) => Effect.provide(HttpClient, layer)
)

/** Over `fetch`, loaded when something is asked for the first time: most starts of the program ask nothing. */
export const lazy: Effect.Effect<Asking> = Effect.map(Effect.cached(client), (client): Asking => ({
  get: (url, key) => Effect.flatMap(client, (client) => getJson(client)(url, key)),
  post: (url, body) => Effect.flatMap(client, (client) => postJson(client)(url, body))
}))
