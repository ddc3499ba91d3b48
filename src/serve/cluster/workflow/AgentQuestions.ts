/**
 * Questions of agents in steps: the execution waits while the session of the agent waits for answers, and continues in
 * the session.
 *
 * **Details**
 *
 * Each question of the session is a question of the execution, whose answer any process gives by the id of the
 * execution. An answer that is given in the session itself, by a client of the session, continues the execution too:
 * the process that executes it looks for such answers ({@link watchSessions}).
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as DurableClock from "effect/workflow/DurableClock"
import * as DurableDeferred from "effect/workflow/DurableDeferred"
import { WorkflowEngine, WorkflowInstance } from "effect/workflow/WorkflowEngine"
import { takeAnswers } from "../../../agent/Resumption.ts"
import type { SessionNotFound, SessionStoreError } from "../../../base/domain/AgentError.ts"
import { SessionId } from "../../../base/domain/Ids.ts"
import * as Question from "../../../base/domain/Question.ts"
import { decodeAnswer } from "../../../base/domain/QuestionAnswer.ts"
import { type Service as SessionStoreService, SessionStore } from "../../../store/SessionStorePort.ts"
import { makeEngineWorkflow } from "./EngineWorkflow.ts"
import { type Place, runStored, type StepServices, toPath, type ValueSchema } from "./StepExecution.ts"
import { makeDeferred } from "./StepAnswers.ts"
import { StepFailed } from "./WorkflowError.ts"
import { type Question as ExecutionQuestion, WorkflowStore } from "./WorkflowStore.ts"

/** Reason of the failure with which a run ends that waits for answers. */
export const suspendedReason = "suspended"

/** Returns true for the failure of a run that waits for answers. */
export const isSuspended = (failure: unknown): boolean =>
  failure instanceof StepFailed && failure.reason === suspendedReason

/** Id of an answer that is stored in the session already. */
const givenInSession = "session"

/** Form of the questions of a session in the store of executions. */
const SessionSchema = Schema.Struct({
  schema: Schema.Record(Schema.String, Schema.Unknown),
  session: Schema.Struct({ sessionId: SessionId, questionId: Schema.String })
})
const decodeSchema = Schema.decodeUnknownOption(SessionSchema)

/** Reads the session and the JSON Schema of a question that an agent asked; `None` for a question of the workflow. */
export const readSessionQuestion = ({ schema }: ExecutionQuestion): Option.Option<typeof SessionSchema.Type> =>
  decodeSchema(schema)

/** Describes the mistakes of an answer to a question that an agent asked. */
export const describeMistake = (
  { schema }: typeof SessionSchema.Type,
  answer: unknown
): Effect.Effect<string | undefined> =>
  Effect.match(decodeAnswer(schema, answer), { onFailure: (problem) => problem, onSuccess: () => undefined })

/** Place of a question in the execution. Names of steps have no such character. */
const toPlace = (path: string, questionId: string): string => `${path}?${questionId}`

/** An agent step whose run may wait. */
export interface WaitingStep<A> {
  readonly name: string
  readonly kind: string
  readonly sessionId: string
  readonly output: ValueSchema<A>
}

/** Questions that a run waits for, and the time at which it needs no answer. */
const Waiting = Schema.Struct({ questions: Schema.Array(Schema.String), wakeAt: Schema.optionalKey(Schema.Finite) })

const listOpen = Effect.fnUntraced(function* (store: SessionStoreService, sessionId: string) {
  const newest = yield* store.newest(SessionId.make(sessionId))
  const stored = yield* store.listQuestions({ sessionId: newest, limit: Number.MAX_SAFE_INTEGER })
  return { newest, open: stored.map(({ question }) => question) }
})

const renderPrompt = ({ origin = [], prompt, title }: Question.Question): string =>
  [
    title,
    ...(prompt === undefined ? [] : [prompt]),
    ...origin.map(({ goal }) => `Asked by an agent with the task: ${goal}`)
  ].join("\n")

/** Stores the open questions of the session as questions of the execution. */
const publishQuestions = Effect.fnUntraced(function* (
  { execution }: Place,
  path: string,
  { kind, name, sessionId }: WaitingStep<unknown>,
  attempts: number
) {
  const store = yield* WorkflowStore
  const { newest, open } = yield* listOpen(yield* SessionStore, sessionId)
  const asked = open.filter((question) => question.kind !== "time")
  yield* Effect.orDie(
    Effect.andThen(
      Effect.forEach(
        asked,
        (question) =>
          store.ask({
            execution,
            question: toPlace(path, question.id),
            round: 1,
            prompt: renderPrompt(question),
            schema: { schema: question.schema, session: { sessionId: newest, questionId: question.id } }
          }),
        { discard: true }
      ),
      store.beginStep(execution, { path, name, kind, state: "waiting", attempts, sessionId })
    )
  )
  const times = open.flatMap(({ expiresAt, wakeAt }) => [expiresAt ?? [], wakeAt ?? []].flat())
  return { questions: asked.map(({ id }) => id), ...(times.length === 0 ? {} : { wakeAt: Math.min(...times) }) }
})

/** Answers that the execution has, by the ids of their questions. */
const readAnswers = Effect.fnUntraced(function* (path: string, ids: ReadonlyArray<string>) {
  const engine = yield* WorkflowEngine
  const found = yield* Effect.forEach(ids, (id) =>
    Effect.map(engine.deferredResult(makeDeferred(toPlace(path, id), 1)), (result) =>
      Option.match(result, {
        onNone: () => [],
        onSome: (exit): ReadonlyArray<Question.Answer> =>
          Exit.isSuccess(exit) && exit.value.id !== givenInSession
            ? [{ questionId: id, answer: exit.value.value, by: "workflow" }]
            : []
      })
    )
  )
  return found.flat()
})

/** Suspends the execution until one of the questions has an answer, or its time has come. */
const waitForAnswer = Effect.fnUntraced(function* (
  path: string,
  mark: string,
  { questions, wakeAt }: typeof Waiting.Type
): Effect.fn.Return<void, never, StepServices> {
  const answers = questions.map((id) => Effect.asVoid(DurableDeferred.await(makeDeferred(toPlace(path, id), 1))))
  const duration = wakeAt === undefined ? undefined : Math.max(0, wakeAt - (yield* Clock.currentTimeMillis))
  const time =
    duration === undefined ? [] : [DurableClock.sleep({ name: `${path} time ${mark}`, duration, inMemoryThreshold: 0 })]
  const [first, ...rest] = [...answers, ...time]
  // A question that was answered meanwhile is not listed, and the run continues at once.
  if (first === undefined) return
  yield* DurableDeferred.raceAll({
    name: `${path} answered ${mark}`,
    success: Schema.Void,
    error: Schema.Never,
    effects: [first, ...rest]
  })
})

/** Stores the answers of the execution in the session. An answer that came too late is left out. */
const storeAnswers = Effect.fnUntraced(function* (
  { execution }: Place,
  path: string,
  { questions }: typeof Waiting.Type,
  sessionId: string,
  answers: ReadonlyArray<Question.Answer>
): Effect.fn.Return<void, SessionNotFound | SessionStoreError, SessionStore | WorkflowStore> {
  const sessions = yield* SessionStore
  const store = yield* WorkflowStore
  const now = yield* Clock.currentTimeMillis
  const { newest, open } = yield* listOpen(sessions, sessionId)
  const taken = answers.filter(({ questionId }) =>
    open.some((question) => question.id === questionId && !Question.isExpired(question, now))
  )
  // A client of the session may answer at the same time, and its answer stands.
  for (const answer of taken)
    yield* takeAnswers(sessions, newest, { answers: [answer] }).pipe(
      Effect.catchTags({
        AnswerInvalid: () => Effect.void,
        InvalidInput: () => Effect.void,
        QuestionAnswered: () => Effect.void,
        QuestionClosed: () => Effect.void,
        QuestionExpired: () => Effect.void,
        QuestionUnknown: () => Effect.void
      })
    )
  const left = new Set((yield* listOpen(sessions, sessionId)).open.map(({ id }) => id))
  yield* Effect.orDie(
    Effect.forEach(
      questions.filter((id) => !left.has(id)),
      (id) => store.closeQuestion(execution, toPlace(path, id), 1),
      { discard: true }
    )
  )
})

/**
 * Runs an agent step until its run ends. `first` is its stored first run; each further run continues the session after
 * an answer.
 */
export const runUntilAnswered = <A, R, Needs>(
  place: Place,
  step: WaitingStep<A>,
  first: Effect.Effect<A, StepFailed, Needs>,
  work: Effect.Effect<A, StepFailed, R>
): Effect.Effect<
  A,
  StepFailed,
  Exclude<R, Scope.Scope | WorkflowEngine | WorkflowInstance> | Needs | SessionStore | StepServices
> =>
  Effect.gen(function* () {
    const { kind, name, output, sessionId } = step
    const path = toPath(place, name)
    const store = yield* WorkflowStore
    const toFailure = ({ _tag, message }: { readonly _tag: string; readonly message: string }) =>
      new StepFailed({ step: path, reason: _tag, message: `step ${path}: ${message}` })
    let ended = yield* Effect.result(first)
    for (let round = 1; ; round++) {
      if (ended._tag === "Success") return ended.success
      if (!isSuspended(ended.failure)) return yield* ended.failure
      const waiting = yield* runStored(place, {
        name: `${name} waits ${round}`,
        kind,
        isInner: true,
        output: Waiting,
        execute: ({ attempt }) => Effect.mapError(publishQuestions(place, path, step, attempt), toFailure)
      })
      yield* waitForAnswer(path, String(round), waiting)
      const answers = yield* readAnswers(path, waiting.questions)
      const resumed = runStored(place, {
        name: `${name} resumed ${round}`,
        kind,
        isInner: true,
        output,
        execute: ({ attempt }) =>
          Effect.gen(function* () {
            const { execution } = place
            yield* Effect.orDie(
              store.beginStep(execution, { path, name, kind, state: "running", attempts: attempt, sessionId })
            )
            yield* Effect.mapError(storeAnswers(place, path, waiting, sessionId, answers), toFailure)
            return yield* work
          }).pipe(
            Effect.tap(() => Effect.orDie(store.endStep(place.execution, path, "done"))),
            Effect.tapError((failure) =>
              isSuspended(failure)
                ? Effect.void
                : Effect.orDie(store.endStep(place.execution, path, "failed", failure.message))
            )
          )
      })
      ended = yield* Effect.result(resumed)
    }
  })

/** Schedule of the looks for answers that are given in sessions. */
const looks = Schedule.spaced("2 seconds")

/** Continues executions whose questions were answered in their sessions, until the scope closes. */
export const watchSessions: Effect.Effect<void, never, Scope.Scope | SessionStore | WorkflowEngine | WorkflowStore> =
  Effect.gen(function* () {
    const engine = yield* WorkflowEngine
    const store = yield* WorkflowStore
    const sessions = yield* SessionStore
    const continueExecution = Effect.fnUntraced(function* ({ execution, question }: ExecutionQuestion) {
      const found = yield* store.get(execution)
      if (found === undefined) return
      const workflow = makeEngineWorkflow(found)
      const executionId = yield* workflow.executionId({ id: execution, input: null })
      const deferred = makeDeferred(question, 1)
      yield* engine.deferredDone(deferred, {
        workflowName: workflow._tag,
        executionId,
        deferredName: deferred.name,
        exit: Exit.succeed({ id: givenInSession, value: null })
      })
      yield* store.closeQuestion(execution, question, 1)
      yield* store.announce
    })
    const look = Effect.gen(function* () {
      for (const asked of yield* store.openQuestions(undefined)) {
        const known = Option.getOrUndefined(readSessionQuestion(asked))
        if (known === undefined) continue
        const { questionId, sessionId } = known.session
        const { open } = yield* listOpen(sessions, sessionId)
        if (!open.some(({ id }) => id === questionId)) yield* continueExecution(asked)
      }
    })
    yield* look.pipe(
      Effect.catchCause((cause) => Effect.logDebug("the answers of sessions could not be looked for", cause)),
      Effect.repeat(looks),
      Effect.forkScoped
    )
  })
