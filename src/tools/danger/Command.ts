/** A command as the rules see it: expanded, without its wrappers, with the commands whose output is piped into it. */
import type { Terminator } from "../shell/ShellTree.ts"

/** A word after expansion. */
export interface Field {
  /** Text of the word, as far as it is known; unknown values count as empty. */
  readonly text: string
  /** Like {@link Field.text}, with the names of unknown variables. */
  readonly shown: string
  /** True if the word contains an unknown value. */
  readonly unknown: boolean
  /** True if the word contains a variable, whose value may differ at the next use. */
  readonly varies: boolean
  /** True if an unquoted value is at its beginning or is unknown, so that the word may become several words or none. */
  readonly splits: boolean
  /** True if `*`, `?` or `[` in the word match files. */
  readonly glob: boolean
  /** Commands whose output the word contains, or that it names as a file. */
  readonly commands: ReadonlyArray<Command>
}

/** Target or source of a redirection. */
export interface Redirect {
  readonly operator: string
  readonly target: Field
}

/** A command as the rules see it. */
export interface Command {
  /** Name of the program in lower case, without its directory; empty if it is not known. */
  readonly program: string
  /** The word that names the program, as written. */
  readonly called: Field
  readonly args: ReadonlyArray<string>
  readonly fields: ReadonlyArray<Field>
  readonly redirects: ReadonlyArray<Redirect>
  readonly assignments: ReadonlyArray<readonly [name: string, value: string]>
  /** Commands that write to its standard input, nearest last. */
  readonly input: ReadonlyArray<Command>
  /** Text of its standard input; `undefined` if not known. */
  readonly stdin: string | undefined
  readonly terminator: Terminator
  /** The functions whose bodies contain the command. */
  readonly inside: ReadonlyArray<string>
  /** The directory in which the command runs, if the line names it. */
  readonly cwd: string | undefined
  /**
   * True if the line changes to a directory that is known only at run time; {@link Command.cwd} is `undefined` then.
   */
  readonly isAway: boolean
  /** Programs that run the command: `sudo`, `xargs`, `docker`. */
  readonly wrappers: ReadonlyArray<string>
}

/** Creates a field of known text. */
export const toKnownField = (text: string): Field => ({
  text,
  shown: text,
  unknown: false,
  varies: false,
  splits: false,
  glob: false,
  commands: []
})

/** Returns the name of a program in the form that rules use. */
export const toProgramName = (text: string): string =>
  text
    .slice(Math.max(text.lastIndexOf("/"), text.lastIndexOf("\\")) + 1)
    .toLowerCase()
    .replace(/\.(?:exe|cmd|bat)$/, "")

/** Returns the number of words before `--`. */
const findOptionsEnd = (args: ReadonlyArray<string>): number => (args.includes("--") ? args.indexOf("--") : args.length)

/** Returns the words that are not flags, and everything after `--`. */
export const selectOperands = (args: ReadonlyArray<string>): ReadonlyArray<string> => [
  ...args.slice(0, findOptionsEnd(args)).filter((arg) => !arg.startsWith("-") || arg === "-"),
  ...args.slice(findOptionsEnd(args) + 1)
]

/**
 * Returns true if a group of short flags contains one of the letters, or a long flag (possibly abbreviated) is present.
 */
export const hasFlag = (args: ReadonlyArray<string>, letters: string, long: ReadonlyArray<string> = []): boolean =>
  args.slice(0, findOptionsEnd(args)).some((flag) => {
    if (flag.length < 2 || !flag.startsWith("-")) return false
    if (!flag.startsWith("--")) return Array.from(flag.slice(1)).some((letter) => letters.includes(letter))
    const name = flag.slice(2).split("=", 1)[0] ?? ""
    return name !== "" && long.some((item) => item === name || (name.length > 2 && item.startsWith(name)))
  })

// Reason why a command is dangerous: the family that it belongs to and one sentence about it. An approval applies to
// the command, never to the sentence.
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
  /** `floor` for a command that never runs, regardless of any permission; `ask` for a command that runs if approved. */
  readonly gravity: "floor" | "ask"
  /** The reason, for people and for hooks (`pattern_key`). */
  readonly key: string
}

/** Creates a finding that requires a question. */
export const makeFinding = (family: Family, key: string): Finding => ({ family, gravity: "ask", key })

/** Creates a finding for a command that never runs. */
export const makeFloorFinding = (family: Family, key: string): Finding => ({ family, gravity: "floor", key })

/** One rule: returns its finding in one command. */
export type Rule = (command: Command) => Finding | undefined

/** Returns the paths that a command writes by redirection. */
export const listRedirectTargets = ({ redirects }: Command): ReadonlyArray<string> =>
  redirects
    .filter(({ operator, target }) => operator.includes(">") && !(operator === ">&" && /^(?:\d+|-)$/.test(target.text)))
    .map(({ target }) => target.shown)

/** Returns true if the arguments request only help or the version. */
export const isHelpRequest = (args: ReadonlyArray<string>): boolean =>
  args.some((arg) => arg === "--help" || arg === "--version") ||
  (args.length === 1 && (args[0] === "-h" || args[0] === "-V"))

/** Returns a set of names from a text of words. */
export const parseNames = (words: string): ReadonlySet<string> => new Set(words.trim().split(/\s+/))

/** Creates a table by program name from rows with several names each. */
export const makeTable = <A>(rows: ReadonlyArray<readonly [names: string, value: A]>): ReadonlyMap<string, A> =>
  new Map(rows.flatMap(([names, value]) => names.split(" ").map((name) => [name, value] as const)))

/** A danger defined by the name of a program and its words. */
export type Row = readonly [program: RegExp, words: RegExp, family: Family, key: string]

/** Creates a rule that returns the finding of the first row that matches a command. */
export const makeRowRule =
  (rows: ReadonlyArray<Row>, readWords: (args: ReadonlyArray<string>) => string = (args) => args.join(" ")): Rule =>
  ({ args, program }) => {
    const own = program === "" || isHelpRequest(args) ? [] : rows.filter(([name]) => name.test(program))
    const words = own.length === 0 ? "" : readWords(args)
    const found = own.find(([, pattern]) => pattern.test(words))
    return found === undefined ? undefined : makeFinding(found[2], found[3])
  }
