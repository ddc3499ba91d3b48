/**
 * A shell script as a tree: simple commands, their words (text, variables and substitutions), their redirections and
 * here-documents. Nothing is expanded here, and compound commands remain a flat list in which reserved words are
 * ordinary first words.
 *
 * **Details**
 *
 * The text is read in one pass, one character at a time. Nesting beyond `Cursor.maxDepth` and unclosed quotes are a
 * `fault`, and a command with a fault never runs. A here-document without its delimiter extends to the end of the text,
 * as in the shell.
 */
import { Cursor, isWord, readLiteral, type Script, type Simple, type Terminator, type Word } from "./ShellTree.ts"
import { readArithmetic, readArray, isArithmeticClosed, readQuotedTo, readWord } from "./ShellWord.ts"

const arrayStart = /^[A-Za-z_]\w*\+?=$/

interface Document {
  readonly delimiter: string
  readonly quoted: boolean
  readonly tabs: boolean
  readonly into: { target: Word }
}

const redirection = (cursor: Cursor, documents: Array<Document>): { operator: string; target: Word } => {
  const operator =
    /^(?:<<<|<<-?|<>|<&|>>|>\||>&|&>>|&>|<|>)/.exec(cursor.text.slice(cursor.at, cursor.at + 4))?.[0] ?? "<"
  cursor.at += operator.length
  while (/[ \t]/.test(cursor.text.charAt(cursor.at))) cursor.at++
  const target = readWord(cursor)
  const out = { operator, target }
  if (operator === "<<" || operator === "<<-") {
    documents.push({
      delimiter: readLiteral(target) ?? "",
      quoted: target.some((part) => part._tag !== "Text" || part.quoted),
      tabs: operator === "<<-",
      into: out
    })
  }
  return out
}

const document = (cursor: Cursor, { delimiter, into, quoted, tabs }: Document): void => {
  const start = cursor.at
  let end = cursor.text.length
  while (cursor.at < cursor.text.length) {
    const newline = cursor.text.indexOf("\n", cursor.at)
    const stop = newline === -1 ? cursor.text.length : newline
    const line = cursor.text.slice(cursor.at, stop)
    if ((tabs ? line.replace(/^\t+/, "") : line) === delimiter) {
      end = cursor.at
      cursor.at = stop
      break
    }
    cursor.at = newline === -1 ? cursor.text.length : newline + 1
  }
  const body = cursor.text.slice(start, Math.min(end, cursor.text.length))
  if (quoted || !/[$`\\]/.test(body)) {
    into.target = [{ _tag: "Text", text: body, quoted: true }]
    return
  }
  const inner = cursor.on(body)
  into.target = readQuotedTo(inner, undefined)
  cursor.inherit(inner)
}

/** Returns true for `case … in`, including after `do` and similar words. */
const opensCase = (words: ReadonlyArray<Word>): boolean =>
  isWord(words[0], "case") ||
  (isWord(words[1], "case") && /^(?:do|then|else|\{|\()$/.test(readLiteral(words[0] ?? []) ?? ""))

/** Reads commands to the end, or to the parenthesis that closes a substitution. */
const script = (cursor: Cursor, enclosed: boolean): ReadonlyArray<Simple> => {
  const text = cursor.text
  const commands: Array<Simple> = []
  const documents: Array<Document> = []
  let words: Array<Word> = []
  let redirections: Array<{ operator: string; target: Word }> = []
  let groups = 0
  let cases = 0
  const end = (terminator: Terminator): void => {
    if (words.length > 0 || redirections.length > 0) {
      if (opensCase(words)) cases++
      if (isWord(words[0], "esac")) cases = Math.max(0, cases - 1)
      commands.push({ words, redirections, terminator })
    }
    words = []
    redirections = []
  }
  while (cursor.at < text.length) {
    const char = text.charAt(cursor.at)
    const next = text.charAt(cursor.at + 1)
    if (char === " " || char === "\t" || char === "\r") cursor.at++
    else if (char === "\\" && next === "\n") cursor.at += 2
    else if (char === "\n") {
      end(";")
      cursor.at++
      for (const waiting of documents.splice(0)) document(cursor, waiting)
    } else if (char === "#") {
      const line = text.indexOf("\n", cursor.at)
      cursor.at = line === -1 ? text.length : line
    } else if (char === ";") {
      end(";")
      cursor.at += 1
    } else if (char === "&" && next !== ">") {
      end(next === "&" ? "&&" : "&")
      cursor.at += next === "&" ? 2 : 1
    } else if (char === "|") {
      end(next === "|" ? "||" : "|")
      cursor.at += next === "|" || next === "&" ? 2 : 1
    } else if (char === "(" && next === "(" && words.length === 0 && isArithmeticClosed(cursor, cursor.at + 2)) {
      cursor.at += 2
      words.push([readArithmetic(cursor, false)])
    } else if (char === "(") {
      // `name () { … }` is a definition: the word is stored and marked as a definition.
      const definition = words.length === 1 && /^\([ \t]*\)/.exec(text.slice(cursor.at, cursor.at + 16))
      if (definition) {
        words.push([{ _tag: "Text", text: "()", quoted: false }])
        end(";")
        cursor.at += definition[0].length
        while (/[ \t\n]/.test(text.charAt(cursor.at))) cursor.at++
        // A shell does not read `f(){f;}` as a definition, but the author intends a function body.
        if (text.charAt(cursor.at) === "{") {
          cursor.at++
          words.push([{ _tag: "Text", text: "{", quoted: false }])
        }
      } else if (cases === 0) {
        end(";")
        commands.push({ words: [[{ _tag: "Text", text: "(", quoted: false }]], redirections: [], terminator: ";" })
        groups++
        cursor.at++
      } else cursor.at++
    } else if (char === ")") {
      cursor.at++
      if (cases > 0 || opensCase(words)) end(";")
      else if (groups > 0) {
        end(";")
        groups--
        words.push([{ _tag: "Text", text: ")", quoted: false }])
      } else if (enclosed) {
        end("")
        return commands
      } else end(";")
    } else if ((char === "<" && next === "(") || (char === ">" && next === "(")) {
      words.push(readWord(cursor))
    } else if (char === "<" || char === ">" || char === "&") {
      redirections.push(redirection(cursor, documents))
    } else {
      const read = readWord(cursor)
      const text = readLiteral(read)
      const now = cursor.text.charAt(cursor.at)
      if (now === "(" && text !== undefined && arrayStart.test(text)) words.push(readArray(cursor, read))
      // The number of a descriptor belongs to its redirection.
      else if (!((now === "<" || now === ">") && text !== undefined && /^\d{1,3}$/.test(text))) words.push(read)
    }
  }
  end("")
  if (enclosed) cursor.fault ??= "a substitution is not closed"
  for (const document of documents) document.into.target = []
  return commands
}

/** Reads a script. Never throws. */
export const read = (text: string, depth = 0): Script => {
  const cursor = new Cursor(text, depth, script)
  const commands = script(cursor, false)
  return { commands, fault: cursor.fault }
}
