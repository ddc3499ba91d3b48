/**
 * Expands words as far as the text determines their values: assignments of the script, quotes, braces, the simple
 * operators of `${…}`, and substitutions whose output is known. Everything else remains unknown and counts as empty.
 */
import type { Command, Field } from "./Command.ts"
import type { Part, Script, Word } from "../shell/ShellTree.ts"

/** State of the script that the expansion uses. */
export interface Scope {
  readonly variables: Map<string, string>
  /** Runs a substitution and returns its commands, with its output if that is known. */
  readonly run: (script: Script) => { readonly commands: ReadonlyArray<Command>; readonly output: string | undefined }
  /** Takes characters from the budget; returns false if it is exhausted. */
  readonly spend: (characters: number) => boolean
  /** Words of the values that were treated as arrays, so that each value is split once. */
  readonly words: Map<string, ReadonlyArray<string>>
}

/** Well-known values. `~` represents the home directory. */
const wellKnown = new Map([
  ["HOME", "~"],
  ["IFS", " \t\n"],
  ["#", "0"],
  ...Array.from("@*123456789", (name) => [name, ""] as const)
])
const pathLike = new Set(["HOME", "PWD", "OLDPWD", "PATH", "SHELL", "TMPDIR"])

const makeDraft = () => ({
  text: "",
  shown: "",
  unknown: false,
  splits: false,
  glob: false,
  started: false,
  commands: new Array<Command>()
})

const readOperand = (word: Word, scope: Scope): { readonly text: string; readonly known: boolean } => {
  const fields = expandParts(
    word.map((part) => ({ ...part, quoted: true })),
    scope
  )
  return { text: fields.map(({ text }) => text).join(" "), known: fields.every(({ unknown }) => !unknown) }
}

const readWords = (value: string, { words }: Scope): ReadonlyArray<string> => {
  const known = words.get(value) ?? value.split(/\s+/)
  words.set(value, known)
  return known
}

/** A variable with its operator: the value, and the text after the operator. */
interface VariableUse {
  readonly name: string
  readonly value: string | undefined
  readonly text: string
  /** False if the text after the operator is not known. */
  readonly known: boolean
  readonly scope: Scope
}

/** Returns the default after the operator for a variable that the script does not set. */
const applyDefault = ({ known, name, scope, text, value }: VariableUse): string | undefined => {
  if (scope.variables.has(name) && value !== undefined && value !== "") return value
  return known ? text : undefined
}

/** Returns a part of the value by its position. */
const cutValue = ({ name, text, value }: VariableUse): string | undefined => {
  const [, start = "", length] = /^\s*(-?\d+)\s*(?::\s*(-?\d+))?$/.exec(text) ?? []
  if (start === "") return undefined
  if (pathLike.has(name) && start === "0" && length === "1") return "/"
  return value?.slice(Number(start)).slice(0, length === undefined ? value.length : Number(length))
}

/** Removes a literal from the beginning or the end of the value. */
const trimValue = ({ known, name, text, value }: VariableUse, side: "start" | "end"): string | undefined => {
  if (name === "HOME" || name === "IFS") return value
  if (value === undefined || !known || /[*?[\\]/.test(text)) return undefined
  if (side === "start") return value.startsWith(text) ? value.slice(text.length) : value
  return value.endsWith(text) ? value.slice(0, value.length - text.length) : value
}

/** Values of a variable, by its operator. With other operators, the value is not known. */
const operators = new Map<string, (use: VariableUse) => string | undefined>([
  ["", ({ value }) => value],
  ["!", ({ scope, value }) => (value === undefined ? undefined : scope.variables.get(value))],
  [":-", applyDefault],
  ["-", applyDefault],
  [":=", applyDefault],
  ["=", applyDefault],
  [":", cutValue],
  ["#", (use) => trimValue(use, "start")],
  ["##", (use) => trimValue(use, "start")],
  ["%", (use) => trimValue(use, "end")],
  ["%%", (use) => trimValue(use, "end")],
  ["^^", ({ value }) => value?.toUpperCase()],
  [",,", ({ value }) => value?.toLowerCase()]
])

/** Returns the value of a variable after its operator is applied; `undefined` if it is not known. */
const readVariable = (part: Part & { readonly _tag: "Variable" }, scope: Scope): string | undefined => {
  const { known, text } = readOperand(part.operand, scope)
  const subscript = /^(\w+)\[(.*)\]$/.exec(part.name)
  const name = subscript?.[1] ?? part.name
  const own = scope.variables.get(name) ?? wellKnown.get(name)
  const index = subscript?.[2]
  const value =
    own !== undefined && index !== undefined && /^\d{1,4}$/.test(index)
      ? (readWords(own, scope)[Number(index)] ?? "")
      : own
  return operators.get(part.operator)?.({ name, value, text, known, scope })
}

/** Returns the pattern that separates words; the script may have set `IFS`. */
const makeSeparators = (set: string | undefined): RegExp =>
  set === undefined || set === "" || set.length > 16
    ? /[ \t\n]+/
    : new RegExp(`[ \\t\\n${set.replace(/[\]\\^-]/g, String.raw`\$&`)}]+`)

/** Returns a substitution's output without trailing newlines, as in a shell. */
const trimNewlines = (output: string): string => {
  let end = output.length
  while (end > 0 && output.charCodeAt(end - 1) === 10) end--
  return output.slice(0, end)
}

/** Fields of a word: the complete ones, and the one that is being read. */
class FieldList {
  readonly done: Array<Field> = []
  now = makeDraft()
  readonly #scope: Scope
  /** True if a part of the word is a variable. */
  readonly #varies: boolean
  readonly #separators: RegExp

  constructor(word: Word, scope: Scope) {
    this.#scope = scope
    this.#varies = word.some(({ _tag }) => _tag === "Variable")
    this.#separators = makeSeparators(scope.variables.get("IFS"))
  }

  finishField(): void {
    const { started, ...field } = this.now
    if (started) this.done.push({ ...field, varies: this.#varies })
    this.now = makeDraft()
  }

  /** Adds a known value, which is split unless it is quoted. */
  append(value: string, quoted: boolean): void {
    const { now } = this
    if (!this.#scope.spend(value.length)) {
      now.unknown = now.splits = now.started = true
      return
    }
    if (quoted || !this.#separators.test(value)) {
      now.text += value
      now.shown += value
      now.started ||= quoted || value !== ""
      now.glob ||= !quoted && /[*?[]/.test(value)
      return
    }
    value.split(this.#separators).forEach((piece, index) => {
      if (index > 0) this.finishField()
      if (piece !== "") this.append(piece, false)
    })
  }

  /** Adds a value that is not known. */
  appendUnknown(shown: string, quoted: boolean): void {
    const { now } = this
    now.unknown = now.started = true
    now.splits ||= !quoted
    now.shown += shown
  }

  /** Adds text of the word itself. */
  appendText({ quoted, text }: Extract<Part, { readonly _tag: "Text" }>): void {
    if (text === "" && !quoted) return
    const { now } = this
    now.started = true
    now.text += text
    now.shown += text
    if (quoted) return
    now.glob ||= /[*?[]/.test(text)
    if (/(?<!@)\{(?!\})/.test(text)) now.unknown = now.splits = true
  }
}

/** Returns the fields of a word whose braces are expanded. */
const expandParts = (word: Word, scope: Scope): ReadonlyArray<Field> => {
  const fields = new FieldList(word, scope)
  for (const part of word) {
    switch (part._tag) {
      case "Text":
        fields.appendText(part)
        break
      case "Variable": {
        const value = readVariable(part, scope)
        const { now } = fields
        now.splits ||= !part.quoted && !now.started && !wellKnown.has(part.name)
        if (value === undefined) fields.appendUnknown(part.name === "((" ? "$((…))" : `$${part.name}`, part.quoted)
        // The items of a list remain separate, quoted or not.
        else fields.append(value, part.quoted && part.name !== "@" && !part.name.endsWith("[@]"))
        break
      }
      case "Substitution": {
        const { commands, output } = scope.run(part.script)
        for (const command of commands) fields.now.commands.push(command)
        if (part.asFile || output === undefined)
          fields.appendUnknown(part.asFile ? "<(…)" : "$(…)", part.quoted || part.asFile)
        else fields.append(trimNewlines(output), part.quoted)
      }
    }
  }
  fields.finishField()
  return fields.done
}

/**
 * Expands `{a,b}` within one piece of unquoted text to one word for each alternative. Other braces leave their word
 * unknown.
 */
const expandBraces = (word: Word): ReadonlyArray<Word> => {
  const at = word.findIndex((part) => part._tag === "Text" && !part.quoted && part.text.includes("{"))
  const part = word[at]
  const [, before, list, after] =
    part?._tag === "Text" ? (/^([^{}]*)\{([^{}]*,[^{}]*)\}([^{}]*)$/.exec(part.text) ?? []) : []
  return list === undefined
    ? [word]
    : list
        .split(",")
        .slice(0, 64)
        .map((item) => word.with(at, { _tag: "Text", text: `${before}${item}${after}`, quoted: false }))
}

/** Expands a word to its fields. */
export const expand = (word: Word, scope: Scope): ReadonlyArray<Field> =>
  expandBraces(word).flatMap((alternative) => expandParts(alternative, scope))

/** Expands a word to a single field, for positions without word splitting: assignments and targets of redirections. */
export const expandWhole = (word: Word, scope: Scope): Field => {
  const fields = expandParts(word, scope)
  const [first] = fields
  return first !== undefined && fields.length === 1 ? first : joinFields(fields)
}

/** Joins several fields into one, as `eval` reads them. */
export const joinFields = (fields: ReadonlyArray<Field>): Field => ({
  text: fields.map(({ text }) => text).join(" "),
  shown: fields.map(({ shown }) => shown).join(" "),
  unknown: fields.some(({ unknown }) => unknown),
  varies: fields.some(({ varies }) => varies),
  splits: fields.some(({ splits }) => splits),
  glob: fields.some(({ glob }) => glob),
  commands: fields.flatMap(({ commands }) => commands)
})
