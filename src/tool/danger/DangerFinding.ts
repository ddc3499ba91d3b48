/**
 * Reason why a command is dangerous: the family that it belongs to and one sentence about it. An approval
 * holds for the command, never for the sentence.
 *
 * Source: `hermes-llm.md` §19.7 ("each pattern has a human description which is also its approval key").
 */

import type { Command } from "./Command.ts"

/** The families of dangerous commands. */
const families = [
  "file destruction",
  "privilege",
  "disk",
  "exfiltration",
  "history rewriting",
  "process kill",
  "remote code",
  "encoded payload",
  "configuration tampering",
  "database",
  "service",
  "inline code",
  "container",
  "shutdown",
  "unreadable"
] as const

/** One of {@link families}. */
export type Family = typeof families[number]

/** Gravity: `floor` never runs, whatever allows it; `ask` runs when it is approved. */
export type Gravity = "floor" | "ask"

/** A danger of a command. */
export interface Finding {
  readonly family: Family
  readonly gravity: Gravity
  /** Why, for people and for hooks (`pattern_key`). */
  readonly key: string
}

/** Something to ask about. */
export const ask = (family: Family, key: string): Finding => ({ family, gravity: "ask", key })

/** Something that never runs. */
export const floor = (family: Family, key: string): Finding => ({ family, gravity: "floor", key })

/** One rule: what it finds in one command. */
export type Rule = (command: Command) => Finding | undefined

/** Returns the paths that a command writes by redirection. */
export const written = ({ redirects }: Command): ReadonlyArray<string> =>
  redirects
    .filter(({ operator, target }) =>
      operator.includes(">") && !(operator === ">&" && /^(?:\d+|-)$/.test(target.text)))
    .map(({ target }) => target.shown)

/** True when help or the version is all that is asked for. */
export const asksForHelp = (args: ReadonlyArray<string>): boolean =>
  args.some((arg) => arg === "--help" || arg === "--version") || args.length === 1 && (args[0] === "-h" || args[0] === "-V")

/** A set of names from a text of words. */
export const named = (words: string): ReadonlySet<string> => new Set(words.trim().split(/\s+/))
