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
import * as Stream from "effect/Stream"
import type { SessionStoreError } from "../../base/domain/AgentError.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import * as RemoteSession from "../../store/RemoteSession.ts"
import * as RunWatch from "../../store/RunWatch.ts"
import { SessionActivity } from "../../store/SessionActivity.ts"
import type { LiveQuestions } from "./LiveQuestions.ts"
import type { LiveSession } from "./LiveSession.ts"
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
  const lookOnce = (isRepeated: boolean) =>
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
      const followRun = (turn: Turn) => {
        followed.add(runId)
        return remote.watchRun(turn, runId)
      }
      if (!(yield* owner.run(turns.watch({ prompt: Redaction.redactText(text) }, { runId, run: followRun }))))
        return undefined
      yield* remote.settled
      return found
    })
  return (isRepeated: boolean): Effect.Effect<FollowedRun | undefined> =>
    Effect.catch(remote.provide(lookOnce(isRepeated)), ({ message }) =>
      Effect.as(Effect.logWarning(message), undefined)
    )
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
  return remote.provide(RemoteSession.steerTurn(turn.sessionId, { prompt, busy: message.busy ?? "queue" })).pipe(
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
  return remote.provide(RemoteSession.cancelTurn(turn.sessionId)).pipe(
    Effect.map(({ stopped }) => stopped),
    Effect.catch(({ message }) => {
      publishNotice(owner, `The turn was not stopped: ${message}.`)
      return Effect.succeed(false)
    })
  )
}

/** Commands of a live session that reach a turn of another process while one is followed. */
export type RemoteCommands = Pick<
  LiveSession,
  "answer" | "attach" | "follow" | "isFollowing" | "isRemoteQuestion" | "isWatched" | "send" | "stop"
>

/** Makes the commands of a live session. Without `remote`, other processes cannot reach its store. */
export const makeCommands = (
  { owner, questions, turns }: Omit<FollowContext, "remote"> & { readonly questions: LiveQuestions },
  remote: RemoteRun | undefined
): RemoteCommands => {
  const sendHere: LiveSession["send"] = (message) => owner.run(turns.send(message, "client"))
  if (remote === undefined)
    return {
      send: sendHere,
      stop: owner.run(turns.stop),
      answer: questions.answer,
      isRemoteQuestion: () => false,
      follow: Effect.void,
      attach: Effect.undefined,
      isFollowing: Effect.succeed(false),
      isWatched: Effect.succeed(false)
    }
  const context: FollowContext = { owner, turns, remote }
  const lookForRun = makeLook(context)
  return {
    send: (message) =>
      Effect.suspend(() =>
        remote.isFollowing() && typeof message.prompt === "string"
          ? forwardText(context, message, message.prompt)
          : sendHere(message)
      ),
    stop: Effect.suspend(() => (remote.isFollowing() ? forwardStop(context) : owner.run(turns.stop))),
    answer: (id, answer) =>
      Effect.suspend(() => (remote.isMirrored(id) ? remote.answer(id, answer) : questions.answer(id, answer))),
    isRemoteQuestion: remote.isMirrored,
    follow: Effect.asVoid(Effect.forkScoped(Stream.runForEach(Stream.tick(interval), () => lookForRun(true)))),
    attach: lookForRun(false),
    isFollowing: Effect.sync(remote.isFollowing),
    isWatched: Effect.suspend(() =>
      Effect.orElseSucceed(remote.provide(RemoteSession.isWatched(owner.state().session.id)), () => false)
    )
  }
}
