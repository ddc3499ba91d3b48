/**
 * Text of a call as a person is asked about it: whole, without secrets, and with a mark for every hidden character.
 *
 * **Details**
 *
 * A call that cannot be shown whole is not asked about, and does not run: text over a bound, and a command line in
 * which the removal of a secret would take commands along. The refusal tells the model what to do instead.
 */
import { redactText } from "../../domain/Redaction.ts"
import * as TextCut from "../../domain/TextCut.ts"
import * as VisibleText from "../../domain/VisibleText.ts"
import * as Danger from "../danger/Danger.ts"
import type { Target } from "./AllowList.ts"

/** Characters of a command or a script that a question shows at most; a longer one is refused. */
export const mostOfCommand = 20_000

/** Characters of a call with arguments that a question shows at most: contents of files are among them. */
export const mostOfCall = 200_000

/** Tools whose questions are about what they run, whatever an approval would hold for. */
const runningTools: ReadonlySet<string> = new Set(["terminal", "process", "execute_code"])

/** A call as it is shown, and the reason why it cannot be approved that way. */
export interface ShownCall {
  readonly text: string
  /** For the model; undefined where all of the call is shown. */
  readonly refusal: string | undefined
}

/** Shows a text of any number of lines. */
export const showText = (text: string): string => VisibleText.showLines(redactText(text))

/** True where a text is shown as it is, so that an approval of what is shown is one of the text. */
export const isShownWhole = (text: string): boolean => text.length <= mostOfCommand && showText(text) === text

const programs = (line: string): string =>
  JSON.stringify(Danger.judge(line).commands.map((command) => command.slice(0, command.search(/\s|$/))))

/** True where the removal of secrets takes commands along: `echo Cookie: a=1; rm x` is `echo Cookie: a=***` then. */
const hidesCommands = (tool: string, command: string, shown: string): boolean => {
  if (command === shown) return false
  return tool === "execute_code"
    ? command.replace(/[^\n;()]/g, "") !== shown.replace(/[^\n;()]/g, "")
    : programs(command) !== programs(shown)
}

/** Shows a call: its command lines where it runs some (`kind`), else the tool with its arguments. */
export const showCall = (tool: string, command: string, kind: Target["kind"]): ShownCall => {
  const isRun = kind === "command" || runningTools.has(tool)
  const most = isRun ? mostOfCommand : mostOfCall
  if (command.length > most) {
    return {
      text: VisibleText.showLines(TextCut.shortened(redactText(command), most)),
      refusal: `it has ${command.length} characters, and a user is shown ${most} at most. ` + (isRun
        ? "Write it to a script file first, then run the file."
        : "Do it in several smaller calls.")
    }
  }
  const redacted = redactText(command)
  const isHidden = isRun && hidesCommands(tool, command, redacted)
  return {
    text: VisibleText.showLines(redacted),
    refusal: isHidden
      ? "a part of it looks like a secret and cannot be shown, and commands stand in that part. " +
        "Put the secret into a file or a variable, or run the commands one by one."
      : undefined
  }
}
