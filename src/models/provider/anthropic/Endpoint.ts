/**
 * Differences between endpoints of the Messages API: Anthropic itself, and others that speak its protocol. Keys,
 * headers, model and tool names depend on it.
 *
 * **Details**
 *
 * Hosts are compared, never substrings of a URL. A key travels as the host wants it: as `x-api-key`, or as a bearer
 * token to MiniMax. A subscription token is one by its shape, and only for the provider `anthropic` at Anthropic's
 * host: no identity of Anthropic's own client is ever shown to anybody else (`hermes-llm.md` §2.3).
 *
 * The version header is `2023-06-01`, the one that gateways speak and that knows `temperature`; the younger one of the
 * SDK refuses it for every model. A route's own headers win over all of these.
 *
 * Anthropic serves a subscription token to its own client only, so that the system prompt begins with that client's
 * identity, product names in it are replaced, and tool names carry the prefix that the client adds to third-party
 * tools. Answers are translated back. Every tool gets the prefix, even one that already begins with it
 * (`mcp_github_search` is sent as `mcp_mcp_github_search`), so that the reverse translation is exact. A name without it
 * is left unchanged.
 *
 * Source: `hermes-llm.md` §4.2.
 */
import * as Redacted from "effect/Redacted"
import type { Route } from "../../../base/domain/Route.ts"

// Endpoints

/** Ways for the key to travel. `subscription` is a bearer token with the identity of Anthropic's own client. */
type Auth = "none" | "key" | "bearer" | "subscription"

/** An address of the Messages API and the properties derived from it. */
export interface Endpoint {
  /** True if Anthropic itself answers. */
  readonly native: boolean
  readonly auth: Auth
  /** Model id as this endpoint writes it. */
  readonly model: string
  /** The address that `/v1/messages` is appended to. */
  readonly baseUrl: string
}

/** Anthropic's own address. */
const defaultBaseUrl = "https://api.anthropic.com"

/** Betas that every request asks for. */
const betas: ReadonlyArray<string> = ["interleaved-thinking-2025-05-14", "fine-grained-tool-streaming-2025-05-14"]
/** The one that makes tool calls fail where keys are bearer tokens. */
const fineGrained = "fine-grained-tool-streaming-2025-05-14"
/** Betas that a subscription token needs besides. */
const subscriptionBetas: ReadonlyArray<string> = ["claude-code-20250219", "oauth-2025-04-20"]
/** For `speed: fast`, at Anthropic only. */
export const fastBeta = "fast-mode-2026-02-01"
/** For `context_management`, at Anthropic only. */
export const editsBeta = "context-management-2025-06-27"

const subscriptionHeaders = { "user-agent": "claude-cli/2.1.74 (external, cli)", "x-app": "cli" }

interface Family {
  readonly providers: ReadonlyArray<string>
  readonly hosts: ReadonlyArray<string>
}

const minimax: Family = { providers: ["minimax", "minimax-cn"], hosts: ["minimax.io", "minimaxi.com"] }
/** Endpoints whose model names have dots. */
const dotted: ReadonlyArray<Family> = [
  minimax,
  { providers: ["alibaba"], hosts: ["aliyuncs.com"] },
  { providers: ["zai"], hosts: ["z.ai", "bigmodel.cn"] },
  { providers: ["xiaomi"], hosts: ["xiaomimimo.com"] },
  { providers: ["bedrock"], hosts: ["amazonaws.com"] }
]
/** Dots stay, except in Claude's names. */
const dottedButClaude: Family = { providers: ["opencode", "opencode-zen", "opencode-go"], hosts: ["opencode.ai"] }

const isWithin = (host: string, domain: string): boolean => host === domain || host.endsWith(`.${domain}`)

const belongsToFamily = (family: Family, provider: string, host: string): boolean =>
  family.providers.includes(provider) || family.hosts.some((domain) => isWithin(host, domain))

/** Tests whether a secret is a token of a subscription: `sk-ant-…` other than `sk-ant-api…`, or a JWT. */
const isSubscription = (secret: string): boolean =>
  (secret.startsWith("sk-ant-") && !secret.startsWith("sk-ant-api")) || secret.startsWith("eyJ")

const readSecret = (route: Route): string => (route.apiKey === undefined ? "" : Redacted.value(route.apiKey).trim())

const chooseAuth = (route: Route, provider: string, host: string, native: boolean): Auth => {
  const secret = readSecret(route)
  if (secret === "") return "none"
  if (belongsToFamily(minimax, provider, host)) return "bearer"
  return native && provider === "anthropic" && isSubscription(secret) ? "subscription" : "key"
}

const toModelId = (model: string, provider: string, host: string): string => {
  const bare = model.startsWith("anthropic/") ? model.slice("anthropic/".length) : model
  const keeps =
    dotted.some((family) => belongsToFamily(family, provider, host)) ||
    (belongsToFamily(dottedButClaude, provider, host) && !bare.toLowerCase().includes("claude"))
  return keeps ? bare : bare.replaceAll(".", "-")
}

/** The endpoint of a route. */
export const fromRoute = (route: Route): Endpoint => {
  const provider = route.provider.trim().toLowerCase()
  const baseUrl = (route.baseUrl ?? defaultBaseUrl).replace(/\/+$/, "").replace(/\/v1$/, "")
  const host = URL.parse(baseUrl)?.hostname ?? ""
  const native = isWithin(host, "anthropic.com")
  return {
    native,
    auth: chooseAuth(route, provider, host, native),
    model: toModelId(route.model, provider, host),
    baseUrl
  }
}

// Headers

/** Comma-separated names in their order, each once. */
export const joinBetas = (...lists: ReadonlyArray<string | undefined>): string => {
  const names = lists.flatMap((list) => list?.split(",") ?? []).map((name) => name.trim())
  return [...new Set(names.filter((name) => name !== ""))].join(",")
}

/** Lists the betas of an endpoint, which precede the betas in the route's own headers. */
export const listBetas = (endpoint: Endpoint): ReadonlyArray<string> => {
  switch (endpoint.auth) {
    case "bearer":
      return betas.filter((beta) => beta !== fineGrained)
    case "subscription":
      return [...betas, ...subscriptionBetas]
    default:
      return betas
  }
}

/** Headers of every request to a route; `null` prevents the SDK from sending its own. */
export const makeHeaders = (route: Route, endpoint: Endpoint): Record<string, string | null> => {
  const own = Object.fromEntries(
    Object.entries(route.headers ?? {}).map(([name, value]) => [name.toLowerCase(), value])
  )
  const secret = readSecret(route)
  const bearer = endpoint.auth === "bearer" || endpoint.auth === "subscription"
  return {
    "anthropic-version": "2023-06-01",
    authorization: bearer ? `Bearer ${secret}` : null,
    "x-api-key": endpoint.auth === "key" ? secret : null,
    ...(endpoint.auth === "subscription" ? subscriptionHeaders : {}),
    ...own,
    "anthropic-beta": joinBetas(listBetas(endpoint).join(","), own["anthropic-beta"])
  }
}

// Subscription tokens

/** First block of the system prompt. */
export const identity = "You are Claude Code, Anthropic's official CLI for Claude."

const toolPrefix = "mcp_"

const productNames: ReadonlyArray<readonly [from: string, to: string]> = [
  ["Hermes Agent", "Claude Code"],
  ["Hermes agent", "Claude Code"],
  ["hermes-agent", "claude-code"],
  ["Nous Research", "Anthropic"]
]

/** The system text with the product names that the token's client has. */
export const rewriteSystemText = (text: string): string =>
  productNames.reduce((out, [from, to]) => out.replaceAll(from, to), text)

const addToolPrefix = (name: string): string => toolPrefix + name

const removeToolPrefix = (name: string): string => (name.startsWith(toolPrefix) ? name.slice(toolPrefix.length) : name)

/** Translates the names of tools. */
export interface ToolNames {
  /** A tool's name on the wire. */
  readonly toWire: (name: string) => string
  /** A tool's own name, from the one on the wire. */
  readonly fromWire: (wireName: string) => string
}

const asIs = (name: string): string => name

/** Names that are the same on both sides. */
export const sameNames: ToolNames = { toWire: asIs, fromWire: asIs }

/** The names of tools at an endpoint. */
export const makeToolNames = ({ auth }: Endpoint): ToolNames =>
  auth === "subscription" ? { toWire: addToolPrefix, fromWire: removeToolPrefix } : sameNames
