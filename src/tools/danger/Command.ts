/** A command as the rules see it: expanded, without its wrappers, with the commands that pipe into it. */
import type { Terminator } from "../shell/ShellTree.ts"

/** A word after expansion. */
export interface Field {
  /** Text of the word, as far as it is known; unknown values count as nothing. */
  readonly text: string
  /** As {@link Field.text}, with the names of unknown variables. */
  readonly shown: string
  /** True when a value in it is not known. */
  readonly unknown: boolean
  /** True when a variable is in it, which may have another value when it is used again. */
  readonly varies: boolean
  /** True when an unquoted value is its beginning, or is not known: it may be several words, or none. */
  readonly splits: boolean
  /** True when `*`, `?` or `[` in it match files. */
  readonly glob: boolean
  /** Commands whose output it includes, or that it names as a file. */
  readonly commands: ReadonlyArray<Command>
}

/** Target or origin of a redirection. */
export interface Redirect {
  readonly operator: string
  readonly target: Field
}

/** A command as the rules see it. */
export interface Command {
  /** In lower case, without its directory; empty when it is not known. */
  readonly program: string
  /** The word that names the program, as it is written. */
  readonly called: Field
  readonly args: ReadonlyArray<string>
  readonly fields: ReadonlyArray<Field>
  readonly redirects: ReadonlyArray<Redirect>
  readonly assignments: ReadonlyArray<readonly [name: string, value: string]>
  /** Commands that write into its standard input, nearest last. */
  readonly input: ReadonlyArray<Command>
  /** Text of its standard input, when it is known. */
  readonly stdin: string | undefined
  readonly terminator: Terminator
  /** The functions whose bodies contain it. */
  readonly inside: ReadonlyArray<string>
  /** The directory that it runs in, when the line says so. */
  readonly cwd: string | undefined
  /** True when the line changes to a directory that only the machine knows; {@link Command.cwd} is undefined then. */
  readonly isAway: boolean
  /** Programs that run it: `sudo`, `xargs`, `docker`. */
  readonly wrappers: ReadonlyArray<string>
}

/** A field of known text. */
export const toKnownField = (text: string): Field => ({
  text,
  shown: text,
  unknown: false,
  varies: false,
  splits: false,
  glob: false,
  commands: []
})

/** A program's name as rules know it. */
export const toProgramName = (text: string): string =>
  text
    .slice(Math.max(text.lastIndexOf("/"), text.lastIndexOf("\\")) + 1)
    .toLowerCase()
    .replace(/\.(?:exe|cmd|bat)$/, "")

/** Number of the words before `--`. */
const findOptionsEnd = (args: ReadonlyArray<string>): number => (args.includes("--") ? args.indexOf("--") : args.length)

/** Returns the words that are no flags, and everything after `--`. */
export const selectOperands = (args: ReadonlyArray<string>): ReadonlyArray<string> => [
  ...args.slice(0, findOptionsEnd(args)).filter((arg) => !arg.startsWith("-") || arg === "-"),
  ...args.slice(findOptionsEnd(args) + 1)
]

/** True when a group of short flags contains one of the letters, or a long flag (also shortened) is present. */
export const hasFlag = (args: ReadonlyArray<string>, letters: string, long: ReadonlyArray<string> = []): boolean =>
  args.slice(0, findOptionsEnd(args)).some((flag) => {
    if (flag.length < 2 || !flag.startsWith("-")) return false
    if (!flag.startsWith("--")) return Array.from(flag.slice(1)).some((letter) => letters.includes(letter))
    const name = flag.slice(2).split("=", 1)[0] ?? ""
    return name !== "" && long.some((item) => item === name || (name.length > 2 && item.startsWith(name)))
  })

// Reason why a command is dangerous: the family that it belongs to and one sentence about it. An approval
// holds for the command, never for the sentence.
//
// Source: `hermes-llm.md` §19.7 ("each pattern has a human description which is also its approval key").

/** The families of dangerous commands. */
export type Family =
  | "file destruction"
  | "privilege"
  | "disk"
  | "exfiltration"
  | "history rewriting"
  | "publication"
  | "process kill"
  | "remote code"
  | "encoded payload"
  | "configuration tampering"
  | "database"
  | "inline code"
  | "container"
  | "shutdown"
  | "unreadable"
  | "unknown"

/** A danger of a command. */
export interface Finding {
  readonly family: Family
  /** `floor` never runs, regardless of any permission; `ask` runs if approved. */
  readonly gravity: "floor" | "ask"
  /** The reason, for people and for hooks (`pattern_key`). */
  readonly key: string
}

/** Something to ask about. */
export const makeFinding = (family: Family, key: string): Finding => ({ family, gravity: "ask", key })

/** Something that never runs. */
export const makeFloorFinding = (family: Family, key: string): Finding => ({ family, gravity: "floor", key })

/** One rule: returns its finding in one command. */
export type Rule = (command: Command) => Finding | undefined

/** Returns the paths that a command writes by redirection. */
export const listRedirectTargets = ({ redirects }: Command): ReadonlyArray<string> =>
  redirects
    .filter(({ operator, target }) => operator.includes(">") && !(operator === ">&" && /^(?:\d+|-)$/.test(target.text)))
    .map(({ target }) => target.shown)

/** True when help or the version is all that is asked for. */
export const isHelpRequest = (args: ReadonlyArray<string>): boolean =>
  args.some((arg) => arg === "--help" || arg === "--version") ||
  (args.length === 1 && (args[0] === "-h" || args[0] === "-V"))

/** A set of names from a text of words. */
export const parseNames = (words: string): ReadonlySet<string> => new Set(words.trim().split(/\s+/))

/** A table by names of programs, from rows of several names. */
export const makeTable = <A>(rows: ReadonlyArray<readonly [names: string, value: A]>): ReadonlyMap<string, A> =>
  new Map(rows.flatMap(([names, value]) => names.split(" ").map((name) => [name, value] as const)))

/** A danger defined by the name of a program and its words. */
export type Row = readonly [program: RegExp, words: RegExp, family: Family, key: string]

/** The first row that fits a command. */
export const makeRowRule =
  (rows: ReadonlyArray<Row>, readWords: (args: ReadonlyArray<string>) => string = (args) => args.join(" ")): Rule =>
  ({ args, program }) => {
    const own = program === "" || isHelpRequest(args) ? [] : rows.filter(([name]) => name.test(program))
    const words = own.length === 0 ? "" : readWords(args)
    const found = own.find(([, pattern]) => pattern.test(words))
    return found === undefined ? undefined : makeFinding(found[2], found[3])
  }
