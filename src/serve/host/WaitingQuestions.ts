/**
 * Questions of suspended runs, and of tools that ask during a run, as questions of a live session. The clients show
 * them like the other questions of a turn. Their answers are checked by the schema of the question.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { ToolCallId } from "../../base/domain/Ids.ts"
import * as Json from "../../base/domain/Json.ts"
import type * as Question from "../../base/domain/Question.ts"
import * as QuestionAnswer from "../../base/domain/QuestionAnswer.ts"
import { Correlation } from "../../hooks/Correlation.ts"
import type * as Approval from "../../tools/approval/ApprovalRequest.ts"
import type { LiveAnswers, QuestionDraft } from "../../tools/CallQuestions.ts"
import type { LiveQuestions } from "./LiveQuestions.ts"

/** A question, and the ids of the call that asked it. */
interface AskedQuestion extends Pick<QuestionDraft, "details" | "kind" | "prompt" | "schema" | "title"> {
  readonly ids: Pick<Approval.Question, "session_id" | "tool_call_id" | "turn_id">
  readonly tool: string
}

const decodeTargets = Schema.decodeUnknownOption(
  Schema.Array(
    Schema.Struct({ kind: Schema.Literals(["command", "prefix", "path", "host", "tool", "call"]), text: Schema.String })
  )
)
const decodeTexts = Schema.decodeUnknownOption(Schema.Array(Schema.String))

const allChoices = ["once", "session", "always", "deny"] as const

const toApproval = ({ details, ids, prompt, schema, title, tool }: AskedQuestion): Approval.Question => {
  const { preview, reasons, targets: given } = Json.readFields(details)
  const targets = Option.getOrElse(decodeTargets(given), () => [])
  const offered = QuestionAnswer.listChoices({ schema })
  // A lasting approval says what it holds for.
  const choices = targets.length === 0 ? (["once", "deny"] as const) : allChoices
  return {
    ...ids,
    tool,
    command: prompt ?? tool,
    description: title,
    keys: Option.getOrElse(decodeTexts(reasons), () => []),
    preview: Json.readString(preview),
    targets,
    prefix: undefined,
    choices: choices.filter((choice) => offered.includes(choice))
  }
}

/** Number of times that a question is asked again after an answer that does not fit. */
const repeats = 3

/** Asks for a form or a text until an answer fits. Returns `undefined` without such an answer. */
const askForForm = Effect.fnUntraced(function* (questions: LiveQuestions, asked: AskedQuestion) {
  const { kind, prompt, schema, title } = asked
  const choices = QuestionAnswer.listWords(asked)
  const about = [title, ...(prompt === undefined ? [] : [prompt])].join("\n\n")
  const form = kind === "text" || choices.length > 0 ? "" : `\n\nAnswer with JSON of the schema ${Json.toText(schema)}`
  let problem = ""
  for (let count = 0; count < repeats; count++) {
    const given = yield* questions.clarifier({ question: `${problem}${about}${form}`, choices, multiple: false })
    if (given === undefined) return undefined
    const answer = QuestionAnswer.readTyped(asked, given.join(", "))
    const wrong = yield* Effect.match(QuestionAnswer.decodeAnswer(schema, answer), {
      onSuccess: () => undefined,
      onFailure: (reason) => reason
    })
    if (wrong === undefined) return answer
    problem = `The answer does not fit: ${wrong}\n\n`
  }
  return undefined
})

/**
 * Asks one question. Returns its answer as JSON, or `undefined` if the user gives none. Questions of an event or a time
 * are not for a user.
 */
const askQuestion = (questions: LiveQuestions, asked: AskedQuestion): Effect.Effect<unknown> => {
  if (asked.kind === "event" || asked.kind === "time") return Effect.undefined
  return asked.kind === "approval"
    ? Effect.map(questions.approvals.ask(toApproval(asked)), (reply) =>
        reply === undefined
          ? undefined
          : { choice: reply.choice, ...(reply.reason === undefined ? {} : { reason: reply.reason }) }
      )
    : askForForm(questions, asked)
}

/** Asks the open questions of a suspended run, one after the other. Returns the answers that the user gives. */
export const askAll = Effect.fnUntraced(function* (
  questions: LiveQuestions,
  open: ReadonlyArray<Question.Question>
): Effect.fn.Return<ReadonlyArray<Question.Answer>> {
  const answers: Array<Question.Answer> = []
  for (const { callId, id, runId, sessionId, tool = "", ...question } of open) {
    const ids = {
      session_id: sessionId,
      turn_id: runId,
      tool_call_id: callId === undefined ? ("" as const) : ToolCallId.make(callId)
    }
    const answer = yield* askQuestion(questions, { ...question, ids, tool })
    if (answer !== undefined) answers.push({ questionId: id, answer })
  }
  return answers
})

/** Makes the client that answers the questions of tools during a run. */
export const makeLiveAnswers = (questions: LiveQuestions): LiveAnswers => ({
  answer: (question) => Effect.flatMap(Correlation, (ids) => askQuestion(questions, { ...question, ids }))
})
