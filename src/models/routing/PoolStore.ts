/**
 * Stores the state of credential pools across processes: which keys are disabled and until when, and how often each was
 * used. Keys are identified by fingerprints; a key itself is never written.
 *
 * **Details**
 *
 * The file is `credential-pools.json` in the home directory, accessible only to its owner. It is replaced as a whole.
 * If two processes write at the same time, at most one mark is lost, which the next refusal restores. A file that
 * cannot be read counts as empty. Read and write failures are logged as warnings, because a pool works without stored
 * state.
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
  /** Time until which the key is disabled, in milliseconds since 1970; 0 if the key is available. */
  until: Schema.Finite,
  /** The reason why the key is disabled, as named by the classification. */
  reason: Schema.String,
  /** Number of times that the key was chosen. */
  used: Schema.Natural
})
/** State of one key. */
export type Mark = typeof Mark.Type

/** State of one pool: its keys by fingerprint, and the key that was chosen last. */
export const PoolRecord = Schema.Struct({
  last: Schema.optionalKey(Schema.String),
  keys: Schema.Record(Schema.String, Mark)
})
/** State of one pool. */
export type PoolRecord = typeof PoolRecord.Type

const Saved = Schema.Struct({ version: Schema.Literal(1), pools: Schema.Record(Schema.String, PoolRecord) })
const SavedText = Schema.fromJsonString(Saved)

/** Stores the state of pools. */
export interface PoolStore {
  readonly load: (pool: string) => Effect.Effect<PoolRecord>
  readonly save: (pool: string, record: PoolRecord) => Effect.Effect<void>
  /**
   * Calls `heard` with the keys of a pool whenever another process saves them, until the scope is closed; `undefined`
   * if the store does not report changes.
   */
  readonly listen?:
    | ((pool: string, heard: (keys: PoolRecord["keys"]) => void) => Effect.Effect<void, never, Scope.Scope>)
    | undefined
}

const nothing: PoolRecord = { keys: {} }

/** Store that saves nothing. */
export const none: PoolStore = { load: () => Effect.succeed(nothing), save: () => Effect.void }

/** Name of the file in the home directory that stores pools. */
export const fileName = "credential-pools.json"

/** Opens the store in a home directory, which need not exist yet. */
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
