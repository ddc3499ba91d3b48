/**
 * Approvals as questions that outlive their run: how the approval of a call becomes a question, and how its answer is
 * found when the call is judged again.
 *
 * **Details**
 *
 * An answer holds for the question that the user saw: the same tool with the same parameters, for the same reasons. An
 * answer with other parameters approves exactly those. For any other call, the user is asked again.
 */
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Question from "../../base/domain/Question.ts"
import { redactValue } from "../../base/domain/Redaction.ts"
import * as Digest from "../../base/platform/Digest.ts"
import type { ToolArguments } from "../../middleware/Kind.ts"
import type { ApprovalSuspension, QuestionBook, QuestionDraft, QuestionPolicy } from "../CallQuestions.ts"
import { serializeArguments } from "./ApprovalReasons.ts"
import type { Question as ApprovalQuestion } from "./ApprovalRequest.ts"

/** Beginning of the places of approvals. */
const approvalPlace = "approval:"

/** Returns the time at which a question that is asked now expires. */
export const computeExpiry = ({ expiresAfter }: QuestionPolicy, now: number): number | undefined =>
  expiresAfter === undefined ? undefined : now + Duration.toMillis(Duration.fromInputUnsafe(expiresAfter))

/** Identifies the question about a call: its command or arguments, and the reasons to ask. */
export const makeSubject = (tool: string, command: string, keys: ReadonlyArray<string>): string =>
  Digest.toHex(JSON.stringify([tool, command, keys.toSorted()]), 32)

const toDraft = (
  question: ApprovalQuestion,
  args: ToolArguments,
  policy: QuestionPolicy,
  now: number
): QuestionDraft => ({
  kind: "approval",
  title: question.description,
  prompt: question.command,
  schema: Question.makeApprovalSchema(question.choices, true),
  details: redactValue({
    tool: question.tool,
    params: args,
    reasons: question.keys,
    targets: question.targets,
    ...(question.preview === undefined ? {} : { preview: question.preview })
  }),
  expiresAt: computeExpiry(policy, now),
  audience: policy.audience
})

const decodeAnswer = Schema.decodeUnknownOption(Question.ApprovalAnswer)

/** Creates the approval of a call with these arguments. */
export const makeApproval = (
  book: QuestionBook,
  callId: string,
  tool: string,
  args: ToolArguments
): ApprovalSuspension => {
  const { policy } = book
  const edit = book.findEdit(callId)
  const isEdited = edit !== undefined && serializeArguments(edit.params) === serializeArguments(args)
  return {
    policy,
    findAnswer: (subject, now) => {
      const stored = book.findQuestion(callId, approvalPlace + subject) ?? (isEdited ? edit.stored : undefined)
      if (stored === undefined) return undefined
      const { answer, question } = stored
      if (answer === undefined) return { _tag: Question.isExpired(question, now) ? "Expired" : "Waiting" }
      // The answer was checked by the schema of the question before it was stored.
      const given = Option.getOrUndefined(decodeAnswer(answer.answer))
      const isForOther = given?.params !== undefined && !isEdited
      const reply = given === undefined || isForOther ? { choice: "deny" as const } : given
      return { _tag: "Answered", reply, waitedMillis: Math.max(0, answer.answeredAt - question.createdAt) }
    },
    addQuestion: (subject, question, now) =>
      book.addQuestion({ callId, tool, place: approvalPlace + subject }, toDraft(question, args, policy, now), now),
    keepAnswer: (subject, question, { choice, reason }, now) =>
      book.addQuestion({ callId, tool, place: approvalPlace + subject }, toDraft(question, args, policy, now), now, {
        answer: { choice, ...(reason === undefined ? {} : { reason }) },
        by: undefined
      })
  }
}
