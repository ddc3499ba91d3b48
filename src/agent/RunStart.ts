/**
 * Starts a run: finds or creates the session, stores the user's message, notifies the listeners, and assembles the
 * conversation for the model.
 *
 * **Details**
 *
 * Additions of `pre_llm_call` listeners precede the user's text in the request only. They are never stored in the
 * message, and never added to a message that is not plain text (`ARCHITECTURE.md` §7, `hermes-contract.md` §2.6). With
 * `keepTurnContext` later turns send them again (`base/domain/TurnContext`).
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import * as Conversation from "../base/domain/Conversation.ts"
import { type ConfigError, InvalidInput, type SessionStoreError } from "../base/domain/AgentError.ts"
import * as Ids from "../base/domain/Ids.ts"
import * as RecordEvent from "../base/domain/RecordEvent.ts"
import { type RouteInfo, toInfo as routeInfo } from "../base/domain/Route.ts"
import * as RecordTimes from "../base/domain/RecordTimes.ts"
import * as RunRecorder from "../base/domain/RunRecorder.ts"
import * as TextHygiene from "../base/domain/TextHygiene.ts"
import * as TurnContext from "../base/domain/TurnContext.ts"
import * as Version from "../base/domain/Version.ts"
import { CurrentTenant } from "../store/TenantScope.ts"
import * as TraceContext from "../hooks/TraceContext.ts"
import * as Digest from "../base/platform/Digest.ts"
import * as Catalogue from "../models/routing/CataloguePort.ts"
import type { Service as ModelRouter } from "../models/routing/ModelRouter.ts"
import type { Service as RunRecord } from "../store/RunRecord.ts"
import type { Service as StoreService } from "../store/SessionStorePort.ts"
import * as LoopGuard from "../tools/calls/LoopGuard.ts"
import { everything } from "../tools/ToolRegistry.ts"
import * as Background from "./Background.ts"
import * as Budget from "./Budget.ts"
import * as RunCut from "./RunCut.ts"
import * as StopTools from "./StopTools.ts"
import * as MemoryTurns from "./MemoryTurns.ts"
import * as PromptCaching from "./PromptCaching.ts"
import { defaultMaxIterations } from "./RunConditions.ts"
import { resolveDirectory } from "./RunDirectory.ts"
import * as RunLifecycle from "./RunLifecycle.ts"
import * as RunSuspension from "./RunSuspension.ts"
import { keepContext, makeConversation, removeFrom, replaceMessages, replaceNewest } from "./RunConversation.ts"
import type { RunEnding } from "./RunEnding.ts"
import type { Lineage, RunState } from "./RunState.ts"
import { makeQuestions, makeSteps, makeTokens } from "./RunUsage.ts"
import type { AgentSettings, RunOptions, StartOptions } from "./RunInput.ts"
import { type AgentServices, type MiddlewareFailure, Services } from "./Services.ts"
import { checkEnd, getPlatform, makeFirstMessages, type OpenedSession, openSession } from "./SessionOpening.ts"

/** Data that a run starts from. */
export interface OpenedRun {
  readonly run: RunState
  readonly cwd: string
  readonly resumed: boolean
  /** Warning to the user about the model, if any. */
  readonly notice: string | undefined
  /** Answer of `before_agent`, which ends the run without calling the model. */
  readonly ending?: RunEnding | undefined
}

/** Returns text from a user or a listener as well-formed text, without the markers around the runtime's additions. */
const cleanText = (text: string): string =>
  TextHygiene.stripFences(TextHygiene.withoutControls(TextHygiene.toWellFormed(text)))

/** Cleans the text of the user's message and preserves its form. */
const cleanPrompt = (prompt: RunOptions["prompt"]): RunOptions["prompt"] =>
  typeof prompt === "string"
    ? cleanText(prompt)
    : prompt.map((part) =>
        part.type === "text" ? Prompt.textPart({ text: cleanText(part.text), options: part.options }) : part
      )

/**
 * Maximum number of characters of text and encoded files in one prompt. No model accepts more, and a prompt is stored
 * permanently.
 */
const longestPrompt = 40_000_000

const measurePart = (part: Prompt.UserMessagePart): number => {
  if (part.type === "text") return part.text.length
  return typeof part.data === "string" || part.data instanceof Uint8Array ? part.data.length : 0
}

const makeUserMessage = (prompt: RunOptions["prompt"]): Effect.Effect<Prompt.UserMessage, InvalidInput> => {
  const content =
    typeof prompt === "string" ? [Prompt.textPart({ text: prompt, options: Conversation.noOptions })] : prompt
  if (content.reduce((size, part) => size + measurePart(part), 0) > longestPrompt) {
    const most = longestPrompt.toLocaleString("en-US")
    return Effect.fail(
      new InvalidInput({
        message: `the prompt is longer than ${most} characters: put it into a file and name the file`
      })
    )
  }
  return content.some((part) => part.type === "file" || part.text.trim() !== "")
    ? Effect.succeed(Prompt.userMessage({ content, options: Conversation.noOptions }))
    : Effect.fail(new InvalidInput({ message: "the prompt is empty: say what the agent should do" }))
}

/** Collects text from the listeners and the external memory, and places it before the user's message. */
export const addContext = Effect.fnUntraced(function* (
  { resumed, run }: OpenedRun,
  options: Pick<RunOptions, "source">
): Effect.fn.Return<void, never, Services> {
  const { interceptors, settings } = yield* Services
  const context = yield* interceptors.hooks.ask("pre_llm_call", () => ({
    session_id: run.sessionId,
    task_id: run.taskId,
    turn_id: run.turnId,
    user_message: run.userMessage,
    conversation_history: run.conversation.messages.slice(1),
    is_first_turn: !resumed,
    model: run.questions.route.model,
    platform: run.platform,
    sender_id: ""
  }))
  const recalled = yield* MemoryTurns.recall(run, options)
  const user = run.conversation.messages.at(-1)
  const blocks = [
    ...(recalled === undefined ? [] : [recalled]),
    ...(context === undefined ? [] : [`<plugin-context>${cleanText(context)}</plugin-context>`])
  ]
  if (blocks.length === 0 || user?.role !== "user") return
  const sent = TurnContext.addToMessage(user, blocks)
  replaceNewest(run, user, sent)
  if (sent !== user && settings.keepTurnContext === true)
    keepContext(run, TurnContext.makeContext(user, blocks, run.sessionId, hashText))
})

const hashText = (text: string): string => Digest.toHex(text, 16)

/** Restores the contexts of earlier turns, if the agent keeps them. */
const restoreContext = (
  { keepTurnContext }: AgentSettings,
  messages: ReadonlyArray<Prompt.Message>
): TurnContext.Restored => TurnContext.restoreContexts(messages, keepTurnContext === true ? hashText : undefined)

const toParentRecord = ({ callId, depth, goal, parentSessionId, parentTurnId, subagentId }: Lineage) => ({
  sessionId: parentSessionId,
  turnId: parentTurnId,
  ...(callId === undefined ? {} : { callId }),
  subagentId,
  goal,
  depth
})

const makeRecorder = (
  record: RunRecord | undefined,
  store: StoreService,
  { session: { history, id }, restored }: Pick<RunParts, "restored" | "session">,
  { clock, isChild, turnId }: { readonly clock: Clock.Clock; readonly isChild: boolean; readonly turnId: Ids.TurnId }
): RunRecorder.Recorder | undefined =>
  record === undefined
    ? undefined
    : RunRecorder.make({
        sessionId: id,
        turnId,
        isChild,
        history,
        recorded: restored.recordedIn(id),
        now: RecordTimes.makeStartTimes(clock),
        hash: hashText,
        sink: record.append,
        isHeard: record.isHeard,
        together: record.together === store.together ? record.together : undefined
      })

/**
 * Checks the model of a run and returns the warning for the user, once for each model. A model whose window is too
 * small is rejected before anything is stored, unless the user set the size or it was detected when a provider rejected
 * a request. Children may have smaller models.
 *
 * Source: `hermes-llm.md` §10.1.
 */
const checkModel = Effect.fnUntraced(function* (
  { catalogue, primary, primaryRoute }: ModelRouter,
  { onEvent, route }: RunOptions
): Effect.fn.Return<string | undefined, ConfigError> {
  if (catalogue === undefined) return undefined
  const asked = route ?? (yield* primaryRoute ?? primary)
  yield* Catalogue.requireWindow(asked, (yield* catalogue.known(asked)).window)
  return onEvent === undefined ? undefined : yield* catalogue.notice(asked)
})

/** Parts from which the state of a run is built. */
interface RunParts {
  readonly session: OpenedSession
  /** The messages of the session with which the run starts. */
  readonly restored: TurnContext.Restored
  readonly route: RouteInfo
  readonly cwd: string
  readonly startedAt: number
  readonly ids: Pick<RunState, "taskId" | "turnId">
  readonly recorder: RunRecorder.Recorder | undefined
  readonly lineage: Lineage | undefined
  readonly output: RunState["output"]
  /** Question of the user, unchanged. */
  readonly prompt: RunOptions["prompt"]
  /** Messages with reports of children that arrived between the runs of the session. */
  readonly reports: ReadonlyArray<Prompt.Message>
  /** The user's message, empty if it is not stored. */
  readonly added: ReadonlyArray<Prompt.Message>
}

/** Chooses the prompt cache of a run by the time since the session's last run. */
const choosePromptCache = (
  { promptCache: lifetime = "auto", promptCacheRoutes }: AgentSettings,
  { lastEndedAt, model }: OpenedSession,
  route: RouteInfo,
  startedAt: number
): Pick<RunState, "hasWarmStart" | "promptCache"> => {
  const idleMillis = lastEndedAt === undefined ? undefined : startedAt - lastEndedAt
  return {
    promptCache: PromptCaching.choosePromptCache(lifetime, idleMillis, promptCacheRoutes),
    hasWarmStart: model === route.model && PromptCaching.isKept(lifetime, idleMillis)
  }
}

/** Creates the state of a run that starts. */
const makeRunState = (
  { settings, store }: Pick<AgentServices, "settings" | "store">,
  input: RunOptions,
  { added, ids, lineage, output, prompt, recorder, reports, restored, route, session, startedAt }: RunParts
): RunState => ({
  sessionId: session.id,
  conversationId: session.conversationId,
  ...choosePromptCache(settings, session, route, startedAt),
  taskId: ids.taskId,
  turnId: ids.turnId,
  platform: getPlatform(settings, input),
  lineage,
  routeWanted: input.route,
  reasoningEffort: input.reasoningEffort ?? settings.reasoningEffort,
  seed: input.seed,
  streaming: input.streaming ?? false,
  readsText: input.readsText ?? input.onEvent !== undefined,
  tools: input.tools ?? settings.tools ?? everything,
  stopTools: StopTools.toNames(input.stopTools ?? settings.stopTools),
  output,
  hasUnreadMessage: input.hasUnreadMessage,
  emit: input.onEvent,
  onUsageAfter: input.onUsageAfter,
  recorder,
  userMessage: prompt,
  unfinished: session.unfinished,
  book: RunSuspension.makeBook(
    {
      store,
      sessionId: session.id,
      turnId: ids.turnId,
      policy:
        lineage === undefined
          ? { ...settings.questions, ...input.questions }
          : (lineage.asking?.policy ?? { unanswered: "deny" })
    },
    session.waiting
  ),
  conversation: makeConversation(restored.messages, [...reports, ...added], restored.replaced),
  steps: makeSteps(),
  questions: makeQuestions(route),
  tokens: makeTokens(),
  phase: { isStopping: false, isOver: false, cut: undefined },
  budget: Budget.make({
    iterations: input.maxIterations ?? settings.maxIterations ?? defaultMaxIterations,
    // The limits of an agent apply to a whole run: its children share their parent's limits.
    limits: lineage === undefined ? Budget.merge(settings.budget, input.budget) : Budget.merge(undefined, input.budget),
    parent: lineage?.budget,
    startedAt
  }),
  guard: LoopGuard.make(settings.loopGuard ?? LoopGuard.defaults)
})

/** Creates the first entry of the record of a run. */
const makeStartRecord = (
  settings: AgentSettings,
  input: RunOptions,
  surroundings: Partial<Pick<typeof RecordEvent.RunStarted.Type, "tenant" | "traceparent" | "tracestate">>,
  { cwd, lineage, route, session }: RunParts
): RecordEvent.RecordEvent => ({
  _tag: "RunStarted",
  version: RecordEvent.version,
  agentVersion: Version.version,
  source: input.source ?? "library",
  platform: getPlatform(settings, input),
  provider: route.provider,
  model: route.model,
  cwd,
  resumed: session.history.length > 0,
  ...surroundings,
  ...(lineage === undefined ? {} : { parent: toParentRecord(lineage) })
})

/**
 * Stores the messages that a run adds to its session, after changes by `before_agent`. They are stored after the
 * results of calls that the last run left open, and together with a new session.
 */
const storeAddedMessages = (
  { record, store }: Pick<AgentServices, "record" | "store">,
  { recorder, reports, session }: RunParts,
  added: ReadonlyArray<Prompt.Message>
): Effect.Effect<void, SessionStoreError> => {
  const { closed, closing, creation, id } = session
  const messages = store.append(id, [...closing, ...reports, ...added])
  const withdrawn = store.closeQuestions(
    id,
    closed.map((call) => call.id),
    "withdrawn"
  )
  const appended = closed.length === 0 ? messages : Effect.tap(messages, () => withdrawn)
  const isOneTransaction = recorder !== undefined && record?.together === store.together
  const created = creation === undefined ? appended : Effect.andThen(creation, appended)
  const append = creation === undefined || isOneTransaction ? created : (store.together?.(created) ?? created)
  if (recorder === undefined) return Effect.asVoid(append)
  return Effect.asVoid(
    recorder.storing(append, (position) => {
      recorder.appended("runtime", position, closing)
      // The run that made these calls was killed.
      for (const { id, name, ran } of closed) {
        recorder.write({
          _tag: "CallEnded",
          callId: id,
          name,
          status: "cancelled",
          ran,
          reason: "process_ended",
          durationMillis: 0
        })
      }
      recorder.appended("child", position + closing.length, reports)
      recorder.appended("user", position + closing.length + reports.length, added)
    })
  )
}

/**
 * Prepares a run on the session `id`, which the caller owns. The returned effect stores the user's message and must run
 * uninterruptibly. After it has started, the end of the run is recorded.
 */
export const prepare = Effect.fnUntraced(function* (id: Ids.SessionId, input: StartOptions, lineage?: Lineage) {
  const context = yield* Effect.context<Services>()
  const services = Context.get(context, Services)
  const { record, router, settings, store } = services
  const clock = Context.get(context, Clock.Clock)
  const startedAt = clock.currentTimeMillisUnsafe()
  const prompt = cleanPrompt(input.prompt)
  const user = yield* makeUserMessage(prompt)
  const wanted = input.output ?? settings.output
  const output =
    wanted === undefined
      ? undefined
      : yield* Effect.flatMap(
          Effect.promise(() => import("./AnswerValue.ts")),
          ({ makeRunAnswer }) => makeRunAnswer(wanted)
        )
  const notice = lineage === undefined ? yield* checkModel(router, input) : undefined
  const route = input.route === undefined ? yield* router.primary : routeInfo(input.route)
  const cwd = yield* resolveDirectory(input.cwd, settings.cwd)
  const place = { cwd, provider: route.provider, model: route.model, parentId: lineage?.parentSessionId }
  const session = yield* openSession(services, id, { input, place, asking: lineage?.asking })
  if (input.goesOn === true) yield* checkEnd(session)
  const added = input.goesOn === true ? [] : [user]
  const taskId = Ids.TaskId.make(lineage?.subagentId ?? session.id)
  const turnId = yield* Ids.makeTurnId(session.id, taskId)
  const reports =
    session.history.length === 0 ? [] : yield* Background.collectMissedReports(session.id, session.history, user)
  const restored = restoreContext(settings, makeFirstMessages(session, input.ephemeralSystemPrompt))
  const isChild = lineage !== undefined
  const recorder = makeRecorder(record, store, { session, restored }, { clock, isChild, turnId })
  const trace = TraceContext.readCarrier(context)
  const ids = { taskId, turnId }
  const facts = { session, restored, route, cwd, startedAt, ids }
  const parts: RunParts = { ...facts, recorder, lineage, output, prompt, reports, added }
  const tenant = Context.get(context, CurrentTenant)
  const started = makeStartRecord(settings, input, { ...trace, ...(tenant === undefined ? {} : { tenant }) }, parts)
  const run = makeRunState({ settings, store }, input, parts)
  if (lineage !== undefined) yield* RunCut.cutWithParent(run)
  const opened: OpenedRun = { run, cwd, resumed: session.history.length > 0, notice }
  /** Stores the messages that the run adds to its session. */
  const storeMessages = (messages: ReadonlyArray<Prompt.Message>): Effect.Effect<OpenedRun, SessionStoreError> =>
    Effect.as(storeAddedMessages({ record, store }, parts, messages), opened)
  return { opened, stored: storeMessages, added, started, creation: session.creation }
})

/**
 * Stores the session of a run that failed before its first message was stored, so that the end of the run can be
 * recorded.
 */
const createForEnd = (creation: Effect.Effect<void, SessionStoreError>): Effect.Effect<void> =>
  // The run reports its first failure. If the store cannot be reached, that failure already contains this reason.
  Effect.catch(creation, (error) => Effect.logDebug(`the session of a run that failed is not stored: ${error.message}`))

/**
 * Runs `before_agent`, and stores the user's message with the changes of that phase. A new session is stored in the
 * same transaction, so that no session exists without its first message.
 */
export const begin = (
  { added, creation, opened, started, stored }: Effect.Success<ReturnType<typeof prepare>>,
  restore: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
): Effect.Effect<OpenedRun, SessionStoreError | MiddlewareFailure, Services> => {
  opened.run.recorder?.write(started)
  const begun = Effect.flatMap(restore(RunLifecycle.begin(opened.run, opened.cwd)), ({ ending, messages }) => {
    const { run } = opened
    const withEnding = (stored: Effect.Effect<OpenedRun, SessionStoreError>) =>
      ending === undefined ? stored : Effect.map(stored, (opened): OpenedRun => ({ ...opened, ending }))
    if (messages === run.conversation.messages) return withEnding(stored(added))
    const old = new Set(run.conversation.messages.filter((message) => !added.some((own) => own === message)))
    replaceMessages(run, messages)
    return withEnding(
      stored(messages.filter((message, index) => !old.has(message) && (index > 0 || message.role !== "system")))
    )
  })
  return creation === undefined ? begun : Effect.onError(begun, () => createForEnd(creation))
}

/** A session to compact, and the run options that its requests depend on. */
export interface CompactInput extends Pick<
  RunOptions,
  "cwd" | "ephemeralSystemPrompt" | "onEvent" | "reasoningEffort" | "route" | "tenant" | "tools"
> {
  readonly sessionId: string
  /** Subject whose details the summary should preserve. */
  readonly focus?: string | undefined
  /** Number of newest exchanges that stay verbatim. Chosen by the engine if absent. */
  readonly keepExchanges?: number | undefined
}

/** Opens the session `id` as a run would, without a user message. Stores nothing. */
export const openWithoutPrompt = Effect.fnUntraced(function* (
  id: Ids.SessionId,
  input: Omit<CompactInput, "focus" | "keepExchanges">
) {
  const { added, opened } = yield* prepare(id, { ...input, prompt: "compaction" })
  removeFrom(opened.run, opened.run.conversation.messages.length - added.length)
  return opened
})
