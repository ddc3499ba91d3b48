/**
 * Collects the effects of the calls of a background review for its report. A change of a skill that was not approved
 * becomes a proposal for the user.
 *
 * Source: `hermes-llm.md` §6.6.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type * as Prompt from "effect/ai/Prompt"
import * as Conversation from "../base/domain/Conversation.ts"
import * as Json from "../base/domain/Json.ts"
import * as TextCut from "../base/domain/TextCut.ts"
import * as TextHygiene from "../base/domain/TextHygiene.ts"
import type { Service as SkillStore } from "../tools/prompt/SkillStore.ts"

/** Changes made by a review, for its report. */
export interface ReviewChanges {
  memory: number
  readonly skills: Array<string>
}

/** Creates the changes of a review that has made none. */
export const makeEmptyReport = (): ReviewChanges => ({ memory: 0, skills: [] })

const past: Readonly<Record<string, string>> = {
  create: "created",
  patch: "patched",
  edit: "rewritten",
  delete: "deleted",
  write_file: "extended",
  remove_file: "shortened"
}

const readField = (params: unknown, name: string): string => {
  const value = Json.readFields(params)[name]
  return typeof value === "string"
    ? TextCut.shorten(TextHygiene.withoutControls(value).replaceAll(/\s+/g, " ").trim(), 80)
    : ""
}

/** Stores an unapproved change as a proposal. Returns the result for the model, also if the change is invalid. */
const storeProposal = Effect.fnUntraced(function* (done: ReviewChanges, skills: SkillStore, call: Prompt.ToolCallPart) {
  const { parseChange } = yield* Effect.promise(() => import("../tools/builtin/SkillTools.ts"))
  const change = parseChange(call.params)
  if (Option.isNone(change)) return undefined
  const result = yield* Effect.result(Effect.andThen(skills.check(change.value), skills.proposals.add(change.value)))
  if (Result.isFailure(result)) {
    return Conversation.makeToolResult(call, {
      output: JSON.stringify({ success: false, error: result.failure.message }),
      isFailure: true
    })
  }
  done.skills.push(`skill "${readField(call.params, "name")}" proposed: see \`hermes skills proposed\``)
  const message = "Kept as a proposal: the user decides. Do not propose it again."
  return Conversation.makeToolResult(call, {
    output: JSON.stringify({ success: true, staged: true, pending_id: result.success, message }),
    isFailure: false
  })
})

const recordChange = (
  done: ReviewChanges,
  { name, params }: Prompt.ToolCallPart,
  message: Prompt.ToolMessage
): void => {
  const result = message.content.find((part) => part.type === "tool-result")
  if (result === undefined || result.isFailure) return
  if (name === "memory") {
    const operations = Json.readFields(params)["operations"]
    done.memory += Array.isArray(operations) ? operations.length : 1
  }
  if (name === "skill_manage")
    done.skills.push(`skill "${readField(params, "name")}" ${past[readField(params, "action")] ?? "changed"}`)
}

/** Records a call with its result and, if it did not run, the reason. Returns the result for the model. */
export const recordCall = Effect.fnUntraced(function* (
  done: ReviewChanges,
  skills: SkillStore | undefined,
  call: Prompt.ToolCallPart,
  message: Prompt.ToolMessage,
  reason: string | undefined
): Effect.fn.Return<Prompt.ToolMessage> {
  const needsApproval = reason === "approval_denied" || reason === "approval_timeout"
  if (skills !== undefined && call.name === "skill_manage" && needsApproval)
    return (yield* storeProposal(done, skills, call)) ?? message
  recordChange(done, call, message)
  return message
})

/** Formats the report of a review in one line, or returns `undefined` if the review changed nothing. */
export const formatReport = ({ memory, skills }: ReviewChanges): string | undefined => {
  const parts = [
    ...(memory === 0 ? [] : [`memory updated (${memory} ${memory === 1 ? "change" : "changes"})`]),
    ...Array.from(new Set(skills))
  ]
  return parts.length === 0 ? undefined : `Background review: ${parts.join("; ")}.`
}
