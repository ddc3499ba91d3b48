/**
 * The permitted words of a program, as data: each flag by its exact name with the kind of its value, and the kind of
 * its operands. A command with a word that the grammar does not name is not known to be read-only.
 *
 * **Details**
 *
 * The flags are written in one text. `-abc` means three flags without a value. A mark after the name describes the
 * value:
 *
 * - `=` in the same word or in the next one, which does not begin with `-`;
 * - `=*` the same with any text, for flags that take a value in every version of the program;
 * - `=#` the same with a number;
 * - `[=]` in the same word or none;
 * - `:` in the next word alone, `::` in the next two. The flag is a word by itself then.
 *
 * `-#` is a number by itself (`head -5`). A long flag must be written in full: programs also accept abbreviations
 * (`--o=` for `--output=`), and the meaning of an abbreviation depends on the version.
 *
 * Pure, never throws, linear in the words.
 */
import type { Command, Field } from "../Command.ts"

/** Kind of value that a flag takes. */
type Value = "none" | "attached" | "plain" | "number" | "any" | "next" | "nextTwo"

/** Flags and operands of a command. */
export interface Words {
  /** Values of each flag that is present; a flag without a value has an empty text. */
  readonly flags: ReadonlyMap<string, ReadonlyArray<string>>
  readonly operands: ReadonlyArray<Field>
  /** True if a flag follows an operand. */
  readonly isMixed: boolean
}

/**
 * Kinds of operands: any, none, or at most one after the flags, because the program would write to a second one. With
 * an expression, each operand has to match it.
 */
type Operands = "any" | "none" | "one" | RegExp

/**
 * Words that are known only at run time and that the program permits: only words that cannot be flags (`closed`); file
 * patterns, because no flag of the program does more than read (`files`); also values, because the program does not
 * show the content of files (`values`).
 */
type Openness = "closed" | "files" | "values"

/** The permitted words of a program. */
export interface Grammar {
  readonly flags: ReadonlyMap<string, Value>
  readonly operands: Operands
  readonly open: Openness
  /** False if `-ab` is one flag. */
  readonly hasClusters: boolean
  /** A further condition on the words. */
  readonly check: ((words: Words, command: Command) => boolean) | undefined
}

const marks: Readonly<Record<string, Value>> = {
  "": "none",
  "[=]": "attached",
  "=": "plain",
  "=#": "number",
  "=*": "any",
  ":": "next",
  "::": "nextTwo"
}

const readFlags = (text: string, hasClusters: boolean): ReadonlyMap<string, Value> => {
  const flags = new Map<string, Value>()
  for (const token of text.trim().split(/\s+/)) {
    const [, name = "", mark = ""] = /^(.*?)(\[=\]|=[#*]?|::?)?$/.exec(token) ?? []
    const isCluster = hasClusters && mark === "" && /^-[^-#]{2,}$/.test(name)
    for (const flag of isCluster ? Array.from(name.slice(1), (letter) => `-${letter}`) : [name]) {
      flags.set(flag, marks[mark] ?? "none")
    }
  }
  return flags
}

/** Creates a grammar of flags and operands. Its flags are read when a command needs them. */
export const makeGrammar = (flags: string, options: Partial<Omit<Grammar, "flags">> = {}): Grammar => {
  const { check, hasClusters = true, open = "closed", operands = "any" } = options
  let read: Grammar["flags"] | undefined
  return {
    get flags() {
      return (read ??= readFlags(flags, hasClusters))
    },
    operands,
    open,
    hasClusters,
    check
  }
}

const number = /^[-+]?\d[\d.]{0,30}[a-zA-Z]{0,3}$/

/** Reads words one after another, and stores the flags found so far. */
class WordReader {
  readonly flags = new Map<string, Array<string>>()
  at = 0
  readonly #grammar: Grammar
  readonly #fields: ReadonlyArray<Field>
  readonly #isVarying: boolean

  constructor(grammar: Grammar, fields: ReadonlyArray<Field>) {
    this.#grammar = grammar
    this.#fields = fields
    // A variable may be empty, so that the next word is its value.
    this.#isVarying = fields.some(({ varies }) => varies)
  }

  /** Records a flag with its value; returns false if the flag does not accept the value. */
  #note(flag: string, value: string, kind: Value): boolean {
    const isTaken = kind === "number" ? number.test(value) : kind !== "plain" || !value.startsWith("-")
    this.flags.set(flag, [...(this.flags.get(flag) ?? []), value])
    return isTaken
  }

  /** Takes the value of a flag from the next words. */
  #take(flag: string, kind: Value): boolean {
    for (let count = kind === "nextTwo" ? 2 : 1; count > 0; count--) {
      const field = this.#fields[++this.at]
      if (field === undefined || (this.#isVarying && field.text.startsWith("-"))) return false
      // A file pattern may become several words.
      if (field.glob && this.#grammar.open === "closed") return false
      if (!this.#note(flag, field.text, kind)) return false
    }
    return true
  }

  #readLong(word: string): boolean {
    const at = word.indexOf("=")
    const flag = at === -1 ? word : word.slice(0, at)
    const kind = this.#grammar.flags.get(flag)
    if (kind === undefined) return false
    if (at === -1) return kind === "none" || kind === "attached" ? this.#note(flag, "", "none") : this.#take(flag, kind)
    return (
      kind !== "none" &&
      kind !== "next" &&
      kind !== "nextTwo" &&
      this.#note(flag, word.slice(at + 1), kind === "plain" ? "any" : kind)
    )
  }

  #readShort(word: string): boolean {
    if (/^-\d+$/.test(word) && this.#grammar.flags.has("-#")) return true
    const { flags, hasClusters } = this.#grammar
    if (!hasClusters && flags.get(word) === "none") return this.#note(word, "", "none")
    for (let index = 1; index < word.length; index++) {
      const flag = `-${word.charAt(index)}`
      const kind = flags.get(flag)
      const rest = word.slice(index + 1)
      if (kind === undefined || (kind === "none" && !hasClusters)) return false
      if (kind === "attached") return this.#note(flag, rest, "any")
      if (kind === "next" || kind === "nextTwo") return word.length === 2 && this.#take(flag, kind)
      if (kind !== "none")
        return rest === "" ? this.#take(flag, kind) : this.#note(flag, rest, kind === "plain" ? "any" : kind)
      this.#note(flag, "", "none")
    }
    return true
  }

  /** Reads the flag at the current word, with its value. */
  readFlag(word: string): boolean {
    return word.startsWith("--") ? this.#readLong(word) : this.#readShort(word)
  }
}

/** Reads the words of a command; returns `undefined` if the grammar does not permit them. */
const readWords = (grammar: Grammar, fields: ReadonlyArray<Field>): Words | undefined => {
  const reader = new WordReader(grammar, fields)
  const operands: Array<Field> = []
  let isMixed = false
  let isEnded = false
  for (; reader.at < fields.length; reader.at++) {
    const field = fields[reader.at]
    if (field === undefined) break
    if (isEnded || field.unknown || !field.text.startsWith("-") || field.text === "-") operands.push(field)
    else if (field.text === "--") isEnded = true
    else {
      isMixed ||= operands.length > 0
      if (!reader.readFlag(field.text)) return undefined
    }
  }
  return { flags: reader.flags, operands, isMixed }
}

/** Returns the number of words before the first operand; `undefined` if the grammar does not permit them. */
export const countFlagWords = (grammar: Grammar, fields: ReadonlyArray<Field>): number | undefined => {
  const reader = new WordReader(grammar, fields)
  for (; reader.at < fields.length; reader.at++) {
    const text = fields[reader.at]?.text ?? ""
    if (text === "--") return reader.at + 1
    if (!text.startsWith("-")) return reader.at
    if (!reader.readFlag(text)) return undefined
  }
  return reader.at
}

const hasOperands = ({ operands: kind }: Grammar, { isMixed, operands }: Words): boolean => {
  if (kind === "any") return true
  if (kind === "none") return operands.length === 0
  if (kind === "one")
    return operands.length <= 1 && !isMixed && operands.every(({ glob, unknown }) => !glob && !unknown)
  return operands.every(({ glob, text, unknown }) => !glob && !unknown && kind.test(text))
}

/** Reads the words of a command whose flags and operands match a grammar; returns `undefined` for any other command. */
export const matchCommand = (grammar: Grammar, command: Command, fields = command.fields): Words | undefined => {
  const words = readWords(grammar, fields)
  return words !== undefined && hasOperands(grammar, words) && grammar.check?.(words, command) !== false
    ? words
    : undefined
}

/** Returns true if one of the flags is present. */
export const hasAny = ({ flags }: Words, names: ReadonlyArray<string>): boolean => names.some((name) => flags.has(name))
