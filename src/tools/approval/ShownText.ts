/**
 * Text of a call as a person is asked about it: whole, without secrets, and with a mark for every hidden character.
 *
 * **Details**
 *
 * A call that cannot be shown whole is not asked about, and does not run: text over a bound, and a command line in
 * which the removal of secrets would hide its operands. Values that the runtime holds and keys of known shapes are
 * masked anywhere. A value that is a secret only because of an adjacent name must not hide a command, a word, a path,
 * the target of a redirection, or an operand of a command that is dangerous or changes files. The refusal names an
 * alternative for the model.
 */
import { findNamedValues, redactKeys, redactText } from "../../base/domain/Redaction.ts"
import * as TextCut from "../../base/domain/TextCut.ts"
import * as VisibleText from "../../base/domain/VisibleText.ts"
import { type Command, parseNames, selectOperands } from "../danger/Command.ts"
import * as Danger from "../danger/Danger.ts"
import { interpreters, readCode } from "../danger/EmbeddedCommands.ts"
import { deleters } from "../danger/rules/LossRules.ts"
import * as ScriptInterpreter from "../danger/ScriptInterpreter.ts"
import type { Target } from "./AllowList.ts"

/** Characters of a command or a script that a question shows at most; a longer one is refused. */
export const mostOfCommand = 20_000

/** Characters of a call with arguments that a question shows at most: contents of files are among them. */
const mostOfCall = 200_000

/** Tools whose questions are about the commands that they run, regardless of the scope of the approval. */
const runningTools: ReadonlySet<string> = new Set(["terminal", "process", "execute_code"])

/** A call as it is shown, and the reason why it cannot be approved that way. */
export interface ShownCall {
  readonly text: string
  /** For the model; undefined where all of the call is shown. */
  readonly refusal: string | undefined
}

/** Shows a text of any number of lines. */
export const showText = (text: string): string => VisibleText.showLines(redactText(text))

/** True when a text is shown unchanged, so that approving the displayed text approves the text itself. */
export const isShownWhole = (text: string): boolean => text.length <= mostOfCommand && showText(text) === text

/** Programs whose operands are files that they change or delete, or a directory that the next command acts on. */
const filePrograms = parseNames("rm unlink rmdir rimraf mv cp ln dd truncate tee install rsync cd pushd")

/** Programs that send headers, and those that run them. */
const clients = parseNames("curl wget http https xh hurl")
const runners = parseNames("sudo doas env time timeout nohup nice")

const header = /^(?:-H|--header=)?[\w-]{1,64}: /
const addressOfUser = /^[a-z][a-z+.-]*:\/\/[^\s/@]*@[^@]*$/i

/** True for a value that may be a path, several words, or code. */
const canActOn = (value: string): boolean => /^\.|[\s/~;()]/.test(value)

/** The part of a word that is not in the word as it is shown. */
const findHiddenPart = (word: string, shown: string): string => {
  const most = Math.min(word.length, shown.length)
  let start = 0
  while (start < most && word[start] === shown[start]) start++
  let end = 0
  while (end < most - start && word.at(-1 - end) === shown.at(-1 - end)) end++
  return word.slice(start, word.length - end)
}

const isPath = (part: string): boolean => /^\.|[/~]/.test(part)

const sendsRequest = ({ args, program }: Command): boolean =>
  clients.has(program) || (runners.has(program) && args.some((arg) => clients.has(arg)))

/** True if the value of a header of a request is masked, whose name is shown. */
const isHeader = (command: Command, index: number): boolean => {
  const { args } = command
  return (
    header.test(args[index] ?? "") &&
    sendsRequest(command) &&
    (args[index]?.startsWith("-") === true || /^(?:-[A-Za-z]*H|--header)$/.test(args[index - 1] ?? ""))
  )
}

/** True if the words of a command, as it is shown, do not say what it acts on. */
const hidesWords = (command: Command, shown: Command): boolean => {
  const { args, assignments, program, redirects } = command
  const deletes = deleters.has(program) || filePrograms.has(program)
  const dangers = Danger.findDangers([command])
  const isFileDanger = deletes || dangers.some(({ family }) => family === "file destruction")
  const isExact = isFileDanger || dangers.length > 0
  const given = new Set(selectOperands(args))
  return (
    args.some((word, index) => {
      const part = shown.args[index] ?? ""
      if (word === part || isHeader(command, index)) return false
      if (!isFileDanger && addressOfUser.test(part)) return false
      return (isExact && given.has(word)) || isPath(findHiddenPart(word, part))
    }) ||
    assignments.some(([, value], index) => {
      const part = shown.assignments[index]?.[1] ?? ""
      return value !== part && isPath(findHiddenPart(value, part))
    }) ||
    redirects.some(
      ({ operator, target }, index) =>
        !operator.startsWith("<<") && target.shown !== shown.redirects[index]?.target.shown
    )
  )
}

const countWords = (commands: ReadonlyArray<Command>): string =>
  JSON.stringify(
    commands.map(({ args, assignments, program, redirects }) => [
      program,
      args.length,
      assignments.length,
      redirects.length
    ])
  )

const readCommands = (line: string): ReadonlyArray<Command> => ScriptInterpreter.read(line).commands

/** True for commands that run code of another language from their standard input. */
const readsCode = (commands: ReadonlyArray<Command>): boolean =>
  commands.some(
    ({ program, redirects, stdin }) =>
      interpreters.test(program) && (stdin !== undefined || redirects.some(({ operator }) => operator.startsWith("<<")))
  )

/** Tests whether code, as displayed, does not reveal its targets. */
const hidesCode = (code: string, shown: string): boolean =>
  code.replace(/[^\n;()]/g, "") !== shown.replace(/[^\n;()]/g, "") ||
  findNamedValues(code).some(canActOn) ||
  readCode(redactKeys(code)).join("\n") !== readCode(shown).join("\n")

/** True when the displayed command line does not show the programs that run and their operands. */
const hidesOperands = (line: string, shown: string): boolean => {
  const [given, withoutKeys, left] = [readCommands(line), readCommands(redactKeys(line)), readCommands(shown)]
  const words = countWords(given)
  return (
    words !== countWords(withoutKeys) ||
    words !== countWords(left) ||
    withoutKeys.some((command, index) => {
      const other = left[index]
      return other === undefined || hidesWords(command, other)
    }) ||
    (readsCode(withoutKeys) && hidesCode(line, shown))
  )
}

/** True if the removal of secrets hides what runs: `rm -rf x Cookie: a=1 y` is `rm -rf x Cookie: a=***` then. */
const hidesActs = (tool: string, command: string, shown: string): boolean => {
  if (command === shown) return false
  return tool === "execute_code" ? hidesCode(command, shown) : hidesOperands(command, shown)
}

/** Shows a call: its command lines if it runs any (`kind`), else the tool with its arguments. */
export const showCall = (tool: string, command: string, kind: Target["kind"]): ShownCall => {
  const isRun = kind === "command" || runningTools.has(tool)
  const most = isRun ? mostOfCommand : mostOfCall
  if (command.length > most) {
    return {
      text: VisibleText.showLines(TextCut.shorten(redactText(command), most)),
      refusal:
        `it has ${command.length} characters, and a user is shown ${most} at most. ` +
        (isRun ? "Write it to a script file first, then run the file." : "Do it in several smaller calls.")
    }
  }
  const redacted = redactText(command)
  const isHidden = isRun && hidesActs(tool, command, redacted)
  return {
    text: VisibleText.showLines(redacted),
    refusal: isHidden
      ? "a part of it looks like a secret and cannot be shown, and that part may be a command, a path or a word " +
        "that the command acts on. Put the secret into a file or a variable, or run the commands one by one."
      : undefined
  }
}
