/**
 * What an exit code says when it is not a failure, or says more than a number: `grep` found nothing, `curl` got no host.
 *
 * Source: `hermes-product.md` §2.3.
 *
 * @since 0.1.0
 */
import type { Exit } from "./Shell.ts"
import type { SimpleCommand } from "./ShellCommands.ts"
import * as ShellCommands from "./ShellCommands.ts"

const noMatch = { 1: "No line matched; this is not an error." }
const differ = { 1: "The inputs differ; this is not an error." }
const isFalse = { 1: "The condition is false; this is not an error." }

const meanings: Readonly<Record<string, Readonly<Record<number, string>>>> = {
  "grep": noMatch,
  "egrep": noMatch,
  "fgrep": noMatch,
  "zgrep": noMatch,
  "rg": noMatch,
  "ag": noMatch,
  "ack": noMatch,
  "diff": differ,
  "colordiff": differ,
  "cmp": differ,
  "find": { 1: "Some directories could not be read; what was found is still valid." },
  "test": isFalse,
  "[": isFalse,
  "[[": isFalse,
  "git": { 1: "Often not an error: git diff, git grep and similar exit with 1 to say that they found differences or nothing." },
  "curl": {
    6: "The host name could not be resolved.",
    7: "The connection to the host failed.",
    22: "The server answered with an HTTP error status (400 or above).",
    28: "The request timed out."
  }
}

/** The meaning of how a command line ended, or `undefined` when its code says all; the code is taken to be its last command's. */
export const of = (commands: ReadonlyArray<SimpleCommand>, exit: Exit): string | undefined => {
  if (exit.signal !== undefined) return `The command was ended by ${exit.signal}.`
  const last = commands.findLast(({ depth, words }) => depth === 0 && ShellCommands.program(words).length > 0)
  const [name] = last === undefined ? [] : ShellCommands.program(last.words)
  return name !== undefined && Object.hasOwn(meanings, name) ? meanings[name]?.[exit.code] : undefined
}
