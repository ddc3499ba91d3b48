/**
 * The only gate for data that leaves this machine on behalf of a model. It decides whether a host may be reached,
 * requires a question or is refused.
 *
 * **Details**
 *
 * A host is reached without a question if
 *
 * - the policy lists it (`Policy.hosts`; `terminal.sandbox.hosts` in the program), or a rule `web(HOST)` of
 *   `permissions.allow` matches it,
 * - it was approved for the session or permanently (`host: …`), regardless of which entry point asked: a web tool, a
 *   command, a redirect; child agents, which cannot ask, have the approvals of the sessions that started them,
 * - the user typed the address in this conversation; other addresses of its host are not included.
 *
 * Every other host leads to a question in every permission mode except `yolo`, including `plan`. If no user can be
 * asked, it is refused with one line that explains how to list it. `security.unknown_hosts: allow` opens the gate. The
 * address checks (`Urls`) apply regardless of this setting.
 *
 * Entry points are the addresses of `web_extract` and `vision_analyze`, every redirect that they follow, addresses
 * requested from `read_resource` of an MCP server, commands with `curl` and `wget` outside a sandbox
 * ({@link HostApproval}), and every connection of a command inside a sandbox (`SandboxNetwork`).
 *
 * Source: `ARCHITECTURE.md` §7 (approvals), `hermes-llm.md` §19.5.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { Values } from "../../base/config/Settings.ts"
import type { ToolArguments } from "../../middleware/Kind.ts"
import type { Concern } from "../approval/ApprovalRequest.ts"
import * as PermissionRule from "../approval/PermissionRule.ts"
import * as Toolset from "../Toolset.ts"
import * as Urls from "./Urls.ts"

/** Describes how to list a host, for a user who reads why it was refused. */
const describeRemedy = (host: string): string => `to allow it, add web(${host}) to permissions.allow`

/**
 * Creates the reason to ask about a host. All entry points share it, so that an approval at one of them applies to the
 * others.
 */
export const makeHostConcern = (host: string): Concern => ({
  key: `request to ${host}, a host that is not approved`,
  permanent: true,
  target: { kind: "host", text: host },
  remedy: describeRemedy(host)
})

/** Removes repeated reasons to ask. */
export const dropRepetitions = (concerns: ReadonlyArray<Concern>): ReadonlyArray<Concern> =>
  Array.from(new Map(concerns.map((concern) => [concern.key, concern])).values())

const parseHostPattern = (rule: string, list: PermissionRule.List) => {
  const parsed = PermissionRule.parse(rule, list)
  if (parsed._tag === "Failure" || parsed.success.tool !== "web") return undefined
  return parsed.success.pattern._tag === "Host" ? parsed.success.pattern : undefined
}

/**
 * Creates the policy of the settings. The policy lists the hosts of `terminal.sandbox.hosts` and of the rules
 * `web(HOST)` of `permissions.allow`, except hosts that a rule of `deny` or `ask` names too.
 */
export const policyFromSettings = ({
  permissions: { allow, ask, deny },
  security,
  terminal
}: Pick<Values, "permissions" | "security" | "terminal">): Urls.Policy => {
  const readRuleHosts = (rules: ReadonlyArray<string>): ReadonlyArray<string> =>
    rules.flatMap((rule) =>
      parseHostPattern(rule, "allow") === undefined ? [] : [rule.trim().slice("web(".length, -1).trim()]
    )
  const excluded = new Set(readRuleHosts([...ask, ...deny]))
  return {
    ...Urls.strict,
    allowPrivate: security.allowPrivateUrls,
    unknownHosts: security.unknownHosts,
    hosts: [...terminal.sandbox.hosts, ...readRuleHosts(allow)].filter((host) => !excluded.has(host))
  }
}

/**
 * Returns true if the policy lists a host: `example.com`, `*.example.com`, `localhost:8080`. An entry without a port
 * covers the standard ports.
 */
export const isListed = ({ hosts }: Pick<Urls.Policy, "hosts">, host: string): boolean =>
  hosts.some((listed) => {
    const pattern = parseHostPattern(`web(${listed})`, "allow")
    return pattern !== undefined && PermissionRule.isHostMatch(pattern, "allow", host)
  })

/** Returns true if the policy allows a host without a question. */
export const isOpenFor = (policy: Pick<Urls.Policy, "hosts" | "unknownHosts">, host: string): boolean =>
  policy.unknownHosts === "allow" || isListed(policy, host)

/** Returns an address without its fragment, which is never sent; `undefined` for text that is not an address. */
const toCanonicalAddress = (text: string): string | undefined => {
  const url = URL.parse(text.trim())
  if (url === null || !/^https?:$/.test(url.protocol)) return undefined
  url.hash = ""
  return url.href
}

/** Maximum length of a text that is searched for addresses, and maximum number of addresses found in it. */
const [maxTyped, maxAddresses] = [200_000, 500]

/** Finds the addresses in a text that the user typed, each without the punctuation of its sentence. */
export const findAddresses = (text: string): ReadonlyArray<string> =>
  (text.slice(0, maxTyped).match(/\bhttps?:\/\/[^\s<>"'`]{1,2000}/gi) ?? []).slice(0, maxAddresses).flatMap((found) => {
    const bare = found.replace(/[.,;:!?*_)\]}]+$/, "")
    return [found, bare].flatMap((address) => toCanonicalAddress(address) ?? [])
  })

/**
 * Addresses that the user typed in this conversation, in canonical form. The code that receives the user's messages
 * provides them; a model cannot add to them.
 */
export const TypedAddresses = Context.Reference<ReadonlySet<string>>("hermes-effect/tool/fence/TypedAddresses", {
  defaultValue: () => new Set()
})

/**
 * Decides whether the current tool call may reach a host that its arguments do not name: rules of `permissions` first,
 * then the list (`isListed`), earlier approvals, and the user. `undefined` outside a tool call: no user is asked then.
 */
export const FurtherHosts = Context.Reference<
  ((host: string, isListed: boolean) => Effect.Effect<boolean>) | undefined
>("hermes-effect/tool/fence/FurtherHosts", { defaultValue: () => undefined })

/**
 * Finds the hosts of addresses that require a question. An address that the address checks refuse requires none,
 * because no answer could allow it.
 */
export const findConcerns = (
  addresses: ReadonlyArray<string>,
  policy: Urls.Policy
): Effect.Effect<ReadonlyArray<Concern>> => {
  if (policy.unknownHosts !== "ask") return Effect.succeed([])
  return Effect.map(TypedAddresses, (typed) =>
    dropRepetitions(
      addresses.flatMap((address) => {
        const known = Urls.read(address, policy)
        if (known instanceof Urls.UrlBlocked) return []
        const host = Urls.formatHost(known.url)
        const isTyped = typed.has(toCanonicalAddress(address) ?? "")
        return isTyped || isListed(policy, host) ? [] : [makeHostConcern(host)]
      })
    )
  )
}

/** Decides about a host that a request is redirected to during a call: it must be listed or approved now. */
export const admitFurtherHost = Effect.fnUntraced(function* (host: string): Effect.fn.Return<boolean> {
  const policy = yield* Urls.UrlPolicy
  const decide = yield* FurtherHosts
  const isOpen = isOpenFor(policy, host)
  return decide === undefined ? isOpen : yield* decide(host, isOpen)
})

/** Selects the addresses among the arguments of a call; returns an empty list for another tool. */
export type AddressSelector = (tool: string, args: ToolArguments) => ReadonlyArray<string>

const readTexts = (value: unknown): ReadonlyArray<string> =>
  Array.isArray(value)
    ? value.filter((text): text is string => typeof text === "string")
    : typeof value === "string"
      ? [value]
      : []

/** Selects the addresses of the built-in tools that read the web. */
export const selectWebAddresses: AddressSelector = (tool, args) =>
  tool === "web_extract" ? readTexts(args["urls"]) : tool === "vision_analyze" ? readTexts(args["image_url"]) : []

/** Returns a toolset whose tools ask about the hosts of web addresses, including the hosts of redirects. */
export const guardAddresses = <E, R>(
  toolset: Toolset.Toolset<E, R>,
  select: AddressSelector = selectWebAddresses
): Toolset.Toolset<E, R> => {
  const guarded = Toolset.withConcerns(
    toolset,
    Effect.map(Urls.UrlPolicy, (policy) => (tool, args) => findConcerns(select(tool, args), policy))
  )
  return {
    ...guarded,
    bind: Effect.map(guarded.bind, (tools) => tools.map((bound) => ({ ...bound, mayBeSentOn: true })))
  }
}
