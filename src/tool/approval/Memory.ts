/**
 * What was approved before: for a session, or for good. Approvals for good are kept by a port, so that they hold after a
 * restart.
 *
 * Source: `hermes-llm.md` §19.7 (choices), cases 163 and 164.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { ConfigError } from "../../domain/AgentError.ts"

/** The port that keeps approvals for good. */
export interface AllowListStore {
  readonly add: (keys: ReadonlyArray<string>) => Effect.Effect<void, ConfigError>
}

/** See {@link AllowListStore}; in memory where nobody provides one. */
export const AllowList = Context.Reference<AllowListStore>("hermes-effect/tool/approval/AllowList", {
  defaultValue: () => ({ add: () => Effect.void })
})

/** See the module. */
export interface Memory {
  readonly knows: (session: string, key: string) => boolean
  readonly rememberSession: (session: string, keys: ReadonlyArray<string>) => void
  /** For good. When it can not be kept, it holds for this process, and a warning says why. */
  readonly rememberAlways: (keys: ReadonlyArray<string>) => Effect.Effect<void>
  readonly forget: (session: string) => void
}

/** A memory that starts with what was approved for good. */
export const make = (allowed: ReadonlyArray<string>, store: AllowListStore): Memory => {
  const always = new Set(allowed)
  const sessions = new Map<string, Set<string>>()
  return {
    knows: (session, key) => always.has(key) || sessions.get(session)?.has(key) === true,
    rememberSession: (session, keys) => {
      const known = sessions.get(session) ?? new Set()
      sessions.set(session, known)
      for (const key of keys) known.add(key)
    },
    rememberAlways: (keys) =>
      Effect.suspend(() => {
        for (const key of keys) always.add(key)
        return store.add(keys)
      }).pipe(Effect.catch((error) => Effect.logWarning(`the approval holds for this process only: ${error.message}`))),
    forget: (session) => void sessions.delete(session)
  }
}
