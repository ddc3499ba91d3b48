/**
 * The session store, the run record and the search in a Postgres database.
 *
 * **Details**
 *
 * A write to a session that this process owns checks the lease of the session: if another process has taken over the
 * session, nothing is written.
 *
 * Postgres cannot store NUL or a lone surrogate in a string. A system prompt or a call id that contains one is stored
 * as JSON with a prefix. Envelopes and the record are already JSON.
 *
 * **Gotchas**
 *
 * Search returns the newest matching messages first and does not rank them.
 *
 * Source: `ARCHITECTURE.md` §8.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as PubSub from "effect/PubSub"
import * as Queue from "effect/Queue"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { isSqlError, type SqlError } from "effect/sql/SqlError"
import { SessionStoreError } from "../../base/domain/AgentError.ts"
import * as Leases from "../../base/platform/Leases.ts"
import * as PostgresClient from "../../base/platform/PostgresClient.ts"
import * as PostgresFailure from "../../base/platform/PostgresFailure.ts"
import * as PostgresLeases from "../../base/platform/PostgresLeases.ts"
import type { Backend } from "../SessionBackend.ts"
import * as SearchWords from "../SearchWords.ts"
import type { Row } from "../SessionBackup.ts"
import * as SqlBackup from "../sql/SqlBackup.ts"
import * as SqlInbox from "../sql/SqlInbox.ts"
import * as SqlQuestions from "../sql/SqlQuestions.ts"
import * as SqlRecord from "../sql/SqlRecord.ts"
import * as SqlStore from "../sql/SqlStore.ts"
import * as StoreFailure from "../StoreFailure.ts"
import * as PostgresActivity from "./PostgresActivity.ts"
import * as PostgresMaintenance from "./PostgresMaintenance.ts"
import * as PostgresMigrations from "./PostgresMigrations.ts"
import * as PostgresSearch from "./PostgresSearch.ts"
import * as PostgresTexts from "./PostgresTexts.ts"
import * as PostgresWrites from "./PostgresWrites.ts"
import type * as SessionStore from "../SessionStorePort.ts"
import type * as SqlRows from "../sql/SqlRows.ts"

const mark = "\u0001"

/** Encoding of strings that must be preserved byte for byte, including characters that Postgres cannot store. */
const exact: SqlStore.SqlPlace["exact"] = {
  encode: (text) =>
    text.includes("\0") || text.startsWith(mark) || !text.isWellFormed() ? `${mark}${JSON.stringify(text)}` : text,
  decode: (text) => {
    if (!text.startsWith(mark)) return text
    const parsed: unknown = JSON.parse(text.slice(mark.length))
    return String(parsed)
  }
}

const toTextColumns = (row: Row): PostgresTexts.TextColumns => {
  const readColumn = (name: string): string => String(row[name] ?? "")
  return {
    content: readColumn("content"),
    tool_name: readColumn("tool_name"),
    tool_calls: readColumn("tool_calls"),
    envelope: readColumn("envelope")
  }
}

/** Adds rows of a backup to `messages`, with their words for the index. */
const addMessages = (sql: PostgresClient.Client, rows: ReadonlyArray<Row>) => {
  const added = rows.map((row) => {
    const columns = toTextColumns(row)
    const texts = [columns.content, columns.tool_name, columns.tool_calls].map(PostgresTexts.toSearchText)
    const [content = "", names = "", calls = ""] = texts
    const folded = SearchWords.fold(texts.join("\n"))
    const words = PostgresSearch.listIndexWords(folded)
    const stored = PostgresTexts.readTexts({ ...columns, content: "", tool_name: "", tool_calls: "" })
    // A stored form of a newer version has texts that this version does not read.
    const isInForm = stored.content === content && stored.toolNames === names && stored.toolCalls === calls
    const kept = isInForm
      ? { content: "", tool_name: "", tool_calls: "" }
      : { content, tool_name: names, tool_calls: calls }
    return { ...row, ...kept, folded: words === undefined ? folded : "", words }
  })
  return sql`
    INSERT INTO messages (session_id, position, role, created_at, content, tool_name, tool_calls, folded, words,
      envelope)
    SELECT a.session_id, a.position, a.role, a.created_at, a.content, a.tool_name, a.tool_calls, a.folded,
      array_to_tsvector(a.words), a.envelope
    FROM json_to_recordset(CAST(${JSON.stringify(added)} AS json))
      AS a (session_id TEXT, position INTEGER, role TEXT, created_at BIGINT, content TEXT, tool_name TEXT,
        tool_calls TEXT, folded TEXT, words TEXT[], envelope TEXT)`
}

/** Pause before the process listens again after its connection was lost. */
const listenAgain = Schedule.spaced("1 second")
/** Interval of the looks that find messages whose notification was lost. */
const inboxPoll = "5 seconds"
/** Current time of the server, in epoch milliseconds. */
const clock = "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"

/** The channel of a schema's inbox, and a stream that emits whenever it is notified. */
interface InboxNews {
  readonly notify: Effect.Effect<unknown, SqlError>
  readonly changes: Stream.Stream<void>
}

/** Makes the news of the inbox. The process listens, on a connection for it alone, from the first reader on. */
const makeInboxNews = Effect.fnUntraced(function* (
  sql: PostgresClient.Client,
  schema: string
): Effect.fn.Return<InboxNews, never, Scope.Scope> {
  const channel = `hermes_session_inbox_${schema}`.slice(0, 60)
  const scope = yield* Effect.scope
  const news = yield* PubSub.sliding<void>(1)
  const tell = PubSub.publish(news, undefined)
  const listen = Effect.scoped(
    Effect.flatMap(sql.listen(channel), (notified) =>
      Effect.andThen(tell, Effect.forever(Effect.andThen(Queue.takeAll(notified), tell)))
    )
  ).pipe(
    Effect.catchCause((cause) => Effect.logDebug("the listener of the inbox begins again", cause)),
    Effect.repeat(listenAgain)
  )
  let isListening = false
  const begin = Effect.suspend(() => {
    if (isListening) return Effect.void
    isListening = true
    return Effect.forkIn(listen, scope)
  })
  return {
    notify: sql`SELECT pg_notify(${channel}, '')`,
    changes: Stream.unwrap(Effect.as(begin, Stream.merge(Stream.fromPubSub(news), Stream.tick(inboxPoll))))
  }
})

/** Returns the columns of a new message, by their names. `index` is its place among the added messages. */
const toMessageRow = ({ content, envelope, role, toolCalls, toolNames }: SqlRows.NewMessage, index: number) => {
  const texts = [content, toolNames, toolCalls].map(PostgresTexts.toSearchText)
  const folded = SearchWords.fold(texts.join("\n"))
  const words = PostgresSearch.listIndexWords(folded)
  return {
    index,
    role,
    // The stored form has the texts (`PostgresTexts`).
    content: "",
    tool_name: "",
    tool_calls: "",
    folded: words === undefined ? folded : "",
    words,
    envelope
  }
}

/** Returns the columns of an entry of the record, by their names. */
const toEntryRow = (row: SqlRecord.Columns): object =>
  Object.fromEntries(SqlRecord.columnNames.map((name, index) => [name, row[index]]))

/** Creates the store, the record and the search over an open client. */
const make = (
  sql: PostgresClient.Client,
  lock: PostgresLeases.ProcessLock,
  news: InboxNews,
  scope: Scope.Scope,
  described: (operation: string) => (error: SqlError) => SessionStoreError
): Backend => {
  /** Ends a collection of writes, because a statement between them must see them. */
  const leave: Effect.Effect<void> = Effect.suspend(() => writes.leave)
  const read: SqlStore.Run = (operation, effect) =>
    Effect.andThen(
      leave,
      Effect.catchTag(sql.waiting(effect), "SqlError", (error) => Effect.fail(described(operation)(error)))
    )
  const write: SqlStore.Run = (operation, effect) =>
    Effect.andThen(
      leave,
      Effect.catchTag(sql.transaction(effect), "SqlError", (error) =>
        // If the connection is lost, the outer transaction is repeated, and with it the nested write. The code between
        // them must therefore not receive the failure.
        Effect.withFiber((fiber) =>
          sql.isWithin(fiber) && PostgresFailure.isAway(error)
            ? Effect.die(error)
            : Effect.fail(described(operation)(error))
        )
      )
    )
  const leases = PostgresLeases.make<SessionStoreError>(sql, lock, (effect) => read("acquire", effect))
  const xact = sql.literal(PostgresClient.xact)

  /**
   * Returns the SQL condition that this process still owns the session. Returns `undefined` if this process does not
   * hold a lease of the session.
   */
  const findOwnership = (id: string) => {
    const owner = leases.getOwner(Leases.toSessionName(id))
    return owner === undefined
      ? undefined
      : sql`EXISTS (SELECT 1 FROM leases WHERE name = ${Leases.toSessionName(id)} AND owner = ${owner})`
  }
  const isOurs = (id: string) => findOwnership(id) ?? sql`TRUE`

  const writes: PostgresWrites.PostgresWrites = PostgresWrites.makePostgresWrites({
    sql,
    isOurs: findOwnership,
    toRow: toMessageRow,
    toEntry: toEntryRow
  })

  const appendNow: SqlStore.SqlPlace["append"] = (id, { answered, calls, now, rows }) => {
    const added = JSON.stringify(rows.map(toMessageRow))
    return write(
      "append",
      Effect.gen(function* () {
        const [after] = yield* sql<{ readonly message_count: number; readonly xact: string }>`
        WITH counted AS (
          UPDATE sessions SET message_count = message_count + ${rows.length},
            tool_call_count = tool_call_count + ${calls},
            updated_at = ${now}, ended_at = NULL, end_reason = NULL
          WHERE id = ${id} AND ${isOurs(id)} RETURNING message_count
        ), added AS (
          INSERT INTO messages (session_id, position, role, created_at, content, tool_name, tool_calls, folded, words,
            envelope)
          SELECT ${id}, counted.message_count - ${rows.length} + a.index, a.role, ${now}, a.content, a.tool_name,
            a.tool_calls, a.folded, array_to_tsvector(a.words), a.envelope
          FROM counted, json_to_recordset(CAST(${added} AS json))
            AS a (index INTEGER, role TEXT, content TEXT, tool_name TEXT, tool_calls TEXT, folded TEXT, words TEXT[],
              envelope TEXT)
        ), closed AS (
          DELETE FROM begun_calls USING counted
          WHERE session_id = ${id}
          AND call_id IN (SELECT json_array_elements_text(CAST(${JSON.stringify(answered.map(exact.encode))} AS json)))
        )
        SELECT message_count, ${xact} AS xact FROM counted`
        yield* sql.identified(after?.xact)
        if (after !== undefined) return after.message_count - rows.length
        const [there] = yield* sql`SELECT 1 FROM sessions WHERE id = ${id}`
        return there === undefined ? undefined : yield* StoreFailure.makeLostSessionError(id)
      })
    )
  }

  const append: SqlStore.SqlPlace["append"] = (id, appended) =>
    Effect.flatMap(writes.append(id, appended), (collected) =>
      collected !== undefined
        ? Effect.succeed(collected)
        : Effect.tap(appendNow(id, appended), (first) =>
            Effect.sync(() => {
              if (first !== undefined) writes.noteCount(id, first + appended.rows.length)
            })
          )
    )

  /** Runs `otherwise` unless a write was collected. */
  const unlessCollected = <A, E>(collected: Effect.Effect<boolean>, value: A, otherwise: Effect.Effect<A, E>) =>
    Effect.flatMap(collected, (isCollected) => (isCollected ? Effect.succeed(value) : otherwise))

  const keepNow = (rows: ReadonlyArray<SqlRecord.Columns>) =>
    write(
      "record",
      Effect.gen(function* () {
        const added = JSON.stringify(rows.map(toEntryRow))
        const [end] = yield* sql<{ readonly missing: string | null; readonly xact: string | null }>`
          WITH added AS (
            SELECT a.*, row_number() OVER () AS place
            FROM json_to_recordset(CAST(${added} AS json)) AS a (session_id TEXT, turn_id TEXT,
              at DOUBLE PRECISION, version INTEGER, kind TEXT, content_key TEXT, position INTEGER, body TEXT)
          ), missing AS (
            SELECT session_id FROM added
            WHERE session_id NOT IN (SELECT id FROM sessions WHERE id IN (SELECT session_id FROM added)) LIMIT 1
          ), done AS (
            INSERT INTO run_record (session_id, turn_id, at, version, kind, content_key, position, body)
            SELECT session_id, turn_id, at, version, kind, content_key, position, body FROM added
            WHERE NOT EXISTS (SELECT 1 FROM missing) ORDER BY place ON CONFLICT DO NOTHING
          )
          SELECT (SELECT session_id FROM missing) AS missing, CAST(pg_current_xact_id() AS TEXT) AS xact`
        yield* sql.identified(end?.xact)
        if (typeof end?.missing === "string") return yield* StoreFailure.makeUnknownSessionError("record", end.missing)
      })
    )
  const record = SqlRecord.make({
    sql,
    read,
    afterwards: writes.afterwards,
    isShort: true,
    keep: (rows, then) => {
      const stored = unlessCollected(writes.record(rows), undefined, keepNow(rows))
      return then === undefined ? stored : Effect.andThen(stored, writes.afterwards(then))
    }
  })

  const sqlStore = SqlStore.make({
    sql,
    read,
    write,
    leases,
    made: "made",
    exact,
    append,
    collected: writes,
    begunCalls: SqlQuestions.makeBegunTable(sql),
    // `begin` is idempotent, so it does not need a separate transaction.
    begin: (id, callIds) =>
      unlessCollected(
        writes.begin(id, callIds),
        true,
        Effect.flatMap(
          read(
            "begin",
            sql<{ readonly is_ours: boolean }>`
          WITH found AS (SELECT id, ${isOurs(id)} AS is_ours FROM sessions WHERE id = ${id}), added AS (
            INSERT INTO begun_calls (session_id, call_id)
            SELECT found.id, a.call_id
            FROM found, json_array_elements_text(CAST(${JSON.stringify(callIds)} AS json)) AS a (call_id)
            WHERE found.is_ours ON CONFLICT DO NOTHING
          )
          SELECT is_ours FROM found`
          ),
          // A call must not run here if another process may already have begun it.
          ([found]) =>
            found?.is_ours === false
              ? Effect.fail(StoreFailure.makeLostSessionError(id))
              : Effect.succeed(found !== undefined)
        )
      ),
    end: (id, at, reason) =>
      Effect.map(
        write("end", sql`UPDATE sessions SET ended_at = ${at}, end_reason = ${reason} WHERE id = ${id} RETURNING id`),
        (rows) => rows.length > 0
      ),
    addUsage: (id, { model, provider }, counted) =>
      unlessCollected(
        writes.addUsage(id, { model, provider, counted }),
        true,
        write(
          "recordUsage",
          Effect.gen(function* () {
            const { cost_source, cost_status, ...sums } = counted
            const added = JSON.stringify(sums)
            const rows = yield* sql<{ readonly xact: string }>`
          WITH added AS (
            SELECT * FROM json_to_record(CAST(${added} AS json)) AS a (input_tokens BIGINT, output_tokens BIGINT,
              cache_read_tokens BIGINT, cache_write_tokens BIGINT, reasoning_tokens BIGINT, api_call_count BIGINT,
              estimated_cost_usd DOUBLE PRECISION)
          ), counted AS (
            UPDATE sessions s SET input_tokens = s.input_tokens + a.input_tokens,
              output_tokens = s.output_tokens + a.output_tokens,
              cache_read_tokens = s.cache_read_tokens + a.cache_read_tokens,
              cache_write_tokens = s.cache_write_tokens + a.cache_write_tokens,
              reasoning_tokens = s.reasoning_tokens + a.reasoning_tokens,
              api_call_count = s.api_call_count + a.api_call_count,
              estimated_cost_usd = s.estimated_cost_usd + a.estimated_cost_usd, cost_status = ${cost_status},
              cost_source = ${cost_source}
            FROM added a WHERE s.id = ${id} RETURNING s.id
          ), of_model AS (
            INSERT INTO session_model_usage AS u (session_id, provider, model, input_tokens, output_tokens,
              cache_read_tokens, cache_write_tokens,
              reasoning_tokens, api_call_count, estimated_cost_usd, cost_status, cost_source)
            SELECT counted.id, ${provider}, ${model}, a.*, ${cost_status}, ${cost_source} FROM counted, added a
            ${sql.literal(PostgresTexts.addToModelUsage)}
          )
          SELECT ${xact} AS xact FROM counted`
            yield* sql.identified(rows[0]?.xact)
            return rows.length > 0
          })
        )
      )
  })
  const store: SessionStore.Service = {
    ...sqlStore,
    get: (id) =>
      Effect.tap(sqlStore.get(id), (session) =>
        Effect.sync(() => {
          if (Option.isSome(session)) writes.noteCount(id, session.value.messageCount)
        })
      )
  }

  const backup = SqlBackup.make({
    sql,
    read,
    made: "made",
    exact,
    inSnapshot: (use) =>
      sql.withTransaction(
        Effect.andThen(sql`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY`.unprepared, use(sql))
      ),
    inTransaction: sql.transaction,
    listHeld: PostgresLeases.listHeldSessions(sql),
    completeMessage: (row) => {
      const texts = PostgresTexts.readTexts(toTextColumns(row))
      return { ...row, content: texts.content, tool_name: texts.toolNames, tool_calls: texts.toolCalls }
    },
    addMessages: (rows) => addMessages(sql, rows),
    toStoreError: described
  })

  return {
    backup,
    record,
    store,
    search: PostgresSearch.make(sql, read),
    activity: PostgresActivity.makeActivity(sql, read, record, PostgresLeases.listHeldSessions(sql)),
    maintenance: PostgresMaintenance.makeMaintenance({ sql, read, write, store }),
    inbox: SqlInbox.makeInbox({ sql, read, write, leases, scope, clock, ...news }),
    retention: PostgresMaintenance.makeRetention({ sql, read, write, store }),
    together: (work) =>
      Effect.catchIf(writes.collect(work, sql.transaction(work)), isSqlError, (error) =>
        Effect.fail(described("write")(error))
      )
  }
}

/** Opens the store, the search and the run record in a database. Its connections are closed with the scope. */
export const open = Effect.fnUntraced(function* (
  options: PostgresClient.Options
): Effect.fn.Return<Backend, SessionStoreError, Scope.Scope> {
  const toStoreError =
    (operation: string) =>
    (error: SqlError): SessionStoreError =>
      new SessionStoreError({
        operation,
        message: PostgresFailure.describe(options.url, error),
        cause: error.reason.cause
      })
  const sql = yield* Effect.mapError(PostgresClient.open(options), toStoreError("open"))
  const place = `Postgres at ${PostgresFailure.formatPlace(options.url)}`
  const schema = PostgresClient.readSchemaName(options.url)
  yield* Effect.catchTag(PostgresMigrations.migrate(sql, schema, place), "SqlError", (error) =>
    Effect.fail(toStoreError("open")(error))
  )
  const lock = yield* PostgresLeases.holdProcess(sql)
  return make(sql, lock, yield* makeInboxNews(sql, schema), yield* Effect.scope, toStoreError)
})
