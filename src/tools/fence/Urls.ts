/**
 * Decides which addresses a tool may reach on behalf of a model. A URL is admitted together with the addresses that its
 * name currently resolves to. The client connects to exactly those addresses, so that a later change of the name (DNS
 * rebinding) has no effect, and every redirect is admitted again.
 *
 * **Details**
 *
 * Only http and https URLs with a host are admitted. Addresses that provide credentials of cloud machines are always
 * refused. Private, loopback, link-local, reserved and multicast addresses are refused unless
 * {@link Policy.allowPrivate} allows them; one such address among the answers for a name refuses the URL. A name that
 * cannot be resolved is refused. URLs that contain a secret, even encoded, are refused too (`UrlSecrets`), because
 * servers log the addresses they receive. `EgressGate` decides which of the remaining hosts need an approval.
 *
 * **Example** (Addresses that a model may not reach)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Urls } from "hermes-effect/tools/web"
 *
 * const fence = Urls.make({ resolve: () => Effect.succeed(["127.0.0.1"]) })
 *
 * console.log(await Effect.runPromise(Effect.match(fence.admit("http://innocent.example.com/"), {
 *   onFailure: ({ _tag }) => _tag,
 *   onSuccess: ({ addresses }) => addresses
 * })))
 * // => UrlBlocked
 * ```
 *
 * Source: `hermes-llm.md` §19.5, `ARCHITECTURE.md` §4 (fences judge the final arguments).
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { redactText } from "../../base/domain/Redaction.ts"
import { resolveAddresses } from "../../base/platform/Network.ts"
import * as UrlSecrets from "./UrlSecrets.ts"

// Classifies the machine behind an IP address in any notation: decimal, octal and hexadecimal IPv4, short forms, IPv6
// with an embedded IPv4 address.
//
// Source: `hermes-llm.md` §19.5.

/**
 * Kind of an address. `metadata` provides credentials and is never reached; `private` may be allowed; `benchmark` is
 * 198.18.0.0/15.
 */
export type AddressKind = "public" | "private" | "benchmark" | "metadata"

type Bytes = ReadonlyArray<number>

const parseNumber = (text: string): number | undefined => {
  if (/^0x[0-9a-f]{1,8}$/i.test(text)) return Number.parseInt(text.slice(2), 16)
  if (/^0[0-7]{1,11}$/.test(text)) return Number.parseInt(text, 8)
  return /^(?:0|[1-9]\d{0,9})$/.test(text) ? Number(text) : undefined
}

/** Returns the four bytes of an IPv4 address in any notation that systems accept. */
export const parseIpv4 = (text: string): Bytes | undefined => {
  const parts = text.split(".").map(parseNumber)
  if (parts.length > 4 || parts.some((part) => part === undefined)) return undefined
  const values = parts.filter((part) => part !== undefined)
  const last = values.at(-1) ?? 0
  const first = values.slice(0, -1)
  if (first.some((part) => part > 255) || last >= 256 ** (5 - values.length)) return undefined
  const rest = Array.from(
    { length: 5 - values.length },
    (_, index) => Math.floor(last / 256 ** (4 - values.length - index)) % 256
  )
  return [...first, ...rest]
}

/** Returns the sixteen bytes of an IPv6 address without its zone. */
export const parseIpv6 = (text: string): Bytes | undefined => {
  const address = text.replace(/%.*$/s, "")
  if (address.length > 64 || !address.includes(":")) return undefined
  const halves = address.split("::")
  if (halves.length > 2) return undefined
  const parseGroups = (half: string | undefined): Bytes | undefined => {
    if (half === undefined || half === "") return []
    const out: Array<number> = []
    const parts = half.split(":")
    for (const [index, part] of parts.entries()) {
      if (part.includes(".") && index === parts.length - 1) {
        const embedded = /^\d{1,3}(?:\.\d{1,3}){3}$/.test(part) ? parseIpv4(part.replace(/\b0+(?=\d)/g, "")) : undefined
        if (embedded === undefined) return undefined
        out.push(...embedded)
      } else if (/^[0-9a-f]{1,4}$/i.test(part)) {
        const value = Number.parseInt(part, 16)
        out.push(value >> 8, value & 0xff)
      } else return undefined
    }
    return out
  }
  const head = parseGroups(halves[0])
  const tail = parseGroups(halves[1])
  if (head === undefined || tail === undefined) return undefined
  const missing = 16 - head.length - tail.length
  if (halves.length === 1 ? missing !== 0 : missing < 2) return undefined
  return [...head, ...Array.from({ length: missing }, () => 0), ...tail]
}

/** Special ranges of IPv4, in the notation of CIDR. The first range that contains an address decides. */
const ipv4Ranges: ReadonlyArray<readonly [range: string, kind: AddressKind]> = [
  ["169.254.0.0/16", "metadata"],
  ["100.100.100.200/32", "metadata"],
  // The platform address of Azure, and the address of Oracle's classic machines.
  ["168.63.129.16/32", "metadata"],
  ["192.0.0.192/32", "metadata"],
  ["198.18.0.0/15", "benchmark"],
  ["0.0.0.0/8", "private"],
  ["10.0.0.0/8", "private"],
  ["100.64.0.0/10", "private"],
  ["127.0.0.0/8", "private"],
  ["172.16.0.0/12", "private"],
  ["192.0.0.0/24", "private"],
  ["192.0.2.0/24", "private"],
  ["192.88.99.0/24", "private"],
  ["192.168.0.0/16", "private"],
  ["198.51.100.0/24", "private"],
  ["203.0.113.0/24", "private"],
  // Multicast and reserved addresses.
  ["224.0.0.0/3", "private"]
]

const toNumber = (bytes: Bytes): number => bytes.reduce((sum, byte) => sum * 256 + byte, 0)

/** The ranges as numbers: an address belongs to a range if both have the same quotient. */
const ipv4Blocks = ipv4Ranges.map(([range, kind]) => {
  const [base = "", bits = "32"] = range.split("/")
  const size = 2 ** (32 - Number(bits))
  return { size, quotient: Math.floor(toNumber(base.split(".").map(Number)) / size), kind }
})

const classifyIpv4 = (bytes: Bytes): AddressKind => {
  const address = toNumber(bytes)
  return ipv4Blocks.find(({ quotient, size }) => Math.floor(address / size) === quotient)?.kind ?? "public"
}

const hasPrefix = (bytes: Bytes, ...prefix: Bytes): boolean => prefix.every((byte, index) => bytes[index] === byte)
const isZero = (bytes: Bytes, from: number, to: number): boolean => bytes.slice(from, to).every((byte) => byte === 0)

/** Returns the IPv4 address embedded in an IPv6 address: mapped, translated or tunneled. */
const findEmbeddedIpv4 = (bytes: Bytes): Bytes | undefined => {
  const low = bytes.slice(12)
  if (isZero(bytes, 0, 10) && (hasPrefix(bytes.slice(10), 0xff, 0xff) || isZero(bytes, 10, 12))) {
    // `::` and `::1` do not embed an IPv4 address.
    return isZero(bytes, 10, 15) && (bytes[15] ?? 0) < 2 ? undefined : low
  }
  if (isZero(bytes, 0, 8) && hasPrefix(bytes.slice(8), 0xff, 0xff, 0, 0)) return low
  if (hasPrefix(bytes, 0x00, 0x64, 0xff, 0x9b)) return low
  if (hasPrefix(bytes, 0x20, 0x02)) return bytes.slice(2, 6)
  // Teredo stores the complement of the client's address.
  if (hasPrefix(bytes, 0x20, 0x01, 0x00, 0x00)) return low.map((byte) => byte ^ 0xff)
  return hasPrefix(bytes.slice(8), 0x00, 0x00, 0x5e, 0xfe) || hasPrefix(bytes.slice(8), 0x02, 0x00, 0x5e, 0xfe)
    ? low
    : undefined
}

const classifyIpv6 = (bytes: Bytes): AddressKind => {
  const [a = 0, b = 0, c = 0, d = 0] = bytes
  if (hasPrefix(bytes, 0xfd, 0x00, 0x0e, 0xc2) && isZero(bytes, 4, 14) && bytes[14] === 2 && bytes[15] === 0x54)
    return "metadata"
  if (hasPrefix(bytes, 0xfd, 0x20, 0x00, 0xce) && isZero(bytes, 4, 14) && bytes[14] === 2 && bytes[15] === 0x54)
    return "metadata"
  const inner = findEmbeddedIpv4(bytes)
  if (inner !== undefined) return classifyIpv4(inner)
  // Only 2000::/3 is globally routable, and parts of it are reserved.
  const isGlobal = a >= 0x20 && a <= 0x3f
  const isReserved =
    (a === 0x20 && b === 0x01 && (c < 0x02 || (c === 0x0d && d === 0xb8))) || (a === 0x3f && b === 0xff && c < 0x10)
  return isGlobal && !isReserved ? "public" : "private"
}

/** Returns the kind of an address; `undefined` if the text is not an address. */
export const classifyAddress = (text: string): AddressKind | undefined => {
  const bare = text.startsWith("[") && text.endsWith("]") ? text.slice(1, -1) : text
  const four = bare.includes(":") ? undefined : parseIpv4(bare)
  if (four !== undefined) return classifyIpv4(four)
  const six = parseIpv6(bare)
  return six === undefined ? undefined : classifyIpv6(six)
}

/** Error raised for a URL that must not be reached. `message` states the reason and the remedy, for the model. */
export class UrlBlocked extends Schema.TaggedError<UrlBlocked>("hermes-effect/UrlBlocked")("UrlBlocked", {
  /** The URL without secrets. */
  url: Schema.String,
  reason: Schema.String
}) {
  override get message(): string {
    return `Not fetched: ${this.reason}. Use a public http(s) address, or ask the user to fetch it.`
  }
}

/** Resolves a name to all its addresses. */
export interface Resolve {
  readonly resolve: (host: string) => Effect.Effect<ReadonlyArray<string>, unknown>
}

/** Port for name resolution. The default is this machine's resolver, including its hosts file. */
export const Resolver = Context.Reference<Resolve>("hermes-effect/tool/fence/Resolver", {
  defaultValue: () => ({ resolve: resolveAddresses })
})

/** Operator's rules for addresses. */
export interface Policy {
  /** Value of `security.allow_private_urls`. */
  readonly allowPrivate: boolean
  /** Hosts that may resolve to 198.18.0.0/15, over https. */
  readonly benchmarkHosts: ReadonlyArray<string>
  /**
   * Value of `security.unknown_hosts`. With `ask`, hosts that are neither listed nor approved require a question,
   * including hosts of redirects.
   */
  readonly unknownHosts: "allow" | "ask"
  /** Hosts that may be reached without a question: `example.com`, `*.example.com`, `localhost:8080`. */
  readonly hosts: ReadonlyArray<string>
}

/** Policy that allows no private addresses and no unapproved hosts. */
export const strict: Policy = { allowPrivate: false, benchmarkHosts: [], unknownHosts: "ask", hosts: [] }

/** A URL that may be reached only at the given addresses. */
export interface AdmittedUrl {
  readonly url: URL
  readonly addresses: ReadonlyArray<string>
}

/** Decides which addresses a tool may reach on behalf of a model. */
export interface Service {
  readonly admit: (url: string) => Effect.Effect<AdmittedUrl, UrlBlocked>
  /** Admits the target of a redirect from an admitted URL; its `Location` may be relative. */
  readonly follow: (from: AdmittedUrl, location: string) => Effect.Effect<AdmittedUrl, UrlBlocked>
}

/** Maximum number of addresses of one name. */
export const maxAddresses = 8
const resolveTimeout = Duration.seconds(10)

const metadataHosts = [
  "metadata.google.internal",
  "metadata.goog",
  "metadata",
  "instance-data",
  "metadata.azure.internal",
  "metadata.tencentyun.com"
]

/** Names of parameters whose values are credentials for third-party services. */
const secretParameter = new RegExp(
  "^(?:api[_-]?key|access[_-]?(?:key|token)|auth(?:orization)?|client[_-]?secret|password|passwd|pwd|secret|token|" +
    "id_token|refresh[_-]?token|session[_-]?(?:id|token)|private[_-]?key|" +
    "x-amz-(?:signature|credential|security-token))$",
  "i"
)

const makeBlocked = (url: string, reason: string): UrlBlocked =>
  new UrlBlocked({ url: redactText(url).slice(0, 500), reason })

const readHost = (url: URL): string => url.hostname.toLowerCase().replace(/(?<!\.)\.+$/, "")

/**
 * Returns the host of a URL, with its port unless it is the default port of the scheme. An approval for a host applies
 * to this text.
 */
export const formatHost = (url: URL): string => (url.port === "" ? readHost(url) : `${readHost(url)}:${url.port}`)

/** Checks a URL by its text and returns the URL and its host if it is valid. */
export const read = (text: string, policy: Policy): { readonly url: URL; readonly host: string } | UrlBlocked => {
  const trimmed = text.trim()
  if (!URL.canParse(trimmed)) return makeBlocked(text, "it is not a URL with a scheme and a host")
  const url = new URL(trimmed)
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    return makeBlocked(text, `the scheme ${url.protocol.slice(0, -1)} is not http or https`)
  }
  const host = readHost(url)
  if (host === "") return makeBlocked(text, "it has no host")
  if (url.username !== "" || url.password !== "") return makeBlocked(text, "it carries a user name or password")
  if (
    Array.from(url.searchParams.keys()).some((name) => secretParameter.test(name)) ||
    UrlSecrets.hasSecret(trimmed, url.href)
  ) {
    return makeBlocked(text, "it carries a secret, which would end up in the logs of others")
  }
  if (metadataHosts.includes(host)) {
    return makeBlocked(text, "it is the metadata service of a cloud machine, which hands out credentials")
  }
  if (!policy.allowPrivate && (host === "localhost" || host.endsWith(".localhost"))) {
    return makeBlocked(text, "localhost is a private address")
  }
  return { url, host }
}

const judgeAddress = (address: string, url: URL, host: string, policy: Policy): string | undefined => {
  switch (classifyAddress(address)) {
    case "public":
      return undefined
    case "metadata":
      return "it leads to the metadata service of a cloud machine, which hands out credentials"
    case "benchmark":
      return policy.allowPrivate || (url.protocol === "https:" && policy.benchmarkHosts.includes(host))
        ? undefined
        : "it leads to a reserved address"
    case "private":
      return policy.allowPrivate ? undefined : "it leads to a private, local or reserved address"
    case undefined:
      return "its name resolves to something that is no address"
  }
}

/** Decides which addresses a tool may reach on behalf of a model. */
export const make = (resolver: Resolve, policy: Policy = strict): Service => {
  const admit = Effect.fn("Urls.admit")(function* (text: string): Effect.fn.Return<AdmittedUrl, UrlBlocked> {
    const known = read(text, policy)
    if (known instanceof UrlBlocked) return yield* known
    const { host, url } = known
    const isLiteral = classifyAddress(host) !== undefined
    const answers = isLiteral
      ? [host.replace(/^\[|\]$/g, "")]
      : yield* resolver.resolve(host).pipe(
          Effect.timeout(resolveTimeout),
          Effect.mapError(() => makeBlocked(text, `its name ${host} cannot be resolved`))
        )
    if (answers.length === 0) return yield* makeBlocked(text, `its name ${host} has no address`)
    for (const address of answers) {
      const reason = judgeAddress(address, url, host, policy)
      if (reason !== undefined) return yield* makeBlocked(text, reason)
    }
    return { url, addresses: answers.slice(0, maxAddresses) }
  })
  return {
    admit,
    follow: (from, location) =>
      URL.canParse(location, from.url.href)
        ? admit(new URL(location, from.url).href)
        : Effect.fail(makeBlocked(location, "it redirects to something that is no URL"))
  }
}

/** Address rules of a runtime. By default, private addresses are not allowed. */
export const UrlPolicy = Context.Reference<Policy>("hermes-effect/tool/fence/UrlPolicy", { defaultValue: () => strict })

/** Creates the address checks from the policy and the resolver in the context. */
export const fence: Effect.Effect<Service> = Effect.map(Effect.all([Resolver, UrlPolicy]), ([resolver, policy]) =>
  make(resolver, policy)
)
