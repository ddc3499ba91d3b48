/**
 * Check and repair of a session database.
 *
 * **Details**
 *
 * A damaged search index is rebuilt from the messages. Other indexes are rebuilt too. If that does not help, the file
 * itself is damaged: every readable row is copied to a new file that replaces the damaged one, and the damaged file is
 * preserved next to it. If SQLite cannot open a file, because its header is damaged or its end is missing, a copy with
 * a repaired header and the pages of the log is opened instead.
 *
 * A message whose stored form is damaged is replaced by its search text, so that its session can be read and continued.
 * A message written by a newer version is not changed.
 *
 * **Gotchas**
 *
 * The repair refuses to recreate a file that is open in another process, because that process would continue with the
 * damaged file.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import type { PlatformError } from "effect/PlatformError"
import * as Result from "effect/Result"
import * as Prompt from "effect/ai/Prompt"
import type { SqlClient } from "effect/sql/SqlClient"
import { isSqlError, type SqlError } from "effect/sql/SqlError"
import { SessionStoreError } from "../../base/domain/AgentError.ts"
import * as SqlFailure from "../../base/platform/SqlFailure.ts"
import * as SqliteClient from "../../base/platform/SqliteClient.ts"
import type { RepairReport } from "../SessionMaintenance.ts"
import * as StoredForm from "../StoredForm.ts"
import * as Database from "./Database.ts"
import * as DatabaseBytes from "./DatabaseBytes.ts"
import * as DatabaseCopy from "./DatabaseCopy.ts"
import * as Migrations from "./Migrations.ts"
import * as MessageIndex from "./MessageIndex.ts"
import * as RecordParts from "./RecordParts.ts"
import * as SignIndex from "./SignIndex.ts"
import * as SqliteSalvage from "./SqliteSalvage.ts"

type Sql = SqlClient

const makeFailure = (message: string): SessionStoreError => new SessionStoreError({ operation: "repair", message })

/** Returns the first line of SQLite's message. */
const formatSqlError = (error: SqlError): string => {
  const { cause } = error.reason
  return (cause instanceof Error ? cause.message : error.message).replace(/\s+/gu, " ")
}

const formatCount = (count: number, one: string): string => (count === 1 ? `1 ${one}` : `${count} ${one}s`)

/** Returns the problems found in the file. The result also shows whether one of them concerns the search index. */
const checkIntegrity = Effect.fnUntraced(function* (sql: Sql) {
  const rows = yield* sql<{ readonly integrity_check: string }>`PRAGMA integrity_check(20)`.pipe(
    Effect.map((found) => found.map((row) => row.integrity_check)),
    Effect.catch((error) => Effect.succeed([formatSqlError(error)]))
  )
  const bad = rows
    .flatMap((row) => row.split("\n"))
    .map((row) => row.trim())
    .filter((row) => row !== "ok" && row !== "")
  const isOfIndex = (row: string): boolean => row.includes("messages_fts") || row.includes("signs_fts")
  return { file: bad.filter((row) => !isOfIndex(row)), isIndexNamed: bad.some(isOfIndex) }
})

/** Query that tests for an older schema, in which a trigger adds every message to the word index. */
const addingTrigger = "SELECT 1 FROM sqlite_schema WHERE name = 'messages_fts_insert'"

/**
 * Compares the word index with the messages, including messages that no search has added yet. The index is not changed.
 */
const isIndexRight = (sql: SqliteClient.Client) =>
  Effect.match(
    sql.transaction(
      sql.statements((all) => {
        all("SAVEPOINT compared", [])
        try {
          if (all(addingTrigger, []).length === 0) MessageIndex.addWords(all)
          all("INSERT INTO messages_fts (messages_fts, rank) VALUES ('integrity-check', 1)", [])
        } finally {
          all("ROLLBACK TO compared", [])
        }
      })
    ),
    { onSuccess: () => true, onFailure: () => false }
  )

/** Recreates the table of an index as an empty table. */
const recreateTable = Effect.fnUntraced(function* (sql: Sql, table: string) {
  yield* sql.unsafe(`DROP TABLE IF EXISTS ${table}`).unprepared
  const create = Migrations.migrations
    .flatMap(({ statements }) => statements)
    .filter((statement) => statement.includes(`VIRTUAL TABLE ${table}`))
  for (const statement of create) yield* sql.unsafe(statement).unprepared
})

/**
 * Rebuilds the word index, even if its own tables are damaged. The character index is emptied, and later searches add
 * the messages again.
 */
const rebuildIndex = (sql: SqliteClient.Client) => {
  const fill = Effect.gen(function* () {
    yield* sql.unsafe("INSERT INTO messages_fts (messages_fts) VALUES ('rebuild')").unprepared
    if ((yield* sql.unsafe(addingTrigger).unprepared).length > 0) return
    yield* sql`INSERT OR REPLACE INTO state_meta (key, value) SELECT ${MessageIndex.wordsKey}, coalesce(max(id), 0)
      FROM messages`
  })
  const rebuild = sql.withTransaction(fill)
  const anew = sql.withTransaction(Effect.andThen(recreateTable(sql, "messages_fts"), fill))
  const words = Effect.flatMap(rebuild, () => isIndexRight(sql)).pipe(
    Effect.orElseSucceed(() => false),
    Effect.flatMap((isRight) => (isRight ? Effect.void : Effect.asVoid(anew)))
  )
  const signs = Effect.gen(function* () {
    // An older schema does not have this table.
    if ((yield* sql`SELECT 1 FROM sqlite_schema WHERE name = 'signs_fts'`).length === 0) return
    yield* recreateTable(sql, "signs_fts")
    yield* sql`DELETE FROM state_meta WHERE key = ${SignIndex.placeKey}`
  })
  return Effect.andThen(words, sql.withTransaction(signs))
}

interface StoredMessage {
  readonly id: number
  readonly session_id: string
  readonly position: number
  readonly role: string
  readonly content: string
  readonly envelope: string
}

const pageSize = 500

/** Finds messages whose stored form cannot be read, except messages of newer versions. */
const findDamagedMessages = Effect.fnUntraced(function* (sql: Sql) {
  const damaged: Array<StoredMessage> = []
  let after = -1
  while (true) {
    const rows: ReadonlyArray<StoredMessage> = yield* sql<StoredMessage>`
      SELECT id, session_id, position, role, content, envelope FROM messages WHERE id > ${after} ORDER BY id
      LIMIT ${pageSize}`
    for (const row of rows) {
      const message = StoredForm.decode(row.envelope)
      if (Result.isFailure(message) && !message.failure.message.includes("newer version")) damaged.push(row)
    }
    const last = rows.at(-1)
    if (last === undefined || rows.length < pageSize) return damaged
    after = last.id
  }
})

/** Creates a message with the search text of a damaged message. */
const makeReplacement = ({ content, role }: StoredMessage): Prompt.Message => {
  const text = content === "" ? "[This message was damaged.]" : content
  if (role === "user") return Prompt.userMessage({ content: [Prompt.textPart({ text })] })
  if (role === "system") return Prompt.systemMessage({ content: text })
  return role === "tool"
    ? Prompt.toolMessage({ content: [] })
    : Prompt.assistantMessage({ content: [Prompt.textPart({ text })] })
}

const findMiscounted = (sql: Sql) =>
  sql<{ readonly id: string; readonly next: number }>`
    SELECT sessions.id, (SELECT coalesce(max(position) + 1, 0) FROM messages WHERE session_id = sessions.id) AS next
    FROM sessions WHERE message_count <> next`

/** Repairs the rows of an intact file. */
const repairRows = Effect.fnUntraced(function* (sql: Sql, damaged: ReadonlyArray<StoredMessage>) {
  for (const row of damaged) {
    const envelope = StoredForm.encode(makeReplacement(row))
    if (Result.isSuccess(envelope)) yield* sql`UPDATE messages SET envelope = ${envelope.success} WHERE id = ${row.id}`
  }
  for (const { id, next } of yield* findMiscounted(sql))
    yield* sql`UPDATE sessions SET message_count = ${next} WHERE id = ${id}`
})

/** Locks the file exclusively for this connection, if this is possible despite the damage. */
const takeExclusively = (sql: Sql, path: string) =>
  Effect.andThen(sql.unsafe("PRAGMA journal_mode = DELETE").unprepared, sql.unsafe("BEGIN EXCLUSIVE").unprepared).pipe(
    Effect.catch((error) =>
      error.reason._tag === "LockTimeoutError"
        ? Effect.fail(
            makeFailure(`${path} is damaged and open in another program: end every hermes process, then repair it`)
          )
        : Effect.void
    )
  )

/**
 * Replaces a database with `made` and renames the old file to `kept`. The log of the old file is moved too, because
 * SQLite would treat it as the log of the new file. If one step fails, all previous steps are undone.
 */
const replaceFile = (
  path: string,
  kept: string,
  made: string
): Effect.Effect<void, PlatformError, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const moved: Array<string> = []
    const moveAside = Effect.fnUntraced(function* (end: string) {
      if (!(yield* fs.exists(`${path}${end}`))) return
      yield* fs.rename(`${path}${end}`, `${kept}${end}`)
      moved.push(end)
    })
    yield* Effect.andThen(
      Effect.forEach(["-wal", "-shm", ""], moveAside, { discard: true }),
      fs.rename(made, path)
    ).pipe(
      Effect.onError(() =>
        Effect.forEach(moved, (end) => Effect.ignore(fs.rename(`${kept}${end}`, `${path}${end}`)), { discard: true })
      )
    )
  })

/** Describes the data that was saved to the new file. */
const describeSalvaged = ({ incomplete, lostMessages, messages, sessions }: SqliteSalvage.SalvageReport): string => {
  const saved = `${formatCount(sessions, "session")}, ${formatCount(messages, "message")}`
  if (incomplete.length === 0) return `wrote everything to a new file (${saved})`
  const lost = lostMessages === 0 ? "" : `; lost: ${formatCount(lostMessages, "message")}`
  return `wrote what is readable to a new file (${saved}${lost}); incomplete: ${incomplete.join(", ")}`
}

/**
 * Replaces a database with a new file that contains its readable data. Returns the path of the damaged file, and a
 * description of the saved data.
 */
const writeAnew = Effect.fnUntraced(function* (sql: Sql, path: string) {
  const fs = yield* FileSystem.FileSystem
  const target = `${path}.repaired`
  const toReplaceFailure = (error: PlatformError) =>
    makeFailure(`${path} could not be replaced by ${target}: ${error.message}`)
  yield* Effect.mapError(fs.remove(target, { force: true }), toReplaceFailure)
  const salvaged = yield* Effect.scoped(SqliteSalvage.salvage(sql, target))
  const kept = `${path}.damaged-${yield* Clock.currentTimeMillis}`
  yield* Effect.mapError(replaceFile(path, kept, target), toReplaceFailure)
  return { kept, done: describeSalvaged(salvaged) }
})

const lastVersion = Migrations.migrations.at(-1)?.version ?? 0

/** Rejects the database of another program or of a newer version. A damaged version table is tolerated. */
const refuseForeign = (sql: Sql, path: string) =>
  Effect.catchIf(
    Migrations.readVersion(sql, path, lastVersion),
    (error) => isSqlError(error) && SqlFailure.isDamaged(error),
    () => Effect.void
  )

const hasSessions = (sql: Sql) =>
  sql<{ readonly count: number }>`
    SELECT count(*) AS count FROM sqlite_schema WHERE type = 'table' AND name IN ('sessions', 'messages')`.pipe(
    Effect.map(([row]) => row?.count === 2),
    Effect.orElseSucceed(() => false)
  )

/** Saves the readable data of a file that SQLite cannot open. */
const rescueFile = Effect.fnUntraced(function* (path: string, inspection: DatabaseCopy.Inspection) {
  const copy = `${path}.readable`
  yield* Effect.mapError(DatabaseCopy.make(path, copy, inspection), (error) =>
    makeFailure(`${path} could not be copied: ${error.message}`)
  )
  // The database must be closed before the copy is removed.
  return yield* Effect.scoped(
    Effect.gen(function* () {
      const sql = yield* SqliteClient.open(copy)
      // The header of a truncated file already identifies it as a database of this program.
      if (!DatabaseBytes.isCutOff(inspection) && !(yield* hasSessions(sql))) {
        return yield* makeFailure(
          `${path} holds nothing that can be saved: move it away to start a new one, or restore it from a copy`
        )
      }
      yield* refuseForeign(sql, path)
      return yield* writeAnew(sql, path)
    })
  )
})

/** Saves a copy of a damaged log, because SQLite ignores and overwrites the log. */
const keepLog = Effect.fnUntraced(function* (path: string) {
  const fs = yield* FileSystem.FileSystem
  const kept = `${path}.damaged-${yield* Clock.currentTimeMillis}-wal`
  yield* Effect.mapError(fs.copyFile(`${path}-wal`, kept), (error) =>
    makeFailure(`${path}-wal could not be copied: ${error.message}`)
  )
  return `kept a copy of the damaged log as ${kept}`
})

/** Tests whether every entry of the record is found by its session. */
const isRecordListed = Effect.fnUntraced(function* (sql: SqliteClient.Client) {
  // An older schema does not have this table.
  if ((yield* sql`SELECT 1 FROM sqlite_schema WHERE name = 'record_parts'`).length === 0) return true
  return yield* RecordParts.areAllListed(sql)
})

/** Checks a database, and repairs it unless only a check is requested. */
export const repair = Effect.fnUntraced(function* (
  path: string,
  { checkOnly }: { readonly checkOnly: boolean }
): Effect.fn.Return<RepairReport, SessionStoreError, FileSystem.FileSystem> {
  const problems: Array<string> = []
  const done: Array<string> = []
  let isDamaged = false
  const mapSqlErrors = <A, R>(
    effect: Effect.Effect<A, SqlError | SessionStoreError, R>
  ): Effect.Effect<A, SessionStoreError, R> =>
    Effect.mapError(SqliteClient.retryWhileLocked(effect), (error) =>
      isSqlError(error) ? makeFailure(SqlFailure.describe(path, error)) : error
    )

  const inspection = yield* Effect.mapError(DatabaseCopy.inspect(path), (error) =>
    makeFailure(`${path} cannot be read: ${error.message}`)
  )
  if (inspection.isLogDamaged) {
    problems.push("the log beside the file is damaged: the changes that only it contained are lost")
    if (!checkOnly) done.push(yield* keepLog(path))
  }
  const isEmpty = inspection.size === 0 && !inspection.hasLog
  const isUnreadable = inspection.problem !== undefined && !isEmpty
  // If SQLite opened the file, it would remove the damaged log, but a check must not change anything.
  if (checkOnly && inspection.isLogDamaged && !isUnreadable) return { problems, done, keptAt: undefined }
  if (inspection.problem !== undefined) {
    isDamaged = true
    problems.push(`the file is damaged: ${inspection.problem}`)
    if (isEmpty && !checkOnly) done.push("made a new database: nothing of the old one can be saved")
  }
  const rescue = checkOnly
    ? Effect.undefined
    : Effect.scoped(
        Effect.map(rescueFile(path, inspection), ({ done: line, kept }) => {
          done.push(line)
          return kept
        })
      )
  const repairOpened = Effect.scoped(
    Effect.gen(function* () {
      const sql = yield* SqliteClient.open(path)
      yield* refuseForeign(sql, path)
      let { file, isIndexNamed } = yield* checkIntegrity(sql)
      isDamaged ||= file.length > 0
      if (file.length > 0)
        problems.push(`the file is damaged: ${file[0]}${file.length === 1 ? "" : ` (and ${file.length - 1} more)`}`)
      if (file.length > 0 && !checkOnly) {
        // If only an index is damaged, rebuilding it repairs the file.
        yield* Effect.ignore(sql.unsafe("REINDEX").unprepared)
        file = (yield* checkIntegrity(sql)).file
        if (file.length === 0) done.push("built the indexes anew")
      }
      if (file.length > 0) {
        if (checkOnly) return undefined
        yield* takeExclusively(sql, path)
        const { done: line, kept } = yield* writeAnew(sql, path)
        done.push(line)
        return kept
      }
      // The index is repaired before the rows, because changing rows runs triggers that use the index.
      if (isIndexNamed || !(yield* isIndexRight(sql))) {
        problems.push("the search index does not fit the messages")
        if (!checkOnly) {
          yield* rebuildIndex(sql)
          done.push("built the search index anew")
        }
      }
      return undefined
    })
  )
  const keptAt = isEmpty ? undefined : yield* mapSqlErrors(isUnreadable ? rescue : repairOpened)

  const rest = Effect.gen(function* () {
    // A check must not change anything, so it does not migrate the database.
    const sql = checkOnly ? yield* SqliteClient.open(path) : (yield* Database.open(path)).sql
    const damaged = yield* findDamagedMessages(sql)
    const counts = yield* findMiscounted(sql)
    for (const { position, session_id } of damaged)
      problems.push(`message ${position} of session ${session_id} is damaged`)
    if (counts.length > 0) problems.push(`the count of messages is wrong in ${formatCount(counts.length, "session")}`)
    const isListed = yield* isRecordListed(sql)
    if (!isListed) problems.push("the list of the parts of the record by session is incomplete")
    if (checkOnly) return
    if (!isListed) {
      yield* RecordParts.listAllParts(sql)
      done.push("listed the parts of the record anew")
    }
    if (damaged.length + counts.length === 0) return
    yield* sql.withTransaction(repairRows(sql, damaged))
    if (damaged.length > 0)
      done.push(`replaced ${formatCount(damaged.length, "damaged message")} by the text in the search index`)
    if (counts.length > 0) done.push(`counted the messages of ${formatCount(counts.length, "session")}`)
  })
  // Rows of a damaged file are examined only after it was recreated.
  if (!isDamaged || !checkOnly) yield* mapSqlErrors(Effect.scoped(rest))
  return { problems, done, keptAt }
})
