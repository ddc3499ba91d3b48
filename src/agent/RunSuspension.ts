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
import * as ChildQuestions from "./ChildQuestions.ts"
import * as RunConditions from "./RunConditions.ts"
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
  /** Returns the questions about the calls, of this run and of earlier ones. */
  readonly listAll: (callIds: ReadonlyArray<string>) => ReadonlyArray<Question.StoredQuestion>
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
  // An edit of a child's call is not an edit of the call that delegates.
  if (stored.question.origin !== undefined) return undefined
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
    isWaiting: (callId, now) => {
      const isOpen = (stored: Question.StoredQuestion): boolean => Question.isWaiting(stored, now)
      const asked = listOfCall(callId)
      const passed = asked.filter(({ question }) => question.origin !== undefined)
      // A child whose question has an answer continues before the others have theirs.
      return asked.some((one) => isOpen(one) && !passed.includes(one)) || (passed.length > 0 && passed.every(isOpen))
    },
    listOfCall,
    addPassed: (stored) => {
      if (questions.some(({ question }) => question.id === stored.question.id)) return
      questions = [...questions, stored]
    },
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
    listAll: (callIds) => questions.filter(belongsTo(callIds))
  }
}

const selectOpen = (questions: ReadonlyArray<Question.StoredQuestion>): ReadonlyArray<Question.Question> =>
  questions.flatMap(({ question, state }) => (state === "open" ? [question] : []))

/**
 * Ends the run of a child whose calls wait. The questions are stored in the session of the run above that has no
 * parent, which takes their answers.
 */
const suspendChild = Effect.fnUntraced(function* (
  { book, recorder, sessionId }: RunState,
  asking: ChildQuestions.ChildAsking,
  callIds: ReadonlyArray<string>
): Effect.fn.Return<ReadonlyArray<Question.Question>, SessionStoreError, Services> {
  const { store } = yield* Services
  const suspended = store.suspend(sessionId, { questions: [], callIds, reason: "suspended" })
  yield* Effect.uninterruptible(recorder === undefined ? suspended : recorder.storing(suspended, () => {}))
  const position = ChildQuestions.findAnswerPosition(yield* store.messages(sessionId))
  const questions = book.listAll(callIds)
  asking.passUp(questions.map((stored) => ({ position, stored })))
  return selectOpen(questions)
})

/** Stores the questions of calls that wait, with the end of the run. */
export const suspendRun = Effect.fnUntraced(function* (
  run: RunState,
  callIds: ReadonlyArray<string>,
  text: string
): Effect.fn.Return<SuspendedOutcome, SessionStoreError, Services> {
  const { store } = yield* Services
  const { book, lineage, recorder, sessionId } = run
  if (lineage?.asking !== undefined)
    return { _tag: "Suspended", text, questions: yield* suspendChild(run, lineage.asking, callIds) }
  const added = book.listNew(callIds)
  const conditions = yield* RunConditions.collectConditions(run, callIds)
  const suspended = Effect.andThen(
    Effect.forEach(conditions, (step) => store.storeStep(sessionId, step), { discard: true }),
    store.suspend(sessionId, { questions: added, callIds, reason: "suspended" })
  )
  yield* Effect.uninterruptible(
    recorder === undefined ? (store.together?.(suspended) ?? suspended) : recorder.storing(suspended, () => {})
  )
  const asked = selectOpen(added).map((question): RunEvent => ({ _tag: "QuestionAsked", question }))
  if (asked.length > 0) yield* emit(run, ...asked)
  // Another process may have answered a question during this run.
  const stored = yield* store.listQuestions({ sessionId, limit: Number.MAX_SAFE_INTEGER })
  const open = new Set(stored.map(({ question }) => question.id))
  const questions = selectOpen(book.listAll(callIds)).filter(({ id }) => open.has(id))
  return { _tag: "Suspended", text, questions }
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
