/**
 * Controls a session whose turn another process runs, through the store that both use: text for the model, the end of
 * the turn, answers to its questions, and the wake-up of a durable run.
 *
 * **Details**
 *
 * Messages of a session arrive in the order in which they were sent. The process that works on the session takes each
 * of them once and replies. A message that is not taken, because the turn ended or its process reads no messages, is
 * withdrawn by its sender, and has no effect. A caller that is interrupted leaves its message in the inbox.
 *
 * A text stays in the inbox until the session has it. If the process of the turn ends before, the sender that still
 * waits withdraws it (`ended`), and any other text is delivered to the next turn of the session, once.
 *
 * These operations do not know who asks: a server tests first whether its client may see the session.
 *
 * **Gotchas**
 *
 * A process that ends between taking an answer and its reply leaves the sender with the reason `unknown`: the answer
 * may have had its effect. A cancellation then fails with `ended`, because the turn ended with its process.
 *
 * **Example** (A session that no process works on)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { Agent, Runtime, SessionStore } from "hermes-effect"
 * import { RemoteSession } from "hermes-effect/sessions"
 *
 * const program = Effect.gen(function*() {
 *   const { sessionId } = yield* Agent.run({ prompt: "Reply exactly hello" })
 *   const refused = yield* Effect.flip(RemoteSession.steerTurn(sessionId, { prompt: "Be brief", busy: "steer" }))
 *   return refused._tag === "RemoteRefused" ? refused.reason : refused._tag
 * })
 *
 * const store = SessionStore.layerSqlite({ path: "state.db" })
 * console.log(await Effect.runPromise(Effect.provide(program, Layer.merge(Runtime.layer({ store }), store))))
 * // => ended
 * ```
 *
 * Source: `ARCHITECTURE.md` §3 (room `cluster`).
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { SessionStoreError } from "../base/domain/AgentError.ts"
import { SessionId } from "../base/domain/Ids.ts"
import * as RemoteForms from "./RemoteForms.ts"
import * as SessionChain from "./SessionChain.ts"
import { SessionActivity } from "./SessionActivity.ts"
import { type Kind, type NewMessage, type SentMessage, SessionInbox } from "./SessionInbox.ts"
import { SessionStore } from "./SessionStorePort.ts"
import * as TextMarks from "./TextMarks.ts"

export type { PostedQuestion, RemoteAnswer } from "./RemoteForms.ts"

/** Services that reach another process. */
export type Needs = SessionActivity | SessionInbox | SessionStore

/** A message to a session had no effect, or it is not known whether it had one. `message` states the reason. */
export class RemoteRefused extends Schema.TaggedError<RemoteRefused>("hermes-effect/store/RemoteRefused")(
  "RemoteRefused",
  {
    sessionId: Schema.String,
    /**
     * `ended`: no process works on the session. `unreachable`: its process reads no messages. `rejected`: its process
     * refused the message. `unknown`: its process took the message and did not reply.
     */
    reason: Schema.Literals(["ended", "full", "rejected", "too_long", "unknown", "unreachable"]),
    message: Schema.String
  }
) {}

/** Pauses between two looks for a reply, in milliseconds. */
const pauses = { shortest: 25, growth: 1.5, longest: 300 }
/** Time that a process has to take a message, and to reply to a message that it took, in milliseconds. */
const patience = { taken: 10_000, replied: 30_000 }
/** Time for which a watching process counts, in milliseconds. */
const watchTime = 30_000

const explain = {
  ended: "no process works on the session: send it a message to continue",
  unreachable: "the process that works on the session reads no messages: steer it where it runs",
  unknown: "the process that took the message did not reply: read the session to see its effect",
  full: "too many messages of the session wait: try again in a moment",
  too_long: `a message to a running turn has at most ${RemoteForms.longestBody} characters: send a shorter one`
} as const

const makeRefusal = (sessionId: string, reason: keyof typeof explain): RemoteRefused =>
  new RemoteRefused({ sessionId, reason, message: explain[reason] })

/** Tests whether a live process works on the conversation of a session. */
export const isRunning = Effect.fnUntraced(function* (
  sessionId: string
): Effect.fn.Return<boolean, SessionStoreError, SessionActivity | SessionStore> {
  const ids = yield* SessionActivity.use(({ running }) => running)
  if (ids.size === 0) return false
  return (
    ids.has(sessionId) || (yield* SessionChain.listConversation(SessionId.make(sessionId))).some((id) => ids.has(id))
  )
})

const findNewest = (sessionId: string) => SessionStore.use(({ newest }) => newest(SessionId.make(sessionId)))

/** A message whose sender waits for the reply. */
interface AwaitedMessage extends SentMessage {
  /** Id of the session as the caller gave it. */
  readonly asked: string
  readonly sessionId: SessionId
  readonly kind: Kind
}

/** Ends the wait for a reply that is late, or whose process is gone. Returns `undefined` to continue it. */
const endWait = Effect.fnUntraced(function* (
  { asked, id, kind, number, sessionId }: AwaitedMessage,
  isTaken: boolean,
  isGone: boolean,
  waited: number
): Effect.fn.Return<RemoteForms.Reply | undefined, RemoteRefused | SessionStoreError, SessionInbox | SessionStore> {
  const isLate = waited >= (isTaken ? patience.replied : patience.taken)
  if (!isGone && !isLate) return undefined
  const inbox = yield* SessionInbox
  const withdraw = inbox.withdraw(sessionId, number)
  if (!isTaken) {
    // A durable run is woken by the next runner.
    const isLeft = kind === "resume" || (yield* withdraw)
    return isLeft ? yield* makeRefusal(asked, isGone ? "ended" : "unreachable") : undefined
  }
  if (kind !== "steer") return yield* makeRefusal(asked, kind === "cancel" && isGone ? "ended" : "unknown")
  // A process that is alive still delivers a text, and replies.
  if (!(yield* withdraw)) return isLate ? yield* makeRefusal(asked, "unknown") : undefined
  const isStored = (yield* TextMarks.findStored(sessionId, [id])).size > 0
  return isStored ? { status: "steering" } : yield* makeRefusal(asked, "ended")
})

/**
 * Sends a message. A run holds its session before it stores it: the message then waits for the session. Returns a
 * reason if the message was not sent.
 */
const sendToStored = Effect.fnUntraced(function* (
  message: NewMessage,
  isReachable: Effect.Effect<boolean, SessionStoreError, SessionActivity | SessionInbox | SessionStore>
): Effect.fn.Return<SentMessage | "ended" | "full" | "unreachable", SessionStoreError, Needs> {
  const inbox = yield* SessionInbox
  const store = yield* SessionStore
  const isStored = Effect.map(store.get(SessionId.make(message.sessionId)), Option.isSome)
  for (let waited = 0; waited < patience.taken; waited += pauses.longest) {
    const wasStored = yield* isStored
    const sent = yield* inbox.send(message)
    if (sent !== undefined) return sent
    if (wasStored) return "full"
    if (!(yield* isReachable)) return "ended"
    yield* Effect.sleep(pauses.longest)
  }
  return "unreachable"
})

/** Sends a message, and waits for its reply. */
const exchangeMessage = Effect.fnUntraced(function* (
  sessionId: string,
  kind: Kind,
  content: unknown
): Effect.fn.Return<RemoteForms.Reply, RemoteRefused | SessionStoreError, Needs> {
  const inbox = yield* SessionInbox
  const body = JSON.stringify(content)
  if (body.length > RemoteForms.longestBody) return yield* makeRefusal(sessionId, "too_long")
  const id = yield* findNewest(sessionId)
  const isReachable = Effect.gen(function* () {
    return (yield* isRunning(id)) || (yield* inbox.find(id, "claim")) !== undefined
  })
  if (!(yield* isReachable)) return yield* makeRefusal(sessionId, "ended")
  const sent = yield* sendToStored({ sessionId: id, kind, body }, isReachable)
  if (typeof sent === "string") return yield* makeRefusal(sessionId, sent)
  const { number } = sent
  const message: AwaitedMessage = { ...sent, asked: sessionId, sessionId: id, kind }
  let absences = 0
  for (let waited = 0, pause = pauses.shortest; ; waited += pause) {
    const delivery = yield* inbox.read(id, number)
    if (delivery._tag === "replied") {
      yield* inbox.remove(id, number)
      const reply = RemoteForms.readReply(delivery.reply) ?? {}
      if (reply.refused === undefined) return reply
      return yield* new RemoteRefused({ sessionId, reason: "rejected", message: reply.refused })
    }
    if (delivery._tag === "removed") return yield* makeRefusal(sessionId, "unknown")
    absences = (yield* isReachable) ? 0 : absences + 1
    // The reply may have been stored after the message was read.
    const ended = yield* endWait(message, delivery._tag === "taken", absences >= 2, waited)
    if (ended !== undefined) return ended
    yield* Effect.sleep(pause)
    pause = Math.min(pause * pauses.growth, pauses.longest)
  }
})

/** A text for the model of a running turn. `busy` is as for `LiveSession.send`. */
export type NewText = typeof RemoteForms.Steer.Type

/**
 * Sends a text to the turn of a session. Returns its treatment by the process that runs the turn: it is delivered with
 * the next result of a tool, waits for a turn, or begins one.
 */
export const steerTurn = (
  sessionId: string,
  text: NewText
): Effect.Effect<"queued" | "started" | "steering", RemoteRefused | SessionStoreError, Needs> =>
  Effect.map(exchangeMessage(sessionId, "steer", text), ({ status = "queued" }) => status)

/**
 * Ends the turn of a session with its current result. Messages that wait for a turn are taken back, and returned.
 * `stopped` is false if no turn was running.
 */
export const cancelTurn = (
  sessionId: string
): Effect.Effect<
  { readonly stopped: boolean; readonly returned: ReadonlyArray<string> },
  RemoteRefused | SessionStoreError,
  Needs
> =>
  Effect.map(exchangeMessage(sessionId, "cancel", {}), ({ returned = [], stopped = false }) => ({ stopped, returned }))

/** Answers a question of the running turn, once. Fails with `rejected` if it is not open, or of another kind. */
export const answerQuestion = (
  sessionId: string,
  question: string,
  given: RemoteForms.RemoteAnswer
): Effect.Effect<void, RemoteRefused | SessionStoreError, Needs> =>
  Effect.asVoid(exchangeMessage(sessionId, "answer", { question, answer: given }))

/** Lists the questions of the turn that another process runs, the oldest first. */
export const listQuestions = Effect.fnUntraced(function* (
  sessionId: string
): Effect.fn.Return<ReadonlyArray<RemoteForms.PostedQuestion>, SessionStoreError, Needs> {
  const id = yield* findNewest(sessionId)
  const posted = yield* SessionInbox.use(({ find }) => find(id, "questions"))
  if (posted === undefined || !(yield* isRunning(id))) return []
  return RemoteForms.readQuestions(posted) ?? []
})

/** Returns the id of the durable run that continues a session with its answers, if there is one. */
export const findClaim = Effect.fnUntraced(function* (
  sessionId: string
): Effect.fn.Return<string | undefined, SessionStoreError, SessionInbox | SessionStore> {
  const id = yield* findNewest(sessionId)
  return yield* SessionInbox.use(({ find }) => find(id, "claim"))
})

/**
 * Wakes the durable run that waits for answers to the questions of a session. Returns false without such a run, so that
 * the caller continues the session itself.
 */
export const resumeRun = Effect.fnUntraced(function* (
  sessionId: string
): Effect.fn.Return<boolean, RemoteRefused | SessionStoreError, Needs> {
  const run = yield* findClaim(sessionId)
  if (run === undefined) return false
  return yield* Effect.match(exchangeMessage(sessionId, "resume", { run }), {
    onSuccess: () => true,
    onFailure: (error) => error
  }).pipe(
    Effect.flatMap((result) => {
      if (typeof result === "boolean") return Effect.succeed(result)
      // The run is over, and does not continue the session.
      return result._tag === "RemoteRefused" && (result.reason === "rejected" || result.reason === "ended")
        ? Effect.succeed(false)
        : Effect.fail(result)
    })
  )
})

/** Posts that this process watches a session for the next seconds, so that its questions wait for an answer. */
export const announceWatch = Effect.fnUntraced(function* (
  sessionId: string
): Effect.fn.Return<void, SessionStoreError, SessionInbox | SessionStore> {
  const id = yield* findNewest(sessionId)
  yield* SessionInbox.use(({ watch }) => watch(id, watchTime))
})

/** Tests whether another process watches a session. */
export const isWatched = Effect.fnUntraced(function* (
  sessionId: string
): Effect.fn.Return<boolean, SessionStoreError, SessionInbox | SessionStore> {
  const id = yield* findNewest(sessionId)
  return yield* SessionInbox.use(({ isWatched }) => isWatched(id))
})
