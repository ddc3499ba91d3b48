/**
 * Actions of the studio on a turn that another process runs: a text for the model, the end of the turn, and answers to
 * its questions.
 *
 * **Details**
 *
 * The messages go through the store, to the process of the turn. A refusal by that process is the answer to the
 * request. Turns of a process that reads no messages are not reached.
 *
 * Questions of a suspended run are in the store. Their answers are stored there, and wake the durable run that waits
 * for them.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { SessionStoreError } from "../../base/domain/AgentError.ts"
import { SessionId } from "../../base/domain/Ids.ts"
import * as Json from "../../base/domain/Json.ts"
import type * as Question from "../../base/domain/Question.ts"
import * as QuestionAnswer from "../../base/domain/QuestionAnswer.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import * as RemoteForms from "../../store/RemoteForms.ts"
import * as RemoteSession from "../../store/RemoteSession.ts"
import { SessionInbox } from "../../store/SessionInbox.ts"
import { SessionStore } from "../../store/SessionStore.ts"
import type { Answered, Cancelled, OpenQuestion, Steered } from "./SteeringApi.ts"
import type { Event } from "./StudioEvents.ts"
import { makeBodyReader, Refusal } from "./StudioRequests.ts"

/** Actions on a running turn, as in the addresses of the requests. */
export const actions = ["steer", "cancel", "answer"] as const

/** Name of an action on a running turn: the last part of its address. */
export type Action = (typeof actions)[number]

const readSteer = makeBodyReader(
  Schema.Struct({
    text: Schema.NonEmptyString.check(Schema.isMaxLength(RemoteForms.longestBody)),
    busy: Schema.optionalKey(RemoteForms.Busy)
  })
)
const readCancel = makeBodyReader(Schema.Record(Schema.String, Schema.Never))
const readAnswer = makeBodyReader(RemoteForms.Answered)

/** Tests whether an action is one on a running turn. */
export const isAction = (name: string): name is Action => actions.some((one) => one === name)

const toRefusal = ({ message, reason }: RemoteSession.RemoteRefused): Refusal =>
  new Refusal({ status: reason === "too_long" ? 413 : 409, message })

/** Stores answers of a suspended session, after a check. The message of a failure is shown to the user. */
export type StoreAnswers = (
  sessionId: SessionId,
  answers: ReadonlyArray<Question.Answer>
) => Effect.Effect<void, { readonly message: string }, SessionStore>

/** Returns the open questions of the suspended run of a session that a user can answer, the oldest first. */
const listWaiting = Effect.fnUntraced(function* (
  sessionId: string
): Effect.fn.Return<ReadonlyArray<Question.Question>, SessionStoreError, SessionStore> {
  const store = yield* SessionStore
  const stored = yield* store.listQuestions({ sessionId: yield* store.newest(SessionId.make(sessionId)) })
  return stored.flatMap(({ question }) => (question.kind === "event" || question.kind === "time" ? [] : [question]))
})

/** Stores the answer to a question of a suspended run, and wakes the durable run that waits for it. */
const answerWaiting = Effect.fnUntraced(function* (
  question: Question.Question,
  given: RemoteSession.RemoteAnswer,
  storeAnswers: StoreAnswers
): Effect.fn.Return<Answered, Refusal | SessionStoreError, RemoteSession.Needs> {
  if ("mode" in given) return yield* new Refusal({ status: 400, message: "The question is not about a plan." })
  const { prefix: _, ...approval } = "answers" in given ? { prefix: undefined } : given
  const answer = "answers" in given ? QuestionAnswer.readTyped(question, given.answers.join(", ")) : approval
  yield* Effect.mapError(
    storeAnswers(question.sessionId, [{ questionId: question.id, answer }]),
    ({ message }) => new Refusal({ status: 409, message })
  )
  // The answer is stored. Without a runner, the run continues later.
  const continues = yield* Effect.catchTag(RemoteSession.resumeRun(question.sessionId), "RemoteRefused", () =>
    Effect.succeed(false)
  )
  return { continues }
})

/** Carries out an action on the session of a turn. Fails with the reason why it has no effect. */
export const runAction = (
  action: Action,
  sessionId: string,
  body: string,
  storeAnswers: StoreAnswers | undefined
): Effect.Effect<Answered | Cancelled | Steered, Refusal | SessionStoreError, RemoteSession.Needs> =>
  Effect.gen(function* (): Effect.gen.Return<
    Answered | Cancelled | Steered,
    Refusal | RemoteSession.RemoteRefused | SessionStoreError,
    RemoteSession.Needs
  > {
    switch (action) {
      case "steer": {
        const { busy = "steer", text } = yield* readSteer(body)
        const status = yield* RemoteSession.steerTurn(sessionId, { prompt: text, busy })
        return { status } satisfies Steered
      }
      case "cancel":
        yield* readCancel(body)
        return (yield* RemoteSession.cancelTurn(sessionId)) satisfies Cancelled
      case "answer": {
        const { answer, question } = yield* readAnswer(body)
        const waiting = (yield* listWaiting(sessionId)).find(({ id }) => id === question)
        if (storeAnswers !== undefined && waiting !== undefined)
          return yield* answerWaiting(waiting, answer, storeAnswers)
        yield* RemoteSession.answerQuestion(sessionId, question, answer)
        return {}
      }
    }
  }).pipe(Effect.catchTag("RemoteRefused", (error) => Effect.fail(toRefusal(error))))

const texts = Schema.Array(Schema.String)
const decodeApproval = Schema.decodeUnknownOption(
  Schema.Struct({
    tool: Schema.String,
    command: Schema.String,
    description: Schema.String,
    choices: Schema.Array(Schema.Literals(["once", "session", "always", "deny"]))
  })
)
const decodeClarification = Schema.decodeUnknownOption(
  Schema.Struct({ question: Schema.String, choices: texts, multiple: Schema.Boolean })
)
const decodePlan = Schema.decodeUnknownOption(
  Schema.Struct({ plan: Schema.String, modes: Schema.Array(Schema.Literals(["ask", "edits", "auto"])) })
)

const approvalLabels = {
  once: "Allow once",
  session: "Allow in this session",
  always: "Always allow",
  deny: "Deny"
} as const
const planLabels = {
  ask: "Carry out, and ask",
  edits: "Carry out, and accept edits",
  auto: "Carry out automatically"
} as const

/** Converts a posted question to a question on the page. Returns `undefined` for an unknown form. */
const toOpenQuestion = ({ _tag, id, question }: RemoteSession.PostedQuestion): OpenQuestion | undefined => {
  switch (_tag) {
    case "Approval":
      return Option.getOrUndefined(
        Option.map(decodeApproval(question), ({ choices, command, description, tool }) => ({
          id,
          title: `${tool}: ${description}`,
          text: command,
          choices: choices.map((choice) => ({ label: approvalLabels[choice], answer: { choice } })),
          typed: "none"
        }))
      )
    case "Clarification":
      return Option.getOrUndefined(
        Option.map(decodeClarification(question), ({ choices, multiple, question: title }) => ({
          id,
          title,
          text: "",
          choices: choices.map((choice) => ({ label: choice, answer: { answers: [choice] } })),
          typed: multiple ? "several" : "answer"
        }))
      )
    case "Plan":
      return Option.getOrUndefined(
        Option.map(decodePlan(question), ({ modes, plan }) => ({
          id,
          title: "Carry out this plan?",
          text: plan,
          choices: modes.map((mode) => ({ label: planLabels[mode], answer: { mode } })),
          typed: "plan"
        }))
      )
  }
}

/** Converts a question of a suspended run to a question on the page. */
const toWaitingQuestion = (question: Question.Question): OpenQuestion => {
  const { id, kind, prompt = "", schema, title, tool } = question
  if (kind === "approval") {
    const offered = QuestionAnswer.listChoices(question)
    const choices = (["once", "session", "always", "deny"] as const).filter((choice) => offered.includes(choice))
    return {
      id,
      title: tool === undefined ? title : `${tool}: ${title}`,
      text: prompt,
      choices: choices.map((choice) => ({ label: approvalLabels[choice], answer: { choice } })),
      typed: "none"
    }
  }
  const words = QuestionAnswer.listWords(question)
  const isJson = kind === "form" && words.length === 0 && schema["type"] !== "string"
  const form = isJson ? [`The answer is JSON of the schema ${Json.toText(schema)}`] : []
  return {
    id,
    title,
    text: [...(prompt === "" ? [] : [prompt]), ...form].join("\n\n"),
    choices: words.map((word) => ({ label: word, answer: { answers: [word] } })),
    typed: "answer"
  }
}

/**
 * Streams the open questions of a session, of its running turn or of its suspended run, as events `questions`. The
 * first event comes with the first question.
 */
export const streamQuestions = (
  sessionId: string,
  hasStored: boolean
): Stream.Stream<Event, never, RemoteSession.Needs> => {
  let known = "[]"
  const look = Effect.gen(function* () {
    const posted = yield* RemoteSession.listQuestions(sessionId)
    const isSuspended = hasStored && !(yield* RemoteSession.isRunning(sessionId))
    const waiting = isSuspended ? yield* listWaiting(sessionId) : []
    const data = [
      ...posted.flatMap((one) => toOpenQuestion(one) ?? []),
      ...waiting.map((question) => Redaction.redactValue(toWaitingQuestion(question)))
    ]
    const text = JSON.stringify(data)
    if (text === known) return []
    known = text
    return [{ event: "questions", id: undefined, data }]
  })
  return Stream.unwrap(Effect.map(SessionInbox, ({ changes }) => changes)).pipe(
    // The stream of the session reports a store that cannot be read.
    Stream.mapEffect(() => Effect.orElseSucceed(look, () => [])),
    Stream.flatMap((events) => Stream.fromIterable(events))
  )
}
