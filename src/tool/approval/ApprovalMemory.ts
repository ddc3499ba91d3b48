/**
 * Approvals given before: for a session, or for good, each for one command, path or call. Approvals for good are kept by a port, so that they hold after a
 * restart.
 *
 * Source: `hermes-llm.md` §19.7 (choices), cases 163 and 164, `ARCHITECTURE.md` §7 (approvals).
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import * as Edit from "../../config/Edit.ts"
import { Home } from "../../config/Home.ts"
import type { ConfigError } from "../../domain/AgentError.ts"
import { entryOf, type Target } from "./AllowList.ts"

/** The port that keeps approvals for good, as entries of `command_allowlist`. */
export interface AllowListStore {
  readonly add: (entries: ReadonlyArray<string>) => Effect.Effect<void, ConfigError>
}

/** See {@link AllowListStore}; in memory where nobody provides one. */
export const AllowList = Context.Reference<AllowListStore>("hermes-effect/tool/approval/AllowList", {
  defaultValue: () => ({ add: () => Effect.void })
})

/** Keeps approvals for good in `command_allowlist` of the configuration file. */
export const allowListFile: Layer.Layer<never, never, FileSystem.FileSystem | Home | Path.Path> = Layer.effect(
  AllowList,
  Effect.map(Effect.context<FileSystem.FileSystem | Home | Path.Path>(), (context) => ({
    add: (entries: ReadonlyArray<string>) =>
      Edit.modify(["command_allowlist"], (value) => {
        const known: ReadonlyArray<unknown> = Array.isArray(value) ? value : []
        return [...known, ...entries.filter((entry) => !known.includes(entry))]
      }).pipe(Effect.asVoid, Effect.provideContext(context))
  }))
)

/** One approval: a target, for this reason. Another reason about the same target is asked anew. */
export interface Approved {
  readonly target: Target
  readonly reason: string
  /** An approval for good counts for it. */
  readonly permanent: boolean
}

/** Approvals given so far. */
export interface Memory {
  readonly knows: (session: string, approved: Approved) => boolean
  readonly rememberSession: (session: string, approved: ReadonlyArray<Approved>) => void
  /** For good. When it can not be kept, it holds for this process, and a warning says why. */
  readonly rememberAlways: (targets: ReadonlyArray<Target>) => Effect.Effect<void>
  readonly forget: (session: string) => void
}

const keyOf = ({ reason, target }: Approved): string => JSON.stringify([target.kind, target.text, reason])

/** A memory that starts with the entries of what was approved for good. */
export const make = (allowed: Iterable<string>, store: AllowListStore): Memory => {
  const always = new Set(allowed)
  const sessions = new Map<string, Set<string>>()
  return {
    knows: (session, approved) =>
      approved.permanent && always.has(entryOf(approved.target)) || sessions.get(session)?.has(keyOf(approved)) === true,
    rememberSession: (session, approved) => {
      const known = sessions.get(session) ?? new Set()
      sessions.set(session, known)
      for (const one of approved) known.add(keyOf(one))
    },
    rememberAlways: (targets) =>
      Effect.suspend(() => {
        const entries = Array.from(new Set(targets.map(entryOf)))
        for (const entry of entries) always.add(entry)
        return store.add(entries)
      }).pipe(Effect.catch((error) => Effect.logWarning(`the approval holds for this process only: ${error.message}`))),
    forget: (session) => void sessions.delete(session)
  }
}
