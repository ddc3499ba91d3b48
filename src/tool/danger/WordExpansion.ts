/**
 * Expands words as far as the text itself says what they become: assignments of the script, quotes, braces, the operators
 * of `${…}`, substitutions whose output is known. What only the machine knows stays unknown and counts as nothing.
 */
import type { Command, Field } from "./Command.ts"
import type { Part, Script, Word } from "../shell/ShellTree.ts"

/** Surroundings that expansion asks. */
export interface Scope {
  readonly variables: Map<string, string>
  /** Runs a substitution: its commands, and its output when that is known. */
  readonly run: (script: Script) => { readonly commands: ReadonlyArray<Command>; readonly output: string | undefined }
  /** Takes from the budget of characters; false when it is used up. */
  readonly spend: (characters: number) => boolean
  /** Words of the values that were taken for arrays, so that each is read once. */
  readonly words: Map<string, ReadonlyArray<string>>
}

/** Values that everybody knows. `~` stands for the home directory. */
const wellKnown: Readonly<Record<string, string>> = {
  HOME: "~", IFS: " \t\n", "@": "", "*": "", "#": "0", "1": "", "2": "", "3": "", "4": "", "5": "", "6": "", "7": "", "8": "", "9": ""
}
const pathLike = new Set(["HOME", "PWD", "OLDPWD", "PATH", "SHELL", "TMPDIR"])

interface Draft {
  text: string
  shown: string
  unknown: boolean
  glob: boolean
  started: boolean
  variables: Array<string>
  commands: Array<Command>
}

const draft = (): Draft => ({ text: "", shown: "", unknown: false, glob: false, started: false, variables: [], commands: [] })

const operandText = (word: Word, scope: Scope): { readonly text: string; readonly known: boolean } => {
  const fields = expandParts(word.map((part) => ({ ...part, quoted: true })), scope)
  return { text: fields.map(({ text }) => text).join(" "), known: fields.every(({ unknown }) => !unknown) }
}

/** A part of a glob: `*`, or the test of one character. */
type Piece = "*" | ((char: string) => boolean)

/** The class of characters in brackets. One that means nothing (`[z-a]`) matches none. */
const classOf = (text: string): (char: string) => boolean => {
  const [, negation = "", members = ""] = /^\[([!^]?)([^]*)\]$/.exec(text) ?? []
  try {
    const pattern = new RegExp(`^[${negation === "" ? "" : "^"}${members.replace(/[\\[\]^]/g, String.raw`\$&`)}]$`)
    return (char) => pattern.test(char)
  } catch {
    return () => false
  }
}

const globPieces = (glob: string): ReadonlyArray<Piece> =>
  (glob.slice(0, 32).match(/\*+|\[[!^]?[^\]]+\]|[^]/g) ?? []).map((text) => {
    if (text.startsWith("*")) return "*"
    if (text === "?") return () => true
    return text.length > 1 ? classOf(text) : (char) => char === text
  })

/**
 * The lengths of the beginnings of a text that a glob matches, the shortest first. The text is read once, whatever the glob: an
 * expression that backtracks would be read by an attacker's choice of both.
 */
const beginnings = (glob: ReadonlyArray<Piece>, text: ReadonlyArray<string>): ReadonlyArray<number> => {
  const found: Array<number> = []
  /** Positions of the glob that a beginning of the text reaches; a `*` may stand for nothing. */
  const closed = (reached: Array<boolean>): ReadonlyArray<boolean> => {
    glob.forEach((piece, at) => {
      if (piece === "*" && reached[at] === true) reached[at + 1] = true
    })
    return reached
  }
  let reached = closed([true])
  for (let length = 0; ; length++) {
    if (reached[glob.length] === true) found.push(length)
    const char = text[length]
    if (char === undefined) return found
    const next: Array<boolean> = []
    glob.forEach((piece, at) => {
      if (reached[at] !== true) return
      if (piece === "*") next[at] = true
      else if (piece(char)) next[at + 1] = true
    })
    reached = closed(next)
  }
}

/** A value without the shortest (`#`, `%`) or longest (`##`, `%%`) beginning or end that a glob matches. */
const trimmed = (value: string, operator: string, glob: string): string => {
  if (value.length > 64) return value
  const pieces = globPieces(glob)
  const chars = value.split("")
  const atStart = operator.startsWith("#")
  const lengths = atStart ? beginnings(pieces, chars) : beginnings(pieces.toReversed(), chars.toReversed())
  const length = (operator.length === 1 ? lengths[0] : lengths.at(-1)) ?? 0
  return atStart ? value.slice(length) : value.slice(0, value.length - length)
}

const wordsOf = (value: string, { words }: Scope): ReadonlyArray<string> => {
  const known = words.get(value) ?? value.split(/\s+/)
  words.set(value, known)
  return known
}

/** The value of a variable with its operator; `undefined` when it is not known. */
const valueOf = (part: Part & { readonly _tag: "Variable" }, scope: Scope): string | undefined => {
  const operand = operandText(part.operand, scope)
  const subscript = /^(\w+)\[(.*)\]$/.exec(part.name)
  const name = subscript?.[1] ?? part.name
  const own = scope.variables.get(name) ?? (Object.hasOwn(wellKnown, name) ? wellKnown[name] : undefined)
  const index = subscript?.[2]
  const value = own !== undefined && index !== undefined && /^\d{1,4}$/.test(index) ? wordsOf(own, scope)[Number(index)] ?? "" : own
  switch (part.operator) {
    case "":
      return value
    case "count":
      return value === undefined ? undefined : String(value.length)
    case "!":
      return value === undefined ? undefined : scope.variables.get(value)
    case ":-":
    case "-":
    case ":=":
    case "=":
      return scope.variables.has(name) && value !== undefined && value !== "" ? value : operand.known ? operand.text : undefined
    case ":+":
    case "+":
      return value === undefined || value === "" ? value : operand.text
    case ":": {
      const range = /^\s*(-?\d+)\s*(?::\s*(-?\d+))?$/.exec(operand.text)
      if (range === null) return undefined
      const start = Number(range[1])
      const length = range[2] === undefined ? undefined : Number(range[2])
      if (pathLike.has(name) && start === 0 && length === 1) return "/"
      return value?.slice(start).slice(0, length ?? value.length)
    }
    case "#":
    case "##":
    case "%":
    case "%%":
      if (name === "IFS") return " "
      return value === undefined ? undefined : trimmed(value, part.operator, operand.text)
    case "/":
    case "//": {
      const [from = "", ...to] = operand.text.split("/")
      if (value === undefined || from === "") return value
      return part.operator === "//" ? value.replaceAll(from, () => to.join("/")) : value.replace(from, () => to.join("/"))
    }
    case "^":
    case "^^":
      return value?.toUpperCase()
    case ",":
    case ",,":
      return value?.toLowerCase()
    default:
      return value
  }
}

/** Returns the pattern that separates words; the script may have set `IFS`. */
const separatorsOf = (set: string | undefined): RegExp =>
  set === undefined || set === "" || set.length > 16
    ? /[ \t\n]+/
    : new RegExp(`[ \\t\\n${set.replace(/[\]\\^-]/g, String.raw`\$&`)}]+`)

/** A substitution's output without the line ends at its end, as a shell takes it. */
const withoutNewlines = (output: string): string => {
  let end = output.length
  while (end > 0 && output.charCodeAt(end - 1) === 10) end--
  return output.slice(0, end)
}

/** Fields of a word whose braces are expanded. */
const expandParts = (word: Word, scope: Scope): ReadonlyArray<Field> => {
  const done: Array<Field> = []
  let now = draft()
  const separators = separatorsOf(scope.variables.get("IFS"))
  const finish = (): void => {
    const { started, ...field } = now
    if (started) done.push(field)
    now = draft()
  }
  const append = (value: string, quoted: boolean): void => {
    if (!scope.spend(value.length)) {
      now.unknown = now.started = true
      return
    }
    if (quoted || !separators.test(value)) {
      now.text += value
      now.shown += value
      now.started ||= quoted || value !== ""
      now.glob ||= !quoted && /[*?[]/.test(value)
      return
    }
    value.split(separators).forEach((piece, index) => {
      if (index > 0) finish()
      if (piece !== "") append(piece, false)
    })
  }
  const unknown = (shown: string): void => {
    now.unknown = now.started = true
    now.shown += shown
  }
  for (const part of word) {
    switch (part._tag) {
      case "Text":
        if (part.text !== "" || part.quoted) {
          now.started = true
          now.text += part.text
          now.shown += part.text
          now.glob ||= !part.quoted && /[*?[]/.test(part.text)
        }
        break
      case "Variable": {
        const value = valueOf(part, scope)
        now.variables.push(part.name.split("[", 1)[0] ?? "")
        if (value === undefined) unknown(part.name === "((" ? "$((…))" : `$${part.name}`)
        // A list keeps its items apart, quoted or not.
        else append(value, part.quoted && part.name !== "@" && !part.name.endsWith("[@]"))
        break
      }
      case "Substitution": {
        const { commands, output } = scope.run(part.script)
        for (const command of commands) now.commands.push(command)
        if (part.asFile || output === undefined) unknown(part.asFile ? "<(…)" : "$(…)")
        else append(withoutNewlines(output), part.quoted)
      }
    }
  }
  finish()
  return done
}

const maxAlternatives = 64

/** `{a,b}` in unquoted text: one word for each alternative. */
const braces = (word: Word): ReadonlyArray<Word> => {
  const at = word.findIndex((part) => part._tag === "Text" && !part.quoted && part.text.includes("{"))
  if (at === -1) return [word]
  const commas = word.some((part) => part._tag === "Text" && !part.quoted && part.text.includes(","))
  if (!commas) return [word]
  // Cut into single unquoted characters, so that a quoted comma is none.
  const atoms = word.flatMap((part): ReadonlyArray<Part> =>
    part._tag === "Text" && !part.quoted
      ? (part.text.match(/[{},]|[^{},]+/g) ?? []).map((text) => ({ _tag: "Text", text, quoted: false }))
      : [part]
  )
  const isAtom = (part: Part | undefined, text: string) => part?._tag === "Text" && !part.quoted && part.text === text
  const expandFrom = (atoms: Word, depth: number): ReadonlyArray<Word> => {
    if (depth > 8) return [atoms]
    const open = atoms.findIndex((part) => isAtom(part, "{"))
    if (open === -1) return [atoms]
    const alternatives: Array<Word> = []
    let level = 0
    let start = open + 1
    for (let index = open; index < atoms.length; index++) {
      if (isAtom(atoms[index], "{")) level++
      else if (isAtom(atoms[index], ",") && level === 1) {
        alternatives.push(atoms.slice(start, index))
        start = index + 1
      } else if (isAtom(atoms[index], "}") && --level === 0) {
        if (alternatives.length === 0) return [atoms]
        alternatives.push(atoms.slice(start, index))
        const before = atoms.slice(0, open)
        const after = atoms.slice(index + 1)
        return alternatives.slice(0, maxAlternatives).flatMap((middle) =>
          expandFrom([...before, ...middle, ...after], depth + 1)
        ).slice(0, maxAlternatives)
      }
    }
    return [atoms]
  }
  return atoms.length > 512 ? [word] : expandFrom(atoms, 0)
}

/** The fields that a word becomes. */
export const expand = (word: Word, scope: Scope): ReadonlyArray<Field> =>
  braces(word).flatMap((alternative) => expandParts(alternative, scope))

/** The one field that a word becomes where words are not split: assignments, targets of redirections. */
export const expandWhole = (word: Word, scope: Scope): Field => {
  const fields = expandParts(word, scope)
  const [first] = fields
  if (first !== undefined && fields.length === 1) return first
  return {
    text: fields.map(({ text }) => text).join(" "),
    shown: fields.map(({ shown }) => shown).join(" "),
    unknown: fields.some(({ unknown }) => unknown),
    glob: fields.some(({ glob }) => glob),
    variables: fields.flatMap(({ variables }) => variables),
    commands: fields.flatMap(({ commands }) => commands)
  }
}
