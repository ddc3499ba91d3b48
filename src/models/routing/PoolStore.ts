/**
 * Storage of pools over processes: which keys are spent and until when, and how often each was used. Keys are
 * named by fingerprints; a key itself is never written.
 *
 * **Details**
 *
 * `credential-pools.json` in the home directory, for its owner only. Two processes that write at once lose at most one
 * mark, which the provider repeats; the file is replaced whole. A file that cannot be read counts as empty, with a
 * warning, and one that cannot be written is a warning too: a pool works without its memory.
 *
 * Source: `hermes-llm.md` §17.2.
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as HomeFile from "./HomeFile.ts"

/** State of one key. */
const Mark = Schema.Struct({
  /** Milliseconds since 1970 until which the key is not asked; 0 when it is fine. */
  until: Schema.Finite,
  /** The reason, in the word of the classifier. */
  reason: Schema.String,
  /** Number of times that the key was chosen. */
  used: Schema.Natural
})
/** One {@link Mark}. */
export type Mark = typeof Mark.Type

/** One pool: its keys by fingerprint, and the one that was chosen last. */
export const PoolRecord = Schema.Struct({
  last: Schema.optionalKey(Schema.String),
  keys: Schema.Record(Schema.String, Mark)
})
/** One {@link PoolRecord}. */
export type PoolRecord = typeof PoolRecord.Type

const Saved = Schema.Struct({ version: Schema.Literal(1), pools: Schema.Record(Schema.String, PoolRecord) })
const SavedText = Schema.fromJsonString(Saved)

/** Storage of pools. */
export interface PoolStore {
  readonly load: (pool: string) => Effect.Effect<PoolRecord>
  readonly save: (pool: string, record: PoolRecord) => Effect.Effect<void>
  /**
   * Calls `heard` with the keys of a pool whenever another process saves them, until the scope closes; absent if the
   * store does not report changes.
   */
  readonly listen?:
    | ((pool: string, heard: (keys: PoolRecord["keys"]) => void) => Effect.Effect<void, never, Scope.Scope>)
    | undefined
}

const nothing: PoolRecord = { keys: {} }

/** Nothing outlives the process. */
export const none: PoolStore = { load: () => Effect.succeed(nothing), save: () => Effect.void }

/** The name of the file in the home directory. */
export const fileName = "credential-pools.json"

/** A store in a home directory, which need not exist yet. */
export const openFile = (home: string): Effect.Effect<PoolStore, never, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const { load, save } = yield* HomeFile.makeMemory(home, fileName, SavedText, { version: 1, pools: {} }, "warning")
    const writing = yield* Semaphore.make(1)
    return {
      load: (pool) =>
        Effect.map(load, ({ pools }) => (Object.hasOwn(pools, pool) ? (pools[pool] ?? nothing) : nothing)),
      save: (pool, record) =>
        writing.withPermit(
          Effect.flatMap(load, (saved) => save({ ...saved, pools: { ...saved.pools, [pool]: record } }))
        )
    }
  })
