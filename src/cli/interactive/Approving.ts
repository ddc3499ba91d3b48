/**
 * Asks the user whether a tool call may run. Whatever is no clear yes is a no; words of the user go to the model as the
 * reason.
 *
 * Source: `hermes-product.md` §1.10.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type { ApprovalPrompt } from "../../tool/approval/Approver.ts"
import type { Choice, Question, Reply } from "../../tool/approval/Question.ts"
import type { Ask } from "../../tool/builtin/clarify/Clarifier.ts"

const labels: Readonly<Record<Choice, string>> = {
  once: "Yes, once",
  session: "Yes, and the same in this session",
  always: "Yes, and the same from now on",
  deny: "No"
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

/** What an answer means; one that was not offered is a no. */
export const read = ({ choices }: Pick<Question, "choices">, answer: string): Reply => {
  const label = choices.find((choice) => labels[choice] === answer)
  const word = words.get(answer.trim().toLowerCase())
  if (label !== undefined) return { choice: label }
  if (word !== undefined) return { choice: choices.includes(word) ? word : "deny" }
  return { choice: "deny", reason: answer }
}

/** See the module. */
export const prompt = (ask: Ask): ApprovalPrompt["Service"] => ({
  ask: (question) =>
    Effect.map(
      ask({
        question: `May this run? ${question.command} (${question.description})`,
        choices: question.choices.map((choice) => labels[choice]),
        multiple: false
      }),
      (answer) => answer?.[0] === undefined ? undefined : read(question, answer[0])
    )
})
