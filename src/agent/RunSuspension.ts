/**
 * Suspends a run whose calls wait for answers: keeps what the calls asked, and stores it with the end of the run.
 *
 * **Details**
 *
 * The calls that wait stay open in the session. Their questions, the results of their steps and the end of the run are
 * stored before the result is returned, so that another process can continue at any time. A question belongs to its
 * call and its place within the call, by which the call finds it again.
 */
import * as Effect from "effect/Effect"
import type { SessionStoreError } from "../base/domain/AgentError.ts"
import * as Question from "../base/domain/Question.ts"
import type { RunEvent } from "../base/domain/RunEvent.ts"
import type { SessionId, TurnId } from "../base/domain/Ids.ts"
import * as Digest from "../base/platform/Digest.ts"
import type { Service as StoreService, StepResult } from "../store/SessionStorePort.ts"
import type { EditedCall, QuestionBook, QuestionPolicy } from "../tools/CallQuestions.ts"
import type { SuspendedOutcome } from "./AnswerOutcome.ts"
import { emit, type RunState } from "./RunState.ts"
import { Services } from "./Services.ts"

/** Questions and steps of the open calls of a session. */
export interface WaitingCalls {
  readonly questions: ReadonlyArray<Question.StoredQuestion>
  readonly steps: ReadonlyArray<StepResult>
}

/** The questions of a session whose calls do not wait. */
export const nothingWaits: WaitingCalls = { questions: [], steps: [] }

/** Questions of the calls of a run, and their state in the store. */
export interface RunBook extends QuestionBook {
  /** Returns the questions that this run asked about the calls, in the order in which they were asked. */
  readonly listNew: (callIds: ReadonlyArray<string>) => ReadonlyArray<Question.StoredQuestion>
  /** Forgets a call that has a result. The model may use its id for another call. */
  readonly forgetCall: (callId: string) => void
  /** Returns the questions about the calls that have no answer. */
  readonly listOpen: (callIds: ReadonlyArray<string>) => ReadonlyArray<Question.Question>
}

/** The run that a book belongs to. */
interface BookOwner {
  readonly store: Pick<StoreService, "storeStep">
  readonly sessionId: SessionId
  readonly turnId: TurnId
  readonly policy: QuestionPolicy
}

const readEdit = (stored: Question.StoredQuestion): EditedCall | undefined => {
  const answer = stored.answer?.answer
  if (stored.question.kind !== "approval" || typeof answer !== "object" || answer === null) return undefined
  const params: unknown = Reflect.get(answer, "params")
  if (Reflect.get(answer, "choice") === "deny" || typeof params !== "object" || params === null) return undefined
  return { params: { ...params }, stored }
}

/** Creates the questions of a run that continues with these. */
export const makeBook = ({ policy, sessionId, store, turnId }: BookOwner, waiting: WaitingCalls): RunBook => {
  let questions: ReadonlyArray<Question.StoredQuestion> = waiting.questions
  let steps: ReadonlyArray<StepResult> = waiting.steps
  const listOfCall = (callId: string) => questions.filter(({ question }) => question.callId === callId)
  const belongsTo =
    (callIds: ReadonlyArray<string>) =>
    ({ question: { callId } }: Question.StoredQuestion): boolean =>
      callId !== undefined && callIds.includes(callId)
  return {
    policy,
    hasQuestions: (callId) =>
      questions.length + steps.length > 0 &&
      (listOfCall(callId).length > 0 || steps.some((step) => step.callId === callId)),
    isWaiting: (callId, now) => listOfCall(callId).some((stored) => Question.isWaiting(stored, now)),
    findQuestion: (callId, place) => listOfCall(callId).find((stored) => stored.place === place),
    findEdit: (callId) => {
      for (const stored of listOfCall(callId)) {
        const edit = readEdit(stored)
        if (edit !== undefined) return edit
      }
      return undefined
    },
    addQuestion: ({ callId, place, tool }, { audience, expiresAt, ...draft }, now, answer) => {
      const id = `q_${Digest.toHex(JSON.stringify([sessionId, turnId, callId, place]), 24)}`
      if (questions.some(({ question }) => question.id === id)) return
      const stored: Question.StoredQuestion = {
        question: {
          id,
          sessionId,
          runId: turnId,
          callId,
          tool,
          ...draft,
          createdAt: now,
          ...(expiresAt === undefined ? {} : { expiresAt }),
          ...(audience === undefined ? {} : { audience })
        },
        place,
        state: answer === undefined ? "open" : "answered",
        ...(answer === undefined ? {} : { answer: { ...answer, answeredAt: now } })
      }
      questions = [...questions, stored]
    },
    findStep: (callId, name) => steps.find((step) => step.callId === callId && step.name === name),
    storeStep: (callId, name, value) =>
      Effect.suspend(() => {
        const step = { callId, name, value }
        steps = [...steps, step]
        // The run cannot continue without its store, and its next write reports the failure.
        return Effect.orDie(store.storeStep(sessionId, step))
      }),
    forgetCall: (callId) => {
      questions = questions.filter(({ question }) => question.callId !== callId)
      steps = steps.filter((step) => step.callId !== callId)
    },
    listNew: (callIds) => questions.filter(belongsTo(callIds)).filter((stored) => !waiting.questions.includes(stored)),
    listOpen: (callIds) =>
      questions.filter(belongsTo(callIds)).flatMap(({ question, state }) => (state === "open" ? [question] : []))
  }
}

/** Stores the questions of calls that wait, with the end of the run. */
export const suspendRun = Effect.fnUntraced(function* (
  run: RunState,
  callIds: ReadonlyArray<string>,
  text: string
): Effect.fn.Return<SuspendedOutcome, SessionStoreError, Services> {
  const { store } = yield* Services
  const { book, recorder, sessionId } = run
  const added = book.listNew(callIds)
  const suspended = store.suspend(sessionId, { questions: added, callIds, reason: "suspended" })
  yield* Effect.uninterruptible(recorder === undefined ? suspended : recorder.storing(suspended, () => {}))
  const asked = added.flatMap(({ question, state }): ReadonlyArray<RunEvent> =>
    state === "open" ? [{ _tag: "QuestionAsked", question }] : []
  )
  if (asked.length > 0) yield* emit(run, ...asked)
  return { _tag: "Suspended", text, questions: book.listOpen(callIds) }
})

/** Closes the questions of calls that end without an answer. */
export const withdrawQuestions = (
  { book, sessionId }: RunState,
  callIds: ReadonlyArray<string>
): Effect.Effect<void, SessionStoreError, Services> => {
  const asked = callIds.filter(book.hasQuestions)
  return asked.length === 0
    ? Effect.void
    : Services.use(({ store }) =>
        Effect.map(store.closeQuestions(sessionId, asked, "withdrawn"), () => asked.forEach(book.forgetCall))
      )
}

/** Returns a store whose next append also closes the questions of a call that has a result now. */
export const closingQuestions = (
  store: StoreService,
  { book, recorder, sessionId }: RunState,
  callId: string
): Pick<StoreService, "append"> =>
  book.hasQuestions(callId)
    ? {
        append: (id, messages) => {
          const appended = Effect.tap(store.append(id, messages), () =>
            Effect.map(store.closeQuestions(sessionId, [callId], "used"), () => book.forgetCall(callId))
          )
          return recorder === undefined ? (store.together?.(appended) ?? appended) : appended
        }
      }
    : store
