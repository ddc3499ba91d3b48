/**
 * One session of an ACP client over a live session: prompts in, updates out.
 *
 * **Details**
 *
 * A prompt ends when its turn has ended and all updates before were sent. While one is under way another is refused.
 * The session keeps its id over compactions; the agent goes on in the stored session that took the place of the
 * compacted one.
 *
 * A prompt that is cancelled stops its own turn, takes its message back where another's turn is before it, or gives up
 * its command. One whose request is taken back does the same, and has the protocol's error for it; one whose session is
 * closed is answered as cancelled. A cancellation while no prompt is under way stops the turn that a report from the
 * background began.
 *
 * Source: Agent Client Protocol, sessions.
 */
import type { PromptResponse, SessionConfigOption } from "@agentclientprotocol/sdk/unstable"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Path from "effect/Path"
import type * as Scope from "effect/Scope"
import type { AgentError, SessionStoreError } from "../../../base/domain/AgentError.ts"
import type * as Ids from "../../../base/domain/Ids.ts"
import * as Redaction from "../../../base/domain/Redaction.ts"
import type { RunResult } from "../../../base/domain/RunEvent.ts"
import { Secrets } from "../../../base/domain/Secrets.ts"
import * as EventReaders from "../../host/EventReaders.ts"
import type { HostEvent, Message, OpenQuestion } from "../../host/HostEvent.ts"
import type { LiveSession } from "../../host/LiveSession.ts"
import type { RunInput } from "../../../agent/RunInput.ts"
import type { ChangeSet } from "../../../store/ChangeSets.ts"
import * as StreamSecrets from "../StreamSecrets.ts"
import type { SessionClient } from "./AcpClient.ts"
import { type AcpFailure, makeFailure } from "./AcpFailure.ts"
import * as AcpPrompt from "./AcpPrompt.ts"
import * as AcpQuestions from "./AcpQuestions.ts"
import * as AcpSettings from "./AcpSettings.ts"
import * as AcpTerminals from "./AcpTerminals.ts"
import * as AcpUpdates from "./AcpUpdates.ts"
import * as RemoteImages from "./RemoteImages.ts"

export type { SessionClient } from "./AcpClient.ts"
export { AcpFailure, makeFailure } from "./AcpFailure.ts"
export type { AcpModel, SessionState } from "./AcpSettings.ts"

/** A slash command of a session. */
export interface AcpCommand {
  readonly name: string
  readonly description: string
  /** Form of its argument; none when absent. */
  readonly hint?: string | undefined
  /** Does it: says something, or has the agent work on a prompt. Fails with a line for the user. */
  readonly run: (argument: string) => Effect.Effect<{ readonly say: string } | { readonly prompt: string }, string>
}

/** Parts of a session that its host makes. */
export interface OpenedSession {
  readonly live: LiveSession
  readonly cwd: string
  readonly models: Effect.Effect<ReadonlyArray<AcpSettings.AcpModel>>
  readonly commands: ReadonlyArray<AcpCommand>
  /** Context window of the model in tokens, or undefined if unknown. */
  readonly window: Effect.Effect<number | undefined>
  /**
   * Files that the runs of the conversation changed: a session that is loaded shows them beside its calls. None when
   * absent.
   */
  readonly changes?: Effect.Effect<ReadonlyArray<ChangeSet>, SessionStoreError> | undefined
  /** Things that the user should know before the first prompt. */
  readonly notices: ReadonlyArray<string>
}

/** A session that is open for a client. */
export interface AcpSession {
  readonly state: Effect.Effect<AcpSettings.SessionState>
  /** The stored session that it is in. */
  readonly stored: Effect.Effect<Ids.SessionId>
  readonly prompt: (blocks: Parameters<typeof AcpPrompt.read>[0]) => Effect.Effect<PromptResponse, AcpFailure>
  readonly cancel: Effect.Effect<void>
  readonly setMode: (mode: string) => Effect.Effect<void, AcpFailure>
  readonly setOption: (option: string, value: string) => Effect.Effect<Array<SessionConfigOption>, AcpFailure>
  /** Sends the stored conversation as updates. */
  readonly replay: Effect.Effect<void, AcpFailure>
  /** Tells the client which commands there are. */
  readonly announce: Effect.Effect<void>
}

const stopReasons: Partial<Record<RunResult["exit"], PromptResponse["stopReason"]>> = {
  interrupted_by_user: "cancelled",
  output_truncated: "max_tokens",
  max_iterations_reached: "max_turn_requests",
  budget_exhausted: "max_turn_requests",
  content_filtered: "refusal"
}

type TurnExit = Exit.Exit<RunResult, AgentError>

/** The prompt that the client waits for. */
interface OpenPrompt {
  readonly done: Deferred.Deferred<TurnExit>
  readonly cancelled: Deferred.Deferred<void>
  isCancelled: boolean
  /** Its message; with a plan that is carried out, the one that followed it. Undefined before it is sent. */
  message: Message["id"] | undefined
  /** A plan that ended its turn, until the user decides. The prompt continues with that decision. */
  plan: { readonly id: OpenQuestion["id"]; readonly exit: TurnExit } | undefined
}

/**
 * Time that closing waits for the turn of a prompt, which is cancelled then: longer than a call is waited for that
 * hangs.
 */
const closeGrace = "7 seconds"

const cancelled: PromptResponse = { stopReason: "cancelled" }

const toPromptResponse = (exit: TurnExit, { isCancelled }: OpenPrompt): Effect.Effect<PromptResponse, AcpFailure> => {
  if (Exit.isSuccess(exit)) {
    const { exit: how, usage } = exit.value
    return Effect.succeed({
      stopReason: isCancelled ? "cancelled" : (stopReasons[how] ?? "end_turn"),
      usage: AcpUpdates.toAcpUsage(usage)
    })
  }
  if (isCancelled || Exit.hasInterrupts(exit)) return Effect.succeed(cancelled)
  const error = Exit.findErrorOption(exit)
  return Effect.fail(
    makeFailure(
      "internal",
      error._tag === "Some" ? error.value.message : "The turn ended by a defect; see the log on stderr."
    )
  )
}

/** Opens a session for a client, as long as the scope lives. */
export const make = Effect.fnUntraced(function* (
  { changes = Effect.succeed([]), commands, cwd, live, models, notices, window }: OpenedSession,
  client: SessionClient
): Effect.fn.Return<AcpSession, never, Path.Path | Scope.Scope> {
  const paths = yield* Path.Path
  const resolvePath = (path: string): string => paths.resolve(cwd, path)
  const hidden = StreamSecrets.make(yield* Secrets)
  const imageless = RemoteImages.makeEventFilter()
  const questions = yield* AcpQuestions.make(live, client)
  const settings = AcpSettings.make(live, models)
  const reader = yield* live.subscribe({ whenBehind: "wait" })
  let current: OpenPrompt | undefined
  let tokens: number | undefined
  let updates: AcpUpdates.TurnUpdates | undefined
  let unsaid = notices

  const titled = Effect.gen(function* () {
    const session = yield* Effect.orElseSucceed(live.known, () => undefined)
    if (session?.title !== undefined)
      yield* client.update({ sessionUpdate: "session_info_update", title: session.title })
  })

  const sendUpdates = Effect.fnUntraced(function* (events: ReturnType<StreamSecrets.StreamSecrets["of"]>) {
    for (const one of events) for (const update of updates?.of(one) ?? []) yield* client.update(update)
  })

  const showEnd = Effect.gen(function* () {
    yield* sendUpdates(imageless.of(hidden.end()))
    yield* sendUpdates(imageless.end())
    for (const update of updates?.end() ?? []) yield* client.update(update)
  })

  const handleEvent = Effect.fnUntraced(function* (event: HostEvent) {
    switch (event._tag) {
      case "TurnStarted": {
        const { isRewritten, message } = event.turn
        tokens ??= yield* window
        updates = AcpUpdates.makeTurnUpdates(!isRewritten, {
          resolve: resolvePath,
          window: () => tokens,
          hasTerminals: AcpTerminals.isShown(client.capabilities)
        })
        if (message.origin !== "client")
          yield* client.update({
            sessionUpdate: "user_message_chunk",
            content: { type: "text", text: Redaction.redactText(message.shown) }
          })
        else if (current?.plan !== undefined) Object.assign(current, { plan: undefined, message: message.id })
        return
      }
      case "RunEvents":
        return yield* sendUpdates(imageless.of(hidden.of(event.events)))
      case "TurnEnded": {
        yield* showEnd
        if (current === undefined || event.turn.message.id !== current.message) return
        const plan = (yield* live.state).questions.find(({ _tag, turn }) => _tag === "Plan" && turn === event.turn.id)
        if (plan === undefined) yield* Deferred.succeed(current.done, event.exit)
        else current.plan = { id: plan.id, exit: event.exit }
        return
      }
      case "QuestionAsked":
        return yield* questions.ask(event.question)
      case "QuestionClosed": {
        if (current?.plan?.id === event.id) {
          const goesOn =
            event.answer?._tag === "Plan" && Boolean(event.answer.mode !== "plan" || event.answer.words?.trim())
          if (!goesOn) yield* Deferred.succeed(current.done, current.plan.exit)
        }
        return event.answer === undefined ? yield* questions.withdraw(event.id) : questions.forget(event.id)
      }
      case "SessionChanged":
        return yield* titled
      case "SettingsChanged": {
        tokens = undefined
        yield* client.update({ sessionUpdate: "current_mode_update", currentModeId: event.settings.mode })
        return yield* client.update({
          sessionUpdate: "config_option_update",
          configOptions: yield* settings.optionsOf(event.settings)
        })
      }
      case "Notice":
        return yield* client.update({
          sessionUpdate: "agent_thought_chunk",
          content: { type: "text", text: Redaction.redactText(`${event.message}\n`) }
        })
      case "MessagesReturned": {
        const isReturned = event.messages.some(({ id }) => id === current?.message)
        if (isReturned && current !== undefined) yield* Deferred.succeed(current.done, Exit.interrupt())
        return
      }
      case "QueueChanged":
      case "Steered":
      case "UsageAfter":
        return
    }
  })
  const reading = yield* Effect.forkScoped(
    Effect.ensuring(
      EventReaders.forEachEvent(reader, handleEvent),
      Effect.andThen(
        showEnd,
        Effect.suspend(() => (current === undefined ? Effect.void : Deferred.succeed(current.done, Exit.interrupt())))
      )
    )
  )

  /** Stops the turn; nothing that waits begins behind it. */
  const stopAll = Effect.andThen(live.takeBack, Effect.asVoid(live.stop))

  /** Ends an abandoned prompt, but no turn of another prompt. */
  const withdrawPrompt = Effect.fnUntraced(function* ({ done, message, plan }: OpenPrompt) {
    if (message === undefined) return
    if ((yield* live.unqueue(message)) !== undefined) {
      yield* Deferred.succeed(done, Exit.interrupt())
      return
    }
    const { turn } = yield* live.state
    if (plan !== undefined || turn?.message.id === message) yield* stopAll
  })

  const cancel = Effect.suspend(() => {
    const open = current
    if (open === undefined) return stopAll
    open.isCancelled = true
    return Effect.andThen(Deferred.succeed(open.cancelled, undefined), withdrawPrompt(open))
  })

  // A prompt that is under way is cancelled, and answered behind what its turn still says.
  yield* Effect.addFinalizer(() =>
    Effect.gen(function* () {
      const open = current
      const ended =
        open === undefined
          ? Effect.void
          : Effect.andThen(cancel, open.message === undefined ? Effect.void : Deferred.await(open.done))
      yield* Effect.timeoutOption(Effect.interruptible(ended), closeGrace)
      yield* live.close
      yield* Fiber.await(reading)
    })
  )

  /** Sends a message and waits for its turn to end, also if the request is cancelled. */
  const runPromptTurn = (
    open: OpenPrompt,
    prompt: RunInput["prompt"],
    shown: string
  ): Effect.Effect<PromptResponse, AcpFailure> =>
    Effect.uninterruptibleMask((restore) =>
      Effect.gen(function* () {
        if (open.isCancelled) return cancelled
        open.message = (yield* live.send({ prompt, shown })).message.id
        // It may have been cancelled while it was sent.
        if (open.isCancelled) yield* withdrawPrompt(open)
        const exit = yield* Effect.onInterrupt(restore(Deferred.await(open.done)), () =>
          Effect.andThen(withdrawPrompt(open), Deferred.await(open.done))
        )
        return yield* toPromptResponse(exit, open)
      })
    )

  const findCommand = (shown: string) => {
    const [, name = "", argument = ""] = /^\/([\w:-]+)\s*([^]*)$/u.exec(shown) ?? []
    const command = commands.find((one) => one.name === name)
    return command === undefined ? undefined : command.run(argument.trim())
  }

  const answerPrompt = Effect.fnUntraced(function* (
    open: OpenPrompt,
    blocks: Parameters<AcpSession["prompt"]>[0]
  ): Effect.fn.Return<PromptResponse, AcpFailure> {
    for (const line of unsaid)
      yield* client.update({ sessionUpdate: "agent_thought_chunk", content: { type: "text", text: `${line}\n` } })
    unsaid = []
    const message = yield* Effect.mapError(Effect.provideService(AcpPrompt.read(blocks), Path.Path, paths), (line) =>
      makeFailure("invalid_params", line)
    )
    const command = findCommand(message.shown)
    if (command === undefined) return yield* runPromptTurn(open, message.prompt, message.shown)
    const done = yield* Effect.raceFirst(
      Effect.mapError(command, (line) => makeFailure("invalid_params", line)),
      Effect.as(Deferred.await(open.cancelled), undefined)
    )
    if (done === undefined) return cancelled
    if ("prompt" in done) return yield* runPromptTurn(open, done.prompt, message.shown)
    yield* client.update(AcpUpdates.makeMessageChunk(Redaction.redactText(done.say)))
    return { stopReason: "end_turn" }
  })

  const prompt: AcpSession["prompt"] = (blocks) =>
    Effect.acquireUseRelease(
      Effect.suspend((): Effect.Effect<OpenPrompt, AcpFailure> => {
        if (current !== undefined)
          return makeFailure(
            "invalid_request",
            "A prompt of this session is under way. Cancel it, or wait for its end."
          )
        current = {
          done: Deferred.makeUnsafe(),
          cancelled: Deferred.makeUnsafe(),
          isCancelled: false,
          message: undefined,
          plan: undefined
        }
        return Effect.succeed(current)
      }),
      (open) => answerPrompt(open, blocks),
      () =>
        Effect.sync(() => {
          current = undefined
        })
    )

  return {
    state: settings.state,
    stored: Effect.map(live.state, ({ session }) => session.id),
    prompt,
    cancel,
    setMode: settings.setMode,
    setOption: settings.setOption,
    replay: Effect.gen(function* () {
      const [{ session }, messages, changed] = yield* Effect.mapError(
        Effect.all([live.state, live.messages, changes]),
        ({ message }) => makeFailure("internal", message)
      )
      const context = {
        resolve: resolvePath,
        hasTerminals: AcpTerminals.isShown(client.capabilities),
        sessionId: session.id,
        changes: changed
      }
      for (const update of AcpUpdates.replayMessages(messages, context)) yield* client.update(update)
    }),
    announce:
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
  }
})
