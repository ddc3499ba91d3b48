/**
 * Follows the turns that other processes run in the session of a live session, and forwards commands to them.
 *
 * **Details**
 *
 * A text goes to the process of the turn, in the order in which texts are sent. If that process takes none, the text
 * waits here, and begins a turn when the followed one is over. A turn that is followed is not stopped by the end of
 * the live session.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { SessionStoreError } from "../../base/domain/AgentError.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import * as RemoteSession from "../../store/RemoteSession.ts"
import * as RunWatch from "../../store/RunWatch.ts"
import { SessionActivity } from "../../store/SessionActivity.ts"
import type { LiveTurns, NewMessage, SentMessage } from "./LiveTurns.ts"
import type { Needs, RemoteRun } from "./RemoteRun.ts"
import type { Turn } from "./HostEvent.ts"
import type { StateOwner } from "./StateOwner.ts"

/** Interval at which runs of other processes are looked for. */
const interval = "300 millis"

/** Parts of a live session that follow other processes. */
interface FollowContext {
  readonly owner: StateOwner
  readonly turns: LiveTurns
  readonly remote: RemoteRun
}

/** A run of another process that is followed. */
export interface FollowedRun extends RunWatch.RunPrompt {
  readonly runId: string
}

/** Finds the run of another process, and the message with which it began. */
const findRun = Effect.fnUntraced(function* (
  sessionId: string
): Effect.fn.Return<FollowedRun | undefined, SessionStoreError, Needs> {
  if (!(yield* RemoteSession.isRunning(sessionId))) return undefined
  const runId = yield* RunWatch.findActive(sessionId)
  return runId === undefined ? undefined : { runId, ...(yield* RunWatch.readPrompt(sessionId, runId)) }
})

/** Makes the look for a run of another process. A repeated look reads only after a write to the store. */
const makeLook = ({ owner, remote, turns }: FollowContext) => {
  /** Version of the store at the last look that found no run. */
  let seen: number | undefined
  const followed = new Set<string>()
  const look = (isRepeated: boolean) =>
    Effect.gen(function* (): Effect.gen.Return<FollowedRun | undefined, SessionStoreError, Needs> {
      const { session, turn } = owner.state()
      if (turn !== undefined) return void (seen = undefined)
      const version = yield* SessionActivity.use((activity) => activity.version)
      if (isRepeated && version === seen) return undefined
      const found = yield* findRun(session.id)
      seen = found === undefined ? version : undefined
      if (found === undefined || followed.has(found.runId)) return undefined
      const { runId, text } = found
      yield* remote.expectQuestions
      const run = (turn: Turn) => {
        followed.add(runId)
        return remote.watchRun(turn, runId)
      }
      if (!(yield* owner.run(turns.watch({ prompt: Redaction.redactText(text) }, { runId, run })))) return undefined
      yield* remote.settled
      return found
    })
  return (isRepeated: boolean): Effect.Effect<FollowedRun | undefined> =>
    Effect.catch(remote.provide(look(isRepeated)), ({ message }) => Effect.as(Effect.logWarning(message), undefined))
}

const publishNotice = (owner: StateOwner, message: string): void =>
  owner.readers.publish({ _tag: "Notice", level: "error", message })

/** Sends a text to the process of the followed turn. */
const forwardText = (
  { owner, remote, turns }: FollowContext,
  message: NewMessage,
  prompt: string
): Effect.Effect<SentMessage> => {
  const sendHere = (reason: string) =>
    Effect.suspend(() => {
      publishNotice(owner, `The message waits for the end of the turn: ${reason}.`)
      return owner.run(turns.send({ ...message, busy: "queue" }, "client"))
    })
  const { turn } = owner.state()
  if (turn === undefined) return owner.run(turns.send(message, "client"))
  return remote.provide(RemoteSession.steer(turn.sessionId, { prompt, busy: message.busy ?? "queue" })).pipe(
    Effect.flatMap((status) =>
      owner.run(
        Effect.sync((): SentMessage => ({
          _tag: status === "steering" ? "Steering" : "Queued",
          message: turns.makeMessage(message),
          turn: turn.id
        }))
      )
    ),
    Effect.catchTags({
      // The turn is over, so the text is a message of this process.
      RemoteRefused: (error) =>
        error.reason === "ended" ? owner.run(turns.send(message, "client")) : sendHere(error.message),
      SessionStoreError: (error) => sendHere(error.message)
    })
  )
}

/** Asks the process of the followed turn to end it. Returns false if it does not. */
const forwardStop = ({ owner, remote }: FollowContext): Effect.Effect<boolean> => {
  const { turn } = owner.state()
  if (turn === undefined) return Effect.succeed(false)
  return remote.provide(RemoteSession.cancel(turn.sessionId)).pipe(
    Effect.map(({ stopped }) => stopped),
    Effect.catch(({ message }) => {
      publishNotice(owner, `The turn was not stopped: ${message}.`)
      return Effect.succeed(false)
    })
  )
}

/** Operations of a live session on turns of other processes. */
export interface RemoteTurns {
  /** Follows the turns of other processes until the scope closes. */
  readonly follow: Effect.Effect<void, never, Scope.Scope>
  /** Follows the turn that another process runs now. Returns its run, if it is not followed already. */
  readonly attach: Effect.Effect<FollowedRun | undefined>
  /** Sends a message to the followed turn, or returns `undefined` if no turn of another process runs. */
  readonly send: (message: NewMessage) => Effect.Effect<SentMessage> | undefined
  /** Stops the followed turn, or returns `undefined` if no turn of another process runs. */
  readonly stop: () => Effect.Effect<boolean> | undefined
}

/** Makes the operations on turns of other processes. */
export const make = (context: FollowContext): RemoteTurns => {
  const { remote } = context
  const look = makeLook(context)
  return {
    attach: look(false),
    follow: Effect.asVoid(Effect.forkScoped(Stream.runForEach(Stream.tick(interval), () => look(true)))),
    send: (message) =>
      remote.isFollowing() && typeof message.prompt === "string"
        ? forwardText(context, message, message.prompt)
        : undefined,
    stop: () => (remote.isFollowing() ? forwardStop(context) : undefined)
  }
}
