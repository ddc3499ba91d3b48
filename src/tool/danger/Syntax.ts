/**
 * A shell script as a tree: simple commands, their words made of text, variables and substitutions, their redirections and
 * here-documents. Nothing is expanded here, and compound commands stay a flat list in which reserved words are ordinary
 * first words.
 *
 * **Details**
 *
 * One pass, one character at a time; a depth beyond {@link maxDepth} and quoting that is not closed are a `fault`, on which
 * the floor fails closed. A here-document without its end reaches to the end of the text, as in the shell.
 *
 * @since 0.1.0
 */
import { escape, isWord, literal, type Part, type Script, type Simple, type Terminator, type Word } from "./Tree.ts"

/** How deep substitutions, groups and expansions nest. */
export const maxDepth = 40

/** How long an arithmetic expression may be; what is longer is read as commands. */
const maxArithmetic = 200

const nameStart = /[A-Za-z_]/
const arrayStart = /^[A-Za-z_]\w*\+?=$/
interface Document {
  readonly delimiter: string
  readonly quoted: boolean
  readonly tabs: boolean
  readonly into: { target: Word }
}

class Reader {
  fault: string | undefined
  #at = 0
  readonly #text: string
  #depth: number

  constructor(text: string, depth: number) {
    this.#text = text
    this.#depth = depth
  }

  #fail(fault: string): void {
    this.fault ??= fault
    this.#at = this.#text.length
  }

  /** Runs one level deeper. */
  #nested<A>(read: () => A, otherwise: A): A {
    if (this.#depth >= maxDepth) {
      this.#fail("it nests too deeply")
      return otherwise
    }
    this.#depth++
    const out = read()
    this.#depth--
    return out
  }

  /** Commands up to the end, or to the parenthesis that closes a substitution. */
  script(enclosed: boolean): ReadonlyArray<Simple> {
    const text = this.#text
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
    while (this.#at < text.length) {
      const char = text.charAt(this.#at)
      const next = text.charAt(this.#at + 1)
      if (char === " " || char === "\t" || char === "\r") this.#at++
      else if (char === "\\" && next === "\n") this.#at += 2
      else if (char === "\n") {
        end(";")
        this.#at++
        for (const document of documents.splice(0)) this.#document(document)
      } else if (char === "#") {
        const line = text.indexOf("\n", this.#at)
        this.#at = line === -1 ? text.length : line
      } else if (char === ";") {
        end(";")
        this.#at += 1
      } else if (char === "&" && next !== ">") {
        end(next === "&" ? "&&" : "&")
        this.#at += next === "&" ? 2 : 1
      } else if (char === "|") {
        end(next === "|" ? "||" : "|")
        this.#at += next === "|" || next === "&" ? 2 : 1
      } else if (char === "(" && next === "(" && words.length === 0 && this.#closesArithmetic(this.#at + 2)) {
        this.#at += 2
        words.push([this.#arithmetic(false)])
      } else if (char === "(") {
        // `name () { … }` is a definition: the word stays, and says so.
        const definition = words.length === 1 && /^\([ \t]*\)/.exec(text.slice(this.#at, this.#at + 16))
        if (definition) {
          words.push([{ _tag: "Text", text: "()", quoted: false }])
          end(";")
          this.#at += definition[0].length
          while (/[ \t\n]/.test(text.charAt(this.#at))) this.#at++
          // `f(){f;}` is none to a shell, but who writes it means a body.
          if (text.charAt(this.#at) === "{") {
            this.#at++
            words.push([{ _tag: "Text", text: "{", quoted: false }])
          }
        } else if (cases === 0) {
          end(";")
          commands.push({ words: [[{ _tag: "Text", text: "(", quoted: false }]], redirections: [], terminator: ";" })
          groups++
          this.#at++
        } else this.#at++
      } else if (char === ")") {
        this.#at++
        if (cases > 0 || opensCase(words)) end(";")
        else if (groups > 0) {
          end(";")
          groups--
          words.push([{ _tag: "Text", text: ")", quoted: false }])
        } else if (enclosed) {
          end("")
          return commands
        } else end(";")
      } else if (char === "<" && next === "(" || char === ">" && next === "(") {
        words.push(this.#word())
      } else if (char === "<" || char === ">" || char === "&") {
        redirections.push(this.#redirection(documents))
      } else {
        const word = this.#word()
        const text = literal(word)
        const now = this.#text.charAt(this.#at)
        if (now === "(" && text !== undefined && arrayStart.test(text)) words.push(this.#array(word))
        // The number of a descriptor belongs to its redirection.
        else if (!((now === "<" || now === ">") && text !== undefined && /^\d{1,3}$/.test(text))) words.push(word)
      }
    }
    end("")
    if (enclosed) this.fault ??= "a substitution is not closed"
    for (const document of documents) document.into.target = []
    return commands
  }

  /** `name=(a b)`: one word, its items separated by blanks. */
  #array(name: Word): Word {
    this.#at++
    const parts: Array<Part> = [...name]
    while (this.#at < this.#text.length && this.#text.charAt(this.#at) !== ")") {
      const char = this.#text.charAt(this.#at)
      if (/\s/.test(char)) {
        parts.push({ _tag: "Text", text: " ", quoted: true })
        this.#at++
      } else {
        const before = this.#at
        parts.push(...this.#word())
        if (this.#at === before) this.#at++
      }
    }
    if (this.#at >= this.#text.length) this.#fail("a list is not closed")
    this.#at++
    return parts
  }

  #redirection(documents: Array<Document>): { operator: string; target: Word } {
    const operator = /^(?:<<<|<<-?|<>|<&|>>|>\||>&|&>>|&>|<|>)/.exec(this.#text.slice(this.#at, this.#at + 4))?.[0] ?? "<"
    this.#at += operator.length
    while (/[ \t]/.test(this.#text.charAt(this.#at))) this.#at++
    const target = this.#word()
    const out = { operator, target }
    if (operator === "<<" || operator === "<<-") {
      documents.push({
        delimiter: literal(target) ?? "",
        quoted: target.some((part) => part._tag !== "Text" || part.quoted),
        tabs: operator === "<<-",
        into: out
      })
    }
    return out
  }

  #document({ delimiter, into, quoted, tabs }: Document): void {
    const start = this.#at
    let end = this.#text.length
    while (this.#at < this.#text.length) {
      const newline = this.#text.indexOf("\n", this.#at)
      const stop = newline === -1 ? this.#text.length : newline
      const line = this.#text.slice(this.#at, stop)
      if ((tabs ? line.replace(/^\t+/, "") : line) === delimiter) {
        end = this.#at
        this.#at = stop
        break
      }
      this.#at = newline === -1 ? this.#text.length : newline + 1
    }
    const body = this.#text.slice(start, Math.min(end, this.#text.length))
    if (quoted || !/[$`\\]/.test(body)) {
      into.target = [{ _tag: "Text", text: body, quoted: true }]
      return
    }
    const inner = new Reader(body, this.#depth)
    into.target = inner.quotedTo(undefined)
    if (inner.fault !== undefined) this.fault ??= inner.fault
  }

  /** One word; the position is on its first character. */
  #word(): Word {
    const text = this.#text
    const parts: Array<Part> = []
    let plain = ""
    const flush = (): void => {
      if (plain !== "") parts.push({ _tag: "Text", text: plain, quoted: false })
      plain = ""
    }
    while (this.#at < text.length) {
      const char = text.charAt(this.#at)
      const next = text.charAt(this.#at + 1)
      if (char === "\\") {
        if (next !== "\n") {
          flush()
          parts.push({ _tag: "Text", text: next, quoted: true })
        }
        this.#at += 2
      } else if (char === "'") {
        flush()
        const end = text.indexOf("'", this.#at + 1)
        if (end === -1) this.#fail("a single quote is not closed")
        else {
          parts.push({ _tag: "Text", text: text.slice(this.#at + 1, end), quoted: true })
          this.#at = end + 1
        }
      } else if (char === "\"" || char === "$" && next === "\"") {
        flush()
        this.#at += char === "$" ? 2 : 1
        parts.push({ _tag: "Text", text: "", quoted: true }, ...this.quotedTo("\""))
      } else if (char === "$" && next === "'") {
        flush()
        this.#at += 2
        parts.push({ _tag: "Text", text: this.#ansi(), quoted: true })
      } else if (char === "$" || char === "`") {
        const part = this.#expansion(false)
        if (part === undefined) plain += char
        else {
          flush()
          parts.push(part)
        }
      } else if ((char === "<" || char === ">") && next === "(" && plain === "" && parts.length === 0) {
        this.#at += 2
        parts.push(this.#substitution(false, true))
        break
      } else if (/[ \t\r\n;&|<>()]/.test(char)) break
      else {
        plain += char
        this.#at++
      }
    }
    flush()
    return parts
  }

  /** Text with expansions up to `close` (a double quote), or to the end when there is none. */
  quotedTo(close: "\"" | undefined): Word {
    const text = this.#text
    const parts: Array<Part> = []
    let plain = ""
    const flush = (): void => {
      if (plain !== "") parts.push({ _tag: "Text", text: plain, quoted: true })
      plain = ""
    }
    for (;;) {
      if (this.#at >= text.length) {
        if (close !== undefined) this.#fail("a double quote is not closed")
        break
      }
      const char = text.charAt(this.#at)
      if (char === close) {
        this.#at++
        break
      }
      if (char === "\\") {
        const next = text.charAt(this.#at + 1)
        plain += next === "\n" ? "" : next === "$" || next === "`" || next === "\\" || next === close ? next : char + next
        this.#at += 2
      } else if (char === "$" || char === "`") {
        const part = this.#expansion(true)
        if (part === undefined) plain += char
        else {
          flush()
          parts.push(part)
        }
      } else {
        plain += char
        this.#at++
      }
    }
    flush()
    return parts
  }

  /** What starts with `$` or a backquote; `undefined`, one character further, when it is a plain dollar. */
  #expansion(quoted: boolean): Part | undefined {
    const text = this.#text
    if (text.charAt(this.#at) === "`") return this.#backquoted(quoted)
    this.#at++
    const char = text.charAt(this.#at)
    if (char === "(") {
      this.#at++
      if (text.charAt(this.#at) === "(" && this.#closesArithmetic(this.#at + 1)) {
        this.#at++
        return this.#arithmetic(quoted)
      }
      return this.#substitution(quoted, false)
    }
    if (char === "{") {
      this.#at++
      return this.#nested(() => this.#braced(quoted), undefined)
    }
    const name = nameStart.test(char)
      ? /^\w+/.exec(text.slice(this.#at, this.#at + 256))?.[0] ?? ""
      : /[\d@*#?!$-]/.test(char) ? char : ""
    this.#at += name.length
    return name === "" ? undefined : { _tag: "Variable", name, operator: "", operand: [], quoted }
  }

  #substitution(quoted: boolean, asFile: boolean): Part {
    const commands = this.#nested(() => this.script(true), [])
    return { _tag: "Substitution", script: { commands, fault: undefined }, quoted, asFile }
  }

  #backquoted(quoted: boolean): Part {
    let inner = ""
    let at = this.#at + 1
    for (; at < this.#text.length && this.#text.charAt(at) !== "`"; at++) {
      if (this.#text.charAt(at) === "\\" && /[\\`$]/.test(this.#text.charAt(at + 1))) at++
      inner += this.#text.charAt(at)
    }
    if (at >= this.#text.length) this.#fail("a backquote is not closed")
    this.#at = at + 1
    const script = this.#nested(() => read(inner, this.#depth), { commands: [], fault: undefined })
    if (script.fault !== undefined) this.fault ??= script.fault
    return { _tag: "Substitution", script, quoted, asFile: false }
  }

  /** `${…}`; the position is after its brace. */
  #braced(quoted: boolean): Part {
    const text = this.#text
    const indirect = text.charAt(this.#at) === "!" && /[A-Za-z_]/.test(text.charAt(this.#at + 1))
    const counted = text.charAt(this.#at) === "#" && text.charAt(this.#at + 1) !== "}"
    if (indirect || counted) this.#at++
    const name = /^(?:[A-Za-z_]\w*(?:\[[^\]}]{0,64}\])?|[\d@*#?!$-])?/.exec(text.slice(this.#at, this.#at + 320))?.[0] ?? ""
    this.#at += name.length
    const operator = /^(?::[-=+?]?|[-=+?]|##?|%%?|\/\/?|\^\^?|,,?|@)?/.exec(text.slice(this.#at, this.#at + 2))?.[0] ?? ""
    this.#at += operator.length
    const operand: Array<Part> = []
    for (;;) {
      if (this.#at >= text.length) {
        this.#fail("a brace of an expansion is not closed")
        break
      }
      const char = text.charAt(this.#at)
      if (char === "}") {
        this.#at++
        break
      }
      if (quoted && char === "'" || /[\s;&|<>()]/.test(char)) {
        operand.push({ _tag: "Text", text: char, quoted: true })
        this.#at++
        continue
      }
      operand.push(...this.#operandWord())
    }
    const said = counted ? "count" : indirect ? "!" : operator
    return { _tag: "Variable", name, operator: said, operand, quoted }
  }

  /** One piece of the operand of `${…}`. */
  #operandWord(): Word {
    const char = this.#text.charAt(this.#at)
    if (/[\\'"$`]/.test(char)) {
      const before = this.#at
      const stop = new Reader(this.#text, this.#depth)
      stop.#at = this.#at
      const part = stop.#piece()
      this.#at = Math.max(stop.#at, before + 1)
      if (stop.fault !== undefined) this.fault ??= stop.fault
      return part
    }
    this.#at++
    return [{ _tag: "Text", text: char, quoted: false }]
  }

  /** One quoted run, escape or expansion. */
  #piece(): Word {
    const text = this.#text
    const char = text.charAt(this.#at)
    const next = text.charAt(this.#at + 1)
    if (char === "\\") {
      this.#at += 2
      return [{ _tag: "Text", text: next, quoted: true }]
    }
    if (char === "'") {
      const end = text.indexOf("'", this.#at + 1)
      if (end === -1) {
        this.#fail("a single quote is not closed")
        return []
      }
      const inner = text.slice(this.#at + 1, end)
      this.#at = end + 1
      return [{ _tag: "Text", text: inner, quoted: true }]
    }
    if (char === "\"") {
      this.#at++
      return this.quotedTo("\"")
    }
    if (char === "$" && next === "'") {
      this.#at += 2
      return [{ _tag: "Text", text: this.#ansi(), quoted: true }]
    }
    const part = this.#expansion(false)
    return [part ?? { _tag: "Text", text: char, quoted: false }]
  }

  /** `$'…'` with its escapes; the position is after the quote. */
  #ansi(): string {
    const text = this.#text
    let out = ""
    for (;;) {
      if (this.#at >= text.length) {
        this.#fail("an ANSI-C quote is not closed")
        return out
      }
      const char = text.charAt(this.#at)
      if (char === "'") {
        this.#at++
        return out
      }
      if (char !== "\\") {
        out += char
        this.#at++
        continue
      }
      const [taken, value] = escape(text.slice(this.#at + 1, this.#at + 11))
      out += value
      this.#at += 1 + taken
    }
  }

  /** Where `((` is closed by `))`; a shell that finds anything else there reads it as two groups. */
  #arithmeticEnd(start: number): number | undefined {
    const limit = Math.min(this.#text.length, start + maxArithmetic)
    let open = 2
    for (let at = start; at < limit; at++) {
      const char = this.#text.charAt(at)
      if (char === "(") open++
      else if (char === ")" && --open === 1) return this.#text.charAt(at + 1) === ")" ? at : undefined
    }
    return undefined
  }

  #closesArithmetic(start: number): boolean {
    return this.#arithmeticEnd(start) !== undefined
  }

  /** An arithmetic expression, of which only the expansions matter. */
  #arithmetic(quoted: boolean): Part {
    const end = this.#arithmeticEnd(this.#at) ?? this.#text.length
    const inner = new Reader(this.#text.slice(this.#at, end), this.#depth)
    const operand = this.#nested(() => inner.quotedTo(undefined), [])
    if (inner.fault !== undefined) this.fault ??= inner.fault
    this.#at = end + 2
    return { _tag: "Variable", name: "((", operator: "", operand, quoted }
  }
}

/** `case … in`, after `do` and the like too. */
const opensCase = (words: ReadonlyArray<Word>): boolean =>
  isWord(words[0], "case") || isWord(words[1], "case") && /^(?:do|then|else|\{|\()$/.test(literal(words[0] ?? []) ?? "")

/** Reads a script. Never throws. */
export const read = (text: string, depth = 0): Script => {
  const reader = new Reader(text, depth)
  const commands = reader.script(false)
  return { commands, fault: reader.fault }
}
