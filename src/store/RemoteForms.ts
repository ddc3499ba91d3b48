/**
 * Messages between processes that share a store, as JSON: to the process that works on a session, its replies, and the
 * questions that it posts.
 */
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Json from "../base/domain/Json.ts"

/** Maximum length of a message and of a posted notice, in characters. */
export const longestBody = 200_000

/** Treatment of a text while the turn runs; see `LiveSession.send`. */
export const Busy = Schema.Literals(["queue", "steer", "interrupt"])

/** A text for the model. */
export const Steer = Schema.Struct({ prompt: Schema.NonEmptyString, busy: Busy })

/** An answer: the choice for an approval, answers to a clarification, or the next mode for a plan. */
export const RemoteAnswer = Schema.Union([
  Schema.Struct({
    choice: Schema.Literals(["once", "session", "always", "deny"]),
    reason: Schema.optionalKey(Schema.String),
    prefix: Schema.optionalKey(Schema.Boolean)
  }),
  Schema.Struct({ answers: Schema.Array(Schema.String) }),
  Schema.Struct({ mode: Schema.Literals(["plan", "ask", "edits", "auto"]), words: Schema.optionalKey(Schema.String) })
])

/** An answer to one of the posted questions. */
export const Answered = Schema.Struct({ question: Schema.String, answer: RemoteAnswer })

/** Reply to a message. `refused` states why it has no effect. */
export const Reply = Schema.Struct({
  refused: Schema.optionalKey(Schema.String),
  /** Treatment of a text: it begins a turn, waits for one, or is delivered with the next result of a tool. */
  status: Schema.optionalKey(Schema.Literals(["started", "queued", "steering"])),
  stopped: Schema.optionalKey(Schema.Boolean),
  /** Texts that waited for a turn, and were taken back by a cancellation. */
  returned: Schema.optionalKey(Schema.Array(Schema.String))
})

/** A question that the running turn of another process asks. `question` has the fields of its kind, without secrets. */
export const PostedQuestion = Schema.Struct({
  _tag: Schema.Literals(["Approval", "Clarification", "Plan"]),
  id: Schema.String,
  askedAt: Schema.Number,
  question: Schema.Record(Schema.String, Schema.Unknown)
})

/** A question that the running turn of another process asks. */
export type PostedQuestion = typeof PostedQuestion.Type
/** An answer to a question of another process. */
export type RemoteAnswer = typeof RemoteAnswer.Type
/** Reply of the process that took a message. */
export type Reply = typeof Reply.Type

const makeReader = <S extends Schema.Codec<unknown, unknown, never, never>>(schema: S) => {
  const decode = Schema.decodeUnknownOption(schema)
  return (text: string): S["Type"] | undefined => Option.getOrUndefined(Option.flatMap(Json.parse(text), decode))
}

/** Reads a text for the model; `undefined` for a body of another form. */
export const readSteer = makeReader(Steer)
/** Reads an answer with its question; `undefined` for a body of another form. */
export const readAnswered = makeReader(Answered)
/** Reads a reply; `undefined` for a body of another form. */
export const readReply = makeReader(Reply)
/** Reads a list of posted questions; `undefined` for a body of another form. */
export const readQuestions = makeReader(Schema.Array(PostedQuestion))
