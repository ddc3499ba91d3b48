/**
 * The checkpoint of a batch run: a file with the finished rows and the counts of each batch. It is intended for users
 * and scripts that monitor the run. A resumed run uses the journal instead.
 *
 * Source: `hermes-product.md` §5.1.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Semaphore from "effect/Semaphore"
import * as BatchFiles from "./BatchFiles.ts"
import type * as Dataset from "./Dataset.ts"
import type * as RowJournal from "./RowJournal.ts"
import * as RowPool from "./RowPool.ts"

/** Minimum time between two checkpoints. The journal is always up to date. */
const checkpointMillis = 1000

/** Facts about a run that its checkpoint contains. */
interface RunFacts {
  readonly dataset: Dataset.Dataset
  readonly runName: string
}

/**
 * Makes the writer of a run's checkpoint at `path`, which must be the only writer. `settled` records each completed
 * row, and writes the checkpoint after the last row of a batch.
 */
export const make = Effect.fnUntraced(function* (
  path: string,
  { dataset, runName }: RunFacts,
  journal: RowJournal.Journal,
  getBatch: (row: Dataset.Row) => number
) {
  const batches = new Map<number, { readonly rows: ReadonlyArray<Dataset.Row>; open: number; failed: number }>()
  const open = new Set(RowPool.selectRemaining(dataset.rows, journal).map(({ id }) => id))
  for (const [number, rows] of Map.groupBy(dataset.rows, getBatch))
    batches.set(number, { rows, open: rows.filter(({ id }) => open.has(id)).length, failed: 0 })
  const turn = yield* Semaphore.make(1)
  let writtenAt = 0
  const write = turn.withPermits(1)(
    Effect.gen(function* () {
      const done = dataset.rows.filter(({ id }) => journal.entries.has(id))
      const stats = Array.from(batches, ([number, { failed, rows }]) => {
        const entries = rows.flatMap(({ id }) => journal.entries.get(id) ?? [])
        const discarded = entries.filter(({ discarded }) => discarded !== undefined).length
        return [number, { processed: entries.length, discarded, failed, total: rows.length }] as const
      })
      yield* BatchFiles.replaceJson(path, {
        run_name: runName,
        completed_prompts: done.map(({ index }) => index),
        batch_stats: Object.fromEntries(stats),
        last_updated: new Date((writtenAt = yield* Clock.currentTimeMillis)).toISOString()
      })
    })
  )
  const due = Effect.flatMap(Clock.currentTimeMillis, (now) =>
    now - writtenAt < checkpointMillis ? Effect.void : write
  )
  const recordRowEnd = (row: Dataset.Row, end: RowPool.RowEnd) =>
    Effect.suspend(() => {
      const batch = batches.get(getBatch(row))
      if (batch === undefined) return Effect.void
      batch.open--
      if (end === "failed") batch.failed++
      return batch.open === 0 ? due : Effect.void
    })
  return { settled: recordRowEnd, write }
})
