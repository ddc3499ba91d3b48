/**
 * Asks the user whether a tool call may run. Whatever is no clear yes is a no; words of the user go to the model as the
 * reason.
 *
 * Source: `hermes-product.md` §1.10.
 */
import * as Effect from "effect/Effect"
import * as Redaction from "../../domain/Redaction.ts"
import type { Target } from "../../tool/approval/AllowList.ts"
import type { ApprovalPrompt } from "../../tool/approval/Approver.ts"
import type { Choice, Question, Reply } from "../../tool/approval/Question.ts"
import * as SafeText from "../render/SafeText.ts"
import * as Width from "../render/Width.ts"
import * as Questions from "./Questions.ts"

/** Columns of a target in a label. */
const longest = 60

const named = ({ kind, text }: Target): string => {
  const shown = Width.cut(SafeText.line(Redaction.redactText(text)), longest)
  switch (kind) {
    case "command":
      return `\`${shown}\``
    case "path":
      return `writing ${shown}`
    case "tool":
      return `every call of ${shown}`
    case "call":
      return `this call: ${shown}`
  }
}

/** The labels of the choices, which name what is allowed. */
const labelsOf = (targets: ReadonlyArray<Target>): Readonly<Record<Choice, string>> => {
  const what = targets.map(named).join(" and ")
  return {
    once: "Allow once",
    session: `Allow ${what} for this session`,
    always: `Allow ${what} from now on, in every session`,
    deny: "Deny"
  }
}

const words: ReadonlyMap<string, Choice> = new Map([
  ["y", "once"],
  ["yes", "once"],
  ["once", "once"],
  ["session", "session"],
  ["always", "always"],
  ["n", "deny"],
  ["no", "deny"],
  ["deny", "deny"]
])

/** Reads an answer as a choice; a choice that was not offered is a denial. */
export const read = ({ choices, targets }: Pick<Question, "choices" | "targets">, answer: string): Reply => {
  const labels = labelsOf(targets)
  const label = choices.find((choice) => labels[choice] === answer)
  const word = words.get(answer.trim().toLowerCase())
  if (label !== undefined) return { choice: label }
  if (word !== undefined) return { choice: choices.includes(word) ? word : "deny" }
  return { choice: "deny", reason: answer }
}

export const prompt = (ask: Questions.Questions["ask"]): ApprovalPrompt["Service"] => ({
  ask: (question) =>
    Effect.map(
      ask({
        question: `May this run? ${question.command} (${question.description})`,
        choices: question.choices.map((choice) => labelsOf(question.targets)[choice]),
        multiple: false
      }, `${Questions.numbers(question.choices.length)}, y, n, or type a reason to refuse`),
      (answer) => answer?.[0] === undefined ? undefined : read(question, answer[0])
    )
})
