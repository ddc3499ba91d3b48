/**
 * Asks the user, in plain text, whether a tool call may run. Any reply that is not a clear yes is a denial. Other text
 * from the user is sent to the model as the reason.
 *
 * Source: `hermes-product.md` §1.10.
 */
import * as QuestionAnswer from "../../../base/domain/QuestionAnswer.ts"
import type { Target } from "../../../tools/approval/AllowList.ts"
import {
  type Choice,
  nameTarget,
  type Question,
  type Reply,
  showLine
} from "../../../tools/approval/ApprovalRequest.ts"

const describeTarget = (target: Target, command: string): string => {
  const shown = nameTarget(target, command)
  // The question shows a command of several lines as it is; its label would be a line with marks for its breaks.
  const isScript = command.includes("\n") && target.text.startsWith(command)
  switch (target.kind) {
    case "command":
      return isScript ? `this command${showLine(target.text.slice(command.length))}` : `\`${shown}\``
    case "prefix":
      return `commands that begin with \`${shown}\``
    case "path":
      return `writing ${shown}`
    case "host":
      return `requests to ${shown}`
    case "tool":
      return `every call of ${shown}`
    case "call":
      return `this call: ${shown}`
  }
}

interface Offer {
  readonly label: string
  readonly reply: Reply
}

type OfferedQuestion = Pick<Question, "choices" | "command" | "prefix" | "rules" | "targets">

/**
 * Creates the offer of a permanent approval: the rule to write and its file, or an allow-list entry if no rule can
 * express it.
 */
const makeStandingOffer = (
  reply: Reply,
  what: string,
  rules: ReadonlyArray<string> | undefined,
  file: string | undefined
): Offer => ({
  label:
    rules === undefined
      ? `Allow ${what} from now on, in every session (command_allowlist)`
      : `Allow from now on: ${rules.map(showLine).join(", ")} (permissions.allow in ` +
        `${showLine(file ?? "config.yaml")})`,
  reply
})

/** Lists the offered answers, narrowest first. Their labels name the allowed calls and the rule that is written. */
const listOffers = ({ choices, command, prefix, rules, targets }: OfferedQuestion): ReadonlyArray<Offer> => {
  const describeScope = (target: Target): string => describeTarget(target, command)
  const names = targets.map(describeScope).join(" and ")
  const makeGrants = (choice: Choice, until: string): ReadonlyArray<Offer> => [
    { label: `Allow ${names} ${until}`, reply: { choice } },
    ...(prefix === undefined
      ? []
      : [{ label: `Allow ${describeScope(prefix)} ${until}`, reply: { choice, prefix: true } }])
  ]
  return choices.flatMap((choice): ReadonlyArray<Offer> => {
    switch (choice) {
      case "once":
        return [{ label: "Allow once", reply: { choice } }]
      case "session":
        return makeGrants(choice, "for this session")
      case "always":
        return [
          makeStandingOffer({ choice }, names, rules?.exact, rules?.file),
          ...(prefix === undefined
            ? []
            : [makeStandingOffer({ choice, prefix: true }, describeScope(prefix), rules?.prefix, rules?.file)])
        ]
      case "deny":
        return [{ label: "Deny", reply: { choice } }]
    }
  })
}

/**
 * Parses a reply as a choice. A choice that was not offered is a denial, and typed text never selects the approval of a
 * command prefix.
 */
const readReply = (question: OfferedQuestion, answer: string): Reply => {
  const offer = listOffers(question).find(({ label }) => label === answer)
  const word = QuestionAnswer.readApprovalWord(answer)
  if (offer !== undefined) return offer.reply
  if (word !== undefined) return { choice: question.choices.includes(word) ? word : "deny" }
  return { choice: "deny", reason: answer }
}

/** An approval as a question with choices, and the function that parses a reply. */
export interface ApprovalText {
  /** The question in one text, with the command. */
  readonly question: string
  /** The question without the command, and the command for lines that belong to it alone. */
  readonly title: string
  readonly subject: string
  readonly choices: ReadonlyArray<string>
  readonly read: (answer: string) => Reply
}

/** Describes what an approval allows: a command as it is typed in a shell, or a call with its arguments. */
export const describeRequest = ({ command, tool }: Pick<Question, "command" | "tool">): string =>
  tool === "terminal" ? `Run this command? \`$ ${command}\`` : `Allow this call? ${command}`

/** Creates the question, the choices and the parser of replies for an approval, as plain text. */
export const toApprovalText = (question: Question): ApprovalText => ({
  question: `${describeRequest(question)} (${question.description})`,
  title: `${question.tool === "terminal" ? "Run this command?" : "Allow this call?"} (${question.description})`,
  subject: question.tool === "terminal" ? `$ ${question.command}` : question.command,
  choices: listOffers(question).map(({ label }) => label),
  read: (answer) => readReply(question, answer)
})
