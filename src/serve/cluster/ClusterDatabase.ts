/**
 * The Postgres database that the runners of a cluster share, and the cluster's own tables in it.
 *
 * **Details**
 *
 * One schema holds all tables: sessions and the run record of the store (`store/postgres`), and messages and shards of
 * `effect/cluster`. This module defines `members` (the runners), `runs` (submitted work and its outcomes), `shared`
 * (facts that one runner discovered and all runners use) and `budgets`.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import type * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import { isSqlError, type SqlError } from "effect/sql/SqlError"
import * as SqlClient from "effect/sql/SqlClient"
import * as Digest from "../../base/platform/Digest.ts"
import * as PostgresClient from "../../base/platform/PostgresClient.ts"
import * as PostgresFailure from "../../base/platform/PostgresFailure.ts"
import * as PostgresLeases from "../../base/platform/PostgresLeases.ts"
import { ClusterError } from "./Cluster.ts"
import * as ClusterNews from "./ClusterNews.ts"

/** Statements that create the table of submitted runs, shared with SQLite. Times are milliseconds since 1970. */
export const buildRunTables = (made: string): ReadonlyArray<string> => [
  `CREATE TABLE runs (
    made ${made},
    id TEXT NOT NULL UNIQUE,
    batch TEXT NOT NULL,
    kind TEXT NOT NULL,
    session_id TEXT NOT NULL,
    first_position INTEGER,
    state TEXT NOT NULL,
    runner TEXT,
    starts INTEGER NOT NULL,
    outcome TEXT,
    submitted_at BIGINT NOT NULL,
    started_at BIGINT,
    ended_at BIGINT
  )`,
  "CREATE INDEX runs_batch ON runs (batch, state)",
  "CREATE INDEX runs_session ON runs (session_id, made)"
]

/**
 * Columns that detect a run without progress, shared with SQLite: the number of messages in its session at the last
 * start, and the number of consecutive starts at which it was the same.
 */
export const stallColumns = [
  "ALTER TABLE runs ADD COLUMN messages BIGINT",
  "ALTER TABLE runs ADD COLUMN stalls INTEGER NOT NULL DEFAULT 0"
]

/** The index that finds the oldest unfinished runs, shared with SQLite. */
export const openRunsIndex = "CREATE INDEX IF NOT EXISTS runs_open ON runs (made) WHERE state <> 'done'"

/** The index that finds the next turn of a session, shared with SQLite. */
export const openTurnsIndex =
  "CREATE INDEX IF NOT EXISTS runs_open_turns ON runs (session_id, made) WHERE state <> 'done'"

/** Statements that create the inbox of sessions and the mark of a run that was started again, shared with SQLite. */
export const buildInboxTable = (seq: string): ReadonlyArray<string> => [
  `CREATE TABLE inbox (
    seq ${seq},
    session_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    sent_at BIGINT NOT NULL
  )`,
  "CREATE INDEX inbox_session ON inbox (session_id, kind, seq)",
  "ALTER TABLE runs ADD COLUMN retried_as TEXT"
]

/** The tenants of runs, shared with SQLite. */
export const tenantColumn = [
  "ALTER TABLE runs ADD COLUMN tenant TEXT",
  "CREATE INDEX runs_tenant ON runs (tenant) WHERE tenant IS NOT NULL"
]

/** Migration statements, one list for each version of the tables. A released list must never be changed. */
const steps: ReadonlyArray<ReadonlyArray<string>> = [
  [
    `CREATE TABLE members (
    address TEXT PRIMARY KEY,
    process INTEGER NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    version TEXT NOT NULL,
    concurrency INTEGER NOT NULL,
    running INTEGER NOT NULL DEFAULT 0,
    is_draining BOOLEAN NOT NULL DEFAULT FALSE,
    started_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    seen_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
  )`,
    ...buildRunTables("BIGINT GENERATED ALWAYS AS IDENTITY"),
    "CREATE TABLE shared (kind TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, " +
      "changed_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(), PRIMARY KEY (kind, key))",
    `CREATE TABLE budgets (
    name TEXT PRIMARY KEY,
    max_tokens BIGINT,
    max_dollars DOUBLE PRECISION,
    tokens BIGINT NOT NULL DEFAULT 0,
    dollars DOUBLE PRECISION NOT NULL DEFAULT 0
  )`
  ],
  [
    "ALTER TABLE members ADD COLUMN protocol INTEGER NOT NULL DEFAULT 1",
    // Agent contents that submissions include, by digest.
    "CREATE TABLE agents (digest TEXT PRIMARY KEY, content TEXT NOT NULL, " +
      "used_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp())",
    "CREATE INDEX runs_ended ON runs (ended_at) WHERE state = 'done'"
  ],
  [openRunsIndex],
  stallColumns,
  [openTurnsIndex, ...buildInboxTable("BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY")],
  tenantColumn
]

/**
 * Version of the protocol between runners and clients: the tables, the requests, the steps of the workflow. Runners
 * with the same protocol version work together, whatever their program versions are. The protocol version increases
 * when an older program would misread the data of a newer program.
 */
export const protocol = 5

const migrating = 0x48654568

const migrateTables = Effect.fnUntraced(function* (sql: PostgresClient.Client, schema: string, place: string) {
  const version = Effect.gen(function* () {
    const [there] = yield* sql<{ readonly is_there: boolean }>`
      SELECT EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = ${schema} AND tablename = 'cluster_version') AS is_there`
    if (there?.is_there !== true) return 0
    const [row] = yield* sql<{ readonly version: number }>`SELECT version FROM cluster_version`
    return row?.version ?? 0
  })
  const known = steps.length
  const check = Effect.flatMap(version, (found) =>
    found <= known
      ? Effect.succeed(found)
      : Effect.fail(
          new ClusterError({
            message:
              `${place} was written by a newer version (cluster tables ${found}; supported: ${known}): ` +
              "update hermes on this machine to use it"
          })
        )
  )
  if ((yield* check) === known) return
  yield* sql.transaction(
    Effect.gen(function* () {
      yield* sql`SELECT pg_advisory_xact_lock(${migrating})`
      // Another process may have migrated the tables meanwhile.
      const from = yield* check
      if (from === 0) {
        yield* sql`CREATE SCHEMA IF NOT EXISTS ${sql(schema)}`
        yield* sql.unsafe("CREATE TABLE IF NOT EXISTS cluster_version (version INTEGER NOT NULL)").unprepared
        yield* sql`INSERT INTO cluster_version SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM cluster_version)`
      }
      for (const statements of steps.slice(from)) {
        for (const statement of statements) yield* sql.unsafe(statement).unprepared
      }
      yield* sql`UPDATE cluster_version SET version = ${known}`
    })
  )
})

/** Operations on the open database of a cluster. */
export interface Service {
  readonly sql: PostgresClient.Client
  /** Advisory lock of this process. While it is held, other processes know that this process is alive. */
  readonly lock: PostgresLeases.ProcessLock
  /** Address of the database without the login, and the schema of the tables. */
  readonly place: string
  readonly schema: string
  /**
   * Prefix of the engine's tables of runners. The engine's locks of shards have its name. Locks hold for all schemas of
   * a database, so that each schema has its own.
   */
  readonly runnerPrefix: string
  /** Notifications between the processes. */
  readonly news: ClusterNews.News
  /**
   * Runs statements, and waits for the server while it is unavailable. Any other failure is reported together with the
   * address of the database.
   */
  readonly run: <A, E>(effect: Effect.Effect<A, E | SqlError>) => Effect.Effect<A, Exclude<E, SqlError> | ClusterError>
}

/** Service for the database of a cluster. */
export class ClusterDatabase extends Context.Service<ClusterDatabase, Service>()(
  "hermes-effect/cluster/ClusterDatabase"
) {}

const toRunnerPrefix = (schema: string): string =>
  schema === PostgresClient.defaultSchema ? "cluster" : `cluster_${Digest.toHex(schema, 16)}`

/** Opens the database at `url` and creates missing tables. Also provides its client to `effect/cluster`. */
export const layer = (
  url: Redacted.Redacted,
  connections = 8
): Layer.Layer<ClusterDatabase | SqlClient.SqlClient, ClusterError> =>
  Layer.effectContext(
    Effect.gen(function* () {
      const toClusterError = (error: SqlError): ClusterError =>
        new ClusterError({ message: PostgresFailure.describe(url, error), cause: error.reason.cause })
      const sql = yield* Effect.mapError(PostgresClient.open({ url, connections }), toClusterError)
      const place = `Postgres at ${PostgresFailure.formatPlace(url)}`
      yield* Effect.catchTag(migrateTables(sql, PostgresClient.readSchemaName(url), place), "SqlError", (error) =>
        Effect.fail(toClusterError(error))
      )
      const lock = yield* PostgresLeases.holdProcess(sql)
      yield* lock.held
      const schema = PostgresClient.readSchemaName(url)
      const service: Service = {
        sql,
        lock,
        place,
        schema,
        runnerPrefix: toRunnerPrefix(schema),
        news: yield* ClusterNews.makeNews(sql, schema),
        run: <A, E>(effect: Effect.Effect<A, E | SqlError>) =>
          Effect.mapError(sql.waiting(effect), (error): Exclude<E, SqlError> | ClusterError =>
            // The type system cannot see that every other failure has one of the remaining types.
            isSqlError(error) ? toClusterError(error) : (error as Exclude<E, SqlError>)
          )
      }
      return Context.make(ClusterDatabase, service).pipe(Context.add(SqlClient.SqlClient, sql))
    })
  )

/** Schedule for listening again after the connection of the listener broke. */
const listenAgain = Schedule.spaced("1 second")

/**
 * Runs `then` whenever a channel is notified, and as soon as the process listens: at the start, and after each time
 * that the connection was lost. A notification that was sent before is not delivered.
 */
export const listenOn = (
  sql: Pick<PostgresClient.Client, "listen">,
  channel: string,
  then: Effect.Effect<void>
): Effect.Effect<never> =>
  Effect.scoped(
    Effect.flatMap(sql.listen(channel), (news) =>
      // All notifications that arrived meanwhile are handled together.
      Effect.andThen(then, Effect.forever(Effect.andThen(Queue.takeAll(news), then)))
    )
  ).pipe(
    Effect.catchCause((cause) => Effect.logDebug("the listener of the cluster begins again", cause)),
    Effect.repeat(listenAgain),
    Effect.andThen(Effect.never)
  )
