/**
 * Decides which addresses a tool may reach on behalf of a model. A URL is admitted with the addresses that its name has now; whoever
 * connects uses exactly those, so that a name that changes its mind afterwards (DNS rebinding) gains nothing, and every
 * redirect is admitted anew.
 *
 * **Details**
 *
 * http and https only, with a host. Addresses that hand out credentials of cloud machines are refused whatever is allowed.
 * Private, loopback, link-local, reserved and multicast addresses are refused unless {@link Policy.allowPrivate} says
 * otherwise; one such address among the answers of a name refuses the URL. A name that can not be resolved is refused.
 * URLs that carry a secret are refused too: what leaves in an address ends in somebody's log.
 *
 * **Example** (What a model may not reach)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Urls } from "hermes-effect"
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
import { redactText } from "../../domain/Redaction.ts"
import * as Address from "./Address.ts"
import { addressesOf } from "../../platform/Network.ts"

/** A URL that is not reached. `message` says why and what to do, for the model. */
export class UrlBlocked extends Schema.TaggedError<UrlBlocked>("hermes-effect/UrlBlocked")("UrlBlocked", {
  /** Without secrets. */
  url: Schema.String,
  reason: Schema.String
}) {
  override get message(): string {
    return `Not fetched: ${this.reason}. Use a public http(s) address, or ask the user to fetch it.`
  }
}

/** Turns a name into all its addresses. */
export interface Resolve {
  readonly resolve: (host: string) => Effect.Effect<ReadonlyArray<string>, unknown>
}

/** The port to whoever knows names; this machine, hosts file included, where nobody else is provided. */
export const Resolver = Context.Reference<Resolve>("hermes-effect/tool/fence/Resolver", { defaultValue: () => ({ resolve: addressesOf }) })

/** Rules of the operator. */
export interface Policy {
  /** `security.allow_private_urls`. */
  readonly allowPrivate: boolean
  /** Hosts that may resolve into 198.18.0.0/15, over https. */
  readonly benchmarkHosts: ReadonlyArray<string>
  /** `security.unknown_hosts`: `ask` before a host is reached that nobody approved, and follow no redirect to another one. */
  readonly unknownHosts: "allow" | "ask"
}

/** Nothing private. */
export const strict: Policy = { allowPrivate: false, benchmarkHosts: [], unknownHosts: "allow" }

/** A URL that may be reached at these addresses and no others. */
export interface Admitted {
  readonly url: URL
  readonly addresses: ReadonlyArray<string>
}

/** Decides which addresses a tool may reach on behalf of a model. */
export interface Service {
  readonly admit: (url: string) => Effect.Effect<Admitted, UrlBlocked>
  /** Admits the target of a redirect of an admitted URL; its `Location` may be relative. */
  readonly follow: (from: Admitted, location: string) => Effect.Effect<Admitted, UrlBlocked>
}

/** Addresses of one name at most. */
export const maxAddresses = 8
const resolveTimeout = Duration.seconds(10)

const metadataHosts = ["metadata.google.internal", "metadata.goog", "metadata", "instance-data", "metadata.azure.internal", "metadata.tencentyun.com"]

/** Names of parameters whose values are credentials, as third parties take them. */
const secretParameter = /^(?:api[_-]?key|access[_-]?(?:key|token)|auth(?:orization)?|client[_-]?secret|password|passwd|pwd|secret|token|id_token|refresh[_-]?token|session[_-]?(?:id|token)|private[_-]?key|x-amz-(?:signature|credential|security-token))$/i

const block = (url: string, reason: string): UrlBlocked => new UrlBlocked({ url: redactText(url).slice(0, 500), reason })

const hostOf = (url: URL): string => url.hostname.toLowerCase().replace(/(?<!\.)\.+$/, "")

/** The host of a URL, with its port where that is not the one of its scheme; what an approval for a host holds for. */
export const hostWithPort = (url: URL): string => url.port === "" ? hostOf(url) : `${hostOf(url)}:${url.port}`

/** Judges a URL by its text; gives the URL and its host when nothing is wrong. */
export const read = (text: string, policy: Policy): { readonly url: URL; readonly host: string } | UrlBlocked => {
  const trimmed = text.trim()
  if (!URL.canParse(trimmed)) return block(text, "it is not a URL with a scheme and a host")
  const url = new URL(trimmed)
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    return block(text, `the scheme ${url.protocol.slice(0, -1)} is not http or https`)
  }
  const host = hostOf(url)
  if (host === "") return block(text, "it has no host")
  if (url.username !== "" || url.password !== "") return block(text, "it carries a user name or password")
  if (Array.from(url.searchParams.keys()).some((name) => secretParameter.test(name)) || redactText(url.href) !== url.href) {
    return block(text, "it carries a secret, which would end up in the logs of others")
  }
  if (metadataHosts.includes(host)) {
    return block(text, "it is the metadata service of a cloud machine, which hands out credentials")
  }
  if (!policy.allowPrivate && (host === "localhost" || host.endsWith(".localhost"))) {
    return block(text, "localhost is a private address")
  }
  return { url, host }
}

const judge = (address: string, url: URL, host: string, policy: Policy): string | undefined => {
  switch (Address.kindOf(address)) {
    case "public":
      return undefined
    case "metadata":
      return "it leads to the metadata service of a cloud machine, which hands out credentials"
    case "benchmark":
      return policy.allowPrivate || url.protocol === "https:" && policy.benchmarkHosts.includes(host)
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
  const admit = Effect.fn("Urls.admit")(function*(text: string): Effect.fn.Return<Admitted, UrlBlocked> {
    const known = read(text, policy)
    if (known instanceof UrlBlocked) return yield* known
    const { host, url } = known
    const isLiteral = Address.kindOf(host) !== undefined
    const answers = isLiteral ? [host.replace(/^\[|\]$/g, "")] : yield* resolver.resolve(host).pipe(
      Effect.timeout(resolveTimeout),
      Effect.mapError(() => block(text, `its name ${host} cannot be resolved`))
    )
    if (answers.length === 0) return yield* block(text, `its name ${host} has no address`)
    for (const address of answers) {
      const reason = judge(address, url, host, policy)
      if (reason !== undefined) return yield* block(text, reason)
    }
    return { url, addresses: answers.slice(0, maxAddresses) }
  })
  return {
    admit,
    follow: (from, location) =>
      URL.canParse(location, from.url.href)
        ? admit(new URL(location, from.url).href)
        : Effect.fail(block(location, "it redirects to something that is no URL"))
  }
}

/** Rules of a runtime; nothing private by default. */
export const UrlPolicy = Context.Reference<Policy>("hermes-effect/tool/fence/UrlPolicy", { defaultValue: () => strict })

/** The fence by the policy and the resolver of the surroundings. */
export const fence: Effect.Effect<Service> = Effect.map(
  Effect.all([Resolver, UrlPolicy]),
  ([resolver, policy]) => make(resolver, policy)
)
