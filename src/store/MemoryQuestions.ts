/** Questions and results of steps of the sessions in memory. */
import type { SessionId } from "../base/domain/Ids.ts"
import type * as Question from "../base/domain/Question.ts"
import * as QuestionForm from "./QuestionForm.ts"
import type { CheckedAnswer, QuestionFilter, StepResult } from "./SessionStorePort.ts"

/** Data about the calls of one session that wait. */
interface SessionQuestions {
  /** Questions by id, oldest first. */
  readonly questions: Map<string, Question.StoredQuestion>
  /** Results of steps by call and name. */
  readonly steps: Map<string, StepResult>
}

const isKept = ({ state }: Question.StoredQuestion): boolean => state === "open" || state === "answered"

const formatStepKey = ({ callId, name }: StepResult): string => JSON.stringify([callId, name])

/** Creates an empty list of questions. */
export const makeQuestions = () => {
  const bySession = new Map<SessionId, SessionQuestions>()

  const openSession = (id: SessionId): SessionQuestions => {
    const known = bySession.get(id) ?? { questions: new Map(), steps: new Map() }
    bySession.set(id, known)
    return known
  }

  return {
    /** Returns true if a session has a question without an answer, or an answer that its call has not used. */
    isWaiting: (id: SessionId): boolean => Array.from(bySession.get(id)?.questions.values() ?? []).some(isKept),
    addQuestions: (id: SessionId, added: ReadonlyArray<Question.StoredQuestion>): void => {
      const { questions } = openSession(id)
      for (const stored of added) {
        if (!questions.has(stored.question.id)) questions.set(stored.question.id, stored)
      }
    },
    /** Lists the questions that match a filter, of the sessions that pass a test. */
    listQuestions: (
      filter: QuestionFilter = {},
      isSelected: (id: SessionId) => boolean = () => true
    ): ReadonlyArray<Question.StoredQuestion> =>
      Array.from(bySession)
        .filter(([id]) => isSelected(id))
        .flatMap(([, { questions }]) => Array.from(questions.values()))
        .filter((stored) => QuestionForm.matchesFilter(stored, filter))
        .sort((a, b) => a.question.createdAt - b.question.createdAt)
        .slice(0, filter.limit ?? QuestionForm.defaultLimit),
    answerQuestions: (id: SessionId, answers: ReadonlyArray<CheckedAnswer>): boolean => {
      const questions = bySession.get(id)?.questions ?? new Map<string, Question.StoredQuestion>()
      if (!answers.every(({ questionId }) => questions.get(questionId)?.state === "open")) return false
      for (const { questionId, ...answer } of answers) {
        const stored = questions.get(questionId)
        if (stored !== undefined) questions.set(questionId, { ...stored, state: "answered", answer })
      }
      return true
    },
    closeQuestions: (id: SessionId, callIds: ReadonlyArray<string>, state: "used" | "withdrawn"): void => {
      const known = bySession.get(id)
      if (known === undefined) return
      for (const [key, stored] of known.questions) {
        const { callId } = stored.question
        if (isKept(stored) && callId !== undefined && callIds.includes(callId))
          known.questions.set(key, { ...stored, state })
      }
      for (const [key, { callId }] of known.steps) if (callIds.includes(callId)) known.steps.delete(key)
    },
    addStep: (id: SessionId, step: StepResult): void => {
      const { steps } = openSession(id)
      const key = formatStepKey(step)
      if (!steps.has(key)) steps.set(key, step)
    },
    listSteps: (id: SessionId): ReadonlyArray<StepResult> => Array.from(bySession.get(id)?.steps.values() ?? []),
    /** Moves the questions of a session to the session that continues it. */
    moveQuestions: (from: SessionId, to: SessionId): void => {
      const known = bySession.get(from)
      if (known === undefined) return
      bySession.delete(from)
      const { questions, steps } = openSession(to)
      for (const [key, stored] of known.questions)
        questions.set(key, { ...stored, question: { ...stored.question, sessionId: to } })
      for (const [key, step] of known.steps) steps.set(key, step)
    },
    forgetSession: (id: SessionId): void => void bySession.delete(id)
  }
}
