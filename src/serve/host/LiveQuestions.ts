/**
 * Questions of a turn to its user: approvals and clarifications in the order in which they were asked, and the question
 * about a plan at the end of the turn. Any client can answer a question by its id; the first answer counts. A question
 * is withdrawn when the code that asked it no longer waits.
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Redaction from "../../base/domain/Redaction.ts"
import { Secrets } from "../../base/domain/Secrets.ts"
import type { ApprovalPrompt } from "../../tools/approval/Approver.ts"
import type { Reply } from "../../tools/approval/ApprovalRequest.ts"
import type { Ask, Question } from "../../tools/builtin/Clarifier.ts"
import type { Answer, HostEvent, OpenQuestion, PlanQuestion, State } from "./HostEvent.ts"
import type { StateOwner } from "./StateOwner.ts"

/** Error raised when an answer does not apply to an open question. */
export class AnswerRejected extends Schema.TaggedError<AnswerRejected>("hermes-effect/host/AnswerRejected")(
  "AnswerRejected",
  { id: Schema.String, reason: Schema.Literals(["closed", "kind"]) }
) {
  override get message(): string {
    return this.reason === "closed"
      ? `Question ${this.id} is not open: it was answered, or taken back with its turn.`
      : `Question ${this.id} takes an answer of another kind: an approval a reply, ` +
          "a clarification its choices or other words, a plan a mode."
  }
}

/** An answer to the question about a plan. */
export type PlanAnswer = Extract<Answer, { readonly _tag: "Plan" }>

/** The two services that ask the user, and the operations that answer their questions. */
export interface LiveQuestions {
  readonly clarifier: Ask
  readonly approvals: ApprovalPrompt["Service"]
  readonly answer: (id: string, answer: Answer) => Effect.Effect<void, AnswerRejected>
  /** Closes a question without an answer. Has no effect if it is closed, or about a plan. */
  readonly leaveUnanswered: (id: string) => Effect.Effect<void>
  /** Withdraws all open questions. Must run on the fiber of the `StateOwner`. */
  readonly withdraw: Effect.Effect<void>
  /**
   * Returns the changes that add the question about a plan at the end of its turn. `decide` is run with the user's
   * answer. Must run on the fiber of the `StateOwner`.
   */
  readonly present: (
    question: PlanQuestion,
    turn: number,
    decide: (answer: PlanAnswer) => Effect.Effect<void>
  ) => Effect.Effect<{ readonly changes: Pick<State, "questions">; readonly event: HostEvent }>
  /** Adds a question that another process asks. Must run on the fiber of the `StateOwner`. */
  readonly mirror: (question: OpenQuestion) => Effect.Effect<void>
  /**
   * Closes a question that another process asked, with its answer or without one. Must run on the fiber of the
   * `StateOwner`.
   */
  readonly closeMirrored: (id: string, answer: Answer | undefined) => Effect.Effect<void>
  /** Withdraws the question about a plan. Must run on the fiber of the `StateOwner`. */
  readonly withdrawPlan: Effect.Effect<void>
}

/** A question without the fields that this module adds. */
type NewQuestion =
  Exclude<OpenQuestion, { readonly _tag: "Plan" }> extends infer One
    ? One extends OpenQuestion
      ? Omit<One, "askedAt" | "id" | "turn">
      : never
    : never

/** Turns an approval into a denial if its choice was not offered. */
const denyUnofferedChoice = ({ question }: Extract<OpenQuestion, { readonly _tag: "Approval" }>, reply: Reply): Reply =>
  question.choices.includes(reply.choice) ? reply : { ...reply, choice: "deny" }

/** Limits an answer to the offered choices. A plan answer with a mode that was not offered continues planning. */
const limitToOfferedAnswer = (question: OpenQuestion, answer: Answer): Answer => {
  if (question._tag === "Approval" && answer._tag === "Approval")
    return { _tag: "Approval", reply: denyUnofferedChoice(question, answer.reply) }
  if (question._tag !== "Plan" || answer._tag !== "Plan") return answer
  return question.question.modes.some((mode) => mode === answer.mode) ? answer : { ...answer, mode: "plan" }
}

/** Asks the user the clarification of a tool. Clients see redacted text, but the tool receives its original choices. */
const clarifyByAnswer = Effect.fnUntraced(function* (
  requestAnswer: (question: NewQuestion) => Effect.Effect<Answer | undefined>,
  { choices, multiple, question }: Question
) {
  const secrets = yield* Secrets
  const shown = {
    question: Redaction.redactText(question, secrets),
    choices: choices.map((choice) => Redaction.redactText(choice, secrets)),
    multiple
  }
  const answer = yield* requestAnswer({ _tag: "Clarification", question: shown })
  if (answer?._tag !== "Clarification") return undefined
  return answer.answers.map((one) => choices[shown.choices.indexOf(one)] ?? one)
})

type WaitingCode = Map<string, (answer: Answer | undefined) => Effect.Effect<void>>

/** Removes a question from the list of open questions. Returns false if it was already removed. */
const removeQuestion = (owner: StateOwner, waiting: WaitingCode, id: string, answer: Answer | undefined): boolean => {
  if (!waiting.delete(id)) return false
  const questions = owner.state().questions.filter((question) => question.id !== id)
  owner.change({ questions }, { _tag: "QuestionClosed", id, answer })
  return true
}

/** Makes the operations on questions of other processes, and the withdrawals. */
const makeClosing = (
  owner: StateOwner,
  waiting: WaitingCode,
  closeQuestion: (id: string, answer: Answer | undefined) => boolean
): Pick<LiveQuestions, "closeMirrored" | "mirror" | "withdraw" | "withdrawPlan"> => ({
  mirror: (question) =>
    Effect.sync(() => {
      waiting.set(question.id, () => Effect.void)
      owner.change({ questions: [...owner.state().questions, question] }, { _tag: "QuestionAsked", question })
    }),
  closeMirrored: (id, answer) => Effect.sync(() => void closeQuestion(id, answer)),
  withdraw: Effect.sync(() => {
    for (const { id } of owner.state().questions) closeQuestion(id, undefined)
  }),
  withdrawPlan: Effect.sync(() => {
    for (const { _tag, id } of owner.state().questions) if (_tag === "Plan") closeQuestion(id, undefined)
  })
})

/** Makes the questions of a live session. `onChange` is called after each change of the open questions. */
export const make = (owner: StateOwner, onChange: () => void = () => {}): LiveQuestions => {
  const waiting: WaitingCode = new Map()
  let count = 0

  const openQuestion = (
    question: NewQuestion,
    answered: Deferred.Deferred<Answer | undefined>
  ): Effect.Effect<string> =>
    owner.run(
      Effect.map(Clock.currentTimeMillis, (askedAt) => {
        const id = `q${++count}`
        const { questions, turn } = owner.state()
        const asked = { ...question, id, turn: turn?.id ?? 0, askedAt }
        waiting.set(id, (answer) => Effect.asVoid(Deferred.succeed(answered, answer)))
        owner.change({ questions: [...questions, asked] }, { _tag: "QuestionAsked", question: asked })
        onChange()
        return id
      })
    )

  const closeQuestion = (id: string, answer: Answer | undefined): boolean => {
    const isClosed = removeQuestion(owner, waiting, id, answer)
    if (isClosed) onChange()
    return isClosed
  }

  const leaveUnanswered = (id: string): Effect.Effect<void> =>
    Effect.suspend(() => {
      const answered = waiting.get(id)
      const isPlan = owner.state().questions.some((one) => one.id === id && one._tag === "Plan")
      return answered !== undefined && !isPlan && closeQuestion(id, undefined) ? answered(undefined) : Effect.void
    })

  const requestAnswer = (question: NewQuestion): Effect.Effect<Answer | undefined> =>
    Effect.flatMap(Deferred.make<Answer | undefined>(), (answered) =>
      Effect.acquireUseRelease(
        openQuestion(question, answered),
        () => Deferred.await(answered),
        (id) => Effect.sync(() => owner.post(Effect.sync(() => void closeQuestion(id, undefined))))
      )
    )

  return {
    clarifier: (question) => clarifyByAnswer(requestAnswer, question),
    approvals: {
      ask: (question) =>
        Effect.map(requestAnswer({ _tag: "Approval", question }), (answer) =>
          answer?._tag === "Approval" ? answer.reply : undefined
        )
    },
    answer: (id, answer) =>
      owner.run(
        Effect.suspend(() => {
          const question = owner.state().questions.find((one) => one.id === id)
          const answered = waiting.get(id)
          if (question === undefined || answered === undefined)
            return Effect.fail(new AnswerRejected({ id, reason: "closed" }))
          if (question._tag !== answer._tag) return Effect.fail(new AnswerRejected({ id, reason: "kind" }))
          const counted = limitToOfferedAnswer(question, answer)
          closeQuestion(id, counted)
          return answered(counted)
        })
      ),
    leaveUnanswered: (id) => owner.run(leaveUnanswered(id)),
    present: (question, turn, decide) =>
      Effect.map(Clock.currentTimeMillis, (askedAt) => {
        const id = `q${++count}`
        const asked: OpenQuestion = { _tag: "Plan", id, turn, askedAt, question }
        waiting.set(id, (answer) => (answer?._tag === "Plan" ? decide(answer) : Effect.void))
        return {
          changes: { questions: [...owner.state().questions, asked] },
          event: { _tag: "QuestionAsked", question: asked }
        }
      }),
    ...makeClosing(owner, waiting, closeQuestion)
  }
}
