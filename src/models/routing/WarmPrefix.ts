/**
 * A conversation whose beginning a provider has cached, and the choice between two ways to ask a side task about it: as
 * one more message of the conversation, or as a request that contains its material in full.
 *
 * **Details**
 *
 * The first way reads most of its input at the price of the cache, on the route of the conversation. The second way
 * reads less, without the cache, on the route of the task. The prices of both routes decide. For two routes of one
 * model without known prices, a cached token counts as a tenth, and a token of the answer as five.
 */
import * as BigDecimal from "effect/BigDecimal"
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import type { ModelCall } from "../../base/domain/ModelCall.ts"
import { abilities, type Route, type RouteInfo } from "../../base/domain/Route.ts"
import * as Usage from "../../base/domain/Usage.ts"
import * as CallTokens from "./CallTokens.ts"
import type { RouteIdentity, Service as Catalogue } from "./CataloguePort.ts"

/** The last request of a conversation, with the messages that were added since. */
export interface WarmPrefix extends Pick<
  ModelCall,
  | "cache"
  | "contextEdits"
  | "conversationId"
  | "maxOutputTokens"
  | "messages"
  | "reasoningEffort"
  | "sharedCacheId"
  | "temperature"
  | "tools"
> {
  /** Route that answered the request. */
  readonly route: RouteInfo
  /** The same route if the run chose it; `undefined` for the router's primary route. */
  readonly named: Route | undefined
  /** Size of the request in tokens as counted by the provider, if known. */
  readonly cachedTokens?: number | undefined
}

/** A side task as one more message of a conversation. */
export interface Continuation {
  readonly prefix: WarmPrefix
  readonly question: Prompt.UserMessage
  /** Expected size of the answer in tokens. */
  readonly outputTokens: number
}

/** Returns the fields of a request that continues a conversation. */
export const continueRequest = (
  { cachedTokens: _, messages, named: __, route: ___, ...fields }: WarmPrefix,
  question: Prompt.UserMessage
) => ({ ...fields, messages: [...messages, question] })

const reminder = "Answer with text alone. Your answer before called a tool, and the call was not run."

/** Returns a question with the reminder that its answer must be text. */
export const remindOfText = (question: Prompt.UserMessage): Prompt.UserMessage =>
  Prompt.userMessage({ content: [...question.content, Prompt.textPart({ text: reminder })] })

/** Tokens that a request costs. */
interface Tokens {
  readonly cached: number
  readonly fresh: number
  readonly output: number
}

/** Prices of tokens against the price of an input token, for routes without known prices. */
const shares = { cached: 0.1, written: 1.25, output: 5 }

/** Estimated number of output tokens that an answer with thinking has in addition. */
const thinkingTokens = 1_000

/** Tests whether two routes reach the same model at the same address. */
export const isSameRoute = (a: RouteInfo, b: RouteInfo): boolean =>
  a.provider === b.provider && a.model === b.model && a.baseUrl === b.baseUrl

/** Tests whether the provider of a conversation caches the beginning of its requests. */
export const isCached = ({ cache, route }: Pick<WarmPrefix, "cache" | "route">): boolean =>
  cache !== undefined && (abilities(route).cacheMarks !== "none" || route.apiMode === "codex_responses")

/** Tests whether the model thinks because of the requested effort, and would not think otherwise. */
const usesThinking = ({ reasoningEffort = "none", route }: WarmPrefix): boolean =>
  reasoningEffort !== "none" && route.apiMode !== "codex_responses"

/**
 * Tests whether a new message of the user makes the model remove thinking, so that the prefix is cached only up to the
 * message that opened the turn.
 */
const losesThinking = (prefix: WarmPrefix): boolean =>
  abilities(prefix.route).thinking === "tool_loop" && usesThinking(prefix)

const measureTokens = ({ outputTokens, prefix, question }: Continuation): Tokens => {
  const { cachedTokens = 0, messages, tools } = prefix
  const isLost = losesThinking(prefix)
  const found = messages.findLastIndex(({ role }) => role === (isLost ? "user" : "assistant"))
  const at = found === -1 ? messages.length : found
  const estimate = CallTokens.estimateTokens({ messages: messages.slice(0, at) }) + CallTokens.estimateTools(tools)
  return {
    // A provider that does not report the size counts too few.
    cached: isLost ? estimate : Math.max(cachedTokens, estimate),
    fresh: CallTokens.estimateTokens({ messages: [...messages.slice(at), question] }),
    output: outputTokens + (usesThinking(prefix) ? thinkingTokens : 0)
  }
}

/** Returns the cost in US dollars, or `undefined` if it is unknown or included in a subscription. */
const computeDollars = (
  catalogue: Catalogue | undefined,
  route: RouteIdentity,
  usage: Partial<Usage.Usage>
): Effect.Effect<number | undefined> =>
  catalogue === undefined
    ? Effect.undefined
    : Effect.map(catalogue.known(route), ({ cost }) => {
        const { amount, status } = cost({ ...Usage.zero, requestCount: 1, ...usage })
        return amount === undefined || status === "included" ? undefined : BigDecimal.toNumberUnsafe(amount)
      })

/** The request that would be sent instead of a continuation: its route, and its size. */
export interface Alternative {
  readonly route: RouteInfo
  readonly inputTokens: number
}

/**
 * Returns true if a continuation fits into the window of its model and the output limit of the conversation, and costs
 * less than the alternative. `identity` is the route of the conversation with its key, if known.
 */
export const isCheaper = Effect.fnUntraced(function* (
  catalogue: Catalogue | undefined,
  continuation: Continuation,
  { inputTokens, route }: Alternative,
  identity: RouteIdentity
): Effect.fn.Return<boolean> {
  const { outputTokens, prefix } = continuation
  if (!isCached(prefix) || outputTokens > (prefix.maxOutputTokens ?? Infinity)) return false
  const { cached, fresh, output } = measureTokens(continuation)
  const window = catalogue === undefined ? undefined : (yield* catalogue.window(identity)).tokens
  if (window !== undefined && cached + fresh + output > window) return false
  const isMarked = abilities(prefix.route).cacheMarks !== "none"
  const own = yield* computeDollars(catalogue, identity, {
    cacheReadTokens: cached,
    outputTokens: output,
    ...(isMarked ? { cacheWriteTokens: fresh } : { inputTokens: fresh })
  })
  const other = yield* computeDollars(catalogue, route, { inputTokens, outputTokens })
  if (own !== undefined && other !== undefined) return own < other
  const written = isMarked ? shares.written : 1
  return (
    isSameRoute(prefix.route, route) &&
    cached * shares.cached + fresh * written + output * shares.output < inputTokens + outputTokens * shares.output
  )
})
