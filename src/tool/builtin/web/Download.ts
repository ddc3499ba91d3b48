/**
 * Reads one address of the web through the fence, within bounds of time and size, as bytes or as text.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Fetch from "../../fence/Fetch.ts"

/** Why one address or one search gave nothing. `message` is one line for the model. */
export class WebError extends Schema.TaggedError<WebError>("hermes-effect/tool/WebError")("WebError", {
  /** `blocked`: a rule does not let it be reached. `failed`: it could not be read. */
  reason: Schema.Literals(["blocked", "failed"]),
  message: Schema.String,
  cause: Schema.optional(Schema.Defect())
}) {}

/** An address that must not be reached. */
export const blocked = (message: string): WebError => new WebError({ reason: "blocked", message })

/** Something that could not be read. */
export const failed = (message: string, cause?: unknown): WebError =>
  new WebError({ reason: "failed", message, ...(cause === undefined ? {} : { cause }) })

/** Time for all hops together. */
const timeout = "30 seconds"
/** Bytes of a page that are read at most, after decompression. */
const maxBytes = 8 * 1024 * 1024

const headers = {
  "user-agent": "Mozilla/5.0 (compatible; hermes-effect)",
  accept: "text/html,application/xhtml+xml,text/plain;q=0.9,*/*;q=0.5",
  "accept-language": "en;q=0.8,*;q=0.5"
}

/** Content, with the address that it came from in the end. */
export interface Downloaded {
  readonly url: URL
  readonly type: string
  readonly text: string
  readonly truncated: boolean
}

/** Downloads the content of an address; only success counts. */
export const bytes = (url: string, most: number): Effect.Effect<Fetch.Fetched, WebError> =>
  Fetch.fetch(url, { headers, maxBytes: most }).pipe(
    Effect.catchTags({
      UrlBlocked: ({ message }) => Effect.fail(blocked(message)),
      TransportFailed: (error) => Effect.fail(failed(`${URL.parse(url)?.host ?? url} could not be read: ${error.message}`, error))
    }),
    Effect.filterOrFail(({ status }) => status < 400, ({ status, url }) => failed(`${url.host} answered ${status}`)),
    Effect.timeoutOrElse({
      duration: timeout,
      orElse: () => Effect.fail(failed(`no answer within ${timeout}`))
    })
  )

const charsetOf = (type: string, body: Uint8Array): string => {
  const head = new TextDecoder("latin1").decode(body.subarray(0, 2048))
  return /charset=["']?([\w-]+)/i.exec(type)?.[1] ?? /<meta[^>]+charset=["']?([\w-]+)/i.exec(head)?.[1] ?? "utf-8"
}

const decode = (type: string, body: Uint8Array): string => {
  try {
    return new TextDecoder(charsetOf(type, body)).decode(body)
  } catch {
    // A character set that nobody knows.
    return new TextDecoder().decode(body)
  }
}

const isText = (type: string): boolean =>
  type === "" || /^text\/|[/+](?:json|xml|javascript|yaml)\b|^application\/(?:xhtml|x-yaml|toml)/.test(type)

/** A text. */
export const read = Effect.fnUntraced(function*(address: string): Effect.fn.Return<Downloaded, WebError> {
  const { body, headers, truncated, url } = yield* bytes(address, maxBytes)
  const type = (headers["content-type"] ?? "").toLowerCase()
  if (!isText(type)) return yield* failed(`this is ${type.split(";")[0]}, not text: download it with the terminal if it is needed`)
  return { url, type, text: decode(type, body), truncated }
})
