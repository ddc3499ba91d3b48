/**
 * Recovery from a conversation that does not fit: learn the limit from the refusal, or guess one, and shrink the
 * conversation.
 *
 * **Details**
 *
 * | refusal | window | remembered |
 * | --- | --- | --- |
 * | names a smaller limit | that limit | on disk, after the next call that succeeds |
 * | names none, or none that is smaller | the next tier below: 128 000, 64 000, 32 000, 16 000, 8 000 | in memory |
 * | says only by how much (MiniMax) | unchanged | – |
 * | body too large (413) | unchanged | – |
 * | long contexts want extra usage (429) | 200 000 | in memory |
 *
 * A turn compacts three times at most; another provider resets the count. If neither the window nor the conversation
 * got smaller, a repeated request would be refused again, so recovery ends; without a compaction engine it ends at
 * once. A requested answer that is too long is a separate case, see `Classification`: the window and the conversation
 * are unchanged.
 *
 * The decisions are pure; `ContextWindow.makeLearntWindows` stores learned limits, {@link recoverConversation} performs
 * one step with a `CompactionPort`.
 *
 * **Example** (Guessing a smaller window)
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

/** Windows to guess, largest first. */
export const tiers: ReadonlyArray<number> = [128_000, 64_000, 32_000, 16_000, 8_000]

/** Window that is served without extra usage, in tokens. */
export const withoutExtraUsage = 200_000

/** Compactions of a turn. */
export const maxAttempts = 3

/** Returns the first tier below a window; the window itself if it is below all tiers. */
export const findTierBelow = (window: number): number => tiers.find((tier) => tier < window) ?? window

/** Learns a window from the reason and the words of a refusal. */
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

/** The compactions of one turn, for the route that it is on. */
export interface CompactionTurn {
  route: string
  attempts: number
}

/** A turn that has not compacted yet. */
export const makeTurn = (): CompactionTurn => ({ route: "", attempts: 0 })

/** Result of one step of recovery. */
export type Outcome =
  /** The failure is about something else. */
  | { readonly _tag: "NotAboutSize" }
  /** Ask again after {@link pause}, with these messages: the restart costs no iteration. */
  | {
      readonly _tag: "Restart"
      readonly window: number
      readonly attempt: number
      readonly messages: ReadonlyArray<Prompt.Message>
    }
  /** Nothing more can be done. `message` is for the user. */
  | { readonly _tag: "Exhausted"; readonly message: string }

/** Refused conversation that {@link recoverConversation} works on. */
export interface RefusedConversation extends Pick<
  CompactionPort.Request,
  "sessionId" | "conversationId" | "taskId" | "turnId" | "messages" | "notify"
> {
  readonly error: AiError.AiError
  /** The router's decision on the error; absent if a wrapper replaced the error. */
  readonly decision?: Classification.Decision | undefined
  readonly route: ContextWindow.ModelAddress
  /** The window that the call was made for. */
  readonly window: number
}

/** Before a call is made again. */
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

/** One step: learn, compact; see the module. */
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
  /** Only by how much it is exceeded, or a code. */
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

/** MiniMax: the number that follows is a code. */
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
 * Reads the window from the words of a refusal: exact wordings first, general ones after them (`hermes-llm.md` §11.2).
 */
export const readStatedLimit = (message: string): StatedLimit => {
  const text = message.toLowerCase()
  if (excess.test(text)) return { _tag: "Excess" }
  const tokens = findFirstTokens(exact, text) ?? findFirstTokens(general, text)
  return tokens === undefined ? { _tag: "Nothing" } : { _tag: "Tokens", tokens }
}
