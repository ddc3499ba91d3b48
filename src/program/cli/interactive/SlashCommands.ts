/**
 * Commands of a session: lines that begin with a slash. They are data, so that plugins can provide commands.
 *
 * A command is found by its name or an alias, ignoring case, or by an unambiguous prefix. If two commands have the same
 * name, the first in the list is used.
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
  /** Sends a prompt to the agent. */
  | { readonly _tag: "Send"; readonly prompt: RunInput["prompt"] }
  /** Executes a line as if the user had typed it. */
  | { readonly _tag: "Type"; readonly line: string }

/** The session waits for the next line. */
export const stay: Next = { _tag: "Stay" }

/** A word that completes an argument. */
export interface ArgumentWord {
  readonly label: string
  readonly detail?: string | undefined
  readonly value: string
}

/** A command. `Session` is the part of the session that it uses, and `R` the services that it needs. */
export interface Command<in Session, out R = never> {
  /** Name without the slash. */
  readonly name: string
  readonly aliases?: ReadonlyArray<string> | undefined
  /** Arguments shown in the help: `[NAME]`. */
  readonly usage?: string | undefined
  /** Description in one line. */
  readonly help: string
  /** Words that complete its argument, for the list below the line. */
  readonly words?: ((session: Session) => Effect.Effect<ReadonlyArray<ArgumentWord>, never, R>) | undefined
  readonly run: (argument: string, session: Session) => Effect.Effect<Next, never, R>
  /** Action of the command during a turn; `undefined` if the command waits for the end of the turn. */
  readonly meanwhile?:
    | ((argument: string, session: Session, work: RunningWork) => Effect.Effect<void, never, R>)
    | undefined
}

/** Operations that a command can perform on the running work. */
interface RunningWork {
  /** Asks the running work to end. */
  readonly stop: Effect.Effect<void>
  /** Sends a message: after the work, or with the next tool result if possible. */
  readonly send: (text: string, busy: "queue" | "steer") => Effect.Effect<void>
}

/** Result of looking up a typed name. */
export type CommandMatch<C> =
  | { readonly _tag: "Command"; readonly command: C }
  | { readonly _tag: "Several"; readonly names: ReadonlyArray<string> }
  | { readonly _tag: "Unknown"; readonly meant: ReadonlyArray<string> }

const maxSuggestions = 3

type CommandNames = Pick<Command<never>, "name" | "aliases">

/** Lists the name of a command and its aliases. */
export const listNames = ({ aliases = [], name }: CommandNames): ReadonlyArray<string> => [name, ...aliases]

/** Finds a command by its name, an alias, or an unambiguous prefix, ignoring case. */
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

/**
 * Parses a line of the form `/name argument`; returns `undefined` for any other line, such as a path or a line that
 * begins with a space.
 */
export const parse = (line: string): { readonly name: string; readonly argument: string } | undefined => {
  const found = /^\/([\w?-]*)(?:\s+(.*))?$/s.exec(line.trimEnd())
  return found === null ? undefined : { name: found[1] ?? "", argument: (found[2] ?? "").trim() }
}

/** Completes a line. Returns a longer line, or the possible names. */
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
