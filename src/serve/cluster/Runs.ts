/**
 * Runs that were submitted to a cluster, and their outcomes. Each run is stored as a row, has at most one active
 * attempt, and ends only once.
 *
 * **Details**
 *
 * A run is a prompt for a session. The number of messages in the session is recorded before the first message of the
 * run is stored. A runner that continues the run can therefore tell whether the prompt is already in the session.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as SqlClient from "effect/sql/SqlClient"
import { isSqlError, type SqlError } from "effect/sql/SqlError"
import type { Fragment } from "effect/sql/Statement"
import * as Json from "../../base/domain/Json.ts"
import * as SqlFailure from "../../base/platform/SqlFailure.ts"
import * as SqliteClient from "../../base/platform/SqliteClient.ts"
import {
  ClusterDatabase,
  openRunsIndex,
  openTurnsIndex,
  buildInboxTable,
  buildRunTables,
  stallColumns,
  tenantColumn
} from "./ClusterDatabase.ts"
import { ClusterError } from "./Cluster.ts"
import { makeRemoval } from "./RunRemoval.ts"
import {
  type Counts,
  type Failure,
  type NextTurn,
  Outcome,
  type Request,
  type RunPlace,
  type StartedRun,
  type StoredRun,
  type SuspendedRun
} from "./RunForms.ts"

const decodeOutcome = Schema.decodeUnknownOption(Outcome)

/** Service that stores the submitted runs and their outcomes. */
export interface Service {
  /**
   * Adds a run, unless it already exists. Returns the outcome of the run, or `undefined` if it is not over. Fails if
   * the id belongs to a run of another tenant.
   */
  readonly add: (request: Request) => Effect.Effect<Outcome | undefined, ClusterError>
  /**
   * Marks a run as started by a runner. `messages` is the number of messages in its session; the number at the first
   * start is retained. Returns `undefined` if the run is over.
   */
  readonly start: (id: string, runner: string, messages: number) => Effect.Effect<StartedRun | undefined, ClusterError>
  /**
   * Marks a run as waiting for its next attempt, or as suspended until it has answers, at the end of the attempt that
   * began with the given start. Returns false if the run is over, or if another runner began it again meanwhile.
   */
  readonly pause: (id: string, starts: number, state?: "suspended" | "waiting") => Effect.Effect<boolean, ClusterError>
  /** Ends a run by its attempt that began with the given start. Returns false as {@link Service.pause} does. */
  readonly finishAttempt: (id: string, starts: number, outcome: Outcome) => Effect.Effect<boolean, ClusterError>
  /** Ends a run; the first outcome is retained. */
  readonly finish: (id: string, outcome: Outcome) => Effect.Effect<void, ClusterError>
  /** Ends a run that is not started. Returns false if it is running or over. */
  readonly finishWaiting: (id: string, outcome: Outcome) => Effect.Effect<boolean, ClusterError>
  /** Returns the id of the turn of a session that is running, if any. `kind` is the kind of turns. */
  readonly findRunning: (sessionId: string, kind: string) => Effect.Effect<string | undefined, ClusterError>
  /** Returns the run with this id, if it is stored. */
  readonly find: (id: string) => Effect.Effect<StoredRun | undefined, ClusterError>
  /**
   * Adds a run that does the work of a failed one again, in its session and from its first position. Returns false if
   * the run has not failed, or was started again before.
   */
  readonly addRetry: (id: string, retry: Request) => Effect.Effect<boolean, ClusterError>
  /** Returns the outcomes of the given runs that are over. */
  readonly outcomes: (
    ids: ReadonlyArray<string>,
    tenant: string | undefined
  ) => Effect.Effect<ReadonlyMap<string, Outcome>, ClusterError>
  /** Returns the given runs that wait for answers, each with its session and its number of starts. */
  readonly suspended: (
    ids: ReadonlyArray<string>,
    tenant: string | undefined
  ) => Effect.Effect<ReadonlyMap<string, SuspendedRun>, ClusterError>
  /** Returns the place of a run that begins or continues. */
  readonly readPlace: (id: string, sessionId: string) => Effect.Effect<RunPlace, ClusterError>
  /** Returns the id of the first unfinished run in the session of a run, and if the session has messages for a turn. */
  readonly findNextTurn: (id: string) => Effect.Effect<NextTurn, ClusterError>
  /**
   * Returns the ids of at most `most` unfinished runs that do not wait for an earlier run of their session, the oldest
   * first.
   */
  readonly open: (most: number) => Effect.Effect<ReadonlyArray<string>, ClusterError>
  /** Removes runs that are over, with all their rows. `executions` are the ids of their workflows. */
  readonly remove: (
    runs: ReadonlyArray<Pick<StoredRun, "id" | "sessionId">>,
    executions: ReadonlyArray<string>
  ) => Effect.Effect<void, ClusterError>
  /** Counts the workflows that are not over. */
  readonly countOpenWorkflows: (executions: ReadonlyArray<string>) => Effect.Effect<number, ClusterError>
  /** Returns the runs of a tenant, and the runs without a tenant on these sessions, with their sessions and states. */
  readonly ofTenant: (
    tenant: string,
    sessions: ReadonlyArray<string>
  ) => Effect.Effect<ReadonlyArray<Pick<StoredRun, "id" | "sessionId" | "state">>, ClusterError>
  readonly counts: (tenant: string | undefined) => Effect.Effect<ReadonlyArray<Counts>, ClusterError>
  /** Returns at most `most` failed runs, the most recent first. */
  readonly failures: (most: number, tenant: string | undefined) => Effect.Effect<ReadonlyArray<Failure>, ClusterError>
  /** Runs `then` whenever a message for the workflow of a run is stored. If a notification is lost, a poll finds it. */
  readonly listen: (then: Effect.Effect<void>) => Effect.Effect<never>
}

/** Service that stores the runs of a cluster. */
export class Runs extends Context.Service<Runs, Service>()("hermes-effect/cluster/Runs") {}

/** Database of the runs, and the function that executes its statements. */
export interface RunsPlace {
  readonly sql: SqlClient.SqlClient
  readonly run: <A, E>(effect: Effect.Effect<A, E | SqlError>) => Effect.Effect<A, Exclude<E, SqlError> | ClusterError>
  /**
   * Builds a list of strings as rows from one parameter, so that the statement is the same for any number of strings.
   */
  readonly listed: (texts: ReadonlyArray<string>) => Fragment
  readonly listen: Service["listen"]
}

const decodeOutcomeText = (text: string | null): Outcome | undefined =>
  text === null ? undefined : Option.getOrUndefined(Option.flatMap(Json.parse(text), decodeOutcome))

type RunsPart<Members extends keyof Service> = Pick<Service, Members>

const makeTakenIdError = (id: string): ClusterError =>
  new ClusterError({ message: `the id ${id} is used by another run: choose ids that cannot be guessed` })

/** Makes the operations that add, start and pause a run. */
const makeCourse = ({ run, sql }: RunsPlace): RunsPart<"add" | "addRetry" | "pause" | "start"> => ({
  add: ({ batch, id, kind, sessionId, tenant }) =>
    run(
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const added = yield* sql`
        INSERT INTO runs (id, batch, kind, session_id, state, starts, submitted_at, tenant)
        VALUES (${id}, ${batch}, ${kind}, ${sessionId}, 'waiting', 0, ${now}, ${tenant ?? null})
        ON CONFLICT DO NOTHING RETURNING id`
        if (added.length > 0) return undefined
        const [row] = yield* sql<{ readonly outcome: string | null; readonly tenant: string | null }>`
          SELECT outcome, tenant FROM runs WHERE id = ${id}`
        if (tenant !== undefined && row !== undefined && row.tenant !== tenant) return yield* makeTakenIdError(id)
        return decodeOutcomeText(row?.outcome ?? null)
      })
    ),
  start: (id, runner, messages) =>
    run(
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const [row] = yield* sql<{
          readonly first_position: number
          readonly starts: number
          readonly stalls: number
          readonly pending: number
        }>`
        UPDATE runs SET state = 'running', runner = ${runner}, starts = starts + 1,
          started_at = coalesce(started_at, ${now}), first_position = coalesce(first_position, ${messages}),
          stalls = CASE WHEN state = 'running' AND messages = ${messages} THEN stalls + 1 ELSE 0 END,
          messages = ${messages}
        WHERE id = ${id} AND state <> 'done' RETURNING first_position, starts, stalls,
          CASE WHEN EXISTS (SELECT 1 FROM inbox WHERE inbox.session_id = runs.session_id) THEN 1 ELSE 0 END AS pending`
        return row === undefined
          ? undefined
          : {
              firstPosition: row.first_position,
              starts: row.starts,
              stalls: row.stalls,
              hasMessages: row.pending === 1
            }
      })
    ),
  pause: (id, starts, state = "waiting") =>
    Effect.map(
      run(sql`
        UPDATE runs SET state = ${state} WHERE id = ${id} AND state = 'running' AND starts = ${starts} RETURNING id`),
      (rows) => rows.length > 0
    ),
  addRetry: (id, retry) =>
    run(
      sql.withTransaction(
        Effect.gen(function* () {
          const now = yield* Clock.currentTimeMillis
          const marked = yield* sql`
            UPDATE runs SET retried_as = ${retry.id}
            WHERE id = ${id} AND retried_as IS NULL AND state = 'done' AND outcome LIKE '{"status":"failed"%'
            RETURNING id`
          if (marked.length === 0) return false
          yield* sql`
            INSERT INTO runs (id, batch, kind, session_id, first_position, state, starts, submitted_at, tenant)
            SELECT ${retry.id}, batch, kind, session_id, first_position, 'waiting', 0, CAST(${now} AS BIGINT), tenant
            FROM runs WHERE id = ${id}`
          return true
        })
      )
    )
})

/** Makes the operations that end a run. */
const makeEnds = ({ run, sql }: RunsPlace): RunsPart<"finish" | "finishAttempt" | "finishWaiting"> => ({
  finishAttempt: (id, starts, outcome) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) =>
      Effect.map(
        run(sql`UPDATE runs SET state = 'done', outcome = ${JSON.stringify(outcome)}, ended_at = ${now}
          WHERE id = ${id} AND state = 'running' AND starts = ${starts} RETURNING id`),
        (rows) => rows.length > 0
      )
    ),
  finishWaiting: (id, outcome) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) =>
      Effect.map(
        run(
          sql`UPDATE runs SET state = 'done', outcome = ${JSON.stringify(outcome)}, ended_at = ${now}
            WHERE id = ${id} AND state IN ('waiting', 'suspended') RETURNING id`
        ),
        (rows) => rows.length > 0
      )
    ),
  finish: (id, outcome) =>
    Effect.asVoid(
      Effect.flatMap(Clock.currentTimeMillis, (now) =>
        run(
          sql`UPDATE runs SET state = 'done', outcome = ${JSON.stringify(outcome)}, ended_at = ${now}
            WHERE id = ${id} AND state <> 'done'`
        )
      )
    )
})

/** Limits a query to the runs of a tenant; to all without one. */
const limitTo = (sql: SqlClient.SqlClient, tenant: string | undefined): Fragment =>
  tenant === undefined ? sql`` : sql`AND tenant = ${tenant}`

const makeFind =
  ({ run, sql }: RunsPlace): Service["find"] =>
  (id) =>
    Effect.map(
      run(
        sql<{
          readonly batch: string
          readonly sessionId: string
          readonly tenant: string | null
          readonly state: StoredRun["state"]
          readonly outcome: string | null
          readonly startedAt: number | null
          readonly endedAt: number | null
          readonly retriedAs: string | null
          readonly starts: number
        }>`
          SELECT batch, session_id AS "sessionId", tenant, state, outcome, starts, retried_as AS "retriedAs",
            started_at AS "startedAt", ended_at AS "endedAt"
          FROM runs WHERE id = ${id}`
      ),
      ([row]) =>
        row === undefined
          ? undefined
          : {
              id,
              ...row,
              tenant: row.tenant ?? undefined,
              outcome: decodeOutcomeText(row.outcome),
              startedAt: row.startedAt ?? undefined,
              endedAt: row.endedAt ?? undefined,
              retriedAs: row.retriedAs ?? undefined
            }
    )

const makeFindSuspended =
  ({ listed, run, sql }: RunsPlace): Service["suspended"] =>
  (ids, tenant) =>
    ids.length === 0
      ? Effect.succeed(new Map())
      : Effect.map(
          run(
            sql<SuspendedRun & { readonly id: string }>`
              SELECT id, session_id AS "sessionId", starts FROM runs
              WHERE state = 'suspended' AND id IN (${listed(ids)}) ${limitTo(sql, tenant)}`
          ),
          (rows) => new Map(rows.map(({ id, sessionId, starts }) => [id, { sessionId, starts }]))
        )

/** Makes the queries over runs. */
const makeQueries = ({
  listed,
  run,
  sql
}: RunsPlace): RunsPart<"counts" | "failures" | "findNextTurn" | "open" | "outcomes" | "readPlace"> => ({
  outcomes: (ids, tenant) =>
    ids.length === 0
      ? Effect.succeed(new Map())
      : Effect.map(
          run(
            sql<{
              readonly id: string
              readonly outcome: string | null
            }>`SELECT id, outcome FROM runs WHERE state = 'done' AND id IN (${listed(ids)}) ${limitTo(sql, tenant)}`
          ),
          (rows) =>
            new Map(
              rows.flatMap(({ id, outcome }) => {
                const decoded = decodeOutcomeText(outcome)
                return decoded === undefined ? [] : [[id, decoded] as const]
              })
            )
        ),
  readPlace: (id, sessionId) =>
    Effect.map(
      run(sql<{ readonly behind: number; readonly fresh: number }>`
        SELECT CASE WHEN EXISTS (SELECT 1 FROM runs AS earlier WHERE earlier.session_id = ${sessionId}
            AND earlier.state <> 'done' AND earlier.made < runs.made) THEN 1 ELSE 0 END AS behind,
          CASE WHEN starts = 0 OR state = 'running' THEN 1 ELSE 0 END AS fresh
        FROM runs WHERE id = ${id}`),
      ([row]) => ({ isBehind: row?.behind === 1, isFresh: row?.fresh === 1 })
    ),
  findNextTurn: (id) =>
    Effect.map(
      run(sql<{ readonly next: string | null; readonly messages: number }>`
        SELECT (SELECT later.id FROM runs AS later WHERE later.session_id = runs.session_id AND later.state <> 'done'
            ORDER BY later.made LIMIT 1) AS next,
          CASE WHEN EXISTS (SELECT 1 FROM inbox WHERE inbox.session_id = runs.session_id AND inbox.kind = 'steer')
            THEN 1 ELSE 0 END AS messages
        FROM runs WHERE id = ${id}`),
      ([row]) => ({ next: row?.next ?? undefined, hasMessages: row?.messages === 1 })
    ),
  open: (most) =>
    Effect.map(
      run(sql<{ readonly id: string }>`
        SELECT id FROM runs WHERE state <> 'done' AND NOT EXISTS (
          SELECT 1 FROM runs AS earlier
          WHERE earlier.session_id = runs.session_id AND earlier.state <> 'done' AND earlier.made < runs.made)
        ORDER BY made LIMIT ${most}`),
      (rows) => rows.map(({ id }) => id)
    ),
  counts: (tenant) =>
    Effect.map(
      run(sql<{ readonly batch: string; readonly state: string; readonly is_failed: number; readonly count: number }>`
      SELECT batch, state, CASE WHEN outcome LIKE '{"status":"failed"%' THEN 1 ELSE 0 END AS is_failed,
        count(*) AS count
      FROM runs WHERE TRUE ${limitTo(sql, tenant)} GROUP BY batch, state, is_failed ORDER BY batch`),
      (rows) => {
        const batches = new Map<string, { -readonly [K in keyof Counts]: Counts[K] }>()
        for (const { batch, count, is_failed, state } of rows) {
          const counts = batches.get(batch) ?? { batch, waiting: 0, suspended: 0, running: 0, finished: 0, failed: 0 }
          const isOpen = state === "waiting" || state === "suspended" || state === "running"
          counts[isOpen ? state : is_failed === 1 ? "failed" : "finished"] += count
          batches.set(batch, counts)
        }
        return Array.from(batches.values())
      }
    ),
  failures: (most, tenant) =>
    Effect.map(
      run(sql<Omit<Failure, "message"> & { readonly outcome: string }>`
        SELECT id, batch, session_id AS "sessionId", outcome FROM runs
        WHERE state = 'done' AND outcome LIKE '{"status":"failed"%' AND retried_as IS NULL
          ${limitTo(sql, tenant)}
        ORDER BY ended_at DESC, made DESC LIMIT ${most}`),
      (rows) => rows.map(({ outcome, ...run }) => ({ ...run, message: decodeOutcomeText(outcome)?.message ?? "" }))
    )
})

/** Makes the `Runs` service for a database. */
const make = (place: RunsPlace): Service => ({
  ...makeCourse(place),
  ...makeEnds(place),
  ...makeQueries(place),
  find: makeFind(place),
  findRunning: (sessionId, kind) =>
    Effect.map(
      place.run(place.sql<{ readonly id: string }>`
        SELECT id FROM runs WHERE session_id = ${sessionId} AND kind = ${kind} AND state = 'running' LIMIT 1`),
      ([row]) => row?.id
    ),
  suspended: makeFindSuspended(place),
  ...makeRemoval(place),
  listen: place.listen
})

/** Stores the runs in the database of a cluster. */
export const layerPostgres: Layer.Layer<Runs, never, ClusterDatabase> = Layer.effect(
  Runs,
  Effect.gen(function* () {
    const { news, run, sql } = yield* ClusterDatabase
    return make({
      sql,
      run,
      listed: (texts) => sql`SELECT json_array_elements_text(CAST(${JSON.stringify(texts)} AS json))`,
      listen: (then) => news.subscribe("work", () => then)
    })
  })
)

/** Converts a failure of the SQLite file at `path`. */
export const toClusterErrorAt =
  (path: string) =>
  (error: SqlError): ClusterError =>
    new ClusterError({ message: SqlFailure.describe(path, error), cause: error.reason.cause })

/** Runs statements on the SQLite file at `path`. */
export const runSqlite =
  (path: string): RunsPlace["run"] =>
  <A, E>(effect: Effect.Effect<A, E | SqlError>) =>
    Effect.mapError(SqliteClient.retryWhileLocked(effect), (error): Exclude<E, SqlError> | ClusterError =>
      // The type system cannot see that every other failure has one of the remaining types.
      isSqlError(error) ? toClusterErrorAt(path)(error) : (error as Exclude<E, SqlError>)
    )

/** Stores the runs in the SQLite file at `path`. `effect/cluster` uses the same client. */
export const layerSqlite = (path: string): Layer.Layer<Runs | SqlClient.SqlClient, ClusterError> =>
  Layer.unwrap(
    Effect.gen(function* () {
      const sql = yield* Effect.mapError(SqliteClient.open(path), toClusterErrorAt(path))
      const run = runSqlite(path)
      yield* run(
        Effect.gen(function* () {
          yield* SqliteClient.configure(sql)
          const there = yield* sql`SELECT 1 FROM sqlite_schema WHERE name = 'runs'`
          if (there.length === 0) {
            for (const statement of buildRunTables("INTEGER PRIMARY KEY")) yield* sql.unsafe(statement).unprepared
          }
          yield* sql.unsafe(openRunsIndex).unprepared
          yield* sql.unsafe(openTurnsIndex).unprepared
          const columns = yield* sql<{ readonly name: string }>`SELECT name FROM pragma_table_info('runs')`
          if (!columns.some(({ name }) => name === "stalls")) {
            for (const statement of stallColumns) yield* sql.unsafe(statement).unprepared
          }
          if (!columns.some(({ name }) => name === "retried_as")) {
            for (const statement of buildInboxTable("INTEGER PRIMARY KEY AUTOINCREMENT"))
              yield* sql.unsafe(statement).unprepared
          }
          if (!columns.some(({ name }) => name === "tenant")) {
            for (const statement of tenantColumn) yield* sql.unsafe(statement).unprepared
          }
        })
      )
      const listTexts = (texts: ReadonlyArray<string>) => sql`SELECT value FROM json_each(${JSON.stringify(texts)})`
      const runs = make({ sql, run, listed: listTexts, listen: () => Effect.never })
      return Layer.merge(Layer.succeed(Runs, runs), Layer.succeed(SqlClient.SqlClient, sql))
    })
  )
