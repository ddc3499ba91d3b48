/**
 * A shell command line cut into its simple commands, as far as it takes to tell what would run and what would be left
 * running: quotes, substitutions, here-documents, redirections, comments and operators are understood, nothing is expanded.
 *
 * **Gotchas**
 *
 * This is a reader for guidance, not a security boundary: `eval`, variables and scripts can hide anything. What is quoted
 * stays text, so that prose which mentions a command is never taken for one.
 *
 * @since 0.1.0
 */

/** What stands between a simple command and the next one; `""` at the end. */
export type Terminator = "" | ";" | "\n" | "&" | "&&" | "||" | "|"

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

/** The position after the closing single quote. */
const afterSingle = (text: string, start: number): number => {
  const end = text.indexOf("'", start)
  return end === -1 ? text.length : end + 1
}

/** The position after the parentheses that close an arithmetic expression. */
const afterArithmetic = (text: string, start: number): number => {
  let open = 2
  let at = start
  for (; at < text.length && open > 0; at++) {
    if (text[at] === "(") open++
    else if (text[at] === ")") open--
  }
  return at
}

/** The position after the line that ends a here-document. */
const afterDocument = (text: string, start: number, delimiter: string): number => {
  let at = start
  while (at < text.length) {
    const end = text.indexOf("\n", at)
    const line = text.slice(at, end === -1 ? text.length : end)
    at = end === -1 ? text.length : end + 1
    if (line.replace(/^\t+/, "") === delimiter) break
  }
  return at
}

class Reader {
  readonly out: Array<SimpleCommand> = []
  readonly text: string
  #at = 0

  constructor(text: string) {
    this.text = text
  }

  /** Reads commands up to the end, or to the `)` that closes the substitution or group that the caller opened. */
  commands(depth: number, enclosed: "enclosed" | "open"): void {
    const { out, text } = this
    const documents: Array<string> = []
    let words: Array<string> = []
    let word: string | undefined
    let target: "word" | "redirection" | "document" = "word"
    const endWord = (): void => {
      if (word === undefined) return
      if (target === "word") words.push(word)
      else if (target === "document") documents.push(word)
      target = "word"
      word = undefined
    }
    const endCommand = (terminator: Terminator): void => {
      endWord()
      if (words.length > 0 || terminator === "&") out.push({ words, terminator, depth })
      words = []
    }
    while (this.#at < text.length) {
      const char = text.charAt(this.#at)
      const next = text.charAt(this.#at + 1)
      if (char === "\\") {
        if (next !== "\n") word = (word ?? "") + next
        this.#at += 2
      } else if (char === "'") {
        const end = afterSingle(text, this.#at + 1)
        word = (word ?? "") + text.slice(this.#at + 1, end - 1)
        this.#at = end
      } else if (char === "\"") {
        this.#at++
        word = (word ?? "") + this.#double()
      } else if (char === "`") {
        const end = text.indexOf("`", this.#at + 1)
        word = (word ?? "") + "`"
        this.#at = end === -1 ? text.length : end + 1
      } else if (char === "$" && next === "(") {
        word = (word ?? "") + "$"
        this.#substitution(depth)
      } else if (char === "(" && next === "(" && word === undefined && words.length === 0) {
        this.#at = afterArithmetic(text, this.#at + 2)
      } else if (char === "(") {
        endCommand(";")
        this.#at++
        this.commands(depth, "enclosed")
      } else if (char === ")") {
        endCommand(";")
        this.#at++
        if (enclosed === "enclosed") return
      } else if (char === "<" || char === ">" || (char === "&" && next === ">")) {
        if (word !== undefined && /^\d+$/.test(word)) word = undefined
        endWord()
        target = this.#redirection(depth)
      } else if (char === "#" && word === undefined) {
        const end = text.indexOf("\n", this.#at)
        this.#at = end === -1 ? text.length : end
      } else if (char === "\n") {
        endCommand("\n")
        this.#at++
        for (const delimiter of documents.splice(0)) this.#at = afterDocument(text, this.#at, delimiter)
      } else if (char === " " || char === "\t" || char === "\r") {
        endWord()
        this.#at++
      } else if (char === ";" || char === "&" || char === "|") {
        this.#operator(char, next, endCommand)
      } else {
        word = (word ?? "") + char
        this.#at++
      }
    }
    endCommand("")
  }

  /** `;`, `&`, `&&`, `|`, `|&` and `||`. */
  #operator(char: ";" | "&" | "|", next: string, endCommand: (terminator: Terminator) => void): void {
    const twice = next === char
    this.#at += twice || (char === "|" && next === "&") ? 2 : 1
    if (char === ";") endCommand(";")
    else if (char === "&") endCommand(twice ? "&&" : "&")
    else endCommand(twice ? "||" : "|")
  }

  /** A redirection operator; what its next word is. */
  #redirection(depth: number): "word" | "redirection" | "document" {
    const operator = /^&?(?:<<<|<<-?|[<>]+[&|]?-?)/.exec(this.text.slice(this.#at, this.#at + 4))?.[0] ?? "<"
    this.#at += operator.length
    if (this.text[this.#at] === "(") {
      this.#at--
      this.#substitution(depth)
      return "word"
    }
    if (operator.endsWith("-") && !operator.startsWith("<<")) return "word"
    return operator === "<<" || operator === "<<-" ? "document" : "redirection"
  }

  /** `$(…)`, `$((…))`, `<(…)`: the position is on the character before the parenthesis. */
  #substitution(depth: number): void {
    if (this.text.startsWith("((", this.#at + 1)) {
      this.#at = afterArithmetic(this.text, this.#at + 3)
      return
    }
    this.#at += 2
    this.commands(depth + 1, "enclosed")
  }

  /** The text up to the closing double quote. What a substitution in it runs is quoted too, and not reported. */
  #double(): string {
    const { out, text } = this
    let value = ""
    while (this.#at < text.length) {
      const char = text.charAt(this.#at)
      if (char === "\"") {
        this.#at++
        break
      }
      if (char === "\\") {
        value += text.charAt(this.#at + 1)
        this.#at += 2
      } else if (char === "$" && text[this.#at + 1] === "(") {
        const before = out.length
        this.#substitution(0)
        out.length = before
        value += "$"
      } else {
        value += char
        this.#at++
      }
    }
    return value
  }
}

/** See the module. Never fails: what is not closed ends with the text. */
export const parse = (text: string): ReadonlyArray<SimpleCommand> => {
  const reader = new Reader(text)
  reader.commands(0, "open")
  return reader.out
}
