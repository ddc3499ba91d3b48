/**
 * Messages of other processes to the sessions of durable runs, from the store that they share: `hermes serve`, editors
 * and the studio reach a run on a runner in the same way as a turn of another server.
 *
 * **Details**
 *
 * A runner takes the messages to the sessions of its active runs, and hands them to the cluster: a text is delivered
 * like one of `Cluster.steer`, and a cancellation ends the run. A run that waits for answers has no runner. It claims
 * its session, so that a process that stored answers wakes it instead of continuing the session itself. Any runner
 * takes messages to claimed sessions.
 *
 * A text stays in the inbox of the session until the inbox of the cluster has it, which survives its runner. An attempt
 * ends only after the texts that are being taken are in the inbox of the cluster, and an attempt that continues the run
 * of a killed runner takes the texts of that runner when it begins and before it ends. The end of the run then finds
 * each text that the model does not have.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import type { SessionStoreError } from "../../base/domain/AgentError.ts"
import { SessionId } from "../../base/domain/Ids.ts"
import * as RemoteForms from "../../store/RemoteForms.ts"
import * as SessionChain from "../../store/SessionChain.ts"
import { type InboxMessage, SessionInbox } from "../../store/SessionInbox.ts"
import { SessionStore } from "../../store/SessionStorePort.ts"
import * as TextMarks from "../../store/TextMarks.ts"
import { Cluster, type ClusterError, turnKind } from "./Cluster.ts"
import { Inbox } from "./Inbox.ts"
import { Runs } from "./Runs.ts"
import { type RemoteTaker, Worker } from "./RunWorkflow.ts"

/** Finds the run of a conversation that is running, or the one that claims it. */
const findRun = Effect.fnUntraced(function* (
  conversation: ReadonlyArray<string>,
  newest: string
): Effect.fn.Return<{ readonly id: string; readonly sessionId: string } | undefined, Failure, SessionInbox | Runs> {
  const runs = yield* Runs
  for (const sessionId of conversation) {
    const id = yield* runs.findRunning(sessionId, turnKind)
    if (id !== undefined) return { id, sessionId }
  }
  const id = yield* SessionInbox.use(({ find }) => find(newest, "claim"))
  return id === undefined ? undefined : { id, sessionId: newest }
})

type Failure = ClusterError | SessionStoreError

const over: RemoteForms.Reply = { refused: "no durable run works on the session any more" }

/** Carries out a message. A text is only examined. */
const handleMessage = Effect.fnUntraced(function* (
  { body, kind, sessionId }: InboxMessage,
  conversation: ReadonlyArray<string>
): Effect.fn.Return<RemoteForms.Reply, Failure, Cluster | Runs | SessionInbox> {
  const cluster = yield* Cluster
  const run = yield* findRun(conversation, sessionId)
  if (run === undefined) return over
  switch (kind) {
    case "steer": {
      if (RemoteForms.readSteer(body) !== undefined) return { status: "steering" }
      return { refused: "this version does not know the form of the message: update hermes" }
    }
    case "cancel":
      return { stopped: yield* cluster.cancel(run.id), returned: [] }
    case "answer":
      return { refused: "a durable run asks no questions while it runs" }
    case "resume": {
      const found = yield* cluster.find(run.id)
      if (found !== undefined && found.state !== "done") {
        yield* cluster.resume(run.id)
        return {}
      }
      yield* SessionInbox.use(({ post }) => post(sessionId, "claim", undefined))
      return over
    }
  }
})

/** Tests whether the inbox of the cluster, or the conversation, has a text that a killed process took. */
const isDelivered = Effect.fnUntraced(function* (
  id: string,
  conversation: ReadonlyArray<SessionId>
): Effect.fn.Return<boolean, Failure, Inbox | SessionStore> {
  const inbox = yield* Inbox
  for (const sessionId of conversation) {
    const waiting = yield* inbox.read(sessionId, "steer")
    if (waiting.some(({ body }) => TextMarks.readMarked(body)?.id === id)) return true
  }
  const [sessionId] = conversation
  return sessionId !== undefined && (yield* TextMarks.findStored(sessionId, [id])).size > 0
})

/**
 * Hands a text over to the cluster, whose inbox survives this runner. Its sender knows already that it is delivered, so
 * that a text that the cluster does not take stays for the next turn of the session.
 */
const handOver = Effect.fnUntraced(function* (
  message: InboxMessage,
  conversation: ReadonlyArray<SessionId>,
  isRefused: boolean
): Effect.fn.Return<void, Failure, Cluster | Inbox | Runs | SessionInbox | SessionStore> {
  const { body, id, isRepeated, number, sessionId } = message
  const inbox = yield* SessionInbox
  const { prompt = "" } = RemoteForms.readSteer(body) ?? {}
  const isKnown = isRefused || (isRepeated && (yield* isDelivered(id, conversation)))
  const send = Effect.gen(function* () {
    const cluster = yield* Cluster
    const run = yield* findRun(conversation, sessionId)
    yield* cluster.steer(run?.sessionId ?? sessionId, TextMarks.addMark(prompt, id))
  })
  yield* (isKnown ? Effect.void : send).pipe(
    Effect.andThen(inbox.settle(sessionId, [number])),
    Effect.onError(() => inbox.release([number]))
  )
})

type Needs = Cluster | Inbox | Runs | SessionInbox | SessionStore

/** Takes the messages to the given sessions, and to claimed sessions. */
const takeMessages = Effect.fnUntraced(function* (
  isMeant: (sessionId: string) => boolean
): Effect.fn.Return<void, Failure, Needs> {
  const inbox = yield* SessionInbox
  for (const id of yield* inbox.waiting) {
    const conversation = yield* SessionChain.listConversation(SessionId.make(id))
    if (!conversation.some(isMeant) && (yield* inbox.find(id, "claim")) === undefined) continue
    for (const message of yield* inbox.take(id)) {
      const reply = yield* Effect.catch(handleMessage(message, conversation), (error) =>
        Effect.succeed({ refused: error.message })
      )
      // A text of a killed process, whose sender does not wait any more, is for the next turn.
      if (message.isRepeated && reply.refused !== undefined) yield* inbox.release([message.number])
      else {
        yield* inbox.reply(message, JSON.stringify(reply))
        if (message.kind === "steer") yield* handOver(message, conversation, reply.refused !== undefined)
      }
    }
  }
})

/** Takes the messages that other processes sent to sessions, and finds out about new ones. */
export interface TakerService extends RemoteTaker {
  /** Emits whenever there may be messages. */
  readonly changes: Stream.Stream<void>
}

/** Service that takes messages of other processes. */
export class Taker extends Context.Service<Taker, TakerService>()("hermes-effect/cluster/RemoteMessages/Taker") {}

/** Takes messages if the store of the runner has them. */
export const layerTaker: Layer.Layer<Taker, never, Cluster | Inbox | Runs | SessionStore> = Layer.effect(
  Taker,
  Effect.gen(function* () {
    const inbox = Option.getOrUndefined(yield* Effect.serviceOption(SessionInbox))
    if (inbox === undefined) return { take: () => Effect.void, idle: Effect.void, changes: Stream.empty }
    const context = yield* Effect.context<Cluster | Inbox | Runs | SessionStore>()
    const services = Context.add(context, SessionInbox, inbox)
    const turn = yield* Semaphore.make(1)
    return {
      take: (isMeant) =>
        takeMessages(isMeant).pipe(
          Effect.catch(({ message }) => Effect.logWarning(message)),
          Effect.uninterruptible,
          turn.withPermit,
          Effect.provideContext(services)
        ),
      idle: turn.withPermit(Effect.void),
      changes: inbox.changes
    }
  })
)

/** Carries out the messages of other processes to the sessions of this runner. */
export const layer: Layer.Layer<never, never, Taker | Worker> = Layer.effectDiscard(
  Effect.gen(function* () {
    const { changes, take } = yield* Taker
    const { isActive } = yield* Worker
    yield* Effect.forkScoped(Stream.runForEach(changes, () => take(isActive)))
  })
)

/** Posts and removes the claims of runs that wait for answers. */
export const makeClaims = Effect.gen(function* () {
  const inbox = Option.getOrUndefined(yield* Effect.serviceOption(SessionInbox))
  const store = yield* SessionStore
  return (sessionId: string, run: string | undefined): Effect.Effect<void> =>
    inbox === undefined
      ? Effect.void
      : Effect.flatMap(store.newest(SessionId.make(sessionId)), (id) => inbox.post(id, "claim", run)).pipe(
          Effect.catch(({ message }) => Effect.logWarning(message))
        )
})
