/**
 * A session of an ACP client. It passes the client's prompts to a live session, and sends the events of the live
 * session to the client as updates.
 *
 * **Details**
 *
 * A prompt ends when its turn has ended and all updates of the turn were sent. While a prompt is running, other prompts
 * are refused. The session retains its id across compactions; the agent continues in the stored session that replaced
 * the compacted one.
 *
 * Cancelling a prompt stops its own turn, removes its message from the queue if another client's turn comes first, or
 * aborts its command. Cancelling the request of a prompt has the same effect, but the request fails with the protocol's
 * error. If the session is closed, its prompt is answered as cancelled. A cancellation without an active prompt stops a
 * turn that was started by a background report.
 *
 * Source: Agent Client Protocol, sessions.
 */
import type { PromptResponse, SessionConfigOption } from "@agentclientprotocol/sdk/unstable"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Path from "effect/Path"
import type * as Prompt from "effect/ai/Prompt"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import type { SessionStoreError } from "../../../base/domain/AgentError.ts"
import type * as Ids from "../../../base/domain/Ids.ts"
import * as Redaction from "../../../base/domain/Redaction.ts"
import { Secrets } from "../../../base/domain/Secrets.ts"
import type { ChangeSet } from "../../../store/ChangeSets.ts"
import * as EventReaders from "../../host/EventReaders.ts"
import { type HostEvent, isContinuation, type LiveSettings, type Turn } from "../../host/HostEvent.ts"
import type { LiveSession } from "../../host/LiveSession.ts"
import * as StreamSecrets from "../StreamSecrets.ts"
import type { SessionClient } from "./AcpClient.ts"
import { type AcpFailure, makeFailure } from "./AcpFailure.ts"
import * as AcpPromptTurn from "./AcpPromptTurn.ts"
import * as AcpQuestions from "./AcpQuestions.ts"
import * as AcpReplay from "./AcpReplay.ts"
import * as AcpSettings from "./AcpSettings.ts"
import * as AcpTerminals from "./AcpTerminals.ts"
import * as AcpUpdates from "./AcpUpdates.ts"
import * as RemoteImages from "./RemoteImages.ts"

export type { SessionClient } from "./AcpClient.ts"
export { AcpFailure, makeFailure } from "./AcpFailure.ts"
export type { AcpCommand } from "./AcpPromptTurn.ts"
export type { AcpModel, SessionState } from "./AcpSettings.ts"

/** Parts of a session that its host provides. */
export interface OpenedSession {
  readonly live: LiveSession
  readonly cwd: string
  readonly models: Effect.Effect<ReadonlyArray<AcpSettings.AcpModel>>
  readonly commands: ReadonlyArray<AcpPromptTurn.AcpCommand>
  /** Context window of the model in tokens, or undefined if unknown. */
  readonly window: Effect.Effect<number | undefined>
  /**
   * Files that the runs of the conversation changed. When a session is loaded, they are shown with the calls that made
   * them. If absent, no changes are shown.
   */
  readonly changes?: Effect.Effect<ReadonlyArray<ChangeSet>, SessionStoreError> | undefined
  /** Notices that the user should see before the first prompt. */
  readonly notices: ReadonlyArray<string>
}

/** An open session of a client. */
export interface AcpSession {
  readonly state: Effect.Effect<AcpSettings.SessionState>
  /** Id of the stored session that this session currently uses. */
  readonly stored: Effect.Effect<Ids.SessionId>
  readonly prompt: (blocks: AcpPromptTurn.PromptBlocks) => Effect.Effect<PromptResponse, AcpFailure>
  readonly cancel: Effect.Effect<void>
  readonly setMode: (mode: string) => Effect.Effect<void, AcpFailure>
  readonly setOption: (option: string, value: string) => Effect.Effect<Array<SessionConfigOption>, AcpFailure>
  /** Sends the stored conversation to the client as updates. */
  readonly replay: Effect.Effect<void, AcpFailure>
  /** Asks the client the questions of a suspended run, and continues it. Returns false if no run is suspended. */
  readonly askWaiting: Effect.Effect<boolean, AcpFailure>
  /** Sends the turns that other processes run in this session to the client, until the session is closed. */
  readonly follow: Effect.Effect<void>
  /** Sends the list of available commands to the client. */
  readonly announce: Effect.Effect<void>
}

/**
 * Time to wait for a cancelled turn when a session is closed. It is longer than the time that a turn waits for a
 * hanging tool call.
 */
const closeGrace = "7 seconds"

/** A session, its client, and the filters and updates of its current turn. */
interface SessionContext {
  readonly opened: OpenedSession
  readonly client: SessionClient
  readonly resolvePath: (path: string) => string
  readonly secrets: StreamSecrets.StreamSecrets
  readonly images: ReturnType<typeof RemoteImages.makeEventFilter>
  readonly prompts: AcpPromptTurn.PromptTurns
  readonly questions: AcpQuestions.AcpQuestions
  readonly settings: AcpSettings.AcpSettings
  /** Context window of the model in tokens, or `undefined` before it is read. */
  window: number | undefined
  updates: AcpUpdates.TurnUpdates | undefined
}

const sendUpdates = Effect.fnUntraced(function* (
  { client, updates }: SessionContext,
  events: ReturnType<StreamSecrets.StreamSecrets["of"]>
) {
  for (const one of events) for (const update of updates?.of(one) ?? []) yield* client.update(update)
})

/** Sends the end of a turn: the text that the filters held back, and updates that end the open calls. */
const sendTurnEnd = (context: SessionContext): Effect.Effect<void> =>
  Effect.gen(function* () {
    const { client, images, secrets } = context
    yield* sendUpdates(context, images.of(secrets.end()))
    yield* sendUpdates(context, images.end())
    for (const update of context.updates?.end() ?? []) yield* client.update(update)
  })

const sendTitle = Effect.fnUntraced(function* ({ client, opened: { live } }: SessionContext) {
  const session = yield* Effect.orElseSucceed(live.known, () => undefined)
  if (session?.title !== undefined) yield* client.update({ sessionUpdate: "session_info_update", title: session.title })
})

const startUpdates = Effect.fnUntraced(function* (context: SessionContext, { isRewritten, message }: Turn) {
  const { client, opened, resolvePath } = context
  context.window ??= yield* opened.window
  context.updates = AcpUpdates.makeTurnUpdates(!isRewritten, {
    resolve: resolvePath,
    window: () => context.window,
    hasTerminals: AcpTerminals.isShown(client.capabilities)
  })
  if (message.origin !== "client" && !isContinuation(message))
    yield* client.update({
      sessionUpdate: "user_message_chunk",
      content: { type: "text", text: Redaction.redactText(message.shown) }
    })
})

const sendSettings = Effect.fnUntraced(function* (context: SessionContext, changed: LiveSettings) {
  const { client, settings } = context
  context.window = undefined
  yield* client.update({ sessionUpdate: "current_mode_update", currentModeId: changed.mode })
  yield* client.update({
    sessionUpdate: "config_option_update",
    configOptions: yield* settings.listSettingOptions(changed)
  })
})

/** Sends an event of the live session to the client. */
const handleEvent = Effect.fnUntraced(function* (context: SessionContext, event: HostEvent) {
  const { client, images, prompts, questions, secrets } = context
  switch (event._tag) {
    case "TurnStarted":
      yield* startUpdates(context, event.turn)
      return yield* prompts.follow(event)
    case "RunEvents":
      return yield* sendUpdates(context, images.of(secrets.of(event.events)))
    case "TurnEnded":
      yield* sendTurnEnd(context)
      return yield* prompts.follow(event)
    case "QuestionAsked":
      return yield* questions.ask(event.question)
    case "QuestionClosed":
      yield* prompts.follow(event)
      return event.answer === undefined ? yield* questions.withdraw(event.id) : questions.forget(event.id)
    case "SessionChanged":
      return yield* sendTitle(context)
    case "SettingsChanged":
      return yield* sendSettings(context, event.settings)
    case "Notice":
      return yield* client.update({
        sessionUpdate: "agent_thought_chunk",
        content: { type: "text", text: Redaction.redactText(`${event.message}\n`) }
      })
    case "MessagesReturned":
      return yield* prompts.follow(event)
    case "QueueChanged":
    case "Steered":
    case "UsageAfter":
      return
  }
})

/** Returns the position of the first message of a run that is followed. */
const findEnd = (
  messages: ReadonlyArray<Prompt.Message>,
  id: string,
  { position, sessionId }: { readonly sessionId: string; readonly position: number | undefined }
): number =>
  // The conversation was compacted by the run, or the run continues with an earlier message.
  sessionId !== id || position === undefined
    ? Math.max(
        0,
        messages.findLastIndex(({ role }) => role === "user")
      )
    : position

/** Sends the stored conversation to the client as updates. */
const replayConversation = Effect.fnUntraced(function* ({ client, opened, resolvePath }: SessionContext) {
  const { changes = Effect.succeed([]), live } = opened
  // A turn that another process runs is followed from its beginning.
  const followed = yield* live.attach
  const [{ session }, stored, changed] = yield* Effect.mapError(
    Effect.all([live.state, live.messages, changes]),
    ({ message }) => makeFailure("internal", message)
  )
  const messages = followed === undefined ? stored : stored.slice(0, findEnd(stored, session.id, followed))
  const context = {
    resolve: resolvePath,
    hasTerminals: AcpTerminals.isShown(client.capabilities),
    sessionId: session.id,
    changes: changed
  }
  for (const update of AcpReplay.replayMessages(messages, context)) yield* client.update(update)
})

/** Sends the list of slash commands of the session, if it has any. */
const announceCommands = ({ client, opened: { commands } }: SessionContext): Effect.Effect<void> =>
  commands.length === 0
    ? Effect.void
    : client.update({
        sessionUpdate: "available_commands_update",
        availableCommands: commands.map(({ description, hint, name }) => ({
          name,
          description,
          ...(hint === undefined ? {} : { input: { hint } })
        }))
      })

/** Opens a session for a client, for the lifetime of the scope. */
export const make = Effect.fnUntraced(function* (
  opened: OpenedSession,
  client: SessionClient
): Effect.fn.Return<AcpSession, never, Path.Path | Scope.Scope> {
  const { commands, cwd, live, models, notices } = opened
  const paths = yield* Path.Path
  const scope = yield* Effect.scope
  const prompts = AcpPromptTurn.make(live, client, { commands, notices })
  const context: SessionContext = {
    opened,
    client,
    resolvePath: (path) => paths.resolve(cwd, path),
    secrets: StreamSecrets.make(yield* Secrets),
    images: RemoteImages.makeEventFilter(),
    prompts,
    questions: yield* AcpQuestions.make(live, client),
    settings: AcpSettings.make(live, models),
    window: undefined,
    updates: undefined
  }
  // The events of a followed turn come after the replayed messages.
  const sending = yield* Semaphore.make(1)
  const reader = yield* live.subscribe({ whenBehind: "wait" })
  const reading = yield* Effect.forkScoped(
    Effect.ensuring(
      EventReaders.forEachEvent(reader, (event) => sending.withPermit(handleEvent(context, event))),
      Effect.andThen(sendTurnEnd(context), prompts.abandon)
    )
  )
  // An active prompt is cancelled. Its request is answered after the last updates of its turn.
  yield* Effect.addFinalizer(() =>
    Effect.gen(function* () {
      yield* Effect.timeoutOption(Effect.interruptible(prompts.finish), closeGrace)
      yield* live.close
      yield* Fiber.await(reading)
    })
  )
  return {
    state: context.settings.state,
    stored: Effect.map(live.state, ({ session }) => session.id),
    prompt: (blocks) => Effect.provideService(prompts.prompt(blocks), Path.Path, paths),
    cancel: prompts.cancel,
    setMode: context.settings.setMode,
    setOption: context.settings.setOption,
    replay: sending.withPermit(replayConversation(context)),
    askWaiting: Effect.flatMap(live.isFollowing, (isFollowing) =>
      isFollowing
        ? Effect.succeed(false)
        : Effect.mapError(live.askWaiting, ({ message }) => makeFailure("internal", message))
    ),
    follow: Scope.provide(live.follow, scope),
    announce: announceCommands(context)
  }
})
