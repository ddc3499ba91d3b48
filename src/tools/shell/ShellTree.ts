/** The parts of a shell script before expansion, and the cursor shared by the readers of scripts and words. */
/** A piece of a word. */
export type Part =
  | { readonly _tag: "Text"; readonly text: string; readonly quoted: boolean }
  | {
      readonly _tag: "Variable"
      readonly name: string
      /** Operator after the name in `${name…}` up to its operand: `:-`, `:`, `%%`, `""`. `!` means indirection. */
      readonly operator: string
      readonly operand: Word
      readonly quoted: boolean
    }
  | { readonly _tag: "Substitution"; readonly script: Script; readonly quoted: boolean; readonly asFile: boolean }

/** One word before expansion. */
export type Word = ReadonlyArray<Part>

/** Separator between a simple command and the next one; `""` at the end. */
export type Terminator = "" | ";" | "&" | "&&" | "||" | "|"

/** `> file`, `<<< text`, or a here-document, whose target is its body. */
export interface Redirection {
  readonly operator: string
  readonly target: Word
}

/** One simple command. */
export interface Simple {
  readonly words: ReadonlyArray<Word>
  readonly redirections: ReadonlyArray<Redirection>
  readonly terminator: Terminator
}

/** A shell script before expansion. */
export interface Script {
  readonly commands: ReadonlyArray<Simple>
  /** Reason why the text cannot be read, if it cannot. */
  readonly fault: string | undefined
}

/** Returns the text of a word that contains only plain text, quoted or unquoted. */
export const readLiteral = (word: Word): string | undefined => {
  let out = ""
  for (const part of word) {
    if (part._tag !== "Text") return undefined
    out += part.text
  }
  return out
}

/** Returns true if a word is a given plain text. */
export const isWord = (word: Word | undefined, text: string): boolean =>
  word !== undefined && readLiteral(word) === text

/** Returns the text of a word that is one piece of unquoted text. */
export const readKeyword = (word: Word | undefined): string | undefined =>
  word === undefined || word.length > 1 || word.some((part) => part._tag === "Text" && part.quoted)
    ? undefined
    : readLiteral(word)

const simpleEscapes: Readonly<Record<string, string>> = {
  a: "\u0007",
  b: "\b",
  e: "\u001b",
  E: "\u001b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v"
}

/** Reads the text after a backslash in `$'…'` and in `printf`: number of characters consumed, and their value. */
export const readEscape = (after: string): readonly [taken: number, value: string] => {
  const coded = /^(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|0?([0-7]{1,3}))/.exec(after)
  if (coded !== null) {
    const hex = coded[1] ?? coded[2] ?? coded[3]
    const code = hex === undefined ? Number.parseInt(coded[4] ?? "0", 8) & 0xff : Number.parseInt(hex, 16)
    return [coded[0].length, code <= 0x10ffff ? String.fromCodePoint(code) : ""]
  }
  const char = after.charAt(0)
  return [1, simpleEscapes[char] ?? (/[\\'"?]/.test(char) ? char : `\\${char}`)]
}

/** Maximum nesting depth of substitutions, groups and expansions. */
const maxDepth = 40

/** Reads commands to the end of the text or, if enclosed, to the closing parenthesis. */
type ReadCommands = (cursor: Cursor, enclosed: boolean) => ReadonlyArray<Simple>

/** State of reading a text as a shell script: the position, the nesting depth, and a syntax error, if any. */
export class Cursor {
  at = 0
  fault: string | undefined
  readonly text: string
  depth: number
  readonly commands: ReadCommands

  constructor(text: string, depth: number, commands: ReadCommands) {
    this.text = text
    this.depth = depth
    this.commands = commands
  }

  /** Creates a cursor on another text at the same depth. */
  on(text: string): Cursor {
    return new Cursor(text, this.depth, this.commands)
  }

  /** Stops reading with a fault. Only the first fault is stored. */
  fail(fault: string): void {
    this.fault ??= fault
    this.at = this.text.length
  }

  /** Takes over the fault of a nested script. */
  inherit({ fault }: { readonly fault: string | undefined }): void {
    if (fault !== undefined) this.fault ??= fault
  }

  /** Runs one level deeper. */
  nested<A>(read: () => A, otherwise: A): A {
    if (this.depth >= maxDepth) {
      this.fail("it nests too deeply")
      return otherwise
    }
    this.depth++
    const out = read()
    this.depth--
    return out
  }
}
