/**
 * Check and repair of a session database.
 *
 * **Details**
 *
 * A search index that is wrong is built anew from the messages. Indexes are built anew; if that does not help, the file itself is
 * damaged: every row that can be read goes to a new file, which takes the place of the damaged one, and that is kept beside it. Rows are
 * read from the beginning and from the end, and those between the two damaged places one by one.
 *
 * A message whose stored form is damaged is replaced by its text for search, so that its session can be read and continued. One that a
 * newer version wrote stays as it is.
 *
 * **Gotchas**
 *
 * A file that is made anew must not be open elsewhere: a process that has it open would go on with the damaged one. This is refused.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import type { PlatformError } from "effect/PlatformError"
import * as Result from "effect/Result"
import * as Prompt from "effect/ai/Prompt"
import type { SqlClient } from "effect/sql/SqlClient"
import { isSqlError, type SqlError } from "effect/sql/SqlError"
import { SessionStoreError } from "../../domain/AgentError.ts"
import * as SqlFailure from "../../platform/SqlFailure.ts"
import * as SqliteClient from "../../platform/SqliteClient.ts"
import type { RepairReport } from "../SessionMaintenance.ts"
import * as StoredForm from "../StoredForm.ts"
import * as Database from "./Database.ts"
import * as Migrations from "./Migrations.ts"
import * as MessageIndex from "./MessageIndex.ts"
import * as SignIndex from "./SignIndex.ts"

type Sql = SqlClient

const failure = (message: string): SessionStoreError => new SessionStoreError({ operation: "repair", message })

/** First line of what SQLite says. */
const said = (error: SqlError): string => {
  const { cause } = error.reason
  return (cause instanceof Error ? cause.message : error.message).replace(/\s+/gu, " ")
}

const plural = (count: number, one: string): string => count === 1 ? `1 ${one}` : `${count} ${one}s`

/** Names of the tables that are copied, parents first. */
const tables = ["sessions", "messages", "session_model_usage", "begun_calls", "run_record", "state_meta"] as const

/** Problems of the file, and of its search index. */
const integrity = Effect.fnUntraced(function*(sql: Sql) {
  const rows = yield* sql<{ readonly integrity_check: string }>`PRAGMA integrity_check(20)`.pipe(
    Effect.map((found) => found.map((row) => row.integrity_check)),
    Effect.catch((error) => Effect.succeed([said(error)]))
  )
  const bad = rows.flatMap((row) => row.split("\n")).map((row) => row.trim()).filter((row) => row !== "ok" && row !== "")
  const isOfIndex = (row: string): boolean => row.includes("messages_fts") || row.includes("signs_fts")
  return { file: bad.filter((row) => !isOfIndex(row)), isIndexNamed: bad.some(isOfIndex) }
})

/** In an older schema a trigger adds every message to the index of words. */
const addingTrigger = "SELECT 1 FROM sqlite_schema WHERE name = 'messages_fts_insert'"

/** Compares the index of words with the messages, those too that no search has added yet; adds none for good. */
const isIndexRight = (sql: SqliteClient.Client) =>
  Effect.match(
    sql.transaction(sql.statements((all) => {
      all("SAVEPOINT compared", [])
      try {
        if (all(addingTrigger, []).length === 0) MessageIndex.addWords(all)
        all("INSERT INTO messages_fts (messages_fts, rank) VALUES ('integrity-check', 1)", [])
      } finally {
        all("ROLLBACK TO compared", [])
      }
    })),
    { onSuccess: () => true, onFailure: () => false }
  )

/** Makes the table of an index anew, empty. */
const recreate = Effect.fnUntraced(function*(sql: Sql, table: string) {
  yield* sql.unsafe(`DROP TABLE IF EXISTS ${table}`).unprepared
  const create = Migrations.migrations.flatMap(({ statements }) => statements).filter((statement) => statement.includes(`VIRTUAL TABLE ${table}`))
  for (const statement of create) yield* sql.unsafe(statement).unprepared
})

/** Builds the search index anew, also when its own tables are damaged; that of signs is emptied, and searches fill it. */
const rebuildIndex = (sql: SqliteClient.Client) => {
  const fill = Effect.gen(function*() {
    yield* sql.unsafe("INSERT INTO messages_fts (messages_fts) VALUES ('rebuild')").unprepared
    if ((yield* sql.unsafe(addingTrigger).unprepared).length > 0) return
    yield* sql`INSERT OR REPLACE INTO state_meta (key, value) SELECT ${MessageIndex.wordsKey}, coalesce(max(id), 0) FROM messages`
  })
  const rebuild = sql.withTransaction(fill)
  const anew = sql.withTransaction(Effect.andThen(recreate(sql, "messages_fts"), fill))
  const words = Effect.flatMap(rebuild, () => isIndexRight(sql)).pipe(
    Effect.orElseSucceed(() => false),
    Effect.flatMap((isRight) => isRight ? Effect.void : Effect.asVoid(anew))
  )
  const signs = Effect.gen(function*() {
    // Missing in an older schema.
    if ((yield* sql`SELECT 1 FROM sqlite_schema WHERE name = 'signs_fts'`).length === 0) return
    yield* recreate(sql, "signs_fts")
    yield* sql`DELETE FROM state_meta WHERE key = ${SignIndex.placeKey}`
  })
  return Effect.andThen(words, sql.withTransaction(signs))
}

interface Stored {
  readonly id: number
  readonly session_id: string
  readonly position: number
  readonly role: string
  readonly content: string
  readonly envelope: string
}

const pageSize = 500

/** Messages whose stored form cannot be read, without those of newer versions. */
const damagedMessages = Effect.fnUntraced(function*(sql: Sql) {
  const damaged: Array<Stored> = []
  let after = -1
  while (true) {
    const rows: ReadonlyArray<Stored> = yield* sql<Stored>`
      SELECT id, session_id, position, role, content, envelope FROM messages WHERE id > ${after} ORDER BY id LIMIT ${pageSize}`
    for (const row of rows) {
      const message = StoredForm.decode(row.envelope)
      if (Result.isFailure(message) && !message.failure.message.includes("newer version")) damaged.push(row)
    }
    const last = rows.at(-1)
    if (last === undefined || rows.length < pageSize) return damaged
    after = last.id
  }
})

/** A message with the text of a damaged one. */
const replacement = ({ content, role }: Stored): Prompt.Message => {
  const text = content === "" ? "[This message was damaged.]" : content
  if (role === "user") return Prompt.userMessage({ content: [Prompt.textPart({ text })] })
  if (role === "system") return Prompt.systemMessage({ content: text })
  return role === "tool" ? Prompt.toolMessage({ content: [] }) : Prompt.assistantMessage({ content: [Prompt.textPart({ text })] })
}

const miscounted = (sql: Sql) =>
  sql<{ readonly id: string; readonly next: number }>`
    SELECT sessions.id, (SELECT coalesce(max(position) + 1, 0) FROM messages WHERE session_id = sessions.id) AS next
    FROM sessions WHERE message_count <> next`

/** Rows of a table that can be read, in pages. `lost` counts the places that cannot. */
const readable = Effect.fnUntraced(function*(
  sql: Sql,
  table: string,
  use: (rows: ReadonlyArray<Record<string, unknown>>) => Effect.Effect<void, SqlError>
) {
  const select = (where: string) => Effect.result(sql.unsafe<Record<string, unknown>>(`SELECT rowid AS rowid_, * FROM ${table} ${where}`).unprepared)
  const numberOf = (row: Record<string, unknown> | undefined): number => Number(row?.["rowid_"] ?? 0)
  const plain = (rows: ReadonlyArray<Record<string, unknown>>) => rows.map(({ rowid_: _, ...row }) => row)
  if (table === "begun_calls" || table === "state_meta") {
    const rows = yield* Effect.result(sql.unsafe<Record<string, unknown>>(`SELECT * FROM ${table}`).unprepared)
    if (Result.isFailure(rows)) return false
    yield* use(rows.success)
    return true
  }
  /** Pages in one direction until one cannot be read, and then its rows one after another. Returns the last row, and if all was read. */
  const walk = Effect.fnUntraced(function*(from: number, until: number, isUp: boolean) {
    let at = from
    let size = 100
    while (true) {
      const page = yield* select(isUp
        ? `WHERE rowid > ${at} AND rowid < ${until} ORDER BY rowid LIMIT ${size}`
        : `WHERE rowid < ${at} AND rowid > ${until} ORDER BY rowid DESC LIMIT ${size}`)
      if (Result.isFailure(page)) {
        if (size === 1) return { at, isWhole: false }
        size = 1
        continue
      }
      if (page.success.length === 0) return { at, isWhole: true }
      yield* use(plain(page.success))
      at = numberOf(page.success.at(-1))
    }
  })
  const most = Number.MAX_SAFE_INTEGER
  const up = yield* walk(-most, most, true)
  if (up.isWhole) return true
  const down = yield* walk(most, up.at, false)
  if (down.isWhole) return true
  const first = Math.max(up.at + 1, 1)
  for (let number = first; number < Math.min(down.at, first + 5000); number++) {
    const row = yield* select(`WHERE rowid = ${number}`)
    if (Result.isSuccess(row)) yield* use(plain(row.success))
  }
  return false
})

/** Copies what can be read into a new file; returns the tables of which something is lost. */
const salvage = Effect.fnUntraced(function*(damaged: Sql, target: string) {
  const { sql } = yield* Database.open(target)
  const incomplete: Array<string> = []
  yield* Effect.mapError(Effect.gen(function*() {
    yield* sql.unsafe("PRAGMA foreign_keys = OFF").unprepared
    for (const table of tables) {
      const columns = new Set((yield* sql.unsafe<{ readonly name: string }>(`SELECT name FROM pragma_table_info('${table}')`).unprepared).map(({ name }) => name))
      let refused = 0
      const isWhole = yield* readable(damaged, table, (rows) =>
        sql.withTransaction(Effect.forEach(rows, (row) => {
          const known = Object.fromEntries(Object.entries(row).filter(([name]) => columns.has(name)))
          // The new file keeps its own values.
          const insert = sql.literal(table === "state_meta" ? "INSERT OR IGNORE INTO" : "INSERT INTO")
          return Effect.catchIf(sql`${insert} ${sql(table)} ${sql.insert(known)}`, SqlFailure.isRefusedRow, () => Effect.sync(() => void refused++))
        }, { discard: true })))
      if (!isWhole || refused > 0) incomplete.push(table)
    }
    yield* sql`DELETE FROM state_meta WHERE key = ${SignIndex.placeKey}`
    yield* sql`
      INSERT INTO sessions (id, source, provider, model, started_at, updated_at, system_prompt)
      SELECT DISTINCT session_id, 'repaired', '', '', min(created_at), max(created_at), '' FROM messages
      WHERE session_id NOT IN (SELECT id FROM sessions) GROUP BY session_id`
    for (const table of ["session_model_usage", "begun_calls", "run_record"]) {
      yield* sql`DELETE FROM ${sql(table)} WHERE session_id NOT IN (SELECT id FROM sessions)`
    }
    // Messages that follow a lost one come after the one before it.
    yield* sql`UPDATE messages SET position = -1 - position`
    yield* sql`
      UPDATE messages SET position = numbered.place FROM (
        SELECT id, row_number() OVER (PARTITION BY session_id ORDER BY position DESC) - 1 AS place FROM messages
      ) AS numbered WHERE numbered.id = messages.id`
    yield* sql.unsafe("PRAGMA wal_checkpoint(TRUNCATE)").unprepared
  }), (error) => failure(SqlFailure.describe(target, error)))
  return incomplete
})

/** Repairs the rows of a file that is sound. */
const repairRows = Effect.fnUntraced(function*(sql: Sql, damaged: ReadonlyArray<Stored>) {
  for (const row of damaged) {
    const envelope = StoredForm.encode(replacement(row))
    if (Result.isSuccess(envelope)) yield* sql`UPDATE messages SET envelope = ${envelope.success} WHERE id = ${row.id}`
  }
  for (const { id, next } of yield* miscounted(sql)) yield* sql`UPDATE sessions SET message_count = ${next} WHERE id = ${id}`
})

/** Takes the file for this connection alone, as far as its damage allows that. */
const own = (sql: Sql, path: string) =>
  Effect.andThen(sql.unsafe("PRAGMA journal_mode = DELETE").unprepared, sql.unsafe("BEGIN EXCLUSIVE").unprepared).pipe(
    Effect.catch((error) =>
      error.reason._tag === "LockTimeoutError"
        ? Effect.fail(failure(`${path} is damaged and open in another program: end every hermes process, then repair it`))
        : Effect.void)
  )

/**
 * Puts `made` in the place of a database, which is called `kept` from then on. Its log goes with it: SQLite would take it for the log of
 * the new file. All or nothing.
 */
const replace = (path: string, kept: string, made: string): Effect.Effect<void, PlatformError, FileSystem.FileSystem> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const moved: Array<string> = []
    const move = Effect.fnUntraced(function*(end: string) {
      if (!(yield* fs.exists(`${path}${end}`))) return
      yield* fs.rename(`${path}${end}`, `${kept}${end}`)
      moved.push(end)
    })
    yield* Effect.andThen(Effect.forEach(["-wal", "-shm", ""], move, { discard: true }), fs.rename(made, path)).pipe(
      Effect.onError(() => Effect.forEach(moved, (end) => Effect.ignore(fs.rename(`${kept}${end}`, `${path}${end}`)), { discard: true }))
    )
  })

/** Checks a database, and repairs it unless only the check is asked for. */
export const repair = Effect.fnUntraced(function*(
  path: string,
  { checkOnly }: { readonly checkOnly: boolean }
): Effect.fn.Return<RepairReport, SessionStoreError, FileSystem.FileSystem> {
  const fs = yield* FileSystem.FileSystem
  const problems: Array<string> = []
  const done: Array<string> = []
  let isDamaged = false
  const told = <A, R>(effect: Effect.Effect<A, SqlError | SessionStoreError, R>): Effect.Effect<A, SessionStoreError, R> =>
    Effect.mapError(SqliteClient.waiting(effect), (error) => isSqlError(error) ? failure(SqlFailure.describe(path, error)) : error)

  const keptAt = yield* told(Effect.scoped(Effect.gen(function*() {
    const sql = yield* SqliteClient.open(path)
    yield* Migrations.versionOf(sql, path, Migrations.migrations.at(-1)?.version ?? 0).pipe(
      // The table of versions may be among what is damaged.
      Effect.catchIf((error) => isSqlError(error) && SqlFailure.isDamaged(error), () => Effect.void)
    )
    let { file, isIndexNamed } = yield* integrity(sql)
    isDamaged = file.length > 0
    if (isDamaged) problems.push(`the file is damaged: ${file[0]}${file.length === 1 ? "" : ` (and ${file.length - 1} more)`}`)
    if (isDamaged && !checkOnly) {
      // Damage of an index alone is repaired by making it anew.
      yield* Effect.ignore(sql.unsafe("REINDEX").unprepared)
      file = (yield* integrity(sql)).file
      if (file.length === 0) done.push("built the indexes anew")
    }
    if (file.length > 0) {
      if (checkOnly) return undefined
      yield* own(sql, path)
      const target = `${path}.repaired`
      const failed = (error: PlatformError) => failure(`${path} could not be replaced by ${target}: ${error.message}`)
      yield* Effect.mapError(fs.remove(target, { force: true }), failed)
      const incomplete = yield* Effect.scoped(salvage(sql, target))
      const kept = `${path}.damaged-${yield* Clock.currentTimeMillis}`
      yield* Effect.mapError(replace(path, kept, target), failed)
      done.push(incomplete.length === 0 ? "wrote everything to a new file" : `wrote what is readable to a new file; incomplete: ${incomplete.join(", ")}`)
      return kept
    }
    // Before the rows: triggers of the index go with each change of them.
    if (isIndexNamed || !(yield* isIndexRight(sql))) {
      problems.push("the search index does not fit the messages")
      if (!checkOnly) {
        yield* rebuildIndex(sql)
        done.push("built the search index anew")
      }
    }
    return undefined
  })))

  const rest = Effect.gen(function*() {
    // A check changes nothing, so it does not migrate either.
    const sql = checkOnly ? yield* SqliteClient.open(path) : (yield* Database.open(path)).sql
    const damaged = yield* damagedMessages(sql)
    const counts = yield* miscounted(sql)
    for (const { position, session_id } of damaged) problems.push(`message ${position} of session ${session_id} is damaged`)
    if (counts.length > 0) problems.push(`the count of messages is wrong in ${plural(counts.length, "session")}`)
    if (checkOnly || damaged.length + counts.length === 0) return
    yield* sql.withTransaction(repairRows(sql, damaged))
    if (damaged.length > 0) done.push(`replaced ${plural(damaged.length, "damaged message")} by the text in the search index`)
    if (counts.length > 0) done.push(`counted the messages of ${plural(counts.length, "session")}`)
  })
  // Rows of a damaged file are looked at when it was made anew.
  if (!isDamaged || !checkOnly) yield* told(Effect.scoped(rest))
  return { problems, done, keptAt }
})
