/**
 * Makes conversations smaller before they fill the context window of a model. This is the engine behind
 * `CompactionPort`.
 *
 * **Details**
 *
 * First, old tool results are shortened without a model; if that is sufficient, compaction ends. Then a model of the
 * task `compression` writes a summary note that replaces the middle of the conversation; the first messages, the newest
 * messages and the newest user message are preserved verbatim. An existing note is updated. The model reads the middle
 * as text, or the request for the note is one more message of the conversation, if that costs less.
 *
 * If the summary fails, the conversation is unchanged and the run reports it; no further summary is requested during a
 * pause (one minute; ten if no model is available). If the provider refused a conversation because of its size, its old
 * results are still shortened.
 *
 * With the engine `context_editing` Anthropic omits old tool results from long prompts, and the conversation is
 * compacted if that is not sufficient. With `responses_compact` OpenAI returns an encrypted item instead of the note;
 * user messages are preserved verbatim. If the route does not support it, the run reports this once and a note is
 * written instead.
 *
 * **Example** (Compacting later and preserving more of the newest messages)
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
import type { Continuation } from "../../models/routing/WarmPrefix.ts"
import * as Planned from "./compaction/Planned.ts"
import * as Prune from "./compaction/Prune.ts"
import * as Split from "./compaction/Split.ts"
import * as SummaryPauses from "./compaction/SummaryPauses.ts"
import * as SummaryText from "./compaction/SummaryText.ts"

/**
 * Compaction engines: a note by a model (`compressor`); Anthropic's context management, which omits old tool results,
 * with a note if that is not sufficient (`context_editing`); the encrypted item of OpenAI's Responses API instead of
 * the note (`responses_compact`).
 */
export const engines = ["compressor", "context_editing", "responses_compact"] as const

/** Engine and limits of a compaction; each has a default. */
export interface Settings {
  /** Engine; the default is `compressor`, which is also used if the route does not support another engine. */
  readonly engine?: (typeof engines)[number] | undefined
  /** Share of the context window above which a conversation is compacted. The default is 0.5. */
  readonly threshold?: number | undefined
  /** Share of the threshold reserved for the newest messages. The default is 0.2. */
  readonly targetRatio?: number | undefined
  /** Number of first messages that are preserved, excluding the system prompt. The default is 3. */
  readonly protectFirst?: number | undefined
  /** Number of newest messages whose results are not shortened. The default is 20. */
  readonly protectLast?: number | undefined
}

/** Question for the note, and the run that needs it. */
export interface SummaryAsk extends Partial<SummaryModel> {
  readonly message: Prompt.Message
  /** The question as one more message of the conversation. */
  readonly continuation?: Continuation | undefined
  readonly maxOutputTokens: number
  readonly context: { readonly sessionId: SessionId; readonly taskId: TaskId; readonly turnId: TurnId }
}

/** Asks a model for the note. */
export type Summarise = (ask: SummaryAsk) => Effect.Effect<string, AiError.AiError | ConfigError>

/** Compaction by the provider of the main route. */
export interface ProviderCompaction {
  readonly ability: Effect.Effect<Abilities["compaction"]>
  /** Returns the encrypted form of messages; `undefined` if the answer does not contain it. */
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

/** Maximum number of sessions whose state is stored. */
const maxSessions = 1_000

/**
 * Minimum share that a compaction must save to count as effective. After two ineffective compactions, the conversation
 * is compacted only on request.
 */
const leastSaving = 0.1
const maxIneffective = 2

/**
 * Maximum share of the limit that a conversation may have after its results were shortened. Shortening changes the
 * prefix that the provider has cached, so it has to free enough for several turns. Otherwise the note is written.
 */
const mostAfterPruning = 0.6

interface SessionState {
  readonly id: SessionId
  ineffective: number
  /** Time until which no note is requested; `undefined` if it has not been read yet. */
  pausedUntil: number | undefined
}

/** Returns the target number of tokens of a note. */
const computeSummaryTokens = (content: number, window: number): number =>
  Math.round(Math.max(leastSummary, Math.min(content * summaryRatio, window * 0.05, mostSummary)))

/** Replaces images with labels in messages before the newest message with images. */
const dropOldFiles = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<Prompt.Message> => {
  const newest = messages.findLastIndex(Prune.hasFiles)
  return messages.map((message, at) => (at < newest ? Prune.replaceFiles(message) : message))
}

/**
 * Replaces the middle of the conversation with a note: a separate message with the role of the user. If another user
 * message is adjacent, the history stage joins them for the protocols that require it.
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

/** An engine with its settings and the state of its sessions. */
interface Engine {
  readonly settings: Required<{ readonly [Key in keyof Settings]: NonNullable<Settings[Key]> }>
  readonly summarise: Summarise
  readonly provider: ProviderCompaction
  readonly pauses: SummaryPauses.Service
  readonly sessions: Map<SessionId, SessionState>
  /** True once the user was notified that the route does not offer the configured engine. */
  hasWarned: boolean
}

type Notify = (message: string) => Effect.Effect<void>

const ignoreNotice: Notify = () => Effect.void

const computeTrigger = ({ settings }: Engine, window: number): number => Math.floor(window * settings.threshold)

/** Returns the state of a session and marks it as the newest; the oldest state is dropped if there are too many. */
const touchSessionState = ({ sessions }: Engine, id: SessionId): SessionState => {
  const known = sessions.get(id) ?? { id, ineffective: 0, pausedUntil: undefined }
  sessions.delete(id)
  sessions.set(id, known)
  const [oldest] = sessions.keys()
  if (sessions.size > maxSessions && oldest !== undefined) sessions.delete(oldest)
  return known
}

/** Returns true if a compaction saved less than the minimum share. */
const isIneffective = (before: number, after: number): boolean => after > before * (1 - leastSaving)

/** Pauses compactions of a session after a model failed to write the note, and notifies the user. */
const pauseAfterFailure = (
  { pauses }: Engine,
  known: SessionState,
  now: number,
  notify: Notify,
  error: AiError.AiError | ConfigError
): Effect.Effect<void> => {
  const until = now + (error._tag === "ConfigError" ? cooldown.none : cooldown.model)
  known.pausedUntil = until
  return Effect.andThen(
    pauses.save(known.id, until),
    notify(`the conversation could not be summarised, so it stays as it is: ${error.message}`)
  )
}

/** Tests whether a model failed to write the note of a session recently, here or in an earlier program. */
const isPaused = ({ pauses }: Engine, known: SessionState, now: number): Effect.Effect<boolean> =>
  known.pausedUntil === undefined
    ? Effect.map(pauses.load(known.id), (until) => now < (known.pausedUntil = until))
    : Effect.succeed(now < known.pausedUntil)

/** True when the route offers the configured engine; otherwise notifies the user once. */
const isAvailable = Effect.fnUntraced(function* (engine: Engine, notify: Notify) {
  const { engine: name } = engine.settings
  const needs = name === "context_editing" ? "edits" : name === "responses_compact" ? "item" : undefined
  if (needs === undefined || (yield* engine.provider.ability) === needs) return needs !== undefined
  if (!engine.hasWarned) yield* notify(`context.engine ${name} is not available on this route: compressor is used`)
  engine.hasWarned = true
  return false
})

/**
 * Compacts the conversation at the provider; returns `undefined` if the provider does not support it or nothing is
 * saved.
 */
const compactAtProvider = Effect.fnUntraced(function* (
  engine: Engine,
  { conversationId, messages, notify = ignoreNotice, sessionId, taskId, turnId }: CompactionPort.Request,
  bounds: Parameters<typeof Split.split>[1],
  known: SessionState
) {
  if (!(yield* isAvailable(engine, notify)) || engine.settings.engine !== "responses_compact") return undefined
  const parts = Split.split(messages, bounds)
  if (parts === undefined) return undefined
  const context = { sessionId, taskId, turnId }
  const compacted = yield* engine.provider
    .compact({ messages: [...parts.head, ...parts.middle], context, conversationId })
    .pipe(
      Effect.map((item) => (item === undefined ? undefined : assembleWithItem(parts, item))),
      Effect.catch((error) =>
        Effect.as(
          notify(`the provider did not compact the conversation, so a note is written: ${error.message}`),
          undefined
        )
      )
    )
  const before = Split.estimateTotalTokens(messages)
  if (compacted === undefined || Split.estimateTotalTokens(compacted) >= before) return undefined
  known.ineffective = isIneffective(before, Split.estimateTotalTokens(compacted)) ? known.ineffective + 1 : 0
  return compacted
})

/** Follows a compaction plan from middleware, with the same summaries, pauses and limits. */
const runPlan = Effect.fnUntraced(function* (
  engine: Engine,
  { focus, messages, notify = ignoreNotice, sessionId, taskId, turnId, window }: CompactionPort.Request,
  plan: CompactionPlan,
  known: SessionState
) {
  const now = yield* Clock.currentTimeMillis
  if (known.ineffective >= maxIneffective) return messages
  if (plan.strategy === "llm_summary" && (yield* isPaused(engine, known, now))) return messages
  const summariseOne: Planned.Summarise<AiError.AiError | ConfigError> = (middle, previous) => {
    const tokens = computeSummaryTokens(Split.estimateTotalTokens(middle), window)
    return engine
      .summarise({
        message: SummaryText.buildQuestion({ middle, previous, focus, prompt: plan.prompt, tokens }),
        maxOutputTokens: tokens * 2,
        context: { sessionId, taskId, turnId },
        ...plan.summaryModel
      })
      .pipe(Effect.retry({ times: plan.attempts - 1, while: (error) => error._tag !== "ConfigError" }))
  }
  const smaller = yield* Planned.compact(messages, plan, plan.window ?? window, summariseOne).pipe(
    Effect.catch((error) => Effect.as(pauseAfterFailure(engine, known, now, notify, error), messages))
  )
  if (smaller === messages) return messages
  const before = Split.estimateTotalTokens(messages)
  const after = Split.estimateTotalTokens(smaller)
  known.ineffective = plan.strategy === "llm_summary" && isIneffective(before, after) ? known.ineffective + 1 : 0
  return after < before ? smaller : messages
})

/** Parts of a conversation, and the text of the note that it already has. */
type NotedParts = Pick<Split.Parts, "middle" | "tail"> & { readonly previous: string | undefined }

/**
 * Creates the question for the note as one more message of the conversation. Returns `undefined` if the conversation
 * does not fit, is not cached, or has text that has to be masked in a request for a note.
 */
const continueConversation = (
  { focus, prefix, reason }: CompactionPort.Request,
  { previous, tail }: NotedParts,
  tokens: number
): Continuation | undefined =>
  prefix === undefined || (reason !== "threshold" && reason !== "manual") || SummaryText.hasSecrets(prefix.messages)
    ? undefined
    : {
        prefix,
        question: SummaryText.buildLastQuestion({ focus, tail: tail[0], isUpdate: previous !== undefined, tokens }),
        outputTokens: tokens
      }

/** Asks a model for the note; returns `undefined` if it fails or returns an empty answer. */
const writeSummary = (
  engine: Engine,
  request: CompactionPort.Request,
  parts: NotedParts,
  now: number,
  known: SessionState
): Effect.Effect<string | undefined> => {
  const { focus, notify = ignoreNotice, sessionId, taskId, turnId, window } = request
  const { middle, previous } = parts
  const tokens = computeSummaryTokens(Split.estimateTotalTokens(middle), window)
  return engine
    .summarise({
      message: SummaryText.buildQuestion({ middle, previous, focus, tokens }),
      continuation: continueConversation(request, parts, tokens),
      maxOutputTokens: tokens * 2,
      context: { sessionId, taskId, turnId }
    })
    .pipe(
      Effect.map((text) => (text.trim() === "" ? undefined : text)),
      Effect.catch((error) => Effect.as(pauseAfterFailure(engine, known, now, notify, error), undefined))
    )
}

/** Shortens old results; after a refused request, all but the newest four messages count as old. */
const pruneOldResults = (
  { settings }: Engine,
  messages: ReadonlyArray<Prompt.Message>,
  tailTokens: number,
  isRefused: boolean
): ReadonlyArray<Prompt.Message> => {
  const recent = Math.max(settings.protectLast, Split.countFittingMessages(messages, tailTokens))
  return Prune.prune(
    messages,
    messages[0]?.role === "system" ? 1 : 0,
    messages.length - (isRefused ? Math.min(recent, 4) : recent)
  )
}

const compactConversation = Effect.fnUntraced(function* (engine: Engine, request: CompactionPort.Request) {
  const { conversationId, keepExchanges, messages, reason, sessionId, window } = request
  const { protectFirst, targetRatio } = engine.settings
  // A conversation that was compacted continues in another session.
  const known = touchSessionState(engine, conversationId ?? sessionId)
  if (request.plan !== undefined) return yield* runPlan(engine, request, request.plan, known)
  const isRefused = reason !== "threshold" && reason !== "manual"
  if (reason === "threshold" && known.ineffective >= maxIneffective) return messages
  if (messages.length <= protectFirst + 5) return messages
  const before = Split.estimateTotalTokens(messages)
  const limit = computeTrigger(engine, window)
  const tailTokens = limit * targetRatio
  const pruned = pruneOldResults(engine, messages, tailTokens, isRefused)
  const saved = before - Split.estimateTotalTokens(pruned)
  // The provider's count includes tokens that the estimate does not: tools and the system prompt.
  if (reason === "threshold" && (request.tokens ?? before) - saved <= limit * mostAfterPruning) {
    known.ineffective = 0
    return pruned
  }
  const previous = pruned.map(SummaryText.findSummary).findLast((summary) => summary !== undefined)
  const bounds = { protectFirst, tailTokens, keepExchanges }
  const parts = Split.split(
    pruned.filter((message) => SummaryText.findSummary(message) === undefined),
    bounds
  )
  if (parts === undefined) return saved > 0 ? pruned : messages
  const unchanged = isRefused ? pruned : messages
  const now = yield* Clock.currentTimeMillis
  if (reason !== "manual" && (yield* isPaused(engine, known, now))) return unchanged
  const withItem = yield* compactAtProvider(engine, request, bounds, known)
  if (withItem !== undefined) return withItem
  const summary = yield* writeSummary(engine, request, { ...parts, previous }, now, known)
  if (summary === undefined) return unchanged
  const compacted = assembleWithSummary(parts, summary)
  const after = Split.estimateTotalTokens(compacted)
  known.ineffective = isIneffective(before, after) ? known.ineffective + 1 : 0
  return after < before ? compacted : messages
})

/** Optional parts of an engine. */
export interface EngineParts {
  /** Compacts at the provider if the settings ask for it. */
  readonly provider?: ProviderCompaction | undefined
  /** Stores pauses after failed notes. Without this option they are lost when the process ends. */
  readonly pauses?: SummaryPauses.Service | undefined
}

/** Creates the engine. `summarise` asks a model for the note. */
export const make = (
  settings: Settings,
  summarise: Summarise,
  { pauses = SummaryPauses.none, provider = noProvider }: EngineParts = {}
): CompactionPort.Service => {
  const {
    engine: name = "compressor",
    protectFirst = 3,
    protectLast = 20,
    targetRatio = 0.2,
    threshold = 0.5
  } = settings
  const engine: Engine = {
    settings: { engine: name, protectFirst, protectLast, targetRatio, threshold },
    summarise,
    provider,
    pauses,
    sessions: new Map(),
    hasWarned: false
  }
  return {
    compact: (request) => compactConversation(engine, request),
    trigger: (window) => computeTrigger(engine, window),
    leastMessages: protectFirst + protectLast + 1,
    ...(name === "context_editing" ? { edits: { threshold, keepResults: countKeptResults(protectLast) } } : {})
  }
}

/** Settings of the runtime's own compaction engine. With `off`, a conversation that does not fit ends its run. */
export class CompactionSettings extends Context.Reference<Settings | "off">("hermes-effect/prompt/CompactionSettings", {
  defaultValue: () => ({})
}) {}
