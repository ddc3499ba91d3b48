/**
 * Runs the prompts of an ACP session one at a time. A prompt is a slash command, or a message that starts a turn of the
 * live session.
 *
 * **Details**
 *
 * Cancelling a prompt stops its own turn, removes its message from the queue, or aborts its command. Cancelling the
 * request of a prompt has the same effect. If a turn ended with a plan, its prompt stays open until the user decides.
 *
 * Source: Agent Client Protocol, prompt turn.
 */
import type { PromptResponse } from "@agentclientprotocol/sdk/unstable"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Path from "effect/Path"
import type { RunInput } from "../../../agent/RunInput.ts"
import type { AgentError } from "../../../base/domain/AgentError.ts"
import * as Redaction from "../../../base/domain/Redaction.ts"
import type { RunResult } from "../../../base/domain/RunEvent.ts"
import type { HostEvent, Message, OpenQuestion, Turn } from "../../host/HostEvent.ts"
import type { LiveSession } from "../../host/LiveSession.ts"
import type { SessionClient } from "./AcpClient.ts"
import * as AcpContent from "./AcpContent.ts"
import { type AcpFailure, makeFailure } from "./AcpFailure.ts"
import * as AcpPrompt from "./AcpPrompt.ts"

/** A slash command of a session. */
export interface AcpCommand {
  readonly name: string
  readonly description: string
  /** Description of the command's argument. If absent, the command takes no argument. */
  readonly hint?: string | undefined
  /** Runs the command. Returns text to show (`say`) or a prompt for the agent. Fails with a message for the user. */
  readonly run: (argument: string) => Effect.Effect<{ readonly say: string } | { readonly prompt: string }, string>
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
  /**
   * Id of the prompt's message, or of the message that followed it if a plan is carried out. `undefined` before the
   * message is sent.
   */
  message: Message["id"] | undefined
  /** Turn of another process that took the prompt. Its end is the end of the prompt. */
  remoteTurn: Turn["id"] | undefined
  /** The plan that ended the turn, until the user decides. The prompt stays open for that decision. */
  plan: { readonly id: OpenQuestion["id"]; readonly exit: TurnExit } | undefined
}

const cancelled: PromptResponse = { stopReason: "cancelled" }

const toPromptResponse = (exit: TurnExit, { isCancelled }: OpenPrompt): Effect.Effect<PromptResponse, AcpFailure> => {
  if (Exit.isSuccess(exit)) {
    const { exit: how, usage } = exit.value
    return Effect.succeed({
      stopReason: isCancelled ? "cancelled" : (stopReasons[how] ?? "end_turn"),
      usage: AcpContent.toAcpUsage(usage)
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

/** Blocks of a prompt, as the client sends them. */
export type PromptBlocks = Parameters<typeof AcpPrompt.read>[0]

/** Operations on the prompts of one session. */
export interface PromptTurns {
  /** Runs a prompt and returns when its turn has ended. Fails if another prompt is active. */
  readonly prompt: (blocks: PromptBlocks) => Effect.Effect<PromptResponse, AcpFailure, Path.Path>
  /** Cancels the active prompt. Without an active prompt, stops the current turn. */
  readonly cancel: Effect.Effect<void>
  /** Handles an event of the live session, in order to detect the end of the prompt's turn. */
  readonly follow: (event: HostEvent) => Effect.Effect<void>
  /** Ends the prompt as interrupted, because no more events will arrive. */
  readonly abandon: Effect.Effect<void>
  /** Cancels the prompt and waits for the end of its turn. */
  readonly finish: Effect.Effect<void>
}

/** The session to which the prompts belong, and the active prompt. */
interface PromptContext {
  readonly live: LiveSession
  readonly client: SessionClient
  readonly commands: ReadonlyArray<AcpCommand>
  current: OpenPrompt | undefined
  /** Notices that are not shown yet and that the user must see before the first answer. */
  unsaid: ReadonlyArray<string>
}

/** Stops the turn and removes queued messages, so that they do not start another turn. */
const stopAll = (live: LiveSession): Effect.Effect<void> => Effect.andThen(live.takeBack, Effect.asVoid(live.stop))

/** Ends an abandoned prompt without stopping the turn of another prompt. */
const withdrawPrompt = Effect.fnUntraced(function* (
  { live }: PromptContext,
  { done, message, plan, remoteTurn }: OpenPrompt
) {
  if (message === undefined) return
  if ((yield* live.unqueue(message)) !== undefined) {
    yield* Deferred.succeed(done, Exit.interrupt())
    return
  }
  const { turn } = yield* live.state
  const isOwn = turn !== undefined && (turn.message.id === message || turn.id === remoteTurn)
  if (plan !== undefined || isOwn) yield* stopAll(live)
})

const cancelPrompt = (context: PromptContext): Effect.Effect<void> =>
  Effect.suspend(() => {
    const { current: open, live } = context
    if (open === undefined) return stopAll(live)
    open.isCancelled = true
    return Effect.andThen(Deferred.succeed(open.cancelled, undefined), withdrawPrompt(context, open))
  })

/** Sends a message and waits for the end of its turn, even if the request is cancelled. */
const runPromptTurn = (
  context: PromptContext,
  open: OpenPrompt,
  message: { readonly prompt: RunInput["prompt"]; readonly shown: string }
): Effect.Effect<PromptResponse, AcpFailure> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function* () {
      if (open.isCancelled) return cancelled
      // A turn of another process takes the prompt with the next result of a tool.
      const isRemote = yield* context.live.isFollowing
      const sent = yield* context.live.send(isRemote ? { ...message, busy: "steer" } : message)
      open.message = sent.message.id
      open.remoteTurn = sent.turn
      if (sent.turn !== undefined && (yield* context.live.state).turn?.id !== sent.turn)
        return { stopReason: "end_turn" }
      // The prompt may have been cancelled while its message was being sent.
      if (open.isCancelled) yield* withdrawPrompt(context, open)
      const exit = yield* Effect.onInterrupt(restore(Deferred.await(open.done)), () =>
        Effect.andThen(withdrawPrompt(context, open), Deferred.await(open.done))
      )
      return yield* toPromptResponse(exit, open)
    })
  )

const findCommand = (commands: ReadonlyArray<AcpCommand>, shown: string) => {
  const [, name = "", argument = ""] = /^\/([\w:-]+)\s*([^]*)$/u.exec(shown) ?? []
  const command = commands.find((one) => one.name === name)
  return command === undefined ? undefined : command.run(argument.trim())
}

const answerPrompt = Effect.fnUntraced(function* (
  context: PromptContext,
  open: OpenPrompt,
  blocks: PromptBlocks
): Effect.fn.Return<PromptResponse, AcpFailure, Path.Path> {
  const { client, commands } = context
  for (const line of context.unsaid)
    yield* client.update({ sessionUpdate: "agent_thought_chunk", content: { type: "text", text: `${line}\n` } })
  context.unsaid = []
  const message = yield* Effect.mapError(AcpPrompt.read(blocks), (line) => makeFailure("invalid_params", line))
  const { prompt, shown } = message
  const command = findCommand(commands, shown)
  if (command === undefined) return yield* runPromptTurn(context, open, { prompt, shown })
  const done = yield* Effect.raceFirst(
    Effect.mapError(command, (line) => makeFailure("invalid_params", line)),
    Effect.as(Deferred.await(open.cancelled), undefined)
  )
  if (done === undefined) return cancelled
  if ("prompt" in done) return yield* runPromptTurn(context, open, { prompt: done.prompt, shown })
  yield* client.update(AcpContent.makeMessageChunk(Redaction.redactText(done.say)))
  return { stopReason: "end_turn" }
})

/** Opens a prompt. Fails if another prompt is active. */
const openPrompt = (context: PromptContext): Effect.Effect<OpenPrompt, AcpFailure> =>
  Effect.suspend((): Effect.Effect<OpenPrompt, AcpFailure> => {
    if (context.current !== undefined)
      return makeFailure("invalid_request", "A prompt of this session is under way. Cancel it, or wait for its end.")
    context.current = {
      done: Deferred.makeUnsafe(),
      cancelled: Deferred.makeUnsafe(),
      isCancelled: false,
      message: undefined,
      remoteTurn: undefined,
      plan: undefined
    }
    return Effect.succeed(context.current)
  })

const followEvent = Effect.fnUntraced(function* ({ current, live }: PromptContext, event: HostEvent) {
  if (current === undefined) return
  switch (event._tag) {
    case "TurnStarted":
      if (event.turn.message.origin === "client" && current.plan !== undefined)
        Object.assign(current, { plan: undefined, message: event.turn.message.id })
      return
    case "TurnEnded": {
      if (event.turn.message.id !== current.message && event.turn.id !== current.remoteTurn) return
      const plan = (yield* live.state).questions.find(({ _tag, turn }) => _tag === "Plan" && turn === event.turn.id)
      if (plan === undefined) yield* Deferred.succeed(current.done, event.exit)
      else current.plan = { id: plan.id, exit: event.exit }
      return
    }
    case "QuestionClosed": {
      if (current.plan?.id !== event.id) return
      const isContinued =
        event.answer?._tag === "Plan" && Boolean(event.answer.mode !== "plan" || event.answer.words?.trim())
      if (!isContinued) yield* Deferred.succeed(current.done, current.plan.exit)
      return
    }
    case "MessagesReturned":
      if (event.messages.some(({ id }) => id === current.message))
        yield* Deferred.succeed(current.done, Exit.interrupt())
      return
    default:
      return
  }
})

/** Makes the prompts of a session. `notices` are shown before the first answer. */
export const make = (
  live: LiveSession,
  client: SessionClient,
  { commands, notices }: { readonly commands: ReadonlyArray<AcpCommand>; readonly notices: ReadonlyArray<string> }
): PromptTurns => {
  const context: PromptContext = { live, client, commands, current: undefined, unsaid: notices }
  return {
    prompt: (blocks) =>
      Effect.acquireUseRelease(
        openPrompt(context),
        (open) => answerPrompt(context, open, blocks),
        () =>
          Effect.sync(() => {
            context.current = undefined
          })
      ),
    cancel: cancelPrompt(context),
    follow: (event) => followEvent(context, event),
    abandon: Effect.suspend(() => {
      const { current } = context
      return current === undefined ? Effect.void : Deferred.succeed(current.done, Exit.interrupt())
    }),
    finish: Effect.suspend(() => {
      const { current: open } = context
      if (open === undefined) return Effect.void
      // The turn of another process goes on without this client.
      return open.remoteTurn !== undefined
        ? Effect.asVoid(Deferred.succeed(open.done, Exit.interrupt()))
        : Effect.andThen(
            cancelPrompt(context),
            open.message === undefined ? Effect.void : Effect.asVoid(Deferred.await(open.done))
          )
    })
  }
}
