/**
 * Clients of a server by their keys.
 *
 * **Details**
 *
 * A server has its own key and additional named keys. The sessions of a named key are accessible to that key alone: see
 * `SessionAudience`.
 *
 * Source: `ARCHITECTURE.md` §3.
 */
import * as Redacted from "effect/Redacted"
import type { PermissionMode } from "../../base/config/PermissionMode.ts"
import { isSecret } from "../../base/platform/SharedSecret.ts"
import type { Selection } from "../../tools/ToolRegistry.ts"

/** A key with a name, and its bounds; those that are absent are the server's. */
export interface NamedKey {
  /** Letters, digits, `.`, `_` and `-`, 64 at most. */
  readonly name: string
  readonly key: Redacted.Redacted<string>
  /**
   * Loosest mode of its sessions: they begin in it where the server's is looser, and go no further; the mode of the
   * server when absent.
   */
  readonly maxMode?: PermissionMode | undefined
  /** Sessions that are open at once. */
  readonly maxSessions?: number | undefined
  /** Requests that are answered at once. */
  readonly maxRequests?: number | undefined
  /** Answers that are open at once, streams of events among them. */
  readonly maxConnections?: number | undefined
}

/** Shortest key that is worth the name. */
export const shortestKey = 16

const isName = (name: string): boolean => /^[A-Za-z\d][\w.-]{0,63}$/u.test(name)

/** Reason why a server must not be started with these keys, or undefined if it may. Reveals only the names of keys. */
export const explainRefusal = (
  key: Redacted.Redacted<string> | undefined,
  named: ReadonlyArray<NamedKey>
): string | undefined => {
  const seen = new Map<string, string>(key === undefined ? [] : [[Redacted.value(key), "the key of the server"]])
  const names = new Set<string>()
  for (const { key, name } of named) {
    if (!isName(name))
      return (
        `the name ${JSON.stringify(name)} of a server key is invalid: use letters, digits, ".", "_" and "-", ` +
        "64 at most"
      )
    if (names.has(name)) return `two server keys have the name "${name}": give each its own`
    const value = Redacted.value(key)
    if (value.length < shortestKey)
      return `the server key "${name}" has fewer than ${shortestKey} characters: use a long random text`
    const other = seen.get(value)
    if (other !== undefined) return `the server key "${name}" is the same as ${other}: give each client its own`
    names.add(name)
    seen.set(value, `the server key "${name}"`)
  }
  return undefined
}

/**
 * Finds the named key that a client presents, in time that reveals neither which key matches nor how much of it does.
 */
export const find = <A extends NamedKey>(given: string, keys: ReadonlyArray<A>): A | undefined =>
  keys.filter(({ key }) => isSecret(given, Redacted.value(key)))[0]

/**
 * Tools that reach beyond a key: conversations of others, and jobs that run later with the rights of the server's
 * owner.
 */
const ofTheOwner = ["cronjob", "session_search"]

/** Tools of the agent for a named key. */
export const limitTools = (tools: Selection): Selection => ({
  ...tools,
  tool: (name) => !ofTheOwner.includes(name) && tools.tool?.(name) !== false
})
