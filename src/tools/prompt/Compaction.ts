/**
 * Makes conversations smaller before they fill the window of a model: the engine behind `CompactionPort`.
 *
 * **Details**
 *
 * First, old tool results are shortened, without a model; compaction ends here if that is enough. Then a model of the
 * task `compression` writes a note that replaces the middle of the conversation; the first messages, the newest ones
 * and the newest user message are preserved verbatim. An existing note is updated.
 *
 * If the summary fails, the conversation is unchanged and the run reports it; no further summary is requested during a
 * pause (one minute; ten if no model is available). A conversation that was refused for its size still has its old
 * results shortened.
 *
 * With the engine `context_editing` Anthropic omits old tool results from long prompts, and the conversation is
 * compacted if that is not enough. With `responses_compact` OpenAI returns an encrypted item instead of the note; user
 * messages are preserved verbatim. If the route does not support it, the run reports this once and the note is written.
 *
 * **Example** (Later, and with more of the newest messages)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { Agent, Runtime } from "hermes-effect"
 * import { Compaction } from "hermes-effect/prompt"
 *
 * const agent = Runtime.layer().pipe(
 *   Layer.provide(Layer.succeed(Compaction.CompactionSettings, { threshold: 0.7, targetRatio: 0.4 }))
 * )
 *
 * console.log((await Effect.runPromise(Effect.provide(Agent.run({ prompt: "Reply exactly hello" }), agent))).text)
 * // => hello
 * ```
 *
 * Source: `hermes-llm.md` §10.3 to §10.5.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import type { CompactionPlan, SummaryModel } from "../../base/domain/CompactionPlan.ts"
import type { SessionId, TaskId, TurnId } from "../../base/domain/Ids.ts"
import type { Abilities } from "../../base/domain/Route.ts"
import * as CompactionPort from "../../models/routing/CompactionPort.ts"
import * as Planned from "./compaction/Planned.ts"
import * as Prune from "./compaction/Prune.ts"
import * as Split from "./compaction/Split.ts"
import * as SummaryText from "./compaction/SummaryText.ts"

/**
 * Engines: a note by a model; old results of tools left out by Anthropic's context management, and the note where that
 * is not enough; the encrypted item of OpenAI's Responses API in place of the note.
 */
export const engines = ["compressor", "context_editing", "responses_compact"] as const

/** Engine and bounds of a compaction; each has a default. */
export interface Settings {
  /** `compressor` when absent, and where the route cannot do the other. */
  readonly engine?: (typeof engines)[number] | undefined
  /** Share of the window from which on a conversation is compacted; 0.5 when absent. */
  readonly threshold?: number | undefined
  /** Share of that which the newest messages keep; 0.2 when absent. */
  readonly targetRatio?: number | undefined
  /** First messages that stay, the system prompt aside; 3 when absent. */
  readonly protectFirst?: number | undefined
  /** Newest messages whose results are not shortened; 20 when absent. */
  readonly protectLast?: number | undefined
}

/** Question for the note, and the run that it is for. */
export interface SummaryAsk extends Partial<SummaryModel> {
  readonly message: Prompt.Message
  readonly maxOutputTokens: number
  readonly context: { readonly sessionId: SessionId; readonly taskId: TaskId; readonly turnId: TurnId }
}

/** Asks a model for the note. */
export type Summarise = (ask: SummaryAsk) => Effect.Effect<string, AiError.AiError | ConfigError>

/** Compaction by the provider of the main route. */
export interface ProviderCompaction {
  readonly ability: Effect.Effect<Abilities["compaction"]>
  /** Returns the encrypted form of messages; undefined if the answer does not contain it. */
  readonly compact: (
    ask: Pick<SummaryAsk, "context"> &
      Pick<CompactionPort.Request, "conversationId"> & { readonly messages: ReadonlyArray<Prompt.Message> }
  ) => Effect.Effect<string | undefined, AiError.AiError | ConfigError>
}

const noProvider: ProviderCompaction = { ability: Effect.succeed("none"), compact: () => Effect.succeed(undefined) }

const leastSummary = 2_000
const mostSummary = 12_000
const summaryRatio = 0.2

const cooldown = { model: 60_000, none: 600_000 }

/** Sessions whose pauses are remembered. */
const maxSessions = 1_000

/**
 * Compactions that save less than this share count as ineffective; after two of them nothing is compacted until it is
 * asked for.
 */
const leastSaving = 0.1
const maxIneffective = 2

interface SessionState {
  ineffective: number
  pausedUntil: number
}

/** Tokens that a note should have. */
const computeSummaryTokens = (content: number, window: number): number =>
  Math.round(Math.max(leastSummary, Math.min(content * summaryRatio, window * 0.05, mostSummary)))

/** Images of messages before the newest one with images are named instead. */
const dropOldFiles = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<Prompt.Message> => {
  const newest = messages.findLastIndex(
    (message) => message.role === "user" && message.content.some(({ type }) => type === "file")
  )
  return messages.map((message, at) => (at < newest ? Prune.replaceFiles(message) : message))
}

/**
 * Replaces the middle of the conversation with a note: a separate message in the user's role. If another user message
 * is adjacent, the history stage joins them for the protocols that require it.
 */
const assembleWithSummary = ({ head, pinned, tail }: Split.Parts, summary: string): ReadonlyArray<Prompt.Message> => [
  ...head,
  Prompt.userMessage({ content: [Prompt.textPart({ text: SummaryText.frameSummary(summary) })] }),
  ...dropOldFiles(pinned === undefined ? tail : [pinned, ...tail])
]

/**
 * Replaces the middle of the conversation with the provider's encrypted item. User messages from the middle are
 * preserved, as the item does not contain them. Another provider reads the text of the item's message.
 */
const assembleWithItem = ({ head, middle, pinned, tail }: Split.Parts, item: string): ReadonlyArray<Prompt.Message> => [
  ...head,
  ...dropOldFiles(middle.filter((message) => message.role === "user" && !SummaryText.isStandIn(message))),
  Prompt.userMessage({
    content: [Prompt.textPart({ text: SummaryText.itemText, options: { codex_responses: { compaction: item } } })]
  }),
  ...dropOldFiles(pinned === undefined ? tail : [pinned, ...tail])
]

/**
 * Returns the number of newest results that context editing preserves: half the number of protected messages, as each
 * result has a call message, but at least three.
 */
const countKeptResults = (protectLast: number): number => Math.max(3, Math.floor(protectLast / 2))

/**
 * The engine. `summarise` asks a model for the note, `provider` compacts at the provider where the settings want that.
 */
export const make = (
  settings: Settings,
  summarise: Summarise,
  provider: ProviderCompaction = noProvider
): CompactionPort.Service => {
  const { engine = "compressor", protectFirst = 3, protectLast = 20, targetRatio = 0.2, threshold = 0.5 } = settings
  const sessions = new Map<SessionId, SessionState>()
  const touchSessionState = (id: SessionId): SessionState => {
    const known = sessions.get(id) ?? { ineffective: 0, pausedUntil: 0 }
    sessions.delete(id)
    sessions.set(id, known)
    const [oldest] = sessions.keys()
    if (sessions.size > maxSessions && oldest !== undefined) sessions.delete(oldest)
    return known
  }
  const trigger = (window: number): number => Math.floor(window * threshold)

  const needs = engine === "context_editing" ? "edits" : engine === "responses_compact" ? "item" : undefined

  let isTold = false
  /** Tells once that the engine of the settings is not available. */
  const isAvailable = Effect.fnUntraced(function* (notify: (message: string) => Effect.Effect<void>) {
    if (needs === undefined || (yield* provider.ability) === needs) return needs !== undefined
    if (!isTold) yield* notify(`context.engine ${engine} is not available on this route: compressor is used`)
    isTold = true
    return false
  })

  /** Compacts the conversation at the provider; undefined if the provider cannot. */
  const compactAtProvider = (
    messages: ReadonlyArray<Prompt.Message>,
    bounds: Parameters<typeof Split.split>[1],
    { conversationId, ...context }: SummaryAsk["context"] & Pick<CompactionPort.Request, "conversationId">,
    notify: (message: string) => Effect.Effect<void>
  ): Effect.Effect<ReadonlyArray<Prompt.Message> | undefined> => {
    const parts = Split.split(messages, bounds)
    if (parts === undefined) return Effect.succeed(undefined)
    return provider.compact({ messages: [...parts.head, ...parts.middle], context, conversationId }).pipe(
      Effect.map((item) => (item === undefined ? undefined : assembleWithItem(parts, item))),
      Effect.catch((error) =>
        Effect.as(
          notify(`the provider did not compact the conversation, so a note is written: ${error.message}`),
          undefined
        )
      )
    )
  }

  /** A plan of middleware: the same summaries, pauses and bounds. */
  const runPlan = Effect.fnUntraced(function* (
    { focus, messages, notify = () => Effect.void, sessionId, taskId, turnId, window }: CompactionPort.Request,
    plan: CompactionPlan,
    known: SessionState
  ) {
    const now = yield* Clock.currentTimeMillis
    if (known.ineffective >= maxIneffective || (plan.strategy === "llm_summary" && now < known.pausedUntil))
      return messages
    const summariseOne: Planned.Summarise<AiError.AiError | ConfigError> = (middle, previous) => {
      const tokens = computeSummaryTokens(Split.estimateTotalTokens(middle), window)
      return summarise({
        message: SummaryText.buildQuestion({ middle, previous, focus, prompt: plan.prompt, tokens }),
        maxOutputTokens: tokens * 2,
        context: { sessionId, taskId, turnId },
        ...plan.summaryModel
      }).pipe(Effect.retry({ times: plan.attempts - 1, while: (error) => error._tag !== "ConfigError" }))
    }
    const smaller = yield* Planned.compact(messages, plan, plan.window ?? window, summariseOne).pipe(
      Effect.catch((error) => {
        known.pausedUntil = now + (error._tag === "ConfigError" ? cooldown.none : cooldown.model)
        return Effect.as(
          notify(`the conversation could not be summarised, so it stays as it is: ${error.message}`),
          messages
        )
      })
    )
    if (smaller === messages) return messages
    const before = Split.estimateTotalTokens(messages)
    const after = Split.estimateTotalTokens(smaller)
    known.ineffective =
      plan.strategy === "llm_summary" && after > before * (1 - leastSaving) ? known.ineffective + 1 : 0
    return after < before ? smaller : messages
  })

  const compact: CompactionPort.Service["compact"] = Effect.fnUntraced(function* (request) {
    const {
      conversationId,
      focus,
      keepExchanges,
      messages,
      notify = () => Effect.void,
      reason,
      sessionId,
      taskId,
      turnId,
      window
    } = request
    // A conversation that was compacted goes on in another session.
    const known = touchSessionState(conversationId ?? sessionId)
    if (request.plan !== undefined) return yield* runPlan(request, request.plan, known)
    const isRefused = reason !== "threshold" && reason !== "manual"
    if (reason === "threshold" && known.ineffective >= maxIneffective) return messages
    if (messages.length <= protectFirst + 5) return messages
    const before = Split.estimateTotalTokens(messages)
    const limit = trigger(window)
    const tailTokens = limit * targetRatio
    const recent = Math.max(protectLast, Split.countFittingMessages(messages, tailTokens))
    const pruned = Prune.prune(
      messages,
      messages[0]?.role === "system" ? 1 : 0,
      messages.length - (isRefused ? Math.min(recent, 4) : recent)
    )
    const saved = before - Split.estimateTotalTokens(pruned)
    // The provider counts more than the estimate knows of: tools, the system prompt.
    if (reason === "threshold" && (request.tokens ?? before) - saved < limit && saved >= before * leastSaving) {
      known.ineffective = 0
      return pruned
    }
    const previous = pruned.map(SummaryText.findSummary).findLast((summary) => summary !== undefined)
    const parts = Split.split(
      pruned.filter((message) => SummaryText.findSummary(message) === undefined),
      { protectFirst, tailTokens, keepExchanges }
    )
    if (parts === undefined) return saved > 0 ? pruned : messages
    const now = yield* Clock.currentTimeMillis
    if (reason !== "manual" && now < known.pausedUntil) return isRefused ? pruned : messages
    const context = { sessionId, taskId, turnId }
    if ((yield* isAvailable(notify)) && engine === "responses_compact") {
      const compacted = yield* compactAtProvider(
        messages,
        { protectFirst, tailTokens, keepExchanges },
        { ...context, conversationId },
        notify
      )
      if (compacted !== undefined && Split.estimateTotalTokens(compacted) < before) {
        known.ineffective =
          Split.estimateTotalTokens(compacted) > before * (1 - leastSaving) ? known.ineffective + 1 : 0
        return compacted
      }
    }
    const tokens = computeSummaryTokens(Split.estimateTotalTokens(parts.middle), window)
    const summary = yield* summarise({
      message: SummaryText.buildQuestion({ middle: parts.middle, previous, focus, tokens }),
      maxOutputTokens: tokens * 2,
      context
    }).pipe(
      Effect.map((text) => (text.trim() === "" ? undefined : text)),
      Effect.catch((error) => {
        known.pausedUntil = now + (error._tag === "ConfigError" ? cooldown.none : cooldown.model)
        return Effect.as(
          notify(`the conversation could not be summarised, so it stays as it is: ${error.message}`),
          undefined
        )
      })
    )
    if (summary === undefined) return isRefused ? pruned : messages
    const compacted = assembleWithSummary(parts, summary)
    const after = Split.estimateTotalTokens(compacted)
    known.ineffective = after > before * (1 - leastSaving) ? known.ineffective + 1 : 0
    return after < before ? compacted : messages
  })

  return {
    compact,
    trigger,
    leastMessages: protectFirst + protectLast + 1,
    ...(engine === "context_editing" ? { edits: { threshold, keepResults: countKeptResults(protectLast) } } : {})
  }
}

/** Settings of a runtime's own engine; `off`: a conversation that does not fit ends its run. */
export class CompactionSettings extends Context.Reference<Settings | "off">("hermes-effect/prompt/CompactionSettings", {
  defaultValue: () => ({})
}) {}
