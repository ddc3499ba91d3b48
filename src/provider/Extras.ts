/**
 * Takes `extra_body`, `extra_headers` and `extra_query` out of a provider's request: what a user or a middleware adds to
 * the wire request beyond the fields that a provider knows (`hermes-llm.md` §4.1).
 *
 * **Details**
 *
 * `extra_body` is merged into the body key by key and wins, like the option of that name in the OpenAI SDK for Python: a
 * nested object replaces the one that it meets. A header that is `null` removes the header of that name.
 *
 * **Gotchas**
 *
 * Only plain objects are taken out. Anything else under these names stays in the body, where the API rejects it by name.
 */
import * as Json from "../domain/Json.ts"
import type { ModelRequest } from "../domain/Model.ts"

/** The three parts of a request on the wire. */
export interface Extras {
  readonly body: Json.Fields
  readonly headers: Readonly<Record<string, string | null>> | undefined
  readonly query: Json.Fields | undefined
}

const headerValues = (extra: Json.Fields): Readonly<Record<string, string | null>> =>
  Object.fromEntries(
    Object.entries(extra).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, value === null ? null : String(value)]]
    )
  )

/** Splits a request into body, headers and query. A request without extras is its own body, uncopied. */
export const split = (request: ModelRequest): Extras => {
  if (!("extra_body" in request || "extra_headers" in request || "extra_query" in request)) {
    return { body: request, headers: undefined, query: undefined }
  }
  const { extra_body, extra_headers, extra_query, ...rest } = request
  // Spreading defines own properties: a `__proto__` key from JSON stays data.
  return {
    body: {
      ...rest,
      ...(Json.isFields(extra_body) ? extra_body : extra_body === undefined ? {} : { extra_body }),
      ...(Json.isFields(extra_headers) || extra_headers === undefined ? {} : { extra_headers }),
      ...(Json.isFields(extra_query) || extra_query === undefined ? {} : { extra_query })
    },
    headers: Json.isFields(extra_headers) ? headerValues(extra_headers) : undefined,
    query: Json.isFields(extra_query) ? extra_query : undefined
  }
}
