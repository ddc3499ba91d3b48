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
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"

/** State of one key. */
export const Mark = Schema.Struct({
  /** Milliseconds since 1970 until which the key is not asked; 0 when it is fine. */
  until: Schema.Finite,
  /** Why: the word of the classifier. */
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
type Saved = typeof Saved.Type
const SavedText = Schema.fromJsonString(Saved)

/** Storage of pools. */
export interface PoolStore {
  readonly load: (pool: string) => Effect.Effect<PoolRecord>
  readonly save: (pool: string, record: PoolRecord) => Effect.Effect<void>
}

const nothing: PoolRecord = { keys: {} }

/** Nothing outlives the process. */
export const none: PoolStore = { load: () => Effect.succeed(nothing), save: () => Effect.void }

/** The name of the file in the home directory. */
export const fileName = "credential-pools.json"

/** A store in a home directory, which need not exist yet. */
export const file = (home: string): Effect.Effect<PoolStore, never, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const path = (yield* Path.Path).join(home, fileName)
    const writing = yield* Semaphore.make(1)

    const read: Effect.Effect<Saved> = fs.readFileString(path).pipe(
      Effect.flatMap(Schema.decodeUnknownEffect(SavedText)),
      Effect.catch((error) =>
        error._tag === "PlatformError" && error.reason._tag === "NotFound"
          ? Effect.void
          : Effect.logWarning(`${path} is not used, remove it: ${error.message}`)
      ),
      Effect.map((saved) => saved ?? { version: 1, pools: {} })
    )

    const write = (saved: Saved) =>
      Effect.gen(function*() {
        const text = yield* Schema.encodeEffect(SavedText)(saved)
        yield* fs.makeDirectory(home, { recursive: true, mode: 0o700 })
        const draft = `${path}.${(yield* Random.nextIntBetween(0, 2 ** 32)).toString(16)}.tmp`
        yield* fs.writeFileString(draft, `${text}\n`, { mode: 0o600 })
        yield* fs.rename(draft, path)
      }).pipe(Effect.catch((error) => Effect.logWarning(`${path} cannot be written: ${error.message}`)))

    return {
      load: (pool) => Effect.map(read, ({ pools }) => Object.hasOwn(pools, pool) ? pools[pool] ?? nothing : nothing),
      save: (pool, record) =>
        writing.withPermit(
          Effect.flatMap(read, (saved) => write({ ...saved, pools: { ...saved.pools, [pool]: record } }))
        )
    }
  })
