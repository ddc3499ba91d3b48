/**
 * Simple commands of a command line, as far as it takes to tell what would run and what would be left running. Nothing is
 * expanded.
 *
 * **Gotchas**
 *
 * Guidance, not a security boundary: `eval`, variables and scripts can hide anything. What is quoted stays text, so that
 * prose which mentions a command is never taken for one.
 */
import { read } from "../../shell/ShellScript.ts"
import { keyword, type Script, type Simple, type Terminator, type Word } from "../../shell/ShellTree.ts"

/** One simple command. Redirections are left out; quotes are removed. */
export interface SimpleCommand {
  readonly words: ReadonlyArray<string>
  readonly terminator: Terminator
  /** 0 for a command of the line itself or of a group in it, more inside `$(…)` and `<(…)`. */
  readonly depth: number
}

const reserved = new Set(["!", "{", "}", "if", "then", "else", "elif", "fi", "do", "done", "while", "until", "time"])
const wrappers = new Set(["sudo", "env", "command", "exec", "builtin", "nice", "ionice", "stdbuf"])
const assignment = /^[A-Za-z_][A-Za-z0-9_]*\+?=/
const parentheses = new Set(["(", ")", "()"])

/**
 * The words of a command from its program on: without reserved words, assignments and prefixes such as `sudo` and `env`.
 * The program is named without its directory.
 */
export const program = (words: ReadonlyArray<string>): ReadonlyArray<string> => {
  let index = 0
  let afterWrapper = false
  for (; index < words.length; index++) {
    const word = words[index] ?? ""
    if (wrappers.has(word)) afterWrapper = true
    else if (!reserved.has(word) && !assignment.test(word) && !(afterWrapper && word.startsWith("-"))) break
  }
  const [first, ...rest] = words.slice(index)
  return first === undefined ? [] : [first.slice(first.lastIndexOf("/") + 1), ...rest]
}

/** The text of a word, with `$name` for a variable and `$` for a substitution; none for a file that a command gives. */
const textOf = (word: Word): string | undefined => {
  if (word.some((part) => part._tag === "Substitution" && part.asFile)) return undefined
  return word.map((part) =>
    part._tag === "Text" ? part.text : part._tag === "Variable" && part.name !== "((" ? `$${part.name}` : "$"
  ).join("")
}

/** Parentheses of groups and definitions, and `((…))` as a command, are no words of a program. */
const isWord = (word: Word, index: number): boolean => {
  const [first] = word
  return !parentheses.has(keyword(word) ?? "") && !(index === 0 && first?._tag === "Variable" && first.name === "((")
}

const collect = (script: Script, depth: number, out: Array<SimpleCommand>): void => {
  for (const simple of script.commands) {
    for (const word of substituting(simple)) {
      for (const part of word) {
        // Commands of a substitution within quotes are quoted too, and not reported.
        if (part._tag === "Substitution" && !part.quoted) collect(part.script, depth + 1, out)
      }
    }
    const words = simple.words.filter(isWord).flatMap((word) => textOf(word) ?? [])
    const terminator = simple.terminator === "" && depth > 0 ? ";" : simple.terminator
    if (words.length > 0 || terminator === "&") out.push({ words, terminator, depth })
  }
}

const substituting = ({ redirections, words }: Simple): ReadonlyArray<Word> => [
  ...words,
  ...redirections.flatMap(({ operator, target }) => operator === "<<" || operator === "<<-" ? [] : [target])
]

/** Reads a command line. Never fails: what is not closed, or nests too deeply, ends with the text. */
export const parse = (text: string): ReadonlyArray<SimpleCommand> => {
  const out: Array<SimpleCommand> = []
  collect(read(text), 0, out)
  return out
}
