/**
 * Formats a call for a question to a person: complete, without secrets, and with a mark for every hidden character.
 *
 * **Details**
 *
 * A call that cannot be shown completely leads to no question and does not run: its text is too long, or removing
 * secrets from its command line would hide operands. Values that the runtime holds and keys of known shapes are masked
 * anywhere. A value that is a secret only because of an adjacent name must not hide a command, a word, a path, the
 * target of a redirection, or an operand of a command that is dangerous or changes files. The refusal names an
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

/** Maximum number of characters of a command or script that a question shows; a longer one is refused. */
export const mostOfCommand = 20_000

/**
 * Maximum number of characters of a call with arguments that a question shows. Arguments may include contents of files.
 */
const mostOfCall = 200_000

/** Tools whose questions are about the commands that they run, regardless of the scope of the approval. */
const runningTools: ReadonlySet<string> = new Set(["terminal", "process", "execute_code"])

/** A call as shown, and the reason why it cannot be approved in that form. */
export interface ShownCall {
  readonly text: string
  /** Refusal for the model; `undefined` if the whole call is shown. */
  readonly refusal: string | undefined
}

/** Formats a text of any number of lines. */
export const showText = (text: string): string => VisibleText.showLines(redactText(text))

/** Returns true if a text is shown unchanged, so that approving the displayed text approves the text itself. */
export const isShownWhole = (text: string): boolean => text.length <= mostOfCommand && showText(text) === text

/** Programs whose operands are files that they change or delete, or a directory that the next command acts on. */
const filePrograms = parseNames("rm unlink rmdir rimraf mv cp ln dd truncate tee install rsync cd pushd")

/** Programs that send HTTP headers, and programs that run them. */
const clients = parseNames("curl wget http https xh hurl")
const runners = parseNames("sudo doas env time timeout nohup nice")

const header = /^(?:-H|--header=)?[\w-]{1,64}: /
const addressOfUser = /^[a-z][a-z+.-]*:\/\/[^\s/@]*@[^@]*$/i

/** Returns true for a value that may be a path, several words, or code. */
const canActOn = (value: string): boolean => /^\.|[\s/~;()]/.test(value)

/** Returns the part of a word that is hidden when the word is shown. */
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

/** Returns true if the masked value belongs to a request header whose name is shown. */
const isHeader = (command: Command, index: number): boolean => {
  const { args } = command
  return (
    header.test(args[index] ?? "") &&
    sendsRequest(command) &&
    (args[index]?.startsWith("-") === true || /^(?:-[A-Za-z]*H|--header)$/.test(args[index - 1] ?? ""))
  )
}

/** Returns true if the displayed words of a command do not show its targets. */
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

/** Returns true for commands that run code of another language from their standard input. */
const readsCode = (commands: ReadonlyArray<Command>): boolean =>
  commands.some(
    ({ program, redirects, stdin }) =>
      interpreters.test(program) && (stdin !== undefined || redirects.some(({ operator }) => operator.startsWith("<<")))
  )

/** Returns true if code, as displayed, does not show its targets. */
const hidesCode = (code: string, shown: string): boolean =>
  code.replace(/[^\n;()]/g, "") !== shown.replace(/[^\n;()]/g, "") ||
  findNamedValues(code).some(canActOn) ||
  readCode(redactKeys(code)).join("\n") !== readCode(shown).join("\n")

/** Returns true if the displayed command line does not show the programs that run and their operands. */
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

/**
 * Returns true if removing secrets hides the executed commands: `rm -rf x Cookie: a=1 y` would be shown as
 * `rm -rf x Cookie: a=***`.
 */
const hidesActs = (tool: string, command: string, shown: string): boolean => {
  if (command === shown) return false
  return tool === "execute_code" ? hidesCode(command, shown) : hidesOperands(command, shown)
}

/** Formats a call: its command lines if it runs any (`kind`), otherwise the tool with its arguments. */
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
