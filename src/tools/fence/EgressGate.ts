/**
 * The only gate for data that leaves this machine on behalf of a model: decides whether a host is reached, asked about
 * or refused.
 *
 * **Details**
 *
 * A host is reached without a question where
 *
 * - the policy lists it (`Policy.hosts`; `terminal.sandbox.hosts` in the program), or a rule `web(HOST)` of
 *   `permissions.allow` matches it,
 * - it was approved for the session or for good (`host: …`), whichever door asked first: a web tool, a command, a
 *   redirect; child agents, which cannot ask, have the approvals of the sessions that started them,
 * - the address is one that the user typed in this conversation: that address and no other one of its host.
 *
 * Every other host is asked about in every permission mode but `yolo`, including `plan`. If no user can be asked, it is
 * refused with one line that explains how to list it. `security.unknown_hosts: allow` opens the gate. The fences of
 * addresses (`Urls`) apply regardless of this setting.
 *
 * Doors: the addresses of `web_extract` and `vision_analyze`, every redirect that they follow, addresses that
 * `read_resource` of an MCP server is asked for, commands with `curl` and `wget` outside of a sandbox ({@link
 * HostApproval}), and every connection of a command inside of one (`SandboxNetwork`).
 *
 * Source: `ARCHITECTURE.md` §7 (approvals), `hermes-llm.md` §19.5.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { Values } from "../../base/config/Settings.ts"
import type { ToolArguments } from "../../middleware/Kind.ts"
import type { Concern } from "../approval/Question.ts"
import * as PermissionRule from "../approval/PermissionRule.ts"
import * as Toolset from "../Toolset.ts"
import * as Urls from "./Urls.ts"

/** Says how a host is listed, for a user who reads why it was refused. */
const describeRemedy = (host: string): string => `to allow it, add web(${host}) to permissions.allow`

/** The reason to ask about a host; one for all doors, so that an approval at one of them holds at the others. */
export const makeHostConcern = (host: string): Concern => ({
  key: `request to ${host}, a host that is not approved`,
  permanent: true,
  target: { kind: "host", text: host },
  remedy: describeRemedy(host)
})

/** Reasons to ask without repetitions. */
export const dropRepetitions = (concerns: ReadonlyArray<Concern>): ReadonlyArray<Concern> =>
  Array.from(new Map(concerns.map((concern) => [concern.key, concern])).values())

const parseHostPattern = (rule: string, list: PermissionRule.List) => {
  const parsed = PermissionRule.parse(rule, list)
  if (parsed._tag === "Failure" || parsed.success.tool !== "web") return undefined
  return parsed.success.pattern._tag === "Host" ? parsed.success.pattern : undefined
}

/**
 * Makes the policy of the settings. They list the hosts of `terminal.sandbox.hosts` and of the rules `web(HOST)` of
 * `permissions.allow`, but for those that a rule of `deny` or `ask` names too.
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
 * True when the policy lists a host: `example.com`, `*.example.com`, `localhost:8080`. Without a port, the standard
 * ones are meant.
 */
export const isListed = ({ hosts }: Pick<Urls.Policy, "hosts">, host: string): boolean =>
  hosts.some((listed) => {
    const pattern = parseHostPattern(`web(${listed})`, "allow")
    return pattern !== undefined && PermissionRule.isHostMatch(pattern, "allow", host)
  })

/** True when a host is reached without a question, as far as the policy decides. */
export const isOpenFor = (policy: Pick<Urls.Policy, "hosts" | "unknownHosts">, host: string): boolean =>
  policy.unknownHosts === "allow" || isListed(policy, host)

/** An address without its fragment, which is never sent; undefined for text that is not an address. */
const toCanonicalAddress = (text: string): string | undefined => {
  const url = URL.parse(text.trim())
  if (url === null || !/^https?:$/.test(url.protocol)) return undefined
  url.hash = ""
  return url.href
}

/** Longest text that is searched for addresses, and most addresses of it. */
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
 * then the list (`isListed`), earlier approvals, and the user. Absent outside a tool call; no user is asked then.
 */
export const FurtherHosts = Context.Reference<
  ((host: string, isListed: boolean) => Effect.Effect<boolean>) | undefined
>("hermes-effect/tool/fence/FurtherHosts", { defaultValue: () => undefined })

/**
 * Finds the hosts of addresses that have to be asked about. An address that the fence refuses is not: no answer would
 * change it.
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

/** Decides about a host that a request is sent on to while a call runs: listed, or approved now. */
export const admitFurtherHost = Effect.fnUntraced(function* (host: string): Effect.fn.Return<boolean> {
  const policy = yield* Urls.UrlPolicy
  const decide = yield* FurtherHosts
  const isOpen = isOpenFor(policy, host)
  return decide === undefined ? isOpen : yield* decide(host, isOpen)
})

/** Selects the addresses among the arguments of a call; none for another tool. */
export type AddressSelector = (tool: string, args: ToolArguments) => ReadonlyArray<string>

const readTexts = (value: unknown): ReadonlyArray<string> =>
  Array.isArray(value)
    ? value.filter((text): text is string => typeof text === "string")
    : typeof value === "string"
      ? [value]
      : []

/** Addresses of the built-in tools that read the web. */
export const selectWebAddresses: AddressSelector = (tool, args) =>
  tool === "web_extract" ? readTexts(args["urls"]) : tool === "vision_analyze" ? readTexts(args["image_url"]) : []

/**
 * A toolset whose tools read addresses of the web: their hosts are asked about, and those that a request is sent on to.
 */
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
