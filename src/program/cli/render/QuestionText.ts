/** Questions of suspended runs as lines: the question, its age and its end, and the commands that answer it. */
import * as Question from "../../../base/domain/Question.ts"
import * as QuestionAnswer from "../../../base/domain/QuestionAnswer.ts"
import * as SafeText from "./SafeText.ts"
import * as Width from "./Width.ts"

/** Maximum width of a question in a list, in columns. */
const askedColumns = 70

/** Describes a question in one line: the title, and the command or text below it. */
const describeAsked = ({ kind, prompt, title }: Pick<Question.Question, "kind" | "prompt" | "title">): string =>
  Width.cut(SafeText.toLine(`${kind}: ${title}${prompt === undefined ? "" : ` — ${prompt}`}`), askedColumns)

/** Formats a span of time in its largest unit: `5 min`. */
const formatSpan = (millis: number): string => {
  const minutes = Math.max(0, Math.floor(millis / 60_000))
  if (minutes < 60) return `${minutes} min`
  const hours = Math.floor(minutes / 60)
  return hours < 48 ? `${hours} h` : `${Math.floor(hours / 24)} days`
}

const describeEnd = (question: Question.Question, now: number): string => {
  const { expiresAt, wakeAt } = question
  if (Question.isExpired(question, now)) return "expired"
  if (wakeAt !== undefined) return wakeAt <= now ? "due" : `due in ${formatSpan(wakeAt - now)}`
  return expiresAt === undefined ? "" : `expires in ${formatSpan(expiresAt - now)}`
}

/** Returns the row of a question in a list: its tool, the question, its age, and its end. */
export const toRow = (question: Question.Question, now: number): ReadonlyArray<string> => [
  question.tool ?? "",
  describeAsked(question),
  `since ${formatSpan(now - question.createdAt)}`,
  describeEnd(question, now)
]

/** Formats the command that continues a suspended run with the answers that are stored. */
export const formatContinueCommand = (sessionId: string): string => `hermes chat --resume ${sessionId} --answered`

/** Formats the command that answers a question. */
export const formatAnswerCommand = (question: Question.Question): string => {
  const words = question.kind === "approval" ? ["yes", "no"] : QuestionAnswer.listWords(question)
  const other =
    QuestionAnswer.removeDeclined(question.schema) === undefined ? "JSON" : `JSON|${QuestionAnswer.declined}`
  const answer = words.length > 0 ? words.join("|") : question.kind === "text" ? "TEXT" : other
  return `hermes sessions answer ${question.sessionId} ${question.id} ${answer}`
}

/** Describes what a suspended run waits for, and the commands that answer and continue it, in one line. */
export const describeWaiting = (sessionId: string, questions: ReadonlyArray<Question.Question>): string => {
  const [first, ...others] = questions
  const next = `continue with \`${formatContinueCommand(sessionId)}\``
  if (first === undefined) return `waiting for an answer: ${next}`
  const more = others.length === 0 ? "" : ` (and ${others.length} more: \`hermes sessions waiting\`)`
  const answer = `answer with \`${formatAnswerCommand(first)}\`${more}`
  return `waiting for an answer (${describeAsked(first)}): ${answer}, then ${next}`
}
