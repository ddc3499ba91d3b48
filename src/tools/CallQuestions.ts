/**
 * Questions of tool calls: the port through which a call asks and finds its answers again when it runs again. The agent
 * implements the port for each run; a call outside a run cannot ask.
 *
 * **Example** (A client that answers during a run)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, Runtime } from "hermes-effect"
 * import { CallQuestions } from "hermes-effect/approvals"
 *
 * const program = Agent.run({ prompt: "Reply exactly done", questions: { wait: "1 minute" } }).pipe(
 *   Effect.provideService(CallQuestions.LiveAnswers, { answer: ({ title }) => Effect.succeed(`asked: ${title}`) })
 * )
 *
 * console.log((await Effect.runPromise(Effect.provide(program, Runtime.layer()))).text)
 * // => done
 * ```
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as CallSuspension from "../base/domain/CallSuspension.ts"
import type * as Question from "../base/domain/Question.ts"
import type { Question as ApprovalQuestion, Reply } from "./approval/ApprovalRequest.ts"

/** Treatment of questions that no user answers during a run. */
export interface QuestionPolicy {
  /**
   * Treatment of a question without an answer: `deny` continues without one, and `suspend` ends the run with the exit
   * `suspended`. By default, an approval without an answer is a denial, and a question that a tool asks (`Ask`)
   * suspends the run.
   */
  readonly unanswered?: "deny" | "suspend" | undefined
  /**
   * Time for which a user who can be asked is waited for. The default is the time of the approver
   * (`approvals.timeout`). A run without such a user is suspended at once.
   */
  readonly wait?: Duration.Input | undefined
  /** Time after which an open question can no longer be answered. By default, questions do not expire. */
  readonly expiresAfter?: Duration.Input | undefined
  /** Audience of the questions. By default, only the owner of the session sees them. */
  readonly audience?: string | undefined
}

/** A question that is asked, without the facts of its run. */
export interface QuestionDraft extends Pick<
  Question.Question,
  "details" | "event" | "kind" | "prompt" | "schema" | "title" | "wakeAt"
> {
  readonly expiresAt?: number | undefined
  readonly audience?: string | undefined
}

/** A call that asks, and the place of its question within the call. */
export interface QuestionPlace {
  readonly callId: string
  readonly tool: string
  readonly place: string
}

/** Parameters with which an answer approved a call. */
export interface EditedCall {
  readonly params: Readonly<Record<string, unknown>>
  readonly stored: Question.StoredQuestion
}

/** Questions and steps of the calls of one run. */
export interface QuestionBook {
  readonly policy: QuestionPolicy
  /** Returns true if the call has questions or steps. */
  readonly hasQuestions: (callId: string) => boolean
  /** Returns true if a question of an earlier run about the call still waits at a time. */
  readonly isWaiting: (callId: string, now: number) => boolean
  readonly findQuestion: (callId: string, place: string) => Question.StoredQuestion | undefined
  /** Returns the answer that approved the call with other parameters, if there is one. */
  readonly findEdit: (callId: string) => EditedCall | undefined
  /** Adds a question, with its answer if a user has just given one. It is stored when the run is suspended. */
  readonly addQuestion: (
    place: QuestionPlace,
    draft: QuestionDraft,
    now: number,
    answer?: { readonly answer: unknown; readonly by: string | undefined }
  ) => void
  /** Returns the questions of a call, in the order in which they were asked. */
  readonly listOfCall: (callId: string) => ReadonlyArray<Question.StoredQuestion>
  /** Adds a question that a child of the call asked, with its answer if it has one. */
  readonly addPassed: (stored: Question.StoredQuestion) => void
  readonly findStep: (callId: string, name: string) => { readonly value: unknown } | undefined
  /** Stores the result of a step. */
  readonly storeStep: (callId: string, name: string, value: unknown) => Effect.Effect<void>
}

/** The running call of a fiber, which can ask. */
export interface AskingCall {
  readonly callId: string
  readonly tool: string
  readonly book: QuestionBook
  readonly suspension: CallSuspension.CallSuspension
  /** Number of questions that the call has asked in this run. */
  asked: number
  /** Number of times that the call has delegated in this run. */
  delegated: number
}

/** The running call whose code asks; `undefined` in a call that cannot ask. */
export const CurrentCall = Context.Reference<AskingCall | undefined>("hermes-effect/tool/CallQuestions/CurrentCall", {
  defaultValue: () => undefined
})

/** A client that is present during a run and answers the questions of tools. */
export interface LiveAnswers {
  /** Answers a question with JSON. `undefined` is no answer. */
  readonly answer: (question: QuestionDraft & { readonly tool: string }) => Effect.Effect<unknown>
  /** Reason for the tool if a question has no answer and the call cannot wait. */
  readonly withoutAnswer?: string | undefined
}

/** The client that is present; `undefined` by default. */
export const LiveAnswers = Context.Reference<LiveAnswers | undefined>("hermes-effect/tool/CallQuestions/LiveAnswers", {
  defaultValue: () => undefined
})

/** An answer of an earlier run to the approval of a call. */
export type EarlierAnswer =
  | { readonly _tag: "Answered"; readonly reply: Reply; readonly waitedMillis: number }
  | { readonly _tag: "Expired" }
  | { readonly _tag: "Waiting" }

/** Approval of one call that may be suspended. */
export interface ApprovalSuspension {
  readonly policy: QuestionPolicy
  /** Returns the answer to the same question about the same call. `subject` identifies the question. */
  readonly findAnswer: (subject: string, now: number) => EarlierAnswer | undefined
  /** Adds the question, so that the run is suspended. */
  readonly addQuestion: (subject: string, question: ApprovalQuestion, now: number) => void
  /** Keeps the answer of a user for the case that the run is suspended before the call runs. */
  readonly keepAnswer: (subject: string, question: ApprovalQuestion, reply: Reply, now: number) => void
}

/** The approval that the fiber decides; `undefined` if it cannot be suspended. */
export const CurrentApproval = Context.Reference<ApprovalSuspension | undefined>(
  "hermes-effect/tool/CallQuestions/CurrentApproval",
  { defaultValue: () => undefined }
)
