/**
 * One rule: what it finds in one command.
 *
 * @since 0.1.0
 */
import type { Command } from "../Command.ts"
import type { Finding } from "../Finding.ts"

/** See the module. */
export type Rule = (command: Command) => Finding | undefined

/** Where a command writes by redirection. */
export const written = ({ redirects }: Command): ReadonlyArray<string> =>
  redirects
    .filter(({ operator, target }) =>
      operator.includes(">") && !(operator === ">&" && /^(?:\d+|-)$/.test(target.text)))
    .map(({ target }) => target.shown)

/** Whether help or the version is all that is asked for. */
export const asksForHelp = (args: ReadonlyArray<string>): boolean =>
  args.some((arg) => arg === "--help" || arg === "--version") || args.length === 1 && (args[0] === "-h" || args[0] === "-V")

/** A set of names from a text of words. */
export const named = (words: string): ReadonlySet<string> => new Set(words.trim().split(/\s+/))
