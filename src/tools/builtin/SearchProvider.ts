/**
 * The port for a search engine, and the supported engines, each of which needs an API key.
 *
 * **Example** (A custom search engine)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { SearchProvider } from "hermes-effect/tools/web"
 *
 * const intranet: SearchProvider.SearchProvider = {
 *   name: "intranet",
 *   search: (query, limit) =>
 *     Effect.succeed([{ title: query, url: "https://wiki.example.com/", description: "" }].slice(0, limit))
 * }
 *
 * console.log((await Effect.runPromise(intranet.search("holidays", 5))).length)
 * // => 1
 * ```
 *
 * Source: `hermes-product.md` §2.3.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Json from "../../base/domain/Json.ts"
import * as TextCut from "../../base/domain/TextCut.ts"
import * as Fetch from "../fence/Fetch.ts"
import { makeBlockedError, makeFailedError, type WebError } from "../fence/Fetch.ts"
import * as Urls from "../fence/Urls.ts"

/** One search result. */
export interface SearchHit {
  readonly title: string
  readonly url: string
  readonly description: string
}

/** The port for a search engine. */
export interface SearchProvider {
  readonly name: string
  readonly search: (query: string, limit: number) => Effect.Effect<ReadonlyArray<SearchHit>, WebError>
}

/** The search engine of a runtime, or `undefined` if no engine has a key. */
export const WebSearch = Context.Reference<SearchProvider | undefined>("hermes-effect/tool/WebSearch", {
  defaultValue: () => undefined
})

/** Builds the requests and parses the answers of one engine. Pure. */
interface Engine {
  readonly variable: string
  readonly address: string
  readonly ask: (
    query: string,
    limit: number,
    key: string
  ) => { readonly path: string; readonly headers: Readonly<Record<string, string>>; readonly body?: unknown }
  readonly results: (body: unknown) => Option.Option<ReadonlyArray<SearchHit>>
}

const optional = Schema.optionalKey(Schema.NullOr(Schema.String))

const stripMarkup = (text: string | null | undefined): string =>
  (text ?? "")
    .replaceAll(/<[^<>]+>/g, "")
    .replaceAll(/\s+/g, " ")
    .trim()

const titleChars = 300
const descriptionChars = 1_000

/** Long texts from an engine are shortened, because `web_extract` reads the page itself. */
const shortenResult = ({ description, title, url }: SearchHit): SearchHit => ({
  title: TextCut.takeHead(title, titleChars),
  url,
  description: TextCut.takeHead(description, descriptionChars)
})

/** Returns true for a result whose address can be read. */
const isWeb = ({ url }: SearchHit): boolean => url.length <= 2_000 && /^https?:\/\//i.test(url)

const makeReader = <A>(schema: Schema.Codec<A, unknown>, found: (body: A) => ReadonlyArray<SearchHit>) => {
  const decode = Schema.decodeUnknownOption(schema)
  return (body: unknown) => Option.map(decode(body), found)
}

const engines: Readonly<Record<string, Engine>> = {
  tavily: {
    variable: "TAVILY_API_KEY",
    address: "https://api.tavily.com",
    ask: (query, limit, key) => ({
      path: "/search",
      headers: { authorization: `Bearer ${key}` },
      body: { query, max_results: limit }
    }),
    results: makeReader(
      Schema.Struct({
        results: Schema.Array(Schema.Struct({ title: optional, url: Schema.String, content: optional }))
      }),
      ({ results }) =>
        results.map(({ content, title, url }) => ({
          title: stripMarkup(title),
          url,
          description: stripMarkup(content)
        }))
    )
  },
  exa: {
    variable: "EXA_API_KEY",
    address: "https://api.exa.ai",
    ask: (query, limit, key) => ({
      path: "/search",
      headers: { "x-api-key": key },
      body: { query, numResults: limit, contents: { text: { maxCharacters: 500 } } }
    }),
    results: makeReader(
      Schema.Struct({ results: Schema.Array(Schema.Struct({ title: optional, url: Schema.String, text: optional })) }),
      ({ results }) =>
        results.map(({ text, title, url }) => ({ title: stripMarkup(title), url, description: stripMarkup(text) }))
    )
  },
  brave: {
    variable: "BRAVE_API_KEY",
    address: "https://api.search.brave.com",
    ask: (query, limit, key) => ({
      path: `/res/v1/web/search?q=${encodeURIComponent(query)}&count=${limit}`,
      headers: { "x-subscription-token": key, accept: "application/json" }
    }),
    results: makeReader(
      Schema.Struct({
        web: Schema.optionalKey(
          Schema.Struct({
            results: Schema.Array(Schema.Struct({ title: optional, url: Schema.String, description: optional }))
          })
        )
      }),
      ({ web }) =>
        (web?.results ?? []).map(({ description, title, url }) => ({
          title: stripMarkup(title),
          url,
          description: stripMarkup(description)
        }))
    )
  }
}

const maxBytes = 2 * 1024 * 1024
const timeout = "20 seconds"

const toRefusalError = (name: string, variable: string, status: number): WebError => {
  if (status === 401 || status === 403) return makeFailedError(`${name} refuses the key: correct ${variable}`)
  if (status === 429) return makeFailedError(`${name} rate limit reached: wait, or continue without searching`)
  return makeFailedError(`${name} answered ${status}`)
}

const make = (name: string, engine: Engine, key: Redacted.Redacted, address: string): SearchProvider => ({
  name,
  search: Effect.fnUntraced(
    function* (query, limit) {
      const { body, headers, path } = engine.ask(query, limit, Redacted.value(key))
      // The address comes from the user or from this program, not from the model, so it may be private.
      const urls = Urls.make(yield* Urls.Resolver, { ...Urls.strict, allowPrivate: true })
      const { addresses } = yield* Effect.mapError(urls.admit(address), ({ message }) => makeBlockedError(message))
      const transport = yield* Fetch.Transport
      const answer = yield* transport
        .send(
          { addresses, url: new URL(path, address) },
          {
            maxBytes,
            headers: { ...headers, ...(body === undefined ? {} : { "content-type": "application/json" }) },
            ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) })
          }
        )
        .pipe(Effect.mapError((error) => makeFailedError(`${name} could not be asked: ${error.message}`, error)))
      if (answer.status !== 200) return yield* toRefusalError(name, engine.variable, answer.status)
      const found = Option.flatMap(Json.parse(new TextDecoder().decode(answer.body)), engine.results)
      return yield* Option.match(found, {
        onNone: () => Effect.fail(makeFailedError(`${name} answered something that is no search result`)),
        onSome: (results) => Effect.succeed(results.filter(isWeb).slice(0, limit).map(shortenResult))
      })
    },
    (effect) =>
      Effect.timeoutOrElse(effect, {
        duration: timeout,
        orElse: () => Effect.fail(makeFailedError(`${name} did not answer within ${timeout}`))
      })
  )
})

/**
 * Returns the first engine with a key in the environment: Tavily, Exa, Brave. `<NAME>_BASE_URL` overrides its address.
 */
export const fromEnvironment = (get: (variable: string) => string | undefined): SearchProvider | undefined => {
  for (const [name, engine] of Object.entries(engines)) {
    const key = get(engine.variable)
    if (key !== undefined && key.trim() !== "") {
      return make(name, engine, Redacted.make(key.trim()), get(`${name.toUpperCase()}_BASE_URL`) ?? engine.address)
    }
  }
  return undefined
}
