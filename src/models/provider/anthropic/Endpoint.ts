/**
 * Describes the differences between Anthropic and other endpoints of the Messages API. The key, headers, model name and
 * tool names depend on the endpoint.
 *
 * **Details**
 *
 * Endpoints are recognized by host, never by a substring of the URL. A key is sent as the host requires: as a bearer
 * token to MiniMax, as `x-api-key` to all others. A subscription token is recognized by its format, and only for the
 * provider `anthropic` at Anthropic's host, so the identity of Anthropic's client is never sent to another host
 * (`hermes-llm.md` §2.3).
 *
 * The version header is `2023-06-01`, which gateways support and which accepts `temperature`; the SDK's newer version
 * refuses `temperature` for every model. The headers of a route take precedence over all of these.
 *
 * Anthropic accepts a subscription token only from its own client. The system prompt therefore begins with that
 * client's identity, product names in it are replaced, and tool names have the prefix that the client adds to
 * third-party tools. Answers are translated back. Every tool gets the prefix, even one that already begins with it
 * (`mcp_github_search` is sent as `mcp_mcp_github_search`), so that the reverse translation is exact. A name in an
 * answer without the prefix is left unchanged.
 *
 * Source: `hermes-llm.md` §4.2.
 */
import * as Redacted from "effect/Redacted"
import type { Route } from "../../../base/domain/Route.ts"

// Endpoints

/** Ways to send the key. `subscription` is a bearer token with the identity of Anthropic's own client. */
type Auth = "none" | "key" | "bearer" | "subscription"

/** An address of the Messages API and the properties derived from it. */
export interface Endpoint {
  /** True if the host belongs to Anthropic. */
  readonly native: boolean
  readonly auth: Auth
  /** Model id in the spelling that this endpoint expects. */
  readonly model: string
  /** Base URL to which `/v1/messages` is appended. */
  readonly baseUrl: string
}

/** Base URL of Anthropic's API. */
const defaultBaseUrl = "https://api.anthropic.com"

/** Beta features that every request enables. */
const betas: ReadonlyArray<string> = ["interleaved-thinking-2025-05-14", "fine-grained-tool-streaming-2025-05-14"]
/** Beta feature that makes tool calls fail at endpoints with bearer tokens. */
const fineGrained = "fine-grained-tool-streaming-2025-05-14"
/** Additional beta features that a subscription token requires. */
const subscriptionBetas: ReadonlyArray<string> = ["claude-code-20250219", "oauth-2025-04-20"]
/** Beta feature for `speed: fast`, available only at Anthropic. */
export const fastBeta = "fast-mode-2026-02-01"
/** Beta feature for `context_management`, available only at Anthropic. */
export const editsBeta = "context-management-2025-06-27"

const subscriptionHeaders = { "user-agent": "claude-cli/2.1.74 (external, cli)", "x-app": "cli" }

interface Family {
  readonly providers: ReadonlyArray<string>
  readonly hosts: ReadonlyArray<string>
}

const minimax: Family = { providers: ["minimax", "minimax-cn"], hosts: ["minimax.io", "minimaxi.com"] }
/** Endpoints whose model names contain dots instead of hyphens. */
const dotted: ReadonlyArray<Family> = [
  minimax,
  { providers: ["alibaba"], hosts: ["aliyuncs.com"] },
  { providers: ["zai"], hosts: ["z.ai", "bigmodel.cn"] },
  { providers: ["xiaomi"], hosts: ["xiaomimimo.com"] },
  { providers: ["bedrock"], hosts: ["amazonaws.com"] }
]
/** Endpoints whose model names contain dots, except for Claude models. */
const dottedButClaude: Family = { providers: ["opencode", "opencode-zen", "opencode-go"], hosts: ["opencode.ai"] }

const isWithin = (host: string, domain: string): boolean => host === domain || host.endsWith(`.${domain}`)

const belongsToFamily = (family: Family, provider: string, host: string): boolean =>
  family.providers.includes(provider) || family.hosts.some((domain) => isWithin(host, domain))

/** Tests whether a secret is a subscription token: `sk-ant-…` other than `sk-ant-api…`, or a JWT. */
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

/** Returns the endpoint of a route. */
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

/** Joins lists of comma-separated names in order, without duplicates. */
export const joinBetas = (...lists: ReadonlyArray<string | undefined>): string => {
  const names = lists.flatMap((list) => list?.split(",") ?? []).map((name) => name.trim())
  return [...new Set(names.filter((name) => name !== ""))].join(",")
}

/** Lists the beta features of an endpoint. They precede the beta features in the route's own headers. */
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

/**
 * Returns the headers that are sent with every request of a route. A `null` value prevents the SDK from sending its
 * default header.
 */
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

/** First block of the system prompt if a subscription token is used. */
export const identity = "You are Claude Code, Anthropic's official CLI for Claude."

const toolPrefix = "mcp_"

const productNames: ReadonlyArray<readonly [from: string, to: string]> = [
  ["Hermes Agent", "Claude Code"],
  ["Hermes agent", "Claude Code"],
  ["hermes-agent", "claude-code"],
  ["Nous Research", "Anthropic"]
]

/** Replaces product names in the system text with the names that Anthropic's client uses. */
export const rewriteSystemText = (text: string): string =>
  productNames.reduce((out, [from, to]) => out.replaceAll(from, to), text)

const addToolPrefix = (name: string): string => toolPrefix + name

const removeToolPrefix = (name: string): string => (name.startsWith(toolPrefix) ? name.slice(toolPrefix.length) : name)

/** Translates tool names between the runtime and an endpoint. */
export interface ToolNames {
  /** Returns the name that is sent to the endpoint. */
  readonly toWire: (name: string) => string
  /** Returns the tool's original name from the name that the endpoint uses. */
  readonly fromWire: (wireName: string) => string
}

const asIs = (name: string): string => name

/** Translation that leaves tool names unchanged. */
export const sameNames: ToolNames = { toWire: asIs, fromWire: asIs }

/** Returns the translation of tool names for an endpoint. */
export const makeToolNames = ({ auth }: Endpoint): ToolNames =>
  auth === "subscription" ? { toWire: addToolPrefix, fromWire: removeToolPrefix } : sameNames
