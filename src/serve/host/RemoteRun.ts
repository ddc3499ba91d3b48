/**
 * The turn of a live session that another process runs: its events from the run record, and its questions, which are
 * answered here and there.
 *
 * **Details**
 *
 * The record has the events of a step when the step is over, so that texts arrive as a whole. An answer goes to the
 * process of the turn, where the first one counts. A turn that waits for a durable run to continue is followed in the
 * same way.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Resumption from "../../agent/Resumption.ts"
import { type AgentError, InvalidInput, SessionStoreError } from "../../base/domain/AgentError.ts"
import * as Ids from "../../base/domain/Ids.ts"
import type * as Question from "../../base/domain/Question.ts"
import type { RunResult } from "../../base/domain/RunEvent.ts"
import type { PostedQuestion, RemoteAnswer } from "../../store/RemoteForms.ts"
import * as RemoteSession from "../../store/RemoteSession.ts"
import { RunRecord } from "../../store/RunRecord.ts"
import * as RunWatch from "../../store/RunWatch.ts"
import { SessionActivity } from "../../store/SessionActivity.ts"
import { SessionInbox } from "../../store/SessionInbox.ts"
import { SessionStore } from "../../store/SessionStore.ts"
import { type Answer, type OpenQuestion, planModes, type Turn } from "./HostEvent.ts"
import { AnswerRejected, type LiveQuestions } from "./LiveQuestions.ts"
import type { StateOwner } from "./StateOwner.ts"

/** Services that follow and reach the runs of other processes. */
export type Needs = RunRecord | SessionActivity | SessionInbox | SessionStore

/** Interval at which this process says that it watches. */
const watchAgain = "10 seconds"
/** Maximum time to wait for the questions of a turn that is followed. */
const settleTime = "2 seconds"
/** Looks for a run that was woken, and their pause. */
const wakeUp = { looks: 300, pause: "200 millis" } as const

/** Turns of other processes. */
export interface RemoteRun {
  /** Services of the store, which other processes share. */
  readonly provide: <A, E>(effect: Effect.Effect<A, E, Needs>) => Effect.Effect<A, E>
  /** Publishes the events of a run as the events of a turn, until the run ends. */
  readonly watchRun: (turn: Turn, runId: string) => Effect.Effect<RunResult, AgentError>
  /**
   * Wakes the durable run that continues the session of a turn, and follows it. `ask` returns answers to store before.
   * Returns `undefined` if no durable run waits for answers. The answers are stored then, too.
   */
  readonly continueClaimed: (
    turn: Turn,
    ask: Effect.Effect<ReadonlyArray<Question.Answer>, SessionStoreError>
  ) => Effect.Effect<RunResult | undefined, AgentError | Question.QuestionError>
  /** Must run before a turn is followed for which {@link settled} waits. */
  readonly expectQuestions: Effect.Effect<void>
  /** Completes when the questions of the followed turn were read for the first time. */
  readonly settled: Effect.Effect<void>
  /** Returns true while the running turn is one of another process. */
  readonly isFollowing: () => boolean
  /** Returns true for a question that another process asks. */
  readonly isMirrored: (id: string) => boolean
  readonly answer: (id: string, answer: Answer) => Effect.Effect<void, AnswerRejected>
}

const emptyOr = <S extends Schema.Top>(schema: S) => Schema.Union([Schema.Literal(""), schema])
const texts = Schema.Array(Schema.String)
const Target = Schema.Struct({
  kind: Schema.Literals(["command", "prefix", "path", "host", "tool", "call"]),
  text: Schema.String
})
const decodeApproval = Schema.decodeUnknownOption(
  Schema.Struct({
    session_id: emptyOr(Ids.SessionId),
    turn_id: emptyOr(Ids.TurnId),
    tool_call_id: emptyOr(Ids.ToolCallId),
    tool: Schema.String,
    command: Schema.String,
    description: Schema.String,
    keys: texts,
    preview: Schema.optionalKey(Schema.String),
    targets: Schema.Array(Target),
    prefix: Schema.optionalKey(Target),
    rules: Schema.optionalKey(
      Schema.Struct({ file: Schema.String, exact: Schema.optionalKey(texts), prefix: Schema.optionalKey(texts) })
    ),
    choices: Schema.Array(Schema.Literals(["once", "session", "always", "deny"]))
  })
)
const decodeClarification = Schema.decodeUnknownOption(
  Schema.Struct({ question: Schema.String, choices: texts, multiple: Schema.Boolean })
)
const decodePlan = Schema.decodeUnknownOption(
  Schema.Struct({ plan: Schema.String, modes: Schema.Array(Schema.Literals(planModes)) })
)

/** Reads a question that another process posted. */
const readQuestion = (
  { _tag, askedAt, question: given }: PostedQuestion,
  id: string,
  turn: number
): OpenQuestion | undefined => {
  const place = { id, turn, askedAt }
  switch (_tag) {
    case "Approval":
      return Option.getOrUndefined(
        Option.map(decodeApproval(given), (question) => ({
          ...place,
          _tag,
          question: { ...question, prefix: question.prefix }
        }))
      )
    case "Clarification":
      return Option.getOrUndefined(Option.map(decodeClarification(given), (question) => ({ ...place, _tag, question })))
    case "Plan":
      return Option.getOrUndefined(Option.map(decodePlan(given), (question) => ({ ...place, _tag, question })))
  }
}

const toRemoteAnswer = (answer: Answer): RemoteAnswer => {
  switch (answer._tag) {
    case "Clarification":
      return { answers: answer.answers }
    case "Plan":
      return { mode: answer.mode, ...(answer.words === undefined ? {} : { words: answer.words }) }
    case "Approval": {
      const { choice, prefix, reason } = answer.reply
      return { choice, ...(reason === undefined ? {} : { reason }), ...(prefix === undefined ? {} : { prefix }) }
    }
  }
}

/** The services of the context, or `undefined` if other processes cannot reach its store. */
const findServices = Effect.gen(function* () {
  const inbox = Option.getOrUndefined(yield* Effect.serviceOption(SessionInbox))
  const activity = Option.getOrUndefined(yield* Effect.serviceOption(SessionActivity))
  const record = Option.getOrUndefined(yield* Effect.serviceOption(RunRecord))
  const store = yield* SessionStore
  if (inbox === undefined || activity === undefined || record === undefined) return undefined
  return <A, E>(effect: Effect.Effect<A, E, Needs>): Effect.Effect<A, E> =>
    effect.pipe(
      Effect.provideService(SessionInbox, inbox),
      Effect.provideService(SessionActivity, activity),
      Effect.provideService(RunRecord, record),
      Effect.provideService(SessionStore, store)
    )
})

/** A question of another process, by the id that it has here. */
interface MirroredQuestion {
  readonly sessionId: string
  readonly remoteId: string
  readonly kind: OpenQuestion["_tag"]
}

/** Parts of a followed turn. */
interface FollowContext {
  readonly owner: StateOwner
  readonly questions: LiveQuestions
  readonly provide: RemoteRun["provide"]
  readonly mirrored: Map<string, MirroredQuestion>
  /** Completed when the questions of the followed turn were read, or it is over. */
  settled: Deferred.Deferred<void>
}

/** Shows the questions that the turn has, and withdraws those that it no longer has. */
const mirrorQuestions = Effect.fnUntraced(function* (
  { mirrored, owner, questions }: FollowContext,
  turn: Turn
): Effect.fn.Return<void, SessionStoreError, Needs> {
  const posted = yield* RemoteSession.listQuestions(turn.sessionId)
  const found = new Map<string, PostedQuestion>(posted.map((one) => [`r${turn.id}-${one.id}`, one]))
  for (const id of Array.from(mirrored.keys()))
    if (!found.has(id)) {
      mirrored.delete(id)
      yield* owner.run(questions.closeMirrored(id, undefined))
    }
  for (const [id, one] of found) {
    const question = mirrored.has(id) ? undefined : readQuestion(one, id, turn.id)
    if (question === undefined) continue
    mirrored.set(id, { sessionId: turn.sessionId, remoteId: one.id, kind: question._tag })
    yield* owner.run(questions.mirror(question))
  }
})

/** Mirrors questions and says that this process watches, until the scope closes. */
const keepWatching = Effect.fnUntraced(function* (
  context: FollowContext,
  turn: Turn
): Effect.fn.Return<void, never, Scope.Scope | Needs> {
  const warnOfFailure = <R>(effect: Effect.Effect<void, SessionStoreError, R>) =>
    Effect.catch(effect, ({ message }) => Effect.logWarning(message))
  const { changes } = yield* SessionInbox
  yield* Effect.forkScoped(
    Stream.runForEach(Stream.tick(watchAgain), () => warnOfFailure(RemoteSession.announceWatch(turn.sessionId)))
  )
  const mirror = Effect.ensuring(
    warnOfFailure(mirrorQuestions(context, turn)),
    Effect.suspend(() => Deferred.succeed(context.settled, undefined))
  )
  yield* Effect.forkScoped(
    Effect.andThen(
      mirror,
      Stream.runForEach(changes, () => mirror)
    )
  )
})

const makeFailure = (message: string): SessionStoreError => new SessionStoreError({ operation: "watch", message })

/** Publishes the events of a run, and returns its result. */
const publishRun = Effect.fnUntraced(function* (
  { owner }: FollowContext,
  turn: Turn,
  runId: string
): Effect.fn.Return<RunResult, AgentError, RunRecord | SessionStore> {
  let result: RunResult | undefined
  yield* RunWatch.watchRun(turn.sessionId, { turnId: runId }).pipe(
    Stream.runForEach((event) =>
      Effect.suspend(() => {
        if (event._tag === "RunFinished") result = event
        owner.readers.publish({ _tag: "RunEvents", turn: turn.id, events: [event] })
        return owner.readers.caughtUp
      })
    ),
    Effect.catchTag("RunLost", ({ message, reason }) =>
      reason === "failed" ? Effect.fail(makeFailure(message)) : Effect.interrupt
    )
  )
  return result ?? (yield* makeFailure("the run has no result in the record"))
})

/** Wakes the durable run of a session. Returns the id of the run that continues it, or `undefined` without one. */
const wakeClaimed = Effect.fnUntraced(function* (
  sessionId: Ids.SessionId,
  ask: Effect.Effect<ReadonlyArray<Question.Answer>, SessionStoreError>
): Effect.fn.Return<string | undefined, AgentError | Question.QuestionError, Needs> {
  if ((yield* RemoteSession.findClaim(sessionId)) === undefined) return undefined
  const answers = yield* ask
  const store = yield* SessionStore
  if (answers.length > 0) yield* Resumption.takeAnswers(store, yield* store.newest(sessionId), { answers })
  const before = yield* RunWatch.findNewest(sessionId)
  const isWoken = yield* Effect.catchTag(RemoteSession.resumeRun(sessionId), "RemoteRefused", () =>
    Effect.fail(
      new InvalidInput({
        message: "the answers are stored: the run continues as soon as a runner of its cluster works"
      })
    )
  )
  if (!isWoken) return undefined
  const begun = yield* Effect.repeat(RunWatch.findNewest(sessionId), {
    until: (newest) => newest !== before,
    schedule: Schedule.spaced(wakeUp.pause),
    times: wakeUp.looks
  })
  return begun === before ? yield* makeFailure("the run was woken, but has not begun: its runners are busy") : begun
})

/** Makes the turns of other processes. Returns `undefined` if other processes cannot reach the store. */
export const makeRemoteRun = Effect.fnUntraced(function* (
  owner: StateOwner,
  questions: LiveQuestions
): Effect.fn.Return<RemoteRun | undefined, never, SessionStore> {
  const provide = yield* findServices
  if (provide === undefined) return undefined
  const mirrored: FollowContext["mirrored"] = new Map()
  const context: FollowContext = { owner, questions, provide, mirrored, settled: Deferred.makeUnsafe() }
  let following: Turn["id"] | undefined
  const watchRun: RemoteRun["watchRun"] = (turn, runId) =>
    Effect.acquireUseRelease(
      Effect.sync(() => void (following = turn.id)),
      () => provide(Effect.scoped(Effect.andThen(keepWatching(context, turn), publishRun(context, turn, runId)))),
      () =>
        Effect.sync(() => {
          Deferred.doneUnsafe(context.settled, Effect.void)
          following = undefined
          mirrored.clear()
        })
    )
  return {
    provide,
    watchRun,
    continueClaimed: (turn, ask) =>
      Effect.flatMap(
        provide(wakeClaimed(turn.sessionId, ask)),
        (runId): Effect.Effect<RunResult | undefined, AgentError> =>
          runId === undefined ? Effect.undefined : watchRun(turn, runId)
      ),
    expectQuestions: Effect.sync(() => void (context.settled = Deferred.makeUnsafe())),
    settled: Effect.suspend(() => Effect.timeoutOption(Deferred.await(context.settled), settleTime)).pipe(
      Effect.asVoid
    ),
    isFollowing: () => following !== undefined && owner.state().turn?.id === following,
    isMirrored: (id) => mirrored.has(id),
    answer: Effect.fnUntraced(function* (id, answer) {
      const found = mirrored.get(id)
      if (found === undefined) return yield* new AnswerRejected({ id, reason: "closed" })
      if (found.kind !== answer._tag) return yield* new AnswerRejected({ id, reason: "kind" })
      yield* Effect.mapError(
        provide(RemoteSession.answerQuestion(found.sessionId, found.remoteId, toRemoteAnswer(answer))),
        () => new AnswerRejected({ id, reason: "closed" })
      )
      mirrored.delete(id)
      yield* owner.run(questions.closeMirrored(id, answer))
    })
  }
})
