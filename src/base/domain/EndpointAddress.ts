/**
 * Parses, compares and classifies addresses of model endpoints. Pure.
 *
 * **Gotchas**
 *
 * Tests of an address must compare its host, never a substring of the URL.
 *
 * Source: `hermes-llm.md` §2.2, §2.3, §2.5.
 */

/** A parsed address. `host` and `path` are empty for text that is not a URL. */
export interface Address {
  readonly baseUrl: string | undefined
  readonly host: string
  /** Path in lower case, without a trailing slash. */
  readonly path: string
  readonly query: Readonly<Record<string, string>> | undefined
}

const withoutTrailingSlash = (text: string): string => {
  let end = text.length
  while (end > 0 && text[end - 1] === "/") end--
  return text.slice(0, end)
}

/** Parses a base URL; see {@link Address}. */
export const parseAddress = (baseUrl: string | undefined): Address => {
  const text = baseUrl?.trim() ?? ""
  if (text === "") return { baseUrl: undefined, host: "", path: "", query: undefined }
  const url = URL.parse(text)
  if (url === null) return { baseUrl: withoutTrailingSlash(text), host: "", path: "", query: undefined }
  const query = Object.fromEntries(url.searchParams)
  const path = withoutTrailingSlash(url.pathname)
  url.search = ""
  url.hash = ""
  return {
    baseUrl: withoutTrailingSlash(url.href),
    host: url.hostname,
    path: path.toLowerCase(),
    query: Object.keys(query).length === 0 ? undefined : query
  }
}

/** Tests whether `host` is `domain` or one of its subdomains. */
export const isUnder = (host: string, domain: string): boolean => host === domain || host.endsWith(`.${domain}`)

const localSuffixes = ["docker.internal", "containers.internal", "lima.internal", "localhost"]

const isPrivateAddress = (host: string): boolean => {
  const octets = host.split(".").map(Number)
  if (octets.length !== 4 || octets.some((octet) => !Number.isInteger(octet))) return false
  const [a = 0, b = 0] = octets
  return (
    a === 10 || a === 127 || (a === 172 && b >= 16 && b <= 31) || (a === 192 && b === 168) || (a === 169 && b === 254)
  )
}

/** Tests whether a host belongs to this machine, to its containers or to a private network (`hermes-llm.md` §2.5). */
export const isLocal = (host: string): boolean => {
  if (host === "0.0.0.0" || localSuffixes.some((suffix) => isUnder(host, suffix)) || isPrivateAddress(host)) return true
  if (!host.startsWith("[")) return false
  const v6 = host.slice(1, -1)
  return v6 === "::1" || v6.startsWith("fe80:") || v6.startsWith("fc") || v6.startsWith("fd")
}

/** Returns the canonical form of an address for comparison: parsed, without a trailing slash, with its query. */
export const normalizeAddress = (baseUrl: string): string => {
  const { baseUrl: bare = "", query } = parseAddress(baseUrl)
  return query === undefined ? bare : `${bare}?${new URLSearchParams(query).toString()}`
}

/**
 * Returns the scheme, host and port of an address, which identify one server; `undefined` for text that is not a URL.
 */
export const readOrigin = (baseUrl: string | undefined): string | undefined => URL.parse(baseUrl?.trim() ?? "")?.origin
