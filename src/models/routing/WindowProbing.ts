/**
 * Recovers from a conversation that does not fit into the context window: learns the limit from the refusal, or
 * estimates it, and compacts the conversation.
 *
 * **Details**
 *
 * | refusal | window | stored |
 * | --- | --- | --- |
 * | states a smaller limit | that limit | on disk, after the next successful call |
 * | states no smaller limit | the next tier below: 128 000, 64 000, 32 000, 16 000, 8 000 | in memory |
 * | states only the excess (MiniMax) | unchanged | – |
 * | body too large (413) | unchanged | – |
 * | long contexts require extra usage (429) | 200 000 | in memory |
 *
 * A turn compacts at most three times; a change of the provider resets the count. If neither the window nor the
 * conversation became smaller, a repeated request would be refused again, so recovery ends; without a compaction engine
 * it ends immediately. A requested output limit that is too large is a separate case (see `Classification`), in which
 * the window and the conversation are unchanged.
 *
 * The decisions are pure; `ContextWindow.makeLearntWindows` stores learned limits, {@link recoverConversation} performs
 * one step with a `CompactionPort`.
 *
 * **Example** (Estimating a smaller window)
 *
 * ```ts
 * import { WindowProbing } from "hermes-effect/routing"
 *
 * console.log(WindowProbing.findTierBelow(200_000), WindowProbing.findTierBelow(64_000))
 * // => 128000 32000
 * ```
 *
 * Source: `hermes-llm.md` §11, the usage document (context probing).
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as AiError from "effect/ai/AiError"
import type * as Prompt from "effect/ai/Prompt"
import * as Classification from "./Classification.ts"
import * as CompactionPort from "./CompactionPort.ts"
import * as CallTokens from "./CallTokens.ts"
import * as ContextWindow from "./ContextWindow.ts"
import * as ModelLists from "./catalogue/ModelLists.ts"

/** Estimated windows in tokens, in descending order. */
export const tiers: ReadonlyArray<number> = [128_000, 64_000, 32_000, 16_000, 8_000]

/** Size of the context window that is available without extra usage, in tokens. */
export const withoutExtraUsage = 200_000

/** Maximum number of compactions in one turn. */
export const maxAttempts = 3

/** Returns the largest tier below a window, or the window itself if no tier is smaller. */
export const findTierBelow = (window: number): number => tiers.find((tier) => tier < window) ?? window

/** Learns a window from the reason and message of a refusal. */
export const learnWindow = (
  reason: Classification.Reason,
  message: string,
  window: number
): ContextWindow.LearntWindow | undefined => {
  switch (reason) {
    case "payload_too_large":
      return { window, stated: false }
    case "long_context_tier":
      return { window: Math.min(window, withoutExtraUsage), stated: false }
    case "context_overflow": {
      const stated = readStatedLimit(message)
      if (stated._tag === "Excess") return { window, stated: false }
      return stated._tag === "Tokens" && stated.tokens < window
        ? { window: stated.tokens, stated: true }
        : { window: findTierBelow(window), stated: false }
    }
    default:
      return undefined
  }
}

/** Count of a turn's compactions on its current route. */
export interface CompactionTurn {
  route: string
  attempts: number
}

/** Creates the state of a turn without compactions. */
export const makeTurn = (): CompactionTurn => ({ route: "", attempts: 0 })

/** Result of one step of recovery. */
export type Outcome =
  /** The failure was not caused by the size of the conversation. */
  | { readonly _tag: "NotAboutSize" }
  /**
   * The call should be repeated after {@link pause} with these messages. The repetition does not count as an iteration.
   */
  | {
      readonly _tag: "Restart"
      readonly window: number
      readonly attempt: number
      readonly messages: ReadonlyArray<Prompt.Message>
    }
  /** No further recovery is possible. `message` is shown to the user. */
  | { readonly _tag: "Exhausted"; readonly message: string }

/** A refused conversation, the input of {@link recoverConversation}. */
export interface RefusedConversation extends Pick<
  CompactionPort.Request,
  "sessionId" | "conversationId" | "taskId" | "turnId" | "messages" | "notify"
> {
  readonly error: AiError.AiError
  /** The router's decision on the error; `undefined` if a wrapper replaced the error. */
  readonly decision?: Classification.Decision | undefined
  readonly route: ContextWindow.ModelAddress
  /** Context window that was assumed for the call, in tokens. */
  readonly window: number
}

/** Wait before a call is repeated. */
export const pause = Duration.seconds(2)

const reportExhausted = (message: string): Outcome => ({
  _tag: "Exhausted",
  message: `${message}: start a new session, or choose a model that holds more`
})

type Reason = "context_overflow" | "payload_too_large" | "long_context_tier"

const isAboutSize = (reason: Classification.Reason): reason is Reason =>
  reason === "context_overflow" || reason === "payload_too_large" || reason === "long_context_tier"

const isSmaller = (after: ReadonlyArray<Prompt.Message>, before: ReadonlyArray<Prompt.Message>): boolean =>
  after.length < before.length ||
  CallTokens.estimateTokens({ messages: after }) < CallTokens.estimateTokens({ messages: before })

/** Performs one step of recovery: learns the window and compacts the conversation. */
export const recoverConversation = Effect.fnUntraced(function* (
  learntWindows: ContextWindow.LearntWindows,
  compaction: CompactionPort.Service,
  turn: CompactionTurn,
  { decision, error, messages, route, window, ...ids }: RefusedConversation
): Effect.fn.Return<Outcome> {
  const { message, reason } =
    decision ?? Classification.classify(error, CallTokens.describeSituation({ messages }, window))
  const learnt = learnWindow(reason, message, window)
  if (learnt === undefined || !isAboutSize(reason)) return { _tag: "NotAboutSize" }
  if (learnt.window < window) learntWindows.learnt(route, learnt)
  if (compaction === CompactionPort.none) {
    return reportExhausted(`the conversation does not fit into ${route.model}, and no compaction is configured`)
  }
  const key = ContextWindow.formatKey(route)
  if (turn.route !== key) {
    turn.route = key
    turn.attempts = 0
  }
  if (turn.attempts >= maxAttempts) {
    return reportExhausted(
      `the conversation does not fit into ${route.model} after ${maxAttempts} attempts to compact it`
    )
  }
  turn.attempts++
  const smaller = yield* compaction.compact({ ...ids, messages, window: learnt.window, reason })
  return learnt.window < window || isSmaller(smaller, messages)
    ? { _tag: "Restart", window: learnt.window, attempt: turn.attempts, messages: smaller }
    : reportExhausted(`the conversation does not fit into ${route.model} and cannot be made smaller`)
})

/** Limit that a refusal states. */
export type StatedLimit =
  | { readonly _tag: "Tokens"; readonly tokens: number }
  /** The refusal states only the excess, or a number that is an error code. */
  | { readonly _tag: "Excess" }
  | { readonly _tag: "Nothing" }

const n = "([\\d][\\d,_]{3,})"

const compileWording = (pattern: string): RegExp => new RegExp(pattern.replaceAll("#", n))

const exact: ReadonlyArray<RegExp> = [
  "maximum (?:context|prompt|model|input|sequence)(?: token)? length (?:is|of|for this model is)?:? ?(?:only )?\\(?#",
  "# maximum context length",
  "maximum number of (?:input )?tokens(?: allowed)? ?(?:is|of)? ?\\(?#",
  "context length of only #",
  "> ?# ?(?:maximum|max|limit|tokens?|\\b)",
  "exceed(?:s|ed)?(?: the| model)*(?: available)? (?:token limit|limit|maximum|max|context window|context size|context limit)(?: of|:)? ?\\(?#",
  "input length should be \\[\\d+, ?#\\]",
  "must be <= ?#",
  "(?:less|fewer|no more) than #",
  "cannot exceed #",
  "n_ctx['\"]?[ :=]+#"
].map(compileWording)

const general: ReadonlyArray<RegExp> = [
  "(?:max(?:imum)?|limit)[^.\\d]{0,40}(?:context|length|size|window)[^.\\d]{0,24}#",
  "context (?:length|size|window|limit)[^.\\d]{0,24}#",
  "上下文长度[^\\d]{0,12}#",
  "最大长度[^\\d]{0,12}#",
  "# tokens? (?:context|limit)",
  "# maximum"
].map(compileWording)

/** Wording of MiniMax. The number that follows is an error code, not a limit. */
const excess = /context window exceeds limit|exceeds? (?:the )?(?:context|limit) by [\d,]+/

const findFirstTokens = (patterns: ReadonlyArray<RegExp>, text: string): number | undefined => {
  for (const pattern of patterns) {
    const found = pattern.exec(text)?.[1]
    const tokens = found === undefined ? undefined : ModelLists.parseWindow(Number(found.replaceAll(/[,_]/g, "")))
    if (tokens !== undefined) return tokens
  }
  return undefined
}

/**
 * Reads the window from the message of a refusal. Exact wordings are tried before general ones (`hermes-llm.md` §11.2).
 */
export const readStatedLimit = (message: string): StatedLimit => {
  const text = message.toLowerCase()
  if (excess.test(text)) return { _tag: "Excess" }
  const tokens = findFirstTokens(exact, text) ?? findFirstTokens(general, text)
  return tokens === undefined ? { _tag: "Nothing" } : { _tag: "Tokens", tokens }
}
