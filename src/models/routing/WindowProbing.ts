/**
 * Recovers from a conversation that does not fit into the context window: learns the limit from the refusal, or
 * estimates it, and compacts the conversation.
 *
 * **Details**
 *
 * | refusal | window | stored |
 * | --- | --- | --- |
 * | states a limit | that limit, also if it is larger | on disk, after the next successful call |
 * | states no limit | the next tier below: 128 000, 64 000, 32 000, 16 000, 8 000 | in memory |
 * | states no limit, of a short conversation | unchanged | – |
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
import * as StatedLimits from "./classification/StatedLimits.ts"

/** Estimated windows in tokens, in descending order. */
export const tiers: ReadonlyArray<number> = [128_000, 64_000, 32_000, 16_000, 8_000]

/** Size of the context window that is available without extra usage, in tokens. */
export const withoutExtraUsage = 200_000

/** Maximum number of compactions in one turn. */
export const maxAttempts = 3

/** Returns the largest tier below a window, or the window itself if no tier is smaller. */
export const findTierBelow = (window: number): number => tiers.find((tier) => tier < window) ?? window

/**
 * Learns a window from the reason and message of a refusal. `tokens` is the estimated size of the conversation: a short
 * one gives no reason to assume a smaller window.
 */
export const learnWindow = (
  reason: Classification.Reason,
  message: string,
  window: number,
  tokens?: number
): ContextWindow.LearntWindow | undefined => {
  switch (reason) {
    case "payload_too_large":
      return { window, stated: false }
    case "long_context_tier":
      return { window: Math.min(window, withoutExtraUsage), stated: false }
    case "context_overflow": {
      const { inputMaximum, isExcess, isVague, window: total } = StatedLimits.readLimits(message.toLowerCase())
      const stated = inputMaximum ?? total
      if (stated !== undefined && !(isVague && inputMaximum === undefined && stated > window))
        return { window: stated, stated: true }
      return isExcess || StatedLimits.isShort({ tokens, window })
        ? { window, stated: false }
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
  const situation = CallTokens.describeSituation({ messages }, window)
  const { message, reason } = decision ?? Classification.classify(error, situation)
  const learnt = learnWindow(reason, message, window, situation.tokens)
  if (learnt === undefined || !isAboutSize(reason)) return { _tag: "NotAboutSize" }
  if (learnt.window !== window) learntWindows.learnt(route, learnt)
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

/**
 * Reads the window, or the longest input, from the message of a refusal. Exact wordings are tried before general ones
 * (`hermes-llm.md` §11.2).
 */
export const readStatedLimit = (message: string): StatedLimit => {
  const { inputMaximum, isExcess, window } = StatedLimits.readLimits(message.toLowerCase())
  if (isExcess) return { _tag: "Excess" }
  const tokens = inputMaximum ?? window
  return tokens === undefined ? { _tag: "Nothing" } : { _tag: "Tokens", tokens }
}
