/**
 * Programs whose words are a language: `sed`, `awk`, `find`, and the listings of `tar`. Each is known by the part of
 * its language that only shows something.
 */
import { makeTable, type Command, type Field, parseNames } from "../Command.ts"
import { type Grammar, makeGrammar, matchCommand, type Words } from "./FlagGrammar.ts"

/** Text up to a delimiter; a bracket expression may not hold one, because systems disagree on what it means there. */
const makeUpToPattern = (delimiter: string): string =>
  String.raw`(?:(?!${delimiter})[^\\;\n[]|\\[^\n;]|\[(?:(?!${delimiter})[^\]\\;\n])+\])*`

const address = String.raw`(?:\d+(?:~\d+)?|\$|/${makeUpToPattern("/")}/I?)`
const substitution = ["/", "\\|", "#", ",", "@", ":"]
  .map((mark) => `s${mark}${makeUpToPattern(mark)}${mark}${makeUpToPattern(mark)}${mark}[gpiI\\d]{0,4}`)
  .join("|")
const sedCommand = new RegExp(
  String.raw`^\s*(?:${address}(?:,(?:[+~]\d+|${address}))?\s*)?(?:!\s*)?(?:[pdqQ=]|${substitution})?\s*$`
)

/** True for a script that prints, deletes and substitutes, and writes no file. */
const isPlainSed = (script: string): boolean =>
  script.length <= 500 &&
  script
    .split(/[;\n]/)
    .slice(0, 33)
    .every((part) => sedCommand.test(part)) &&
  script.split(/[;\n]/).length <= 32

/** A name that `find` puts into its place is no script. */
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

/** A comparison of a pattern, before any action and any text in quotes: no output goes anywhere there. */
const comparison = /^([^{}"'/\\>|@`]{0,200})>=?/

const isPlainAwk = (script: string): boolean => {
  let text = script.replaceAll("||", " ")
  for (let count = 0; count < 8 && comparison.test(text); count++) text = text.replace(comparison, "$1 ")
  return script.length <= 2_000 && !awkWrites.test(text)
}

/** A file of this name is a connection. */
const isConnection = ({ text }: Field): boolean => /^\/+inet/.test(text)

const awk = makeGrammar("-F=* -v=*", {
  check: ({ isMixed, operands: [script, ...files] }) =>
    script !== undefined &&
    isOwnScript(script) &&
    isPlainAwk(script.text) &&
    !isMixed &&
    files.every((file) => !file.text.startsWith("-") && !isConnection(file))
})

/** Tests and actions of `find` without a value, and those with one. */
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

/** True for a command that names nothing but places below the directory of the call. */
export const isBelowDirectory = ({ cwd, fields, isAway }: Command): boolean =>
  cwd === undefined &&
  !isAway &&
  fields.every(
    ({ commands, text, unknown }) => !unknown && commands.length === 0 && !/^[/~]|(?:^|\/)\.\.(?:\/|$)/.test(text)
  )

/** Index of the word that ends a command of `-exec`; undefined where programs disagree on it. */
const findCommandEnd = (args: ReadonlyArray<string>, start: number): number | undefined => {
  for (let index = start; index < args.length; index++) {
    if (args[index] === ";") return index
    if (args[index] === "+") return args[index - 1] === "{}" ? index : undefined
  }
  return undefined
}

/** True for a search that writes nothing; the command after `-exec` is judged on its own. */
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

/** Of an archive on this machine the names alone; a colon would name another machine. */
const isPlainListing = ({ args }: Command): boolean =>
  /^-?t[vzjJf]*$/.test(args[0] ?? "") && args.slice(1).every((arg) => !arg.startsWith("-") && !arg.includes(":"))

const makeMatcher =
  (grammar: Grammar) =>
  (command: Command): boolean =>
    matchCommand(grammar, command) !== undefined

/** Programs whose words are a language, each with its condition. */
export const scripted = makeTable<(command: Command) => boolean>([
  ["sed", makeMatcher(sed)],
  ["awk gawk mawk", makeMatcher(awk)],
  ["find", isPlainFind],
  ["tar", isPlainListing]
])

/** True when a command that `find` or `xargs` runs has the names that it is handed as words by themselves. */
export const hasWholeNames = ({ args }: Command): boolean => args.every((arg) => arg === "{}" || !arg.includes("{}"))
