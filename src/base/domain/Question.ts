/**
 * A question that a run waits for: the approval of a call, a form, a text, an event or a time. A run that waits ends
 * with the exit `suspended`, and its questions are stored with the session. Any process that has the store answers them
 * with `Agent.resume`.
 *
 * **Details**
 *
 * The texts and the details of a question are for display: secrets in them are masked. An answer is JSON that fits the
 * `schema` of its question. Each question is answered once; a question of a time needs no answer.
 *
 * **Example** (The answers that an approval accepts)
 *
 * ```ts
 * import { Question } from "hermes-effect/sessions"
 *
 * const { required } = Question.makeApprovalSchema(["once", "deny"], false)
 *
 * console.log(required)
 * // => [ 'choice' ]
 * ```
 */
import type * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { SessionId, TurnId } from "./Ids.ts"

/** Kinds of questions. `event` waits for an event from outside, and `time` for a time. */
export const Kind = Schema.Literals(["approval", "form", "text", "event", "time"])
/** Type of {@link Kind}. */
export type Kind = typeof Kind.Type

/** A child agent through which a question reached its run. */
export const ChildOrigin = Schema.Struct({
  /** Session of the child. Its parent's session takes the answer. */
  sessionId: SessionId,
  /** Task of the child, shortened. */
  goal: Schema.String,
  /** Name of the sub-agent, if the task named one. */
  agent: Schema.optionalKey(Schema.String)
})
/** Type of {@link ChildOrigin}. */
export type ChildOrigin = typeof ChildOrigin.Type

/** A question that a run waits for. Times are in epoch milliseconds. */
export const Question = Schema.Struct({
  /** Id of the question, which is the same in every process. */
  id: Schema.String,
  /** Session that takes the answer. For a question of a child agent, the session of the run that started the child. */
  sessionId: SessionId,
  /** Id of the run that asked. */
  runId: TurnId,
  /** Tool call of the session that waits. */
  callId: Schema.optionalKey(Schema.String),
  /** Name of the tool that asks. For a question of a child agent, a tool of the child. */
  tool: Schema.optionalKey(Schema.String),
  /** Child agents that the question comes from, the one that asks last. Absent if the run itself asks. */
  origin: Schema.optionalKey(Schema.Array(ChildOrigin)),
  kind: Kind,
  /** The question in one line. */
  title: Schema.String,
  /** More text for the user, such as the command to approve. */
  prompt: Schema.optionalKey(Schema.String),
  /** Name of the event that is waited for. */
  event: Schema.optionalKey(Schema.String),
  /** JSON Schema of the answer. */
  schema: Schema.Record(Schema.String, Schema.Unknown),
  /** The call with its parameters, or data that a tool adds for a client. Secrets are masked. */
  details: Schema.optionalKey(Schema.Unknown),
  createdAt: Schema.Finite,
  /** Time after which the question can no longer be answered. An expired approval is a denial. */
  expiresAt: Schema.optionalKey(Schema.Finite),
  /** Time at which a question of kind `time` needs no answer any more. */
  wakeAt: Schema.optionalKey(Schema.Finite),
  /** Audience that may see and answer the question. Without an audience, only the owner may. */
  audience: Schema.optionalKey(Schema.String)
})
/** Type of {@link Question}. */
export type Question = typeof Question.Type

/** An answer to a question. */
export interface Answer {
  readonly questionId: string
  /** JSON that fits the schema of the question. */
  readonly answer: unknown
  /** Name of the person or program that answers, for the record. */
  readonly by?: string | undefined
}

/**
 * State of a stored question: `open` waits for an answer, `answered` has an answer that its call has not used yet,
 * `used` belongs to a call with a result, and `withdrawn` was closed without an answer.
 */
export const State = Schema.Literals(["open", "answered", "used", "withdrawn"])
/** Type of {@link State}. */
export type State = typeof State.Type

/** A question in the store, with its answer. */
export interface StoredQuestion {
  readonly question: Question
  /** Place of the question within its call, which finds it again after the call is run again. */
  readonly place: string
  readonly state: State
  readonly answer?: { readonly answer: unknown; readonly by: string | undefined; readonly answeredAt: number }
}

/** Choices of an approval. `always` is not offered for every call. */
export type ApprovalChoice = "once" | "session" | "always" | "deny"

/** The answer to the approval of a call. */
export const ApprovalAnswer = Schema.Struct({
  choice: Schema.Literals(["once", "session", "always", "deny"]),
  /** Reason of a denial, for the model. */
  reason: Schema.optionalKey(Schema.String),
  /** Parameters with which the call runs, in place of those that the model wrote. */
  params: Schema.optionalKey(Schema.Record(Schema.String, Schema.Unknown))
})
/** Type of {@link ApprovalAnswer}. */
export type ApprovalAnswer = typeof ApprovalAnswer.Type

/** JSON Schema of the approval of a call. `isEditable` is true if the answer may contain other parameters. */
export const makeApprovalSchema = (
  choices: ReadonlyArray<ApprovalChoice>,
  isEditable: boolean
): Question["schema"] => ({
  type: "object",
  properties: {
    choice: { type: "string", enum: choices },
    reason: { type: "string" },
    ...(isEditable ? { params: { type: "object" } } : {})
  },
  required: ["choice"],
  additionalProperties: false
})

/** JSON Schema of a text. */
export const textSchema: Question["schema"] = { type: "string" }

/** JSON Schema of any value, for events whose payload is not described. */
export const anySchema: Question["schema"] = {}

/** No question has the id, or the question is for another audience. */
export class QuestionUnknown extends Schema.TaggedError<QuestionUnknown>("hermes-effect/QuestionUnknown")(
  "QuestionUnknown",
  { sessionId: Schema.String, questionId: Schema.String }
) {
  override get message(): string {
    return (
      `session ${this.sessionId} has no question "${this.questionId}": ` +
      "list its open questions with Agent.questions, and answer one of them"
    )
  }
}

/** The question was answered before, and its first answer stands. */
export class QuestionAnswered extends Schema.TaggedError<QuestionAnswered>("hermes-effect/QuestionAnswered")(
  "QuestionAnswered",
  { sessionId: Schema.String, questionId: Schema.String, by: Schema.optionalKey(Schema.String) }
) {
  override get message(): string {
    const who = this.by === undefined ? "" : ` by ${this.by}`
    return (
      `the question "${this.questionId}" was answered before${who}, and that answer stands: ` +
      "resume the session without this answer"
    )
  }
}

/** The question was withdrawn, because the session continued without an answer. */
export class QuestionClosed extends Schema.TaggedError<QuestionClosed>("hermes-effect/QuestionClosed")(
  "QuestionClosed",
  { sessionId: Schema.String, questionId: Schema.String }
) {
  override get message(): string {
    return (
      `the question "${this.questionId}" was withdrawn, because session ${this.sessionId} continued without an ` +
      "answer: send a message to the session if the call is still wanted"
    )
  }
}

/** The time to answer the question has passed. */
export class QuestionExpired extends Schema.TaggedError<QuestionExpired>("hermes-effect/QuestionExpired")(
  "QuestionExpired",
  { sessionId: Schema.String, questionId: Schema.String, expiredAt: Schema.Finite }
) {
  override get message(): string {
    return (
      `the time to answer the question "${this.questionId}" has passed: ` +
      "resume the session without an answer, and the model learns that there is none"
    )
  }
}

/** The answer does not fit the schema of its question. */
export class AnswerInvalid extends Schema.TaggedError<AnswerInvalid>("hermes-effect/AnswerInvalid")("AnswerInvalid", {
  sessionId: Schema.String,
  questionId: Schema.String,
  problem: Schema.String
}) {
  override get message(): string {
    return (
      `the answer to the question "${this.questionId}" does not fit its schema: ${this.problem}. ` +
      "Nothing was stored; answer again"
    )
  }
}

/** Schema of every error of an answer. */
export const QuestionError = Schema.Union([
  QuestionUnknown,
  QuestionAnswered,
  QuestionClosed,
  QuestionExpired,
  AnswerInvalid
])
/** Any error of an answer. */
export type QuestionError = typeof QuestionError.Type

/** Returns true for a question that can no longer be answered at a time. */
export const isExpired = ({ expiresAt }: Question, now: number): boolean => expiresAt !== undefined && expiresAt <= now

/** Returns true if a question of a time has reached its time. */
export const isDue = ({ wakeAt }: Question, now: number): boolean => wakeAt !== undefined && wakeAt <= now

/** Returns true if a stored question still waits at a time: it is open, not expired, and its time has not come. */
export const isWaiting = ({ question, state }: StoredQuestion, now: number): boolean =>
  state === "open" && !isExpired(question, now) && !isDue(question, now)

const decodeStored = Schema.decodeUnknownOption(Question)

/** Reads a question from its JSON. Returns `None` for JSON of another form. */
export const fromJson = (json: unknown): Option.Option<Question> => decodeStored(json)
