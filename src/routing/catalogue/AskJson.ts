/**
 * Asks for JSON over an HTTP client, where an answer is welcome and never needed.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as HttpBody from "effect/http/HttpBody"
import type * as HttpClient from "effect/http/HttpClient"
import type { HttpClientError } from "effect/http/HttpClientError"
import type * as HttpClientResponse from "effect/http/HttpClientResponse"
import type { GetJson, PostJson } from "./ModelLists.ts"

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
  client.post(url, { body: HttpBody.jsonUnsafe(body) }).pipe(read(url))
