/**
 * Clients of a server, identified by their keys.
 *
 * **Details**
 *
 * A server has its own key and additional named keys. Only clients with the same named key can access its sessions; see
 * `SessionAudience`.
 *
 * Source: `ARCHITECTURE.md` §3.
 */
import * as Redacted from "effect/Redacted"
import type { PermissionMode } from "../../base/config/PermissionMode.ts"
import { isSecret } from "../../base/platform/SharedSecret.ts"
import type { Selection } from "../../tools/ToolRegistry.ts"

/** A named key and its limits. Absent limits default to the limits of the server. */
export interface NamedKey {
  /** Name of the key: at most 64 letters, digits, `.`, `_` and `-`. */
  readonly name: string
  readonly key: Redacted.Redacted<string>
  /**
   * Least strict mode of the key's sessions. A session cannot begin in or change to a mode that permits more. Defaults
   * to the mode of the server.
   */
  readonly maxMode?: PermissionMode | undefined
  /** Tenant for which the runs of the client work; see `Tenants`. */
  readonly tenant?: string | undefined
  /** Maximum number of open sessions. */
  readonly maxSessions?: number | undefined
  /** Maximum number of concurrent requests. */
  readonly maxRequests?: number | undefined
  /** Maximum number of open responses, including event streams. */
  readonly maxConnections?: number | undefined
}

/** Minimum length of a key, in characters. */
export const shortestKey = 16

const isName = (name: string): boolean => /^[A-Za-z\d][\w.-]{0,63}$/u.test(name)

/**
 * Returns the reason why a server must not be started with these keys, or `undefined` if it may. The reason contains
 * only the names of keys.
 */
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
 * Finds the named key that a client sent. Every key takes the same time to compare, so that the time does not reveal a
 * match or a partial match.
 */
export const find = <A extends NamedKey>(given: string, keys: ReadonlyArray<A>): A | undefined =>
  keys.filter(({ key }) => isSecret(given, Redacted.value(key)))[0]

/**
 * Tools that only the owner may use, because they access other conversations or create jobs that run later with the
 * owner's rights.
 */
const ofTheOwner = ["cronjob", "session_search"]

/** Returns the tools that the agent offers to a named key. */
export const limitTools = (tools: Selection): Selection => ({
  ...tools,
  tool: (name) => !ofTheOwner.includes(name) && tools.tool?.(name) !== false
})
