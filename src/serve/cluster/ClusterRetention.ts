/**
 * Removes a cluster's data about finished work after some time: runs with their messages and replies, submitted agents,
 * expired marks and leases.
 *
 * **Details**
 *
 * A run is removed with all data of its workflow when a number of days has passed since its end. Waiting and active
 * runs remain, regardless of their age. Once an hour, one of the runners removes runs in batches of {@link partSize},
 * so that no statement blocks others for long. If the runner dies meanwhile, the remaining runs are removed in the next
 * hour. Sessions and the run record are not touched.
 *
 * **Gotchas**
 *
 * A removed run is unknown. If it is submitted again with the same id, it runs again.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as SqlClient from "effect/sql/SqlClient"
import { ClusterDatabase } from "./ClusterDatabase.ts"
import { deleteRuns } from "./RunRemoval.ts"
import { type RunsPlace, runSqlite } from "./Runs.ts"
import { computeExecutionId } from "./RunWorkflow.ts"

/** Default number of days for which a run is retained after its end. */
export const defaultDays = 30

const partSize = 500
const every = Duration.hours(1)
/** Schedule of the sweeps of a runner. Each sweep is made by one of the runners. */
const sweeps = Schedule.spaced(every)

/** Removes the runs that ended before a given time, and returns their number. */
const pruneRuns = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, run: RunsPlace["run"], before: number) {
  let removed = 0
  while (true) {
    const rows = yield* run(sql<{ readonly id: string }>`
      SELECT id FROM runs WHERE state = 'done' AND ended_at < ${before} ORDER BY ended_at LIMIT ${partSize}`)
    if (rows.length === 0) return removed
    const ids = rows.map(({ id }) => id)
    const executions = yield* Effect.forEach(ids, computeExecutionId)
    yield* run(sql.withTransaction(deleteRuns(sql, ids, executions)))
    removed += ids.length
  }
})

const computeCutoff = (days: number) =>
  Effect.map(Clock.currentTimeMillis, (now) => now - Duration.toMillis(Duration.days(days)))

/**
 * Removes runs that ended more than the given number of days ago, and returns their number. Returns `undefined` if
 * another runner did this within the last hour.
 */
export const sweep = Effect.fnUntraced(function* (days: number) {
  const { run, schema, sql } = yield* ClusterDatabase
  const claimed = yield* run(sql`
    INSERT INTO shared (kind, key, value) VALUES ('retention', 'last', '')
    ON CONFLICT (kind, key) DO UPDATE SET changed_at = clock_timestamp()
      WHERE shared.changed_at < clock_timestamp() - make_interval(secs => ${Duration.toSeconds(every)}) RETURNING key`)
  if (claimed.length === 0) return undefined
  const before = yield* computeCutoff(days)
  const removed = yield* pruneRuns(sql, run, before)
  const passed = sql`to_timestamp(CAST(${before} AS DOUBLE PRECISION) / 1000)`
  // A waiting run may still need an agent that was last used before the cutoff.
  yield* run(sql`
    DELETE FROM agents WHERE used_at < ${passed} AND NOT EXISTS (SELECT 1 FROM runs WHERE state <> 'done' AND submitted_at < ${before})`)
  yield* run(sql`
    DELETE FROM shared WHERE (kind = 'pool' AND changed_at < ${passed})
      OR (kind = 'guard' AND changed_at + make_interval(secs => CAST(value AS DOUBLE PRECISION) / 1000) < clock_timestamp())`)
  const [leases] = yield* run(sql`SELECT 1 FROM pg_tables WHERE schemaname = ${schema} AND tablename = 'leases'`)
  if (leases !== undefined)
    yield* run(sql`DELETE FROM leases WHERE expires_at < clock_timestamp() - make_interval(days => 1)`)
  return removed
})

const makeSweepLayer = <E extends { readonly message: string }, R>(work: Effect.Effect<number | undefined, E, R>) =>
  Layer.effectDiscard(
    Effect.forkScoped(
      work.pipe(
        Effect.flatMap((removed) =>
          removed === undefined || removed === 0
            ? Effect.void
            : Effect.logDebug(`${removed} runs that are over were removed from the cluster`)
        ),
        Effect.catch(({ message }) => Effect.logWarning(`Retention of the cluster: ${message}`)),
        Effect.repeat(sweeps)
      )
    )
  )

/** Removes expired data of finished runs from Postgres, for the lifetime of the scope. */
export const layerPostgres = (days: number): Layer.Layer<never, never, ClusterDatabase> => makeSweepLayer(sweep(days))

/** Removes expired data of finished runs from the SQLite file at `path`. */
export const layerSqlite = (days: number, path: string): Layer.Layer<never, never, SqlClient.SqlClient> =>
  makeSweepLayer(
    Effect.gen(function* () {
      return yield* pruneRuns(yield* SqlClient.SqlClient, runSqlite(path), yield* computeCutoff(days))
    })
  )
