/**
 * Opens the session of a run: a stored session with the calls that its last run left open, or a new session with its
 * system prompt.
 *
 * Source: `ARCHITECTURE.md` §4, `hermes-llm.md` §7.1.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Prompt from "effect/ai/Prompt"
import {
  type ConfigError,
  InvalidInput,
  SessionBusy,
  type SessionStoreError,
  type TenantRefused
} from "../base/domain/AgentError.ts"
import * as Conversation from "../base/domain/Conversation.ts"
import type * as Ids from "../base/domain/Ids.ts"
import { toInfo as routeInfo } from "../base/domain/Route.ts"
import * as TextHygiene from "../base/domain/TextHygiene.ts"
import * as SessionChain from "../store/SessionChain.ts"
import { type Session, SessionStore } from "../store/SessionStorePort.ts"
import * as SystemPrompt from "../tools/prompt/SystemPrompt.ts"
import { everything } from "../tools/ToolRegistry.ts"
import * as ChildQuestions from "./ChildQuestions.ts"
import * as MemoryTurns from "./MemoryTurns.ts"
import type { AgentSettings, RunOptions } from "./RunInput.ts"
import * as RunConditions from "./RunConditions.ts"
import { resolveDirectory } from "./RunDirectory.ts"
import * as RunSuspension from "./RunSuspension.ts"
import { type AgentServices, Services } from "./Services.ts"

interface SessionPlace {
  /** Id of the new session, absent if no session is created. */
  readonly id?: Ids.SessionId
  readonly parentId: Ids.SessionId | undefined
  readonly cwd: string
  readonly provider: string
  readonly model: string
}

/** Returns the surface on which the user reads a run. */
export const getPlatform = (settings: AgentSettings, { platform }: Pick<RunOptions, "platform">): string =>
  platform ?? settings.platform ?? "library"

/** A stored session that will be continued, or a new session that will be stored. */
export interface OpenedSession {
  readonly id: Ids.SessionId
  readonly conversationId: Ids.SessionId
  readonly systemPrompt: string
  /** Stored messages of the session. */
  readonly history: ReadonlyArray<Prompt.Message>
  /** End of the session's last run, in milliseconds. Absent for a new session. */
  readonly lastEndedAt?: number | undefined
  /** Model that the session was begun with. Absent for a new session. */
  readonly model?: string | undefined
  /** Results of the calls that the last run left open, to be stored before anything else. */
  readonly closing: ReadonlyArray<Prompt.ToolMessage>
  /** Open calls that are closed. `ran` is true for a call that had started. */
  readonly closed: ReadonlyArray<{ readonly id: string; readonly name: string; readonly ran: boolean }>
  /** Open calls of the last run that this run executes. */
  readonly unfinished: ReadonlyArray<Prompt.ToolCallPart>
  /** Questions and steps of these calls. */
  readonly waiting: RunSuspension.WaitingCalls
  /**
   * Stores the session in the transaction of the first message of its run. Absent for a session that is already stored.
   */
  readonly creation?: Effect.Effect<void, SessionStoreError> | undefined
}

const nothingOpen = { closing: [], closed: [], unfinished: [], waiting: RunSuspension.nothingWaits }

/** Returns the result of an open call that does not run. */
const describeEnd = (callId: string, hasBegun: boolean, { questions, steps }: RunSuspension.WaitingCalls): string => {
  const asked = questions.filter(({ question }) => question.callId === callId)
  const hasSteps = steps.some((step) => step.callId === callId && !RunConditions.isConditionsStep(step.name))
  if (hasBegun || (asked.length === 0 && !hasSteps)) return Conversation.describeUnknownResult(hasBegun)
  return asked.every(({ question: { kind, origin } }) => kind === "approval" && origin === undefined)
    ? Conversation.withdrawnResult
    : Conversation.stoppedAtQuestionResult
}

/**
 * Selects the questions and steps of calls. The model may use the ids of the other calls, which have a result now, for
 * new calls, which must not find the earlier steps.
 */
const selectWaiting = (
  { questions, steps }: RunSuspension.WaitingCalls,
  calls: ReadonlyArray<Prompt.ToolCallPart>
): RunSuspension.WaitingCalls => {
  const ids = new Set(calls.map(({ id }) => id))
  return {
    questions: questions.filter(({ question: { callId } }) => callId !== undefined && ids.has(callId)),
    steps: steps.filter(({ callId }) => ids.has(callId))
  }
}

/** Resolves the calls that a run left open when its process died, each according to its known state. */
const resolveOpenCalls = Effect.fnUntraced(function* (
  id: Ids.SessionId,
  history: ReadonlyArray<Prompt.Message>,
  { goesOn, openCalls, tools }: Pick<RunOptions, "goesOn" | "openCalls" | "tools">,
  asking: ChildQuestions.ChildAsking | undefined
) {
  const open = Conversation.listOpenCalls(history)
  if (open.length === 0) return nothingOpen
  const { registry, settings, store } = yield* Services
  const begun = yield* store.begun(id)
  const stored = yield* store.listQuestions({
    sessionId: id,
    states: ["open", "answered"],
    limit: Number.MAX_SAFE_INTEGER
  })
  const questions = asking === undefined ? stored : [...stored, ...ChildQuestions.selectCurrent(asking, history)]
  const waiting = { questions, steps: yield* store.listSteps(id) }
  // A call that delegated continues its children.
  const delegates = new Set(
    waiting.steps.flatMap(({ callId, name }) => (ChildQuestions.isChildrenStep(name) ? [callId] : []))
  )
  const isRun = goesOn === true && openCalls === "run" && (questions.length > 0 || history.at(-1)?.role !== "user")
  const { get } = isRun ? yield* registry.snapshot(tools ?? settings.tools ?? everything) : { get: () => undefined }
  const unfinished = isRun
    ? open.filter((call) => !begun.has(call.id) || delegates.has(call.id) || get(call.name)?.facts.idempotent === true)
    : []
  const told = open.filter((call) => !unfinished.includes(call))
  return {
    closing: told.map((call) =>
      Conversation.makeToolResult(call, { output: describeEnd(call.id, begun.has(call.id), waiting), isFailure: true })
    ),
    closed: told.map(({ id, name }) => ({ id, name, ran: begun.has(id) })),
    unfinished,
    waiting: selectWaiting(waiting, unfinished)
  }
})

/** Returns the stored conversation from which a run continues. Calls that the run will execute stay open. */
const toConversation = ({ closing, history, unfinished }: OpenedSession): Array<Prompt.Message> => {
  const last = unfinished.length === 0 ? -1 : history.findLastIndex(({ role }) => role === "assistant")
  return last === -1
    ? Conversation.resume([...history, ...closing])
    : [...Conversation.resume(history.slice(0, last)), ...history.slice(last), ...closing]
}

/** Builds the layers of the system prompt of a new session. */
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

/** The part of a run's input on which its system prompt depends. */
export type PromptInput = Pick<RunOptions, "cwd" | "platform" | "route" | "source" | "tools">

/** Builds the system prompt layers, in order, with which a new session (with this `id`, if given) would begin. */
export const buildPromptLayers = Effect.fnUntraced(function* (
  input: PromptInput,
  id?: Ids.SessionId
): Effect.fn.Return<ReadonlyArray<SystemPrompt.PromptLayer>, ConfigError | TenantRefused, Services> {
  const { router, settings } = yield* Services
  const { model, provider } = input.route === undefined ? yield* router.primary : routeInfo(input.route)
  return yield* buildLayers(input, {
    cwd: yield* resolveDirectory(input.cwd, settings.cwd),
    model,
    provider,
    parentId: undefined,
    ...(id === undefined ? {} : { id })
  })
})

/** Tests whether a session is in the state that the caller of a run expects. */
const isExpected = (
  expected: NonNullable<RunOptions["expectedSession"]>,
  id: Ids.SessionId,
  session: Option.Option<Session>
): boolean =>
  expected.sessionId === id &&
  expected.messages === Option.match(session, { onNone: () => 0, onSome: ({ messageCount }) => messageCount })

/** Refuses a history that is not a list of messages of a conversation. A program in JavaScript may pass anything. */
const checkHistory = (history: unknown): Effect.Effect<void, InvalidInput> => {
  if (history === undefined) return Effect.void
  const messages: ReadonlyArray<unknown> = Array.isArray(history) ? Array.from(history) : [history]
  const wrong = messages.findIndex((message) => !Prompt.isMessage(message))
  if (wrong !== -1)
    return Effect.fail(
      new InvalidInput({
        message: `history[${wrong}] is not a message: make it by Prompt.userMessage and its siblings`
      })
    )
  return messages.some((message) => Prompt.isMessage(message) && message.role === "system")
    ? Effect.fail(
        new InvalidInput({
          message:
            "history has a system message: give the instructions of the run as systemPrompt or ephemeralSystemPrompt"
        })
      )
    : Effect.void
}

/** Input of a run that opens a session. */
interface OpeningInput {
  readonly input: RunOptions
  readonly place: SessionPlace
  readonly asking: ChildQuestions.ChildAsking | undefined
}

/** Opens the session `id`, which the caller owns. A new session is stored later, by its `creation`. */
export const openSession = Effect.fnUntraced(function* (
  { folderBranch, interceptors, settings, store }: AgentServices,
  id: Ids.SessionId,
  { asking, input, place }: OpeningInput
): Effect.fn.Return<OpenedSession, InvalidInput | SessionBusy | SessionStoreError, Services> {
  yield* checkHistory(input.history)
  const { history = [] } = input
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
      lastEndedAt: known.value.endedAt,
      model: known.value.model,
      ...(yield* resolveOpenCalls(id, stored, input, asking))
    }
  }
  const systemPrompt = TextHygiene.toWellFormed(
    input.systemPrompt ?? SystemPrompt.render(yield* buildLayers(input, { ...place, id }))
  )
  const branch = yield* folderBranch(place.cwd)
  const created = store.create({
    id,
    source: input.source ?? "library",
    systemPrompt,
    hasOwnPrompt: input.systemPrompt !== undefined,
    isUnnamed: input.sessionId === undefined,
    branch,
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

/** Checks that a session to continue ends in a message to answer or in calls to run. */
export const checkEnd = ({ closing, history, unfinished }: OpenedSession): Effect.Effect<void, InvalidInput> => {
  const role = [...history, ...closing].at(-1)?.role
  return unfinished.length > 0 || role === "user" || role === "tool"
    ? Effect.void
    : Effect.fail(
        new InvalidInput({
          message: "the session does not end in a message of the user or in results of tools: give a prompt"
        })
      )
}

/** Returns the system prompt for the requests of a run. */
const withEphemeral = (systemPrompt: string, ephemeral: string | undefined): string =>
  ephemeral === undefined || ephemeral.trim() === ""
    ? systemPrompt
    : `${systemPrompt}\n\n${TextHygiene.toWellFormed(ephemeral).trim()}`

/** Returns the messages with which a run on a session begins. `ephemeral` is sent after the system prompt. */
export const makeFirstMessages = (
  session: OpenedSession,
  ephemeral: string | undefined
): ReadonlyArray<Prompt.Message> => [
  Conversation.makeSystemMessage(withEphemeral(session.systemPrompt, ephemeral), session.history),
  ...toConversation(session)
]
