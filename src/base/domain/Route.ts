/**
 * A route names one model of one API: its provider, protocol, address and key. Routing resolves a user's settings to
 * routes; each provider is created from exactly one route.
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
import * as ClaudeVersion from "./ClaudeVersion.ts"

/** An Amazon Bedrock guardrail that is applied to each call. */
export interface Guardrail {
  /** Id or ARN. */
  readonly guardrailIdentifier: string
  /** Version of the guardrail: a number, or `DRAFT`. */
  readonly guardrailVersion: string
  /**
   * Mode for streamed calls. `async` returns text before the guardrail has checked it. The default of the service is
   * `sync`.
   */
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
  /** Base URL without query and trailing slash; `undefined` for the default of the SDK. */
  readonly baseUrl?: string | undefined
  /** Query parameters of the base URL (`api-version` of Azure), sent with every request. */
  readonly query?: Readonly<Record<string, string>> | undefined
  readonly apiKey?: Redacted.Redacted<string> | undefined
  /** Headers of this route only. They must not contain data of another provider (`hermes-llm.md` §2.4). */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Fields that are merged into `extra_body` of each request. */
  readonly extraBody?: Readonly<Record<string, unknown>> | undefined
  /** AWS region of a Bedrock route. */
  readonly region?: string | undefined
  /** Guardrail of a Bedrock route. */
  readonly guardrail?: Guardrail | undefined
  /** Timeout of one whole request, in milliseconds; defaults to 1 800 000 (`hermes-llm.md` §2.5). */
  readonly requestTimeoutMillis?: number | undefined
  /** Maximum time between two bytes of a stream, in milliseconds; no limit if absent (`hermes-llm.md` §2.5). */
  readonly readTimeoutMillis?: number | undefined
  /** Abilities of the endpoint, if known; {@link abilities} derives the others. */
  readonly abilities?: Partial<Abilities> | undefined
  /**
   * Permits requests from a web page, which shows the key to everybody who opens it. Without this option, a provider
   * fails there. Use it for a gateway that authenticates the user itself, or with a key of the user.
   */
  readonly allowBrowser?: boolean | undefined
}

/** Abilities of an endpoint. They are properties of the route, so that other modules need not test host names. */
export interface Abilities {
  /**
   * Thinking that is sent back to the model: all thinking that the protocol can express, only the thinking of the
   * current tool loop, or no thinking. At every endpoint, Claude rejects the result of a call if the thinking before
   * the call is missing. Models that keep the thinking of earlier turns get all of it, so that a request begins with
   * the bytes of the request before.
   */
  readonly thinking: "all" | "tool_loop" | "none"
  /**
   * Form in which a request marks the prefix to cache: on blocks in Anthropic's protocol, on parts of chat messages, or
   * as cache points of Bedrock. `none` means that the endpoint does not support marks (it may cache automatically).
   */
  readonly cacheMarks: "native" | "envelope" | "cache_points" | "none"
  /**
   * True if a user message may follow a tool result. The chat templates of Mistral and Gemma, for example, reject such
   * a message.
   */
  readonly userAfterTool: boolean
  /**
   * Support for compaction of conversations by the endpoint itself: `edits` omits old tool results from the prompt,
   * `item` returns an encrypted item that replaces messages, `none` means no support.
   */
  readonly compaction: "edits" | "item" | "none"
}

/** The parts of a route that may be shown: everything except the key, the headers and the query. */
export interface RouteInfo {
  readonly provider: string
  readonly model: string
  readonly apiMode: ApiMode
  readonly baseUrl: string | undefined
  /** Abilities that the route states explicitly. */
  readonly abilities?: Partial<Abilities> | undefined
}

/** Returns the public part of a route. */
export const toInfo = (route: Route): RouteInfo => ({
  provider: route.provider,
  model: route.model,
  apiMode: route.apiMode,
  baseUrl: route.baseUrl,
  ...(route.abilities === undefined ? {} : { abilities: route.abilities })
})

/** A route, or the public part of a route. */
type RouteIdentity = Pick<Route, "provider" | "model" | "apiMode" | "baseUrl" | "abilities">

const isAnthropic = (baseUrl: string | undefined): boolean => {
  const host = baseUrl === undefined ? "api.anthropic.com" : (URL.parse(baseUrl)?.hostname ?? "")
  return host === "anthropic.com" || host.endsWith(".anthropic.com")
}

const findThinking = ({ apiMode, baseUrl, model }: RouteIdentity): Abilities["thinking"] => {
  switch (apiMode) {
    case "anthropic_messages":
      // Models of other vendors reject signatures that they did not create.
      if (!isAnthropic(baseUrl) && !/claude/i.test(model)) return "none"
      return ClaudeVersion.keepsThinking(model) ? "all" : "tool_loop"
    case "bedrock_converse":
      return ClaudeVersion.keepsThinking(model) ? "all" : "tool_loop"
    default:
      return "all"
  }
}

const isHost = (baseUrl: string | undefined, domain: string): boolean => {
  const host = baseUrl === undefined ? "" : (URL.parse(baseUrl)?.hostname ?? "")
  return host === domain || host.endsWith(`.${domain}`)
}

const isCopilot = ({ baseUrl, provider }: RouteIdentity): boolean =>
  provider === "copilot" || isHost(baseUrl, "githubcopilot.com")

const qwenProviders: ReadonlySet<string> = new Set(["opencode", "opencode-zen", "opencode-go", "alibaba"])
/** Matches Claude models on Bedrock that do not support cache points. */
const oldClaude = /claude-(?:v\d|instant|3-(?:sonnet|opus|haiku))/

/**
 * Returns the form of the cache marks of a route (`hermes-llm.md` §7.3). Claude takes marks behind every endpoint of
 * chat completions except GitHub's, because gateways pass them on. If an endpoint refuses them, they are omitted
 * (`models/routing/Adaptation`).
 */
const findCacheMarks = (route: RouteIdentity): Abilities["cacheMarks"] => {
  const { apiMode, baseUrl, model, provider } = route
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
      return (name.includes("claude") && !isCopilot(route)) ||
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
 * Returns the abilities of a route. Abilities that the route does not state are derived from its protocol and model.
 * The result is cached for each route object, which never changes.
 */
export const abilities: (route: RouteIdentity) => Abilities = memoize((route: RouteIdentity) => ({
  thinking: findThinking(route),
  cacheMarks: findCacheMarks(route),
  // The chat template of the model is unknown, so messages follow the rules of the strictest templates.
  userAfterTool: route.apiMode !== "chat_completions",
  compaction: findCompaction(route),
  ...route.abilities
}))
