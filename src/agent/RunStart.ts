/**
 * Starts a run: the session is found or made, the user's message is stored, the listeners are told, and the
 * conversation is put together as the model will see it.
 *
 * **Details**
 *
 * Additions of `pre_llm_call` listeners stand before the user's text in the request alone; it is never stored, and
 * never added to a message that is more than text (`ARCHITECTURE.md` §7, `hermes-contract.md` §2.6).
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Prompt from "effect/ai/Prompt"
import { type ConfigError, InvalidInput, SessionBusy, type SessionStoreError } from "../base/domain/AgentError.ts"
import * as Conversation from "../base/domain/Conversation.ts"
import * as Ids from "../base/domain/Ids.ts"
import * as RecordEvent from "../base/domain/RecordEvent.ts"
import { toInfo as routeInfo } from "../base/domain/Route.ts"
import * as RunRecorder from "../base/domain/RunRecorder.ts"
import * as TextHygiene from "../base/domain/TextHygiene.ts"
import * as Version from "../base/domain/Version.ts"
import * as TraceContext from "../hooks/TraceContext.ts"
import * as Digest from "../base/platform/Digest.ts"
import * as SystemPrompt from "../tools/prompt/SystemPrompt.ts"
import * as Catalogue from "../models/routing/CataloguePort.ts"
import type { Service as ModelRouter } from "../models/routing/ModelRouter.ts"
import type { Service as RunRecord } from "../store/RunRecord.ts"
import * as SessionChain from "../store/SessionChain.ts"
import { type Service as StoreService, type Session, SessionStore } from "../store/SessionStorePort.ts"
import * as LoopGuard from "../tools/calls/LoopGuard.ts"
import { everything } from "../tools/ToolRegistry.ts"
import * as Background from "./Background.ts"
import * as Budget from "./Budget.ts"
import { getWorkingDirectory } from "../base/platform/CurrentProcess.ts"
import * as MemoryTurns from "./MemoryTurns.ts"
import * as RunLifecycle from "./RunLifecycle.ts"
import { makeConversation, removeFrom, replaceMessages, replaceNewest } from "./RunConversation.ts"
import type { Lineage, RunState } from "./RunState.ts"
import { makeQuestions, makeSteps, makeTokens } from "./RunUsage.ts"
import type { AgentSettings, RunOptions } from "./RunInput.ts"
import { type MiddlewareFailure, Services } from "./Services.ts"

/** Default limit of model calls with tools in one run. */
const defaultMaxIterations = 90

/** Data that a run starts from. */
export interface OpenedRun {
  readonly run: RunState
  readonly cwd: string
  readonly resumed: boolean
  /** Warning about the model, for the user. */
  readonly notice: string | undefined
}

interface SessionPlace {
  /** Absent if no session begins. */
  readonly id?: Ids.SessionId
  readonly parentId: Ids.SessionId | undefined
  readonly cwd: string
  readonly provider: string
  readonly model: string
}

/** Returns text of a user or a listener, well-formed and without the fences of the runtime's additions. */
const cleanText = (text: string): string =>
  TextHygiene.stripFences(TextHygiene.withoutControls(TextHygiene.toWellFormed(text)))

/** A session that a run goes on from has to end in something to answer, or in calls that are run. */
const checkEnd = ({ closing, history, unfinished }: OpenedSession): Effect.Effect<void, InvalidInput> => {
  const role = [...history, ...closing].at(-1)?.role
  return unfinished.length > 0 || role === "user" || role === "tool"
    ? Effect.void
    : Effect.fail(
        new InvalidInput({
          message: "the session does not end in a message of the user or in results of tools: give a prompt"
        })
      )
}

/** Question of the user, in the form in which it came. */
const cleanPrompt = (prompt: RunOptions["prompt"]): RunOptions["prompt"] =>
  typeof prompt === "string"
    ? cleanText(prompt)
    : prompt.map((part) =>
        part.type === "text" ? Prompt.textPart({ text: cleanText(part.text), options: part.options }) : part
      )

/**
 * Characters of text and of encoded files in one prompt at most; more than that no model holds, and it is stored for
 * ever.
 */
const longestPrompt = 40_000_000

const measurePart = (part: Prompt.UserMessagePart): number => {
  if (part.type === "text") return part.text.length
  return typeof part.data === "string" || part.data instanceof Uint8Array ? part.data.length : 0
}

const makeUserMessage = (prompt: RunOptions["prompt"]): Effect.Effect<Prompt.UserMessage, InvalidInput> => {
  const content = typeof prompt === "string" ? [Prompt.textPart({ text: prompt })] : prompt
  if (content.reduce((size, part) => size + measurePart(part), 0) > longestPrompt) {
    const most = longestPrompt.toLocaleString("en-US")
    return Effect.fail(
      new InvalidInput({
        message: `the prompt is longer than ${most} characters: put it into a file and name the file`
      })
    )
  }
  return content.some((part) => part.type === "file" || part.text.trim() !== "")
    ? Effect.succeed(Prompt.userMessage({ content }))
    : Effect.fail(new InvalidInput({ message: "the prompt is empty: say what the agent should do" }))
}

const getPlatform = (settings: AgentSettings, { platform }: Pick<RunOptions, "platform">): string =>
  platform ?? settings.platform ?? "library"

interface OpenedSession {
  readonly id: Ids.SessionId
  readonly conversationId: Ids.SessionId
  readonly systemPrompt: string
  /** As it is stored. */
  readonly history: ReadonlyArray<Prompt.Message>
  /** Results of the calls that the last run left open, to be stored before anything else. */
  readonly closing: ReadonlyArray<Prompt.ToolMessage>
  /** Those calls; `ran` is true of one that had begun. */
  readonly closed: ReadonlyArray<{ readonly id: string; readonly name: string; readonly ran: boolean }>
  /** Open calls of the last run that are run in this one. */
  readonly unfinished: ReadonlyArray<Prompt.ToolCallPart>
  /**
   * Stores the session, in the transaction of the first message of its run; absent for a session that is stored
   * already.
   */
  readonly creation?: Effect.Effect<void, SessionStoreError> | undefined
}

const nothingOpen = { closing: [], closed: [], unfinished: [] }

/** Resolves the calls that a run left open when its process died, each according to its known state. */
const resolveOpenCalls = Effect.fnUntraced(function* (
  id: Ids.SessionId,
  history: ReadonlyArray<Prompt.Message>,
  { goesOn, openCalls, tools }: Pick<RunOptions, "goesOn" | "openCalls" | "tools">
) {
  const open = Conversation.listOpenCalls(history)
  if (open.length === 0) return nothingOpen
  const { registry, settings, store } = yield* Services
  const begun = yield* store.begun(id)
  const isRun = goesOn === true && openCalls === "run" && history.at(-1)?.role !== "user"
  const { get } = isRun ? yield* registry.snapshot(tools ?? settings.tools ?? everything) : { get: () => undefined }
  const unfinished = isRun
    ? open.filter((call) => !begun.has(call.id) || get(call.name)?.facts.idempotent === true)
    : []
  const told = open.filter((call) => !unfinished.includes(call))
  return {
    closing: told.map((call) => Conversation.makeCancelledResult(call, begun.has(call.id))),
    closed: told.map(({ id, name }) => ({ id, name, ran: begun.has(id) })),
    unfinished
  }
})

/** The stored conversation as a run goes on from it: calls that it is going to run stay open. */
const toConversation = ({ closing, history, unfinished }: OpenedSession): Array<Prompt.Message> => {
  const last = unfinished.length === 0 ? -1 : history.findLastIndex(({ role }) => role === "assistant")
  return last === -1
    ? Conversation.resume([...history, ...closing])
    : [...Conversation.resume(history.slice(0, last)), ...history.slice(last), ...closing]
}

/** Layers of the system prompt of a new session. */
const buildLayers = Effect.fnUntraced(function* (
  input: PromptInput,
  { cwd, id, model, parentId, provider }: SessionPlace
) {
  const { source, tools } = input
  const { promptSources, registry, settings } = yield* Services
  const { names } = yield* registry.snapshot(tools ?? settings.tools ?? everything)
  const place: SystemPrompt.PromptLocation = { cwd, isChild: parentId !== undefined, tools: new Set(names) }
  const found = yield* promptSources(place)
  const recalled = yield* MemoryTurns.buildPromptBlock({ source }, place.isChild)
  return yield* SystemPrompt.buildLayers({
    ...place,
    identity: settings.identity,
    instructions: settings.instructions,
    platform: getPlatform(settings, input),
    provider,
    model,
    enforcement: settings.toolUseEnforcement,
    sessionId: settings.passSessionId === true ? id : undefined,
    sources: recalled.length === 0 ? found : { ...found, memory: [...(found.memory ?? []), ...recalled] }
  })
})

/** The part of a run's input that its system prompt depends on. */
export type PromptInput = Pick<RunOptions, "cwd" | "platform" | "route" | "source" | "tools">

/** Builds the system prompt layers, in order, with which a new session (`id`, if it has one) would begin. */
export const buildPromptLayers = Effect.fnUntraced(function* (
  input: PromptInput,
  id?: Ids.SessionId
): Effect.fn.Return<ReadonlyArray<SystemPrompt.PromptLayer>, ConfigError, Services> {
  const { router, settings } = yield* Services
  const { model, provider } = input.route === undefined ? yield* router.primary : routeInfo(input.route)
  return yield* buildLayers(input, {
    cwd: input.cwd ?? settings.cwd ?? getWorkingDirectory(),
    model,
    provider,
    parentId: undefined,
    ...(id === undefined ? {} : { id })
  })
})

/** Tests whether a session is as the caller of a run saw it. */
const isExpected = (
  expected: NonNullable<RunOptions["expectedSession"]>,
  id: Ids.SessionId,
  session: Option.Option<Session>
): boolean =>
  expected.sessionId === id &&
  expected.messages === Option.match(session, { onNone: () => 0, onSome: ({ messageCount }) => messageCount })

const openSession = Effect.fnUntraced(function* (
  id: Ids.SessionId,
  input: RunOptions,
  place: SessionPlace
): Effect.fn.Return<OpenedSession, InvalidInput | SessionBusy | SessionStoreError, Services> {
  const { interceptors, settings, store } = yield* Services
  const { history = [] } = input
  if (history.some(({ role }) => role === "system")) {
    return yield* new InvalidInput({
      message: "history has a system message: give the instructions of the run as systemPrompt or ephemeralSystemPrompt"
    })
  }
  const known = input.sessionId === undefined ? Option.none() : yield* store.get(id)
  if (input.expectedSession !== undefined && !isExpected(input.expectedSession, id, known))
    return yield* new SessionBusy({ sessionId: id })
  if (Option.isSome(known)) {
    if (history.length > 0)
      return yield* new InvalidInput({
        message: `session "${id}" is stored already and has its own messages: leave history out, or begin a new session`
      })
    const stored = yield* store.messages(id)
    const conversationId = yield* Effect.provideService(SessionChain.findFirstId(known.value), SessionStore, store)
    return {
      id,
      conversationId,
      systemPrompt: known.value.systemPrompt,
      history: stored,
      ...(yield* resolveOpenCalls(id, stored, input))
    }
  }
  const systemPrompt = TextHygiene.toWellFormed(
    input.systemPrompt ?? SystemPrompt.render(yield* buildLayers(input, { ...place, id }))
  )
  const created = store.create({
    id,
    source: input.source ?? "library",
    systemPrompt,
    hasOwnPrompt: input.systemPrompt !== undefined,
    ...place
  })
  const creation =
    history.length === 0 ? Effect.asVoid(created) : Effect.asVoid(Effect.andThen(created, store.append(id, history)))
  yield* interceptors.hooks.emit("on_session_start", () => ({
    session_id: id,
    model: place.model,
    platform: getPlatform(settings, input)
  }))
  return { id, conversationId: id, systemPrompt, history, ...nothingOpen, creation }
})

/** The user's message with blocks that the model is to see before it. */
const withContext = (message: Prompt.UserMessage, blocks: ReadonlyArray<string>): Prompt.UserMessage => {
  const [only] = message.content
  if (only?.type !== "text" || message.content.length !== 1) return message
  return Prompt.userMessage({
    content: [Prompt.textPart({ text: [...blocks, only.text].join("\n") })],
    options: message.options
  })
}

/** Asks the listeners and the external memory what the model is to see before the user's message, and puts it there. */
export const addContext = Effect.fnUntraced(function* (
  { resumed, run }: OpenedRun,
  options: Pick<RunOptions, "source">
): Effect.fn.Return<void, never, Services> {
  const { interceptors } = yield* Services
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
  const sent = withContext(user, blocks)
  replaceNewest(run, user, sent)
})

const toParentRecord = ({ callId, depth, goal, parentSessionId, parentTurnId, subagentId }: Lineage) => ({
  sessionId: parentSessionId,
  turnId: parentTurnId,
  ...(callId === undefined ? {} : { callId }),
  subagentId,
  goal,
  depth
})

/** The system prompt as the requests of a run have it. */
const withEphemeral = (systemPrompt: string, ephemeral: string | undefined): string =>
  ephemeral === undefined || ephemeral.trim() === ""
    ? systemPrompt
    : `${systemPrompt}\n\n${TextHygiene.toWellFormed(ephemeral).trim()}`

const makeRecorder = (
  record: RunRecord | undefined,
  store: StoreService,
  { history, id }: OpenedSession,
  turnId: Ids.TurnId,
  isChild: boolean
): Effect.Effect<RunRecorder.Recorder | undefined> =>
  record === undefined
    ? Effect.succeed(undefined)
    : Effect.map(Clock.Clock, (clock) =>
        RunRecorder.make({
          sessionId: id,
          turnId,
          isChild,
          history,
          now: RunRecorder.makeStartTimes(clock),
          hash: (text) => Digest.toHex(text, 16),
          sink: record.append,
          together: record.together === store.together ? record.together : undefined
        })
      )

/**
 * Checks the model that a run is about to ask, and gives the user's warning, once for each model. A model that holds
 * too little is refused before anything is stored, unless the user named the number or the number was learnt from a
 * refusal: then the run has been working with it. Children may have smaller models.
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

/**
 * Prepares a run on the session `id`, which the caller owns. The returned effect stores the user's message and must run
 * uninterruptibly: from then on the end of the run is recorded.
 */
export const prepare = Effect.fnUntraced(function* (id: Ids.SessionId, input: RunOptions, lineage?: Lineage) {
  const { record, router, settings, store } = yield* Services
  const startedAt = yield* Clock.currentTimeMillis
  const prompt = cleanPrompt(input.prompt)
  const user = yield* makeUserMessage(prompt)
  const notice = lineage === undefined ? yield* checkModel(router, input) : undefined
  const route = input.route === undefined ? yield* router.primary : routeInfo(input.route)
  const cwd = input.cwd ?? settings.cwd ?? getWorkingDirectory()
  const session = yield* openSession(id, input, {
    cwd,
    provider: route.provider,
    model: route.model,
    parentId: lineage?.parentSessionId
  })
  if (input.goesOn === true) yield* checkEnd(session)
  const added = input.goesOn === true ? [] : [user]
  const taskId = Ids.TaskId.make(lineage?.subagentId ?? session.id)
  const turnId = yield* Ids.makeTurnId(session.id, taskId)
  const reports =
    session.history.length === 0 ? [] : yield* Background.collectMissedReports(session.id, session.history, user)
  const recorder = yield* makeRecorder(record, store, session, turnId, lineage !== undefined)
  const trace = yield* TraceContext.current
  const started: RecordEvent.RecordEvent = {
    _tag: "RunStarted",
    version: RecordEvent.version,
    agentVersion: Version.version,
    source: input.source ?? "library",
    platform: getPlatform(settings, input),
    provider: route.provider,
    model: route.model,
    cwd,
    resumed: session.history.length > 0,
    ...trace,
    ...(lineage === undefined ? {} : { parent: toParentRecord(lineage) })
  }
  const run: RunState = {
    sessionId: session.id,
    conversationId: session.conversationId,
    taskId,
    turnId,
    platform: getPlatform(settings, input),
    lineage,
    routeWanted: input.route,
    reasoningEffort: input.reasoningEffort ?? settings.reasoningEffort,
    seed: input.seed,
    streaming: input.streaming ?? false,
    readsText: input.readsText ?? input.onEvent !== undefined,
    tools: input.tools ?? settings.tools ?? everything,
    emit: input.onEvent,
    onUsageAfter: input.onUsageAfter,
    recorder,
    conversation: makeConversation([
      Conversation.makeSystemMessage(withEphemeral(session.systemPrompt, input.ephemeralSystemPrompt), session.history),
      ...toConversation(session),
      ...reports,
      ...added
    ]),
    steps: makeSteps(),
    questions: makeQuestions(route),
    tokens: makeTokens(),
    phase: { isStopping: false, isOver: false },
    budget: Budget.make({
      iterations: input.maxIterations ?? settings.maxIterations ?? defaultMaxIterations,
      // The limits of an agent apply to a whole run: its children share their parent's limits.
      limits:
        lineage === undefined ? Budget.merge(settings.budget, input.budget) : Budget.merge(undefined, input.budget),
      parent: lineage?.budget,
      startedAt
    }),
    unfinished: session.unfinished,
    guard: LoopGuard.make(settings.loopGuard ?? LoopGuard.defaults),
    userMessage: prompt
  }
  const opened: OpenedRun = { run, cwd, resumed: session.history.length > 0, notice }
  /** Stores what the run adds to its session, as `before_agent` leaves it. */
  const storeAddedMessages = (added: ReadonlyArray<Prompt.Message>): Effect.Effect<OpenedRun, SessionStoreError> => {
    const appended = store.append(session.id, [...session.closing, ...reports, ...added])
    const isOneTransaction = recorder !== undefined && record?.together === store.together
    const created = session.creation === undefined ? appended : Effect.andThen(session.creation, appended)
    const append = session.creation === undefined || isOneTransaction ? created : (store.together?.(created) ?? created)
    if (recorder === undefined) return Effect.as(append, opened)
    return Effect.as(
      recorder.storing(append, (position) => {
        recorder.appended("runtime", position, session.closing)
        // Their own run was killed.
        for (const { id, name, ran } of session.closed) {
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
        recorder.appended("child", position + session.closing.length, reports)
        recorder.appended("user", position + session.closing.length + reports.length, added)
      }),
      opened
    )
  }
  return { opened, stored: storeAddedMessages, added, started, creation: session.creation }
})

/**
 * Stores the session of a run that failed before its first message was stored: the end of the run is recorded in it.
 */
const createForEnd = (creation: Effect.Effect<void, SessionStoreError>): Effect.Effect<void> =>
  // The run fails with the first failure; a store that is out of reach says so there.
  Effect.catch(creation, (error) => Effect.logDebug(`the session of a run that failed is not stored: ${error.message}`))

/**
 * Runs `before_agent`, and stores the user's message as that phase leaves it. A new session is stored in the same
 * transaction, so that no session exists without its first message.
 */
export const begin = (
  { added, creation, opened, started, stored }: Effect.Success<ReturnType<typeof prepare>>,
  restore: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
): Effect.Effect<OpenedRun, SessionStoreError | MiddlewareFailure, Services> => {
  opened.run.recorder?.write(started)
  const begun = Effect.flatMap(restore(RunLifecycle.begin(opened.run, opened.cwd)), (messages) => {
    const { run } = opened
    if (messages === run.conversation.messages) return stored(added)
    const old = new Set(run.conversation.messages.filter((message) => !added.some((own) => own === message)))
    replaceMessages(run, messages)
    return stored(messages.filter((message, index) => !old.has(message) && (index > 0 || message.role !== "system")))
  })
  return creation === undefined ? begun : Effect.onError(begun, () => createForEnd(creation))
}

/** A session that is to be compacted, and the run options that its prompt depends on. */
export interface CompactInput extends Pick<RunOptions, "cwd" | "onEvent" | "route" | "tools"> {
  readonly sessionId: string
  /** Subject whose detail is to stay. */
  readonly focus?: string | undefined
  /** Newest exchanges that stay word for word; the engine chooses when absent. */
  readonly keepExchanges?: number | undefined
}

/** The state of a session `id` as a run would find it, with no message of the user; nothing is stored. */
export const openWithoutPrompt = Effect.fnUntraced(function* (
  id: Ids.SessionId,
  input: Omit<CompactInput, "focus" | "keepExchanges">
) {
  const { added, opened } = yield* prepare(id, { ...input, prompt: "compaction" })
  removeFrom(opened.run, opened.run.conversation.messages.length - added.length)
  return opened
})
