/**
 * Approvals of suspended runs as the AI SDK's own parts: `tool-approval-request` in an answer, and
 * `tool-approval-response` in the last message of the next prompt.
 *
 * **Details**
 *
 * The id of a request names the session and the question, so that a call that names no session finds both. A
 * call that names a session continues only runs of that session and of its copies. Answers that were given in an
 * earlier call are repeated by the messages of the AI SDK, and are left out.
 *
 * **Gotchas**
 *
 * Without a named session, the id of a request is enough to answer it. An application with several users names the
 * session of the user.
 */
import type { LanguageModelV4Prompt, LanguageModelV4ToolApprovalResponsePart } from "@ai-sdk/provider"
import type { Answer, ApprovalAnswer, Question } from "../../base/domain/Question.ts"
import type { HermesView } from "./CreateHermes.ts"
import { HermesError } from "./HermesError.ts"

/** Answers to a suspended session. */
export interface SessionAnswers {
  readonly sessionId: string
  readonly answers: ReadonlyArray<Answer>
  /** Ids of the calls that the answers deny. The AI SDK shows them as denied itself. */
  readonly denied: ReadonlySet<string>
}

/** Returns the id of the request for an approval. */
export const formatApprovalId = ({ id, sessionId }: Pick<Question, "id" | "sessionId">): string => `${sessionId}/${id}`

/** Returns the answers to approvals in which a prompt ends. */
export const readResponses = (
  prompt: LanguageModelV4Prompt
): ReadonlyArray<LanguageModelV4ToolApprovalResponsePart> => {
  const last = prompt.at(-1)
  return last?.role === "tool"
    ? last.content.flatMap((part) => (part.type === "tool-approval-response" ? [part] : []))
    : []
}

const toAnswer = ({ approved, reason }: LanguageModelV4ToolApprovalResponsePart): typeof ApprovalAnswer.Type =>
  approved ? { choice: "once" } : { choice: "deny", ...(reason === undefined ? {} : { reason }) }

const parseApprovalId = (approvalId: string) => {
  const end = approvalId.lastIndexOf("/")
  return { sessionId: approvalId.slice(0, Math.max(0, end)), questionId: approvalId.slice(end + 1) }
}

/**
 * Returns the session and the answers of the last approval and its siblings. `sessions` are the ones that may be
 * continued; every session may if it is `undefined`.
 */
export const findAnswers = async (
  hermes: HermesView,
  responses: ReadonlyArray<LanguageModelV4ToolApprovalResponsePart>,
  sessions: ReadonlyArray<string> | undefined
): Promise<SessionAnswers> => {
  const given = responses.map((response) => ({ ...parseApprovalId(response.approvalId), answer: toAnswer(response) }))
  const sessionId = given.at(-1)?.sessionId ?? ""
  if (sessionId === "" || sessions?.includes(sessionId) === false)
    throw new HermesError(
      "QuestionUnknown",
      `the approval "${responses.at(-1)?.approvalId}" is not one of the session: ` +
        "answer with the id of its tool-approval-request, and name the session of that answer"
    )
  const answers = given
    .filter((one) => one.sessionId === sessionId)
    .map(({ answer, questionId }) => ({ questionId, answer }))
  const questions = await hermes.questions({ sessionId, limit: Number.MAX_SAFE_INTEGER })
  const open = new Map(questions.map(({ callId, id }) => [id, callId]))
  const isOpen = ({ questionId }: Answer): boolean => open.has(questionId)
  const denials = given.filter((one) => one.sessionId === sessionId && one.answer.choice === "deny")
  const denied = new Set(denials.flatMap(({ questionId }) => open.get(questionId) ?? []))
  // If none is open, the run reports the reason.
  return { sessionId, answers: answers.some(isOpen) ? answers.filter(isOpen) : answers, denied }
}
