/**
 * Programs whose arguments form a language: `sed`, `awk`, `find`, and the listings of `tar`. For each program, only the
 * read-only part of the language is recognized. Each is known by the part of its language that only shows something.
 */
import { makeTable, type Command, type Field, parseNames } from "../Command.ts"
import { type Grammar, makeGrammar, matchCommand, type Words } from "./FlagGrammar.ts"

/**
 * Returns a pattern for text up to a delimiter. A bracket expression may not contain the delimiter, because systems
 * interpret it differently there.
 */
const makeUpToPattern = (delimiter: string): string =>
  String.raw`(?:(?!${delimiter})[^\\;\n[]|\\[^\n;]|\[(?:(?!${delimiter})[^\]\\;\n])+\])*`

const address = String.raw`(?:\d+(?:~\d+)?|\$|/${makeUpToPattern("/")}/I?)`
const substitution = ["/", "\\|", "#", ",", "@", ":"]
  .map((mark) => `s${mark}${makeUpToPattern(mark)}${mark}${makeUpToPattern(mark)}${mark}[gpiI\\d]{0,4}`)
  .join("|")
const sedCommand = new RegExp(
  String.raw`^\s*(?:${address}(?:,(?:[+~]\d+|${address}))?\s*)?(?:!\s*)?(?:[pdqQ=]|${substitution})?\s*$`
)

/** Returns true for a script that prints, deletes and substitutes, and writes no file. */
const isPlainSed = (script: string): boolean =>
  script.length <= 500 &&
  script
    .split(/[;\n]/)
    .slice(0, 33)
    .every((part) => sedCommand.test(part)) &&
  script.split(/[;\n]/).length <= 32

/** Returns true if the script is not a name inserted by `find`. */
const isOwnScript = (script: Field): boolean =>
  !script.unknown && !script.varies && !script.glob && !script.text.includes("{}")

const checkSed = ({ flags, operands }: Words): boolean => {
  const given = [...(flags.get("-e") ?? []), ...(flags.get("--expression") ?? [])]
  if (given.length > 0) return given.every(isPlainSed)
  const [script] = operands
  return script !== undefined && isOwnScript(script) && isPlainSed(script.text)
}

const sed = makeGrammar(
  "-nErsuz -e=* --quiet --silent --regexp-extended --separate --unbuffered --null-data --expression=* --posix",
  { check: checkSed }
)

const awkWrites = /system|getline|[|>@`]|-i\b|close|fflush|ENVIRON|ARGV|PROCINFO|SYMTAB|FUNCTAB/

/** Matches a comparison in a pattern, before any action and any quoted text, so that no output can be redirected. */
const comparison = /^([^{}"'/\\>|@`]{0,200})>=?/

const isPlainAwk = (script: string): boolean => {
  let text = script.replaceAll("||", " ")
  for (let count = 0; count < 8 && comparison.test(text); count++) text = text.replace(comparison, "$1 ")
  return script.length <= 2_000 && !awkWrites.test(text)
}

/** Returns true for a file name that opens a connection. */
const isConnection = ({ text }: Field): boolean => /^\/+inet/.test(text)

const awk = makeGrammar("-F=* -v=*", {
  check: ({ isMixed, operands: [script, ...files] }) =>
    script !== undefined &&
    isOwnScript(script) &&
    isPlainAwk(script.text) &&
    !isMixed &&
    files.every((file) => !file.text.startsWith("-") && !isConnection(file))
})

/** Tests and actions of `find` that take no value. */
const findAlone = parseNames(`
  -print -print0 -ls -prune -o -or -a -and -not ! ( ) , -empty -d -depth -xdev -mount -follow -readable -writable
  -executable -true -false -quit -daystart -noleaf -nouser -nogroup -nowarn -warn -ignore_readdir_race
  -noignore_readdir_race -x -X
`)
const findValued = parseNames(`
  -name -iname -path -ipath -wholename -iwholename -type -xtype -maxdepth -mindepth -size -mtime -atime -ctime -mmin
  -amin -cmin -newer -anewer -cnewer -newermt -newerat -newerct -newermm -user -group -uid -gid -perm -regex -iregex
  -regextype -links -inum -samefile -lname -ilname -fstype -used -printf -context
`)
const findStart = /^(?:-[HLPEsX]|-O\d)$/

/** Returns true for a command that names only paths below the directory of the call. */
export const isBelowDirectory = ({ cwd, fields, isAway }: Command): boolean =>
  cwd === undefined &&
  !isAway &&
  fields.every(
    ({ commands, text, unknown }) => !unknown && commands.length === 0 && !/^[/~]|(?:^|\/)\.\.(?:\/|$)/.test(text)
  )

/** Returns the index of the word that ends a command of `-exec`; `undefined` if programs disagree on it. */
const findCommandEnd = (args: ReadonlyArray<string>, start: number): number | undefined => {
  for (let index = start; index < args.length; index++) {
    if (args[index] === ";") return index
    if (args[index] === "+") return args[index - 1] === "{}" ? index : undefined
  }
  return undefined
}

/** Returns true for a search that writes nothing. The command after `-exec` is judged separately. */
const isPlainFind = (command: Command): boolean => {
  const { args, fields } = command
  const isVarying = fields.some(({ varies }) => varies)
  if (fields.some(({ commands, unknown }) => unknown || commands.length > 0)) return false
  let index = 0
  while (index < args.length && (findStart.test(args[index] ?? "") || !/^[-(!),]/.test(args[index] ?? ""))) index++
  for (; index < args.length; index++) {
    const word = args[index] ?? ""
    if (findAlone.has(word)) continue
    if (findValued.has(word)) {
      const value = fields[++index]
      if (value === undefined || value.glob || (isVarying && value.text.startsWith("-"))) return false
    } else if (word === "-exec" && isBelowDirectory(command)) {
      const end = findCommandEnd(args, index + 1)
      if (end === undefined || end === index + 1) return false
      index = end
    } else return false
  }
  return true
}

/** Returns true for a listing of the names in an archive on this machine; a colon would name another machine. */
const isPlainListing = ({ args }: Command): boolean =>
  /^-?t[vzjJf]*$/.test(args[0] ?? "") && args.slice(1).every((arg) => !arg.startsWith("-") && !arg.includes(":"))

const makeMatcher =
  (grammar: Grammar) =>
  (command: Command): boolean =>
    matchCommand(grammar, command) !== undefined

/** Programs whose arguments form a language, each with its condition. */
export const scripted = makeTable<(command: Command) => boolean>([
  ["sed", makeMatcher(sed)],
  ["awk gawk mawk", makeMatcher(awk)],
  ["find", isPlainFind],
  ["tar", isPlainListing]
])

/** Returns true if a command run by `find` or `xargs` receives the inserted names as separate words. */
export const hasWholeNames = ({ args }: Command): boolean => args.every((arg) => arg === "{}" || !arg.includes("{}"))
