/**
 * Read-only words of the shell's builtin commands. Some evaluate their arguments, and a subscript in an argument runs a
 * command (`wait -p 'a[$(…)]'`, `test -v`, `[[ … -eq … ]]`); `jobs -x` runs the rest of its words.
 */
import { makeTable, type Command, type Field } from "../Command.ts"
import { countFlagWords, type Grammar, makeGrammar } from "./FlagGrammar.ts"
import * as Wrappers from "../Wrappers.ts"

const variable = /^(?!.*path$)[a-z_][a-z0-9_]{0,30}$/

/** A `%n` in the format of `printf` sets a variable. */
const isPlainFormat = ({ fields }: Command): boolean => {
  const [first, second] = fields
  const format = first?.text === "--" ? second : first
  if (format === undefined || first?.unknown === true || format.unknown || format.varies) return false
  return (first?.text === "--" || !format.text.startsWith("-")) && !/%[-+ #0-9.*'hlLjzt]{0,40}n/.test(format.text)
}

const unary = /^-[bcdefghknprstuwxzGLNOS]$/
const binary = /^(?:=|==|!=|<|>|-eq|-ne|-lt|-le|-gt|-ge|-nt|-ot|-ef)$/

/** Shell parameters whose value is always a number. */
const isNumber = ({ shown }: Field): boolean => /^\$[?#$!]$/.test(shown)

/** Returns true if the test has the same form regardless of values that are known only at run time. */
const hasOneForm = (fields: ReadonlyArray<Field>): boolean => {
  const words = fields[0]?.text === "!" && !fields[0].unknown ? fields.slice(1) : fields
  const isOpen = (field: Field | undefined): boolean => field !== undefined && field.unknown && !isNumber(field)
  if (!words.some(isOpen)) return true
  if (words.some((field) => isOpen(field) && field.splits)) return false
  const isWord = (at: number, pattern: RegExp): boolean => words[at]?.unknown === false && pattern.test(words[at].text)
  return words.length === 1 || (words.length === 2 && isWord(0, unary)) || (words.length === 3 && isWord(1, binary))
}

const isPlainTest = ({ called, fields }: Command): boolean => {
  const words = called.text === "[" && fields.at(-1)?.text === "]" ? fields.slice(0, -1) : fields
  return words.every(({ text }) => !/^-[vR]$/.test(text)) && hasOneForm(words)
}

const isNumbered =
  (pattern: RegExp) =>
  ({ fields }: Command): boolean =>
    fields.every((field) => isNumber(field) || (!field.unknown && pattern.test(field.text)))

/** Builtin commands of the shell and their flags. */
export const builtins = makeTable<Grammar>([
  ["jobs", makeGrammar("-lnprs", { operands: /^%?[\w+%-]*$/ })],
  ["dirs", makeGrammar("-lpv", { operands: /^\+\d+$/ })],
  ["cd pushd", makeGrammar("-LPe", { open: "values", check: ({ operands }) => operands.length <= 1 })],
  ["sleep", makeGrammar("", { open: "values" })],
  [
    "set",
    makeGrammar("-eux -o=", {
      operands: /^\+[eux]*o?$|^pipefail$/,
      check: ({ flags }) =>
        flags.get("-o")?.every((name) => name === "pipefail" || name === "errexit" || name === "nounset") !== false
    })
  ],
  ["read", makeGrammar("-rs -d=* -n=# -N=# -p=* -t=# -u=#", { operands: variable })],
  ["type", makeGrammar("-afpPt", { open: "values" })]
])

/** Builtin commands of the shell whose words are not flags, each with a condition. */
export const tests = makeTable<(command: Command) => boolean>([
  ["echo true false : expr", () => true],
  ["exit return break continue", isNumbered(/^\d{1,9}$/)],
  ["wait", isNumbered(/^(?:-[nf]|%?\d{1,9})$/)],
  ["printf", isPlainFormat],
  ["test [", isPlainTest],
  // Numeric operands are expressions, which may contain commands.
  ["[[", ({ args }) => !args.some((arg) => /^-(?:v|R|eq|ne|lt|le|gt|ge)$/.test(arg))]
])

/** Flags of programs that run their remaining words, which are judged separately. */
const wrapping = makeTable<Grammar>([
  ["time", makeGrammar("-p")],
  ["timeout", makeGrammar("-v -k= -s= --foreground --preserve-status --verbose --kill-after= --signal=")],
  ["nice", makeGrammar("-n=* -# --adjustment=#")],
  ["ionice", makeGrammar("-t -c=# -n=# --ignore --class= --classdata=#")],
  ["stdbuf", makeGrammar("-i= -o= -e= --input= --output= --error=")],
  ["command", makeGrammar("-pvV")],
  ["builtin", makeGrammar("")],
  [
    "xargs",
    makeGrammar(
      "-0rtx -n=# -L=# -P=# -s=# -d=* -I= --null --no-run-if-empty --max-args=# --max-lines=# --max-procs=# " +
        "--delimiter=* --verbose"
    )
  ]
])

/** Returns true for a program that runs its remaining words. */
export const isWrapping = (program: string): boolean => wrapping.has(program)

/** Returns true if the flags of a wrapper are harmless, so that only the program after them must be judged. */
export const isPlainWrapper = ({ called, fields, program }: Command): boolean => {
  const grammar = wrapping.get(program)
  if (grammar === undefined) return false
  // The program of this name can write a file; the shell keyword accepts one flag.
  if (program === "time" && called.text !== "time") return false
  const own = countFlagWords(grammar, fields)
  if (own === undefined) return false
  if (program === "command" && fields.slice(0, own).some(({ text }) => /[vV]/.test(text))) return true
  const at = program === "timeout" ? own + 1 : own
  if (fields.slice(0, at).some(({ commands, unknown, varies }) => unknown || varies || commands.length > 0))
    return false
  const inner = Wrappers.unwrapCommand(program, fields, undefined)
  return inner === undefined ? at >= fields.length : inner.length === fields.length - at
}

/** Flags of a shell before a script; the flag directly before the script comes last. */
const scriptFlags = /^(?:(?:-[eux]+|-[eux]*o (?:pipefail|errexit|nounset)) )*-[eux]*c$/

/**
 * Syntax that the system's plain shell may read differently from bash: an unsupported quote, redirection or terminator.
 */
const unlikeBash = /\$['"]|\[\[|[<>]\(|<<<|&>|\|&|;&|;;&/

/**
 * Returns the script of `bash -c SCRIPT` and `sh -c SCRIPT`; `undefined` if words follow the script or are not known.
 */
export const findShellScript = ({ fields, program }: Command): string | undefined => {
  const script = fields.at(-1)
  const flags = fields.slice(0, -1)
  if (script === undefined || !/^(?:ba|da)?sh$/.test(program) || /^[-+]|\{\}/.test(script.text)) return undefined
  const isKnown = fields.every(
    ({ commands, glob, unknown, varies }) => !unknown && !varies && !glob && commands.length === 0
  )
  const isPlain =
    flags.every(({ text }) => !/\s/.test(text)) && scriptFlags.test(flags.map(({ text }) => text).join(" "))
  return isKnown && isPlain && (program === "bash" || !unlikeBash.test(script.text)) ? script.text : undefined
}
