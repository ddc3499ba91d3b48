/**
 * A route names one model of one API: its provider, protocol, address and key. Routing resolves a user's settings to
 * routes; a provider is made from exactly one.
 *
 * **Example** (Public information about a route)
 *
 * ```ts
 * import * as Redacted from "effect/Redacted"
 * import { Route } from "hermes-effect"
 *
 * const route: Route.Route = {
 *   provider: "openrouter",
 *   model: "anthropic/claude-sonnet-4.5",
 *   apiMode: "chat_completions",
 *   baseUrl: "https://openrouter.ai/api/v1",
 *   apiKey: Redacted.make("sk-or-…")
 * }
 *
 * console.log(Object.keys(Route.toInfo(route)))
 * // => [ 'provider', 'model', 'apiMode', 'baseUrl' ]
 * ```
 */
import { memoize } from "effect/Function"
import type * as Redacted from "effect/Redacted"
import type { ApiMode } from "./ApiMode.ts"

/** A guardrail of Amazon Bedrock that is applied to each call. */
export interface Guardrail {
  /** Id or ARN. */
  readonly guardrailIdentifier: string
  /** A number, or `DRAFT`. */
  readonly guardrailVersion: string
  /** `async` shows text before it is judged; counts for streamed calls. The service's default is `sync`. */
  readonly streamProcessingMode?: "sync" | "async" | undefined
  readonly trace?: "enabled" | "disabled" | "enabled_full" | undefined
}

/** One way to reach one model. Plain data; the key is `Redacted` and prints as such. */
export interface Route {
  /** Provider name as users write it: `openrouter`, `anthropic`, `custom`, … */
  readonly provider: string
  /** Model id as the API expects it. */
  readonly model: string
  readonly apiMode: ApiMode
  /** Base URL without query and trailing slash; undefined means the SDK's own default. */
  readonly baseUrl?: string | undefined
  /** Query parameters of the base URL (`api-version` of Azure), sent with every request. */
  readonly query?: Readonly<Record<string, string>> | undefined
  readonly apiKey?: Redacted.Redacted<string> | undefined
  /** Headers of this route alone; nothing of another provider may leak into them (`hermes-llm.md` §2.4). */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Fields merged into each request's `extra_body`. */
  readonly extraBody?: Readonly<Record<string, unknown>> | undefined
  /** AWS region of a Bedrock route. */
  readonly region?: string | undefined
  /** Guardrail of a Bedrock route. */
  readonly guardrail?: Guardrail | undefined
  /** Milliseconds for one whole request; 1 800 000 when absent (`hermes-llm.md` §2.5). */
  readonly requestTimeoutMillis?: number | undefined
  /** Milliseconds in which a stream has to send a byte; for ever when absent (`hermes-llm.md` §2.5). */
  readonly readTimeoutMillis?: number | undefined
  /** Abilities of the endpoint; derived by {@link abilities} when absent. */
  readonly abilities?: Partial<Abilities> | undefined
}

/** Abilities of an endpoint: properties of the route, so that no other module tests host names. */
export interface Abilities {
  /**
   * Thinking that is sent back to the model: all thinking that its protocol can express, only the thinking of the
   * current tool loop, or no thinking. Claude refuses a call's result if the thinking before the call is missing,
   * regardless of the endpoint.
   */
  readonly thinking: "all" | "tool_loop" | "none"
  /**
   * Form of the marks for the prompt cache: blocks of Anthropic's protocol, parts of chat messages, cache points of
   * Bedrock, or none where the endpoint knows no marks (it may cache by itself).
   */
  readonly cacheMarks: "native" | "envelope" | "cache_points" | "none"
  /** True if a user message may follow a tool result. Templates such as Mistral's and Gemma's refuse it. */
  readonly userAfterTool: boolean
  /**
   * Compaction of conversations by the endpoint itself: it omits old tool results from its prompt, it returns an
   * encrypted item that replaces messages, or it does neither.
   */
  readonly compaction: "edits" | "item" | "none"
}

/** The parts of a route that may be shown: no key, no headers, no query. */
export interface RouteInfo {
  readonly provider: string
  readonly model: string
  readonly apiMode: ApiMode
  readonly baseUrl: string | undefined
  /** Abilities that the route states itself. */
  readonly abilities?: Partial<Abilities> | undefined
}

/** The public half of a route. */
export const toInfo = (route: Route): RouteInfo => ({
  provider: route.provider,
  model: route.model,
  apiMode: route.apiMode,
  baseUrl: route.baseUrl,
  ...(route.abilities === undefined ? {} : { abilities: route.abilities })
})

/** A route, or the public half of one. */
type RouteIdentity = Pick<Route, "provider" | "model" | "apiMode" | "baseUrl" | "abilities">

const isAnthropic = (baseUrl: string | undefined): boolean => {
  const host = baseUrl === undefined ? "api.anthropic.com" : (URL.parse(baseUrl)?.hostname ?? "")
  return host === "anthropic.com" || host.endsWith(".anthropic.com")
}

const findThinking = ({ apiMode, baseUrl, model }: RouteIdentity): Abilities["thinking"] => {
  switch (apiMode) {
    case "anthropic_messages":
      // Other vendors' models refuse signatures that they did not write.
      return isAnthropic(baseUrl) || /claude/i.test(model) ? "tool_loop" : "none"
    case "bedrock_converse":
      return "tool_loop"
    default:
      return "all"
  }
}

const isHost = (baseUrl: string | undefined, domain: string): boolean => {
  const host = baseUrl === undefined ? "" : (URL.parse(baseUrl)?.hostname ?? "")
  return host === domain || host.endsWith(`.${domain}`)
}

const qwenProviders: ReadonlySet<string> = new Set(["opencode", "opencode-zen", "opencode-go", "alibaba"])
/** Claude models of Bedrock from before its cache points. */
const oldClaude = /claude-(?:v\d|instant|3-(?:sonnet|opus|haiku))/

/** Finds the form of cache marks (`hermes-llm.md` §7.3). */
const findCacheMarks = ({ apiMode, baseUrl, model, provider }: RouteIdentity): Abilities["cacheMarks"] => {
  const name = model.toLowerCase()
  const isNous = isHost(baseUrl, "nousresearch.com")
  switch (apiMode) {
    case "anthropic_messages":
      return provider === "anthropic" ||
        isAnthropic(baseUrl) ||
        name.includes("claude") ||
        /^minimax(?:-cn)?$/.test(provider) ||
        isHost(baseUrl, "minimax.io") ||
        isHost(baseUrl, "minimaxi.com")
        ? "native"
        : "none"
    case "bedrock_converse":
      return (name.includes("claude") && !oldClaude.test(name)) || name.includes("amazon.nova")
        ? "cache_points"
        : "none"
    case "chat_completions":
      return ((isNous || isHost(baseUrl, "openrouter.ai")) && name.includes("claude")) ||
        (isNous && name.includes("qwen")) ||
        (qwenProviders.has(provider) && name.includes("qwen"))
        ? "envelope"
        : "none"
    default:
      return "none"
  }
}

const findCompaction = ({ apiMode, baseUrl }: RouteIdentity): Abilities["compaction"] => {
  if (apiMode === "anthropic_messages" && isAnthropic(baseUrl)) return "edits"
  const isOpenAi = baseUrl === undefined || isHost(baseUrl, "openai.com") || isHost(baseUrl, "chatgpt.com")
  return apiMode === "codex_responses" && isOpenAi ? "item" : "none"
}

/**
 * The abilities of a route: those that it states, else what its protocol and model are known for. Found once for each
 * route, which never changes.
 */
export const abilities: (route: RouteIdentity) => Abilities = memoize((route: RouteIdentity) => ({
  thinking: findThinking(route),
  cacheMarks: findCacheMarks(route),
  // The template that renders a chat is unknown. Messages that strict templates accept are accepted by all.
  userAfterTool: route.apiMode !== "chat_completions",
  compaction: findCompaction(route),
  ...route.abilities
}))
