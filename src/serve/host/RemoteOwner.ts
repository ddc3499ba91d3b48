/**
 * The process that works on a session, as other processes reach it: while its turn runs, it reads the messages to the
 * session, and posts the open questions of the turn.
 *
 * **Details**
 *
 * A turn that ends within the first half second costs nothing. Without a store that other processes share, nothing is
 * read or posted at all.
 *
 * A text stays in the inbox until the session has it, so that it survives this process. The next turn of the session,
 * here or elsewhere, takes the texts that a killed process left.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { SessionStoreError } from "../../base/domain/AgentError.ts"
import { SessionId } from "../../base/domain/Ids.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import * as RemoteForms from "../../store/RemoteForms.ts"
import * as SessionChain from "../../store/SessionChain.ts"
import { type InboxMessage, type Service as Inbox, SessionInbox } from "../../store/SessionInbox.ts"
import { SessionStore } from "../../store/SessionStore.ts"
import * as TextMarks from "../../store/TextMarks.ts"
import type { Answer } from "./HostEvent.ts"
import type { LiveQuestions } from "./LiveQuestions.ts"
import type { LiveTurns } from "./LiveTurns.ts"
import type { StateOwner } from "./StateOwner.ts"

/** Time before a turn reads messages. */
const quiet = "500 millis"

/** The parts of a live session that messages act on. */
export interface OwnedSession {
  readonly owner: StateOwner
  readonly questions: Pick<LiveQuestions, "answer">
  readonly turns: Pick<LiveTurns, "send" | "stop" | "takeBack">
}

/** Reads the messages to the session of a turn. */
export interface RemoteOwner {
  /** Reads the messages to the session until the scope closes. */
  readonly readMessages: (session: OwnedSession) => Effect.Effect<void, never, Scope.Scope>
  /** Posts the open questions, after one was asked or closed. */
  readonly postQuestions: () => void
  /**
   * Ends texts of other processes, by their ids in the inbox. With `storedIn`, only those that the conversation of this
   * session has are over; the others are taken again.
   */
  readonly closeTexts: (ids: ReadonlyArray<string>, storedIn?: SessionId) => Effect.Effect<void>
}

/** Texts that a live session took, by their ids. */
type TakenTexts = Map<string, Pick<InboxMessage, "number" | "sessionId">>

/** Converts the answer of another process to one of a live session. */
const toAnswer = (given: RemoteForms.RemoteAnswer): Answer => {
  if ("answers" in given) return { _tag: "Clarification", answers: given.answers }
  return "mode" in given ? { _tag: "Plan", ...given } : { _tag: "Approval", reply: given }
}

const malformed: RemoteForms.Reply = { refused: "this version does not know the form of the message: update hermes" }

/** Carries out a message. */
const handleMessage = Effect.fnUntraced(function* (
  { owner, questions, turns }: OwnedSession,
  { body, id, isRepeated, kind }: InboxMessage
): Effect.fn.Return<RemoteForms.Reply> {
  switch (kind) {
    case "steer": {
      const text = RemoteForms.readSteer(body)
      if (text === undefined) return malformed
      // A text of an earlier turn does not interrupt this one.
      const busy = isRepeated && text.busy === "interrupt" ? "queue" : text.busy
      const { _tag } = yield* owner.run(turns.send({ ...text, busy, received: id }, "client"))
      return { status: _tag === "Steering" ? "steering" : _tag === "Queued" ? "queued" : "started" }
    }
    case "cancel": {
      // Removes the messages before the turn ends, because its end would start the next turn.
      const taken = yield* owner.run(turns.takeBack)
      const stopped = yield* owner.run(turns.stop)
      return { stopped, returned: taken.map(({ shown }) => Redaction.redactText(shown)) }
    }
    case "answer": {
      const given = RemoteForms.readAnswered(body)
      if (given === undefined) return malformed
      return yield* Effect.match(questions.answer(given.question, toAnswer(given.answer)), {
        onSuccess: () => ({}),
        onFailure: ({ message }) => ({ refused: message })
      })
    }
    case "resume":
      return { refused: "the session has no durable run" }
  }
})

/** Takes the messages to the conversation of a live session, and replies to them. */
const takeMessages = Effect.fnUntraced(function* (
  inbox: Inbox,
  taken: TakenTexts,
  session: OwnedSession
): Effect.fn.Return<void, SessionStoreError, SessionStore> {
  const waiting = yield* inbox.waiting
  if (waiting.length === 0) return
  const own = new Set<string>(yield* SessionChain.listConversation(session.owner.state().session.id))
  for (const id of waiting.filter((one) => own.has(one)))
    for (const message of yield* inbox.take(id)) {
      const { kind, number, sessionId } = message
      const isStored =
        message.isRepeated && (yield* TextMarks.findStored(SessionId.make(sessionId), [message.id])).size > 0
      if (kind === "steer" && !isStored) taken.set(message.id, { number, sessionId })
      const reply = isStored ? ({ status: "steering" } as const) : yield* handleMessage(session, message)
      yield* inbox.reply(message, JSON.stringify(reply))
      if (isStored || (kind === "steer" && reply.refused !== undefined)) {
        taken.delete(message.id)
        yield* inbox.settle(sessionId, [number])
      }
    }
})

/** Makes the reader of a live session. Returns `undefined` if other processes cannot reach its store. */
export const makeOwner = Effect.fnUntraced(function* (
  owner: StateOwner
): Effect.fn.Return<RemoteOwner | undefined, never, Scope.Scope | SessionStore> {
  const inbox = Option.getOrUndefined(yield* Effect.serviceOption(SessionInbox))
  if (inbox === undefined) return undefined
  const store = yield* SessionStore
  const changed = yield* Queue.sliding<void>(1)
  const reportFailure = ({ message }: SessionStoreError) => Effect.logWarning(`messages to the session: ${message}`)
  const taken: TakenTexts = new Map()
  yield* Effect.addFinalizer(() => inbox.release(Array.from(taken.values(), ({ number }) => number)))
  let isReading = false
  // An earlier process of the session may have posted some.
  let mayHavePosted = true
  const post = Effect.gen(function* () {
    const { questions, session } = owner.state()
    // Questions of a followed turn are posted by its process.
    if (!isReading || (questions.length === 0 && !mayHavePosted)) return
    const posted = questions.map(({ _tag, askedAt, id, question }) => ({ _tag, askedAt, id, question }))
    const body = JSON.stringify(Redaction.redactValue(posted))
    mayHavePosted = questions.length > 0
    const isShown = mayHavePosted && body.length <= RemoteForms.longestBody
    yield* inbox.post(yield* store.newest(session.id), "questions", isShown ? body : undefined)
  }).pipe(Effect.catch(reportFailure))
  yield* Effect.forkScoped(Effect.forever(Effect.andThen(Queue.take(changed), post)))
  const postQuestions = (): void => void Queue.offerUnsafe(changed, undefined)
  const withdrawPosted = Effect.suspend(() => {
    isReading = false
    if (!mayHavePosted || owner.state().questions.length === 0) return Effect.void
    return Effect.flatMap(store.newest(owner.state().session.id), (id) => inbox.post(id, "questions", undefined))
  }).pipe(Effect.catch(reportFailure))
  const closeTexts: RemoteOwner["closeTexts"] = (ids, storedIn) =>
    Effect.gen(function* () {
      const known = ids.filter((id) => taken.has(id))
      if (known.length === 0) return
      const stored = storedIn === undefined ? new Set(known) : yield* TextMarks.findStored(storedIn, known)
      for (const id of known) {
        const { number, sessionId } = taken.get(id) ?? { number: 0, sessionId: "" }
        taken.delete(id)
        yield* stored.has(id) ? inbox.settle(sessionId, [number]) : inbox.release([number])
      }
    }).pipe(Effect.provideService(SessionStore, store), Effect.catch(reportFailure))
  return {
    postQuestions,
    closeTexts,
    readMessages: (session) => {
      // A message that was taken is carried out and replied to, also if it ends the turn.
      const take = Effect.uninterruptible(Effect.catch(takeMessages(inbox, taken, session), reportFailure))
      const read = Effect.sleep(quiet).pipe(
        Effect.andThen(Effect.sync(postQuestions)),
        Effect.andThen(Stream.runForEach(inbox.changes, () => take)),
        Effect.provideService(SessionStore, store)
      )
      return Effect.acquireRelease(
        Effect.sync(() => void (isReading = true)),
        () => withdrawPosted
      ).pipe(Effect.andThen(Effect.forkScoped(read)), Effect.asVoid)
    }
  }
})
