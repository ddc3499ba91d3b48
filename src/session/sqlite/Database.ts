/**
 * The open session database: its settings, the two ways to use it, and its rows in the port's terms.
 *
 * **Details**
 *
 * Writers queue: another process that holds the lock is waited for, one second inside SQLite and then again after a pause of
 * 20 to 150 ms, until 15 seconds are over. A transaction is short and is not interrupted; the pauses are.
 *
 * In WAL mode (`synchronous = NORMAL`) a transaction is in the log file when it returns: killing the process loses nothing. A
 * power cut can lose the latest transactions and never leaves half of one; a checkpoint, tried every 50 writes, secures what
 * came before it. Where the file system cannot do WAL the journal is a rollback journal (`synchronous = FULL`), and what
 * returned survives a power cut as well.
 *
 * Source: `hermes-product.md` §4.1, `ARCHITECTURE.md` §8.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { isSqlError, type SqlError } from "effect/sql/SqlError"
import { SessionStoreError } from "../../domain/AgentError.ts"
import * as Cost from "../../domain/Cost.ts"
import type { SessionId } from "../../domain/Ids.ts"
import type { Together } from "../../domain/RunRecorder.ts"
import * as Usage from "../../domain/Usage.ts"
import * as SqliteClient from "../../platform/SqliteClient.ts"
import * as SqlFailure from "../../platform/SqlFailure.ts"
import type { SearchText } from "../StoredForm.ts"
import type { Role } from "../SessionSearch.ts"
import type { NewSession, Session } from "../SessionStorePort.ts"
import * as Migrations from "./Migrations.ts"

/** An open session database. */
export interface Database {
  readonly sql: SqliteClient.Client
  /** Runs statements that change nothing. */
  readonly read: Run
  /** Runs statements in one transaction: all of them are done or none. Within {@link Database.together} they are a part of its transaction. */
  readonly write: Run
  /** The same for statements that run directly one after the other, without an Effect for each: for what is written at every step of a run. */
  readonly writeDirectly: <A>(
    operation: string,
    body: (all: SqliteClient.Database["all"]) => A
  ) => Effect.Effect<A, SessionStoreError>
  readonly together: Together
}

/** Runs statements on behalf of an operation of the store, which its failures name. */
type Run = <A>(
  operation: string,
  effect: Effect.Effect<A, SqlError | SessionStoreError>
) => Effect.Effect<A, SessionStoreError>

/** Writes between two checkpoints. */
const checkpointEvery = 50

const failureOf = (path: string, operation: string) => (error: SqlError): SessionStoreError =>
  new SessionStoreError({ operation, message: SqlFailure.describe(path, error), cause: error.reason.cause })

/** The database at `path` by its client. Every failure names the path. */
export const make = (path: string, sql: SqliteClient.Client): Database => {
  const run: Run = (operation, effect) =>
    SqliteClient.waiting(effect).pipe(
      Effect.catchTag("SqlError", (error) => Effect.fail(failureOf(path, operation)(error)))
    )

  let writes = 0
  const checkpoint = Effect.suspend(() =>
    ++writes % checkpointEvery === 0
      // The log goes on growing without it, and the next checkpoint makes up for it.
      ? Effect.catchTag(sql`PRAGMA wal_checkpoint(PASSIVE)`, "SqlError", (error) =>
        Effect.logDebug("checkpoint failed", error))
      : Effect.void
  )

  const transaction = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | SqlError, R> =>
    Effect.tap(SqliteClient.waiting(sql.transaction(effect)), () => checkpoint)

  const write: Run = (operation, effect) =>
    Effect.withFiber((fiber) =>
      Effect.catchTag(sql.isWithin(fiber) ? effect : transaction(effect), "SqlError", (error) =>
        Effect.fail(failureOf(path, operation)(error))))

  return {
    sql,
    read: run,
    write,
    writeDirectly: (operation, body) => write(operation, sql.statements(body)),
    together: (writes) =>
      Effect.catchIf(transaction(writes), isSqlError, (error) => Effect.fail(failureOf(path, "write")(error)))
  }
}

/** Opens the database in a file, creating or migrating it where it must be. It is closed with the scope. */
export const open = Effect.fnUntraced(function*(
  path: string,
  migrations: ReadonlyArray<Migrations.Migration> = Migrations.migrations
): Effect.fn.Return<Database, SessionStoreError, Scope.Scope> {
  const sql = yield* Effect.mapError(SqliteClient.open(path), failureOf(path, "open"))
  const database = make(path, sql)
  yield* database.read("open", Effect.andThen(SqliteClient.configure(sql), Migrations.migrate(sql, path, migrations)))
  return database
})

/**
 * Opens the database in a file as {@link open} does. One that cannot be opened so (a newer schema, a directory that takes no file, a full
 * disk) is opened for reading alone, with a warning; the failure stands where that is not possible either.
 */
export const openForReading = (path: string): Effect.Effect<Database, SessionStoreError, Scope.Scope> =>
  Effect.catch(open(path), (failure) =>
    Effect.gen(function*() {
      const sql = yield* SqliteClient.openForReading(path)
      const database = make(path, sql)
      const version = yield* Migrations.versionOf(sql, path, Number.MAX_SAFE_INTEGER)
      // Tables of an older schema lack what is read.
      if (version < Migrations.migrations.length) return yield* failure
      yield* Effect.logWarning(`Sessions are opened for reading only: ${failure.message}`)
      return database
    }).pipe(Effect.mapError(() => failure)))

// Types and not interfaces where `sql.insert` takes them: only those are records.

/** The counters of `sessions` and `session_model_usage`. */
type UsageColumns = {
  readonly input_tokens: number
  readonly output_tokens: number
  readonly cache_read_tokens: number
  readonly cache_write_tokens: number
  readonly reasoning_tokens: number
  readonly api_call_count: number
}

/** Cost of calls, in the columns of both. */
type CostColumns = {
  readonly estimated_cost_usd: number
  readonly cost_status: Cost.Status
  readonly cost_source: Cost.Source
}

/** A row of `sessions`. */
export type SessionRow = UsageColumns & CostColumns & {
  readonly id: SessionId
  readonly source: string
  readonly provider: string
  readonly model: string
  readonly parent_session_id: SessionId | null
  readonly title: string | null
  readonly cwd: string | null
  readonly started_at: number
  readonly updated_at: number
  readonly ended_at: number | null
  readonly end_reason: string | null
  readonly message_count: number
  readonly tool_call_count: number
  readonly system_prompt: string
  readonly continues_session_id: SessionId | null
  readonly has_own_prompt: number
}

/** A row of `session_model_usage`. */
export interface UsageRow extends UsageColumns, CostColumns {
  readonly provider: string
  readonly model: string
}

/** Data of a row of `messages`. */
export interface NewMessage extends SearchText {
  readonly role: Role
  readonly envelope: string
}

/** Counters as columns. */
export const fromUsage = (usage: Usage.Usage): UsageColumns => ({
  input_tokens: usage.inputTokens,
  output_tokens: usage.outputTokens,
  cache_read_tokens: usage.cacheReadTokens,
  cache_write_tokens: usage.cacheWriteTokens,
  reasoning_tokens: usage.reasoningTokens,
  api_call_count: usage.requestCount
})

/** Columns as counters. */
export const toUsage = (row: UsageColumns): Usage.Usage => ({
  inputTokens: row.input_tokens,
  outputTokens: row.output_tokens,
  cacheReadTokens: row.cache_read_tokens,
  cacheWriteTokens: row.cache_write_tokens,
  reasoningTokens: row.reasoning_tokens,
  requestCount: row.api_call_count
})

/** A cost as columns; what is not known counts nothing. */
export const fromCost = ({ source, status, usd }: Cost.Spent): CostColumns => ({
  estimated_cost_usd: usd ?? 0,
  cost_status: status,
  cost_source: source
})

/** Columns as a cost. */
export const toCost = (row: CostColumns): Cost.Spent => ({
  usd: row.estimated_cost_usd,
  status: row.cost_status,
  source: row.cost_source
})

/** The row that a session begins with. */
export const newSession = (session: NewSession, title: string | null, now: number): SessionRow => ({
  id: session.id,
  source: session.source,
  provider: session.provider,
  model: session.model,
  parent_session_id: session.parentId ?? null,
  title,
  cwd: session.cwd ?? null,
  started_at: now,
  updated_at: now,
  ended_at: null,
  end_reason: null,
  message_count: 0,
  tool_call_count: 0,
  ...fromUsage(Usage.zero),
  ...fromCost(Cost.spent(Cost.nothing)),
  system_prompt: session.systemPrompt,
  continues_session_id: session.continues ?? null,
  has_own_prompt: session.hasOwnPrompt === true ? 1 : 0
})

/** A row as a session. */
export const toSession = (row: SessionRow): Session => ({
  id: row.id,
  source: row.source,
  provider: row.provider,
  model: row.model,
  systemPrompt: row.system_prompt,
  parentId: row.parent_session_id ?? undefined,
  continues: row.continues_session_id ?? undefined,
  hasOwnPrompt: row.has_own_prompt === 1,
  title: row.title ?? undefined,
  cwd: row.cwd ?? undefined,
  startedAt: row.started_at,
  endedAt: row.ended_at ?? undefined,
  endReason: row.end_reason ?? undefined,
  usage: toUsage(row),
  cost: toCost(row),
  messageCount: row.message_count,
  toolCallCount: row.tool_call_count
})
