/**
 * Keeps the conversation of a run below the trigger of compaction: before its first model call, and after each batch of
 * tool calls.
 *
 * **Details**
 *
 * A window of unknown size never triggers compaction. After tool calls, the decision uses the prompt tokens that the
 * provider counted last, without its answer, or an estimate if the provider does not count. A conversation is also
 * compacted if the next prompt, including the new results, would leave no room for an answer. Before the first call
 * the decision uses an estimate, if the conversation is long enough to have a head and a tail. After compaction, open
 * items of a removed todo list are added again, and files count as unread.
 *
 * Source: `hermes-llm.md` §10.4 and §10.6.
 */
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import type { CompactionPlan } from "../base/domain/CompactionPlan.ts"
import type { SessionId } from "../base/domain/Ids.ts"
import type { Request } from "../models/routing/CompactionPort.ts"
import { estimateTokens } from "../models/routing/CallTokens.ts"
import * as Todo from "../tools/builtin/Todo.ts"
import * as MemoryTurns from "./MemoryTurns.ts"
import { noteCompaction, recordRewrite, replaceMessages, type RunConversation } from "./RunConversation.ts"
import { getCurrentRoute, emit, type RunState } from "./RunState.ts"
import { defaultOutputTokens, estimateNextPrompt, forgetPromptSize } from "./RunUsage.ts"
import { Services } from "./Services.ts"

/**
 * Smallest context window that an agent works with, in tokens. A conversation below its trigger fits without looking up
 * the model's window.
 */
const smallestWindow = 8_000

/** Assumed window in tokens if its size is unknown. */
const unknownWindow = 128_000

/** Maximum number of compactions before the first call. */
const maxPasses = 3

interface Bounds {
  readonly window: number
  readonly trigger: number
}

/** Returns the window of a run's model in tokens, or `undefined` if its size is unknown. */
export const findWindow = Effect.fnUntraced(function* (
  run: RunState
): Effect.fn.Return<number | undefined, never, Services> {
  const {
    router: { catalogue }
  } = yield* Services
  if (catalogue === undefined) return undefined
  const { source, tokens } = yield* catalogue.window(yield* getCurrentRoute(run, run.routeWanted))
  return source === "default" ? undefined : tokens
})

/** Returns true if middleware decides when the conversation is compacted. */
const isLeftToMiddleware = Effect.map(
  Services,
  ({ interceptors }) =>
    interceptors.stack.lifecycle?.entries.some(({ compaction }) => compaction !== undefined) === true
)

const findBounds = Effect.fnUntraced(function* (run: RunState): Effect.fn.Return<Bounds | undefined, never, Services> {
  const {
    compaction: { trigger }
  } = yield* Services
  if (trigger === undefined || (yield* isLeftToMiddleware)) return undefined
  // A window of unknown size is no reason to ask another model: the provider refuses a request that does not fit.
  const tokens = yield* findWindow(run)
  return tokens === undefined ? undefined : { window: tokens, trigger: trigger(tokens) }
})

const renderOpenTodos = (messages: ReadonlyArray<Prompt.Message>): string | undefined => {
  const open = Todo.fromHistory(messages).filter(({ status }) => status === "pending" || status === "in_progress")
  return open.length === 0
    ? undefined
    : open.map(({ content, id, status }) => `- [${status === "in_progress" ? ">" : " "}] ${id}: ${content}`).join("\n")
}

/** Returns the compacted conversation. Open items of a removed todo list are added after its first new message. */
const withTodos = (
  before: ReadonlyArray<Prompt.Message>,
  after: ReadonlyArray<Prompt.Message>
): ReadonlyArray<Prompt.Message> => {
  const items = renderOpenTodos(before)
  if (items === undefined || renderOpenTodos(after) !== undefined) return after
  const known = new Set(before)
  const at = after.findIndex((message) => !known.has(message) && message.role === "user")
  const told = Prompt.userMessage({
    content: [Prompt.textPart({ text: `[Your todo list, which was compacted away. Open items:\n${items}]` })]
  })
  return at < 0 ? after : [...after.slice(0, at + 1), told, ...after.slice(at + 1)]
}

/** Describes a compaction: the messages that were replaced, or the results that were shortened in place. */
const describeCompaction = (before: ReadonlyArray<Prompt.Message>, after: ReadonlyArray<Prompt.Message>): string => {
  if (before.length !== after.length)
    return `the conversation was compacted from ${before.length} to ${after.length} messages`
  const shortened = after.filter((message, at) => message !== before[at]).length
  const [from, to] = [before, after].map((messages) => estimateTokens({ messages }))
  return `${shortened} old messages were shortened: the conversation has about ${to} tokens instead of ${from}`
}

/** Compacts the conversation. Returns false if it is unchanged. */
const compact = Effect.fnUntraced(function* (
  run: RunState,
  asked: Pick<Request, "focus" | "keepExchanges" | "plan" | "reason" | "tokens" | "window">
): Effect.fn.Return<boolean, never, Services> {
  const { compaction, files } = yield* Services
  yield* MemoryTurns.notifyCompaction(run)
  const before = run.conversation.messages.slice()
  const { describePrefix } = yield* Effect.promise(() => import("./RunPrefix.ts"))
  const smaller = yield* compaction.compact({
    ...asked,
    messages: before,
    sessionId: run.sessionId,
    conversationId: run.conversationId,
    taskId: run.taskId,
    turnId: run.turnId,
    prefix: yield* describePrefix(run),
    notify: (message) => emit(run, { _tag: "Notice", level: "warning", message })
  })
  if (smaller === before) return false
  replaceMessages(run, withTodos(before, smaller))
  forgetPromptSize(run)
  noteCompaction(run)
  recordRewrite(run, "compaction", before)
  if (files !== undefined) yield* files.forgetContents(run.sessionId)
  yield* emit(run, { _tag: "Notice", level: "info", message: describeCompaction(before, run.conversation.messages) })
  return true
})

/** Changes the conversation according to a plan of middleware. */
export const applyPlan = Effect.fnUntraced(function* (
  run: RunState,
  plan: CompactionPlan
): Effect.fn.Return<void, never, Services> {
  const window = plan.window ?? (yield* findWindow(run)) ?? unknownWindow
  yield* compact(run, { reason: "threshold", window, tokens: estimateTokens(run.conversation), plan })
})

/** Size of a conversation in messages and estimated tokens, including the system prompt. */
export interface Size {
  readonly messages: number
  readonly tokens: number
}

/** Outcome of a compaction that the user asked for. */
export interface CompactionResult {
  /** Session that continues the conversation: a new one, or the same one if nothing was compacted. */
  readonly sessionId: SessionId
  readonly before: Size
  readonly after: Size
}

/** Returns the size of a conversation. */
export const measureSize = ({ messages }: Pick<RunConversation, "messages">): Size => ({
  messages: messages.length - 1,
  tokens: estimateTokens({ messages })
})

/** Compacts the conversation at the user's request. */
export const compactOnDemand = Effect.fnUntraced(function* (
  run: RunState,
  asked: Pick<Request, "focus" | "keepExchanges">
): Effect.fn.Return<void, never, Services> {
  const {
    router: { catalogue }
  } = yield* Services
  const { tokens: window } =
    catalogue === undefined
      ? { tokens: unknownWindow }
      : yield* catalogue.window(yield* getCurrentRoute(run, run.routeWanted))
  yield* compact(run, { ...asked, reason: "manual", window })
})

/** Compacts the conversation before the first model call if it is too large. */
export const compactBeforeCalls = (run: RunState): Effect.Effect<void, never, Services> =>
  Services.use(({ compaction: { leastMessages = 0, trigger } }) =>
    trigger === undefined || run.conversation.messages.length - 1 <= leastMessages ? Effect.void : compactUntilFits(run)
  )

const compactUntilFits = Effect.fnUntraced(function* (run: RunState): Effect.fn.Return<void, never, Services> {
  const bounds = yield* findBounds(run)
  if (bounds === undefined) return
  for (let pass = 0; pass < maxPasses; pass++) {
    const count = run.conversation.messages.length
    const tokens = estimateTokens(run.conversation)
    if (tokens < bounds.trigger) return
    const isSmaller = yield* compact(run, { reason: "threshold", window: bounds.window, tokens })
    if (!isSmaller || run.conversation.messages.length >= count) return
  }
})

/** Most tokens that are reserved for an answer. */
const mostReserved = 8_192

/** Returns the room that the next answer needs, in tokens: its limit, but at most an eighth of the window. */
const computeReserve = ({ tokens: { outputBase, outputLimit } }: RunState, window: number): number =>
  Math.min(outputLimit ?? outputBase ?? defaultOutputTokens, mostReserved, Math.floor(window / 8))

/**
 * Compacts the conversation after the tools of a step if the newest prompt reaches the trigger, or if the next one
 * would not fit into the window.
 */
export const compactAfterTools = (run: RunState): Effect.Effect<void, never, Services> =>
  Services.use(({ compaction: { trigger } }) => {
    if (trigger === undefined) return Effect.void
    const next = estimateNextPrompt(run)
    const tokens = run.tokens.prompt ?? next
    return Math.max(tokens, next) < trigger(smallestWindow) ? Effect.void : compactIfLarge(run, tokens, next)
  })

/** Compacts the conversation with the size of its newest prompt and the estimated size of the `next` one. */
const compactIfLarge = Effect.fnUntraced(function* (
  run: RunState,
  tokens: number,
  next: number
): Effect.fn.Return<void, never, Services> {
  const bounds = yield* findBounds(run)
  if (bounds === undefined) return
  if (tokens >= bounds.trigger) yield* compact(run, { reason: "threshold", window: bounds.window, tokens })
  else if (next + computeReserve(run, bounds.window) > bounds.window)
    yield* compact(run, { reason: "threshold", window: bounds.window, tokens: next })
})
