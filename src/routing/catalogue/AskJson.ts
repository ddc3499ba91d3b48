/**
 * Asks for JSON over an HTTP client, where an answer is welcome and never needed.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type * as HttpClient from "effect/http/HttpClient"
import type { HttpClientError } from "effect/http/HttpClientError"
import type * as HttpClientResponse from "effect/http/HttpClientResponse"
import type { GetJson, PostJson } from "./ModelLists.ts"

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
