/**
 * Commands of a session: lines that begin with a slash. They are data, so that plugins can bring some.
 *
 * A command is found by its name or one of its other names, in any case, or by the beginning of exactly one command. Of
 * two commands with one name the first in the list is meant.
 *
 * Source: `hermes-product.md` §1.8.
 */
import type * as Effect from "effect/Effect"
import type { RunInput } from "../../../agent/RunInput.ts"
import { findClosest } from "../../../base/domain/Similarity.ts"

/** Next step of the session after a command. */
export type Next =
  | { readonly _tag: "Stay" }
  | { readonly _tag: "Leave"; readonly code: number }
  /** Asks the agent. */
  | { readonly _tag: "Send"; readonly prompt: RunInput["prompt"] }
  /** Does what the user could have typed. */
  | { readonly _tag: "Type"; readonly line: string }

/** The session waits for the next line. */
export const stay: Next = { _tag: "Stay" }

/** A word that an argument may be. */
export interface ArgumentWord {
  readonly label: string
  readonly detail?: string | undefined
  readonly value: string
}

/** A command. `Session` is what it may use of the session, `R` the services that it needs. */
export interface Command<in Session, out R = never> {
  /** Without the slash. */
  readonly name: string
  readonly aliases?: ReadonlyArray<string> | undefined
  /** Arguments for the help: `[NAME]`. */
  readonly usage?: string | undefined
  /** One line. */
  readonly help: string
  /** Words that its argument may be, for the list below the line. */
  readonly words?: ((session: Session) => Effect.Effect<ReadonlyArray<ArgumentWord>, never, R>) | undefined
  readonly run: (argument: string, session: Session) => Effect.Effect<Next, never, R>
  /** Behaviour during a turn; without it the command waits for the end of the turn. */
  readonly meanwhile?:
    | ((argument: string, session: Session, work: RunningWork) => Effect.Effect<void, never, R>)
    | undefined
}

/** Operations of a command on the running work. */
interface RunningWork {
  /** Asks it to end. */
  readonly stop: Effect.Effect<void>
  /** Sends a message: for afterwards, or along with the next tool result where that can be. */
  readonly send: (text: string, busy: "queue" | "steer") => Effect.Effect<void>
}

/** Result of looking up a typed name. */
export type CommandMatch<C> =
  | { readonly _tag: "Command"; readonly command: C }
  | { readonly _tag: "Several"; readonly names: ReadonlyArray<string> }
  | { readonly _tag: "Unknown"; readonly meant: ReadonlyArray<string> }

const maxSuggestions = 3

type CommandNames = Pick<Command<never>, "name" | "aliases">

/** The name of a command and its other names. */
export const listNames = ({ aliases = [], name }: CommandNames): ReadonlyArray<string> => [name, ...aliases]

/** Finds a command by its name, another name of it, or an unambiguous beginning, in any case of letters. */
export const find = <C extends CommandNames>(commands: ReadonlyArray<C>, typed: string): CommandMatch<C> => {
  const name = typed.toLowerCase()
  const exact = commands.find((command) => listNames(command).some((other) => other.toLowerCase() === name))
  if (exact !== undefined) return { _tag: "Command", command: exact }
  const begun =
    name === "" ? [] : commands.filter((command) => listNames(command).some((other) => other.startsWith(name)))
  const [only] = begun
  if (only !== undefined && begun.length === 1) return { _tag: "Command", command: only }
  return begun.length > 1
    ? { _tag: "Several", names: begun.map((command) => command.name) }
    : { _tag: "Unknown", meant: findClosest(name, commands.flatMap(listNames), maxSuggestions) }
}

/** A line of the form `/name argument`; undefined for any other: a path, a line that begins with a space. */
export const parse = (line: string): { readonly name: string; readonly argument: string } | undefined => {
  const found = /^\/([\w?-]*)(?:\s+(.*))?$/s.exec(line.trimEnd())
  return found === null ? undefined : { name: found[1] ?? "", argument: (found[2] ?? "").trim() }
}

/** Completion of a line: a longer one, or the names that it could become. */
export const complete = (
  commands: ReadonlyArray<CommandNames>,
  line: string
): { readonly line: string; readonly names: ReadonlyArray<string> } => {
  const typed = /^\/([\w?-]*)$/.exec(line)?.[1]?.toLowerCase()
  if (typed === undefined) return { line, names: [] }
  const names = commands
    .flatMap(listNames)
    .filter((name) => name.startsWith(typed))
    .toSorted()
  const [first] = names
  if (first === undefined) return { line, names: [] }
  if (names.length === 1) return { line: `/${first} `, names: [] }
  let common = first
  for (const name of names) {
    while (!name.startsWith(common)) common = common.slice(0, -1)
  }
  return { line: `/${common}`, names }
}
