/**
 * Whether an address that a model made up may be reached, and by which network addresses.
 *
 * **Details**
 *
 * Only http and https. Names of cloud metadata services and link-local addresses are never reached. Otherwise the name is
 * looked up, and one address that is not public blocks it, unless private ones are allowed. A name that can not be looked
 * up is blocked. An address that holds a secret is refused. What is reached later is one of the addresses judged here.
 *
 * Source: `hermes-llm.md` §19.5.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Redaction from "../../../domain/Redaction.ts"
import * as WebAddress from "../internal/WebAddress.ts"
import { blocked, type WebError } from "./WebError.ts"

/** What is allowed beyond the rules. */
export interface Allowance {
  readonly privateUrls: boolean
}

/** An address that may be reached. */
export interface Judged {
  readonly url: URL
  readonly addresses: ReadonlyArray<string>
}

const maxAddresses = 8
const metadataHosts = new Set(["metadata.google.internal", "metadata.goog"])

const hostOf = (url: URL): string => url.hostname.toLowerCase().replace(/^\[|\]$/g, "").replace(/\.$/, "")

/** See the module. */
export const judge = Effect.fnUntraced(function*(
  text: string,
  { privateUrls }: Allowance
): Effect.fn.Return<Judged, WebError> {
  if (!URL.canParse(text)) return yield* blocked("this is no URL: it must look like https://host/path")
  const url = new URL(text)
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    return yield* blocked(`only http and https addresses can be read, not ${url.protocol}`)
  }
  const host = hostOf(url)
  if (host === "") return yield* blocked("the URL has no host")
  if (metadataHosts.has(host)) return yield* blocked(`${host} is a metadata service, which is never read`)
  if (Redaction.redactText(decodeURIComponentSafely(url.href)) !== decodeURIComponentSafely(url.href)) {
    return yield* blocked("the URL holds a secret, which must not be sent anywhere")
  }
  const addresses = yield* Effect.tryPromise({
    try: () => WebAddress.addressesOf(host),
    catch: () => blocked(`${host} can not be looked up`)
  })
  const kinds = addresses.map(WebAddress.kindOf)
  if (addresses.length === 0) return yield* blocked(`${host} has no address`)
  if (kinds.includes("forbidden")) return yield* blocked(`${host} is an address that is never read`)
  if (kinds.includes("private") && !privateUrls) {
    return yield* blocked(`${host} is a private or internal address (security.allow_private_urls would allow it)`)
  }
  return { url, addresses: addresses.slice(0, maxAddresses) }
})

const decodeURIComponentSafely = (text: string): string => {
  try {
    return decodeURIComponent(text)
  } catch {
    // Percent signs that mean nothing: the text is judged as it is.
    return text
  }
}
