/**
 * The session store and the run record on an open database.
 *
 * Source: `ARCHITECTURE.md` §8.
 */
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type * as Prompt from "effect/ai/Prompt"
import type { SqlError } from "effect/sql/SqlError"
import { SessionBusy, SessionStoreError } from "../../domain/AgentError.ts"
import type { SessionId } from "../../domain/Ids.ts"
import * as Conversation from "../../domain/Conversation.ts"
import type { Together } from "../../domain/RunRecorder.ts"
import * as Leases from "../../platform/Leases.ts"
import * as Reference from "../Reference.ts"
import { promptLength, type Service as SessionActivity, type Spoken } from "../SessionActivity.ts"
import type { Service as SessionMaintenance } from "../SessionMaintenance.ts"
import type { Service as SessionRetention } from "../SessionRetention.ts"
import { hiddenSources, type Service as SessionSearch } from "../SessionSearch.ts"
import * as SessionStore from "../SessionStorePort.ts"
import * as StoredForm from "../StoredForm.ts"
import * as StoreFailure from "../StoreFailure.ts"
import * as Title from "../Title.ts"
import * as Database from "./Database.ts"
import * as SqliteMaintenance from "./SqliteMaintenance.ts"
import * as SqliteRecord from "./SqliteRecord.ts"
import * as SqliteRetention from "./SqliteRetention.ts"
import * as SqliteSearch from "./SqliteSearch.ts"

/** The columns of a new message. */
const encode = (message: Prompt.Message): Result.Result<Database.NewMessage, SessionStoreError> =>
  Result.mapBoth(StoredForm.encode(message), {
    onSuccess: (envelope) => {
      const { content, toolCalls, toolNames } = StoredForm.searchText(message)
      return { role: message.role, envelope, content, toolNames, toolCalls }
    },
    onFailure: ({ cause, message: problem }) =>
      new SessionStoreError({ operation: "append", message: `a message of role ${message.role} ${problem}`, cause })
  })

const appendCounts = `UPDATE sessions SET
  message_count = message_count + ?, tool_call_count = tool_call_count + ?, updated_at = ?, ended_at = NULL, end_reason = NULL
  WHERE id = ? RETURNING message_count`
const appendMessage = `INSERT INTO messages (session_id, position, role, created_at, content, tool_name, tool_calls, envelope)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
const forgetBegun = "DELETE FROM begun_calls WHERE session_id = ? AND call_id = ?"

/** Columns that {@link Database.fromUsage} and {@link Database.fromCost} give values for, in their order; the last two are replaced. */
const counterNames = [
  "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "api_call_count",
  "estimated_cost_usd", "cost_status", "cost_source"
]
const countedBy = (value: (name: string) => string): string =>
  counterNames.map((name, index) => index < counterNames.length - 2 ? `${name} = ${name} + ${value(name)}` : `${name} = ${value(name)}`).join(", ")
const addUsage = `UPDATE sessions SET ${countedBy(() => "?")} WHERE id = ? RETURNING id`
const addModelUsage = `INSERT INTO session_model_usage (session_id, provider, model, ${counterNames.join(", ")})
  VALUES (?, ?, ?, ${counterNames.map(() => "?").join(", ")})
  ON CONFLICT (session_id, provider, model) DO UPDATE SET ${countedBy((name) => `excluded.${name}`)}`

/** A session with its messages as they were read last. */
interface ReadSession {
  readonly row: number
  readonly startedAt: number
  readonly messages: ReadonlyArray<Prompt.Message>
  /** Position behind the last of them. */
  readonly next: number
}

/** Sessions whose decoded messages are kept, so that a turn of a long session reads what is new in it. */
const maxSessionsRead = 4

/** Continuations that are followed from one session, so that a damaged database ends too. */
const maxContinuations = 10_000

/** Makes the session store on an open database. */
export const make = ({ sql, read, write, writeDirectly }: Database.Database): SessionStore.Service => {
  const session = (rows: ReadonlyArray<Database.SessionRow>): Option.Option<SessionStore.Session> =>
    Option.map(Option.fromUndefinedOr(rows[0]), Database.toSession)
  const one = (operation: string, rows: Effect.Effect<ReadonlyArray<Database.SessionRow>, SqlError>) =>
    read(operation, Effect.map(rows, session))
  const many = (operation: string, rows: Effect.Effect<ReadonlyArray<Database.SessionRow>, SqlError>) =>
    read(operation, Effect.map(rows, (rows) => rows.map(Database.toSession)))

  const byId = (id: string) => one("get", sql<Database.SessionRow>`SELECT * FROM sessions WHERE id = ${id}`)
  const newestFirst = sql`ORDER BY updated_at DESC, rowid DESC`

  /** For updates that return the id they touched: none means that there is no such session. */
  const touched = (operation: string, id: string, rows: ReadonlyArray<unknown>) =>
    rows.length === 0 ? Effect.fail(StoreFailure.sessionUnknown(operation, id)) : Effect.void

  const leases = Leases.make<SessionStoreError>(sql, (effect) => write("acquire", effect))
  /** Leases of the sessions that are owned through this store. */
  const owned = new Map<string, Leases.Lease<SessionStoreError>>()
  const isHeld = (id: string): Effect.Effect<boolean, SessionStoreError> =>
    owned.get(id)?.isHeld ?? Effect.succeed(true)

  const acquire: SessionStore.Service["acquire"] = Effect.fnUntraced(function*(id) {
    const lease = yield* leases.take(Leases.sessionName(id)).pipe(
      Effect.catchTag("LeaseTaken", ({ isOwn, pid }) =>
        Effect.fail(new SessionBusy({ sessionId: id, ...(isOwn ? {} : { pid }) })))
    )
    yield* Effect.acquireRelease(
      Effect.sync(() => owned.set(id, lease)),
      () => Effect.sync(() => owned.delete(id))
    )
    return { lost: Effect.andThen(lease.lost, Effect.fail(new SessionBusy({ sessionId: id }))) }
  })

  const titleIsFree = (operation: string, id: string, title: string) =>
    Effect.flatMap(
      sql<{ readonly id: string }>`SELECT id FROM sessions WHERE title = ${title} AND id <> ${id}`,
      ([owner]) => owner === undefined ? Effect.void : Effect.fail(StoreFailure.titleTaken(operation, title, owner.id))
    )

  const decoded = Effect.fnUntraced(function*(id: SessionId, from: number, to: number): Effect.fn.Return<Pick<ReadSession, "messages" | "next">, SessionStoreError> {
    const rows = yield* read("messages", sql<{ readonly envelope: string; readonly position: number }>`
      SELECT envelope, position FROM messages WHERE session_id = ${id} AND position >= ${from} AND position < ${to} ORDER BY position`)
    const messages = yield* Effect.forEach(rows, ({ envelope, position }) =>
      Result.match(StoredForm.decode(envelope), {
        onSuccess: Effect.succeed,
        onFailure: (problem) =>
          Effect.fail(
            new SessionStoreError({
              operation: "messages",
              message: `message ${position} of session ${id} ${problem.message}`,
              cause: problem.cause
            })
          )
      }))
    // Positions of a repaired session may have gaps.
    return { messages, next: (rows.at(-1)?.position ?? from - 1) + 1 }
  })

  const sessionsRead = new Map<SessionId, ReadSession>()

  /** All messages of a session. Those that were read before are neither read nor decoded again: nobody rewrites them. */
  const whole = Effect.fnUntraced(function*(id: SessionId): Effect.fn.Return<ReadonlyArray<Prompt.Message>, SessionStoreError> {
    const [row] = yield* read("messages", sql<Pick<ReadSession, "row" | "startedAt"> & { readonly count: number }>`
      SELECT rowid AS row, started_at AS startedAt, message_count AS count FROM sessions WHERE id = ${id}`)
    if (row === undefined) return []
    const before = sessionsRead.get(id)
    // Another session may have the id of one that was removed.
    const isSame = before !== undefined && before.row === row.row && before.startedAt === row.startedAt && before.messages.length <= row.count
    const known = isSame ? before : { messages: [], next: 0 }
    const added = yield* decoded(id, known.next, Number.MAX_SAFE_INTEGER)
    const messages = [...known.messages, ...added.messages]
    sessionsRead.delete(id)
    sessionsRead.set(id, { row: row.row, startedAt: row.startedAt, messages, next: added.next })
    const [oldest] = sessionsRead.keys()
    if (sessionsRead.size > maxSessionsRead && oldest !== undefined) sessionsRead.delete(oldest)
    return messages.slice()
  })

  const store = SessionStore.SessionStore.of({
    create: Effect.fnUntraced(function*(session) {
      const mask = yield* StoredForm.heldMask
      const title = session.title === undefined ? null : yield* Title.clean("create", mask(session.title))
      const now = yield* Clock.currentTimeMillis
      const row: Database.SessionRow = Database.newSession({ ...session, systemPrompt: mask(session.systemPrompt) }, title, now)
      return yield* write("create", Effect.gen(function*() {
        const taken = yield* sql`SELECT 1 FROM sessions WHERE id = ${session.id}`
        if (taken.length > 0) return yield* StoreFailure.sessionExists(session.id)
        if (title !== null) yield* titleIsFree("create", session.id, title)
        yield* sql`INSERT INTO sessions ${sql.insert(row)}`
        return Database.toSession(row)
      }))
    }),

    acquire,

    begin: (id, callIds) =>
      write("begin", Effect.gen(function*() {
        yield* touched("begin", id, yield* sql`SELECT 1 FROM sessions WHERE id = ${id}`)
        const rows: ReadonlyArray<Record<string, unknown>> = callIds.map((call_id) => ({ session_id: id, call_id }))
        if (Arr.isReadonlyArrayNonEmpty(rows)) yield* sql`INSERT OR IGNORE INTO begun_calls ${sql.insert(rows)}`
      })),

    begun: (id) =>
      read("begun", Effect.map(
        sql<{ readonly call_id: string }>`SELECT call_id FROM begun_calls WHERE session_id = ${id}`,
        (rows) => new Set(rows.map(({ call_id }) => call_id))
      )),

    append: Effect.fnUntraced(function*(id, messages) {
      if (!(yield* isHeld(id))) return yield* StoreFailure.sessionLost(id)
      const rows = yield* Effect.fromResult(Result.all((yield* StoredForm.maskedMessages(messages)).map(encode)))
      const answered = messages.flatMap(Conversation.resultIds)
      const calls = messages.reduce((count, message) => count + Conversation.toolCalls(message).length, 0)
      const now = yield* Clock.currentTimeMillis
      const first = yield* writeDirectly("append", (all) => {
        const [after] = all(appendCounts, [rows.length, calls, now, id])
        if (after === undefined) return undefined
        const first = Number(after["message_count"]) - rows.length
        rows.forEach(({ content, envelope, role, toolCalls, toolNames }, index) =>
          all(appendMessage, [id, first + index, role, now, content, toolNames, toolCalls, envelope]))
        answered.forEach((callId) => all(forgetBegun, [id, callId]))
        return first
      })
      return first ?? (yield* StoreFailure.sessionUnknown("append", id))
    }),

    recordUsage: (id, { cost, provider, model, usage }) => {
      const counted = Object.values({ ...Database.fromUsage(usage), ...Database.fromCost(cost) })
      return Effect.flatMap(
        writeDirectly("recordUsage", (all) => {
          const rows = all(addUsage, [...counted, id])
          if (rows.length > 0) all(addModelUsage, [id, provider, model, ...counted])
          return rows
        }),
        (rows) => touched("recordUsage", id, rows)
      )
    },

    end: Effect.fnUntraced(function*(id, reason) {
      const now = yield* Clock.currentTimeMillis
      yield* write("end", Effect.flatMap(
        sql`UPDATE sessions SET ended_at = ${now}, end_reason = ${reason} WHERE id = ${id} RETURNING id`,
        (rows) => touched("end", id, rows)
      ))
    }),

    continueIn: Effect.fnUntraced(function*(id, { endReason, messages, ...session }) {
      if (!(yield* isHeld(id))) return yield* StoreFailure.sessionLost(id)
      return yield* write("continue", Effect.gen(function*() {
        const found = yield* byId(id)
        if (Option.isNone(found)) return yield* StoreFailure.sessionUnknown("continue", id)
        const [newer] = yield* sql<{ readonly id: string }>`SELECT id FROM sessions WHERE continues_session_id = ${id}`
        if (newer !== undefined) return yield* StoreFailure.sessionContinued(id, newer.id)
        const { cwd, hasOwnPrompt, source, title } = found.value
        const prefix = title === undefined ? "" : Title.family(title)
        const taken = title === undefined ? [] : yield* sql<{ readonly title: string }>`
          SELECT title FROM sessions WHERE substr(title, 1, length(${prefix})) = ${prefix}`
        yield* store.create({
          ...session,
          source,
          hasOwnPrompt,
          cwd,
          parentId: id,
          continues: id,
          title: title === undefined ? undefined : Title.next(title, taken.map((one) => one.title))
        })
        yield* store.append(session.id, messages)
        yield* store.end(session.id, endReason)
        yield* store.end(id, "compression")
        const [row] = yield* sql<Database.SessionRow>`SELECT * FROM sessions WHERE id = ${session.id}`
        return row === undefined ? yield* StoreFailure.sessionUnknown("continue", session.id) : Database.toSession(row)
      }))
    }),

    newest: (id) =>
      read("newest", Effect.map(
        sql<{ readonly id: SessionId }>`
          WITH RECURSIVE chain (id, place) AS (
            SELECT ${id}, 0
            UNION ALL
            SELECT sessions.id, place + 1 FROM chain JOIN sessions ON sessions.continues_session_id = chain.id WHERE place < ${maxContinuations}
          )
          SELECT id FROM chain ORDER BY place DESC LIMIT 1`,
        ([last]) => last?.id ?? id
      )),

    rename: Effect.fnUntraced(function*(id, wanted) {
      const title = yield* Title.clean("rename", (yield* StoredForm.heldMask)(wanted))
      yield* write("rename", Effect.gen(function*() {
        yield* titleIsFree("rename", id, title)
        yield* touched("rename", id, yield* sql`UPDATE sessions SET title = ${title} WHERE id = ${id} RETURNING id`)
      }))
    }),

    remove: (id) =>
      write("remove", Effect.gen(function*() {
        sessionsRead.delete(id)
        // Before their session, so that the full-text index hears of each.
        yield* sql`DELETE FROM messages WHERE session_id = ${id}`
        yield* touched("remove", id, yield* sql`DELETE FROM sessions WHERE id = ${id} RETURNING id`)
      })),

    get: byId,

    messages: (id, range) => range === undefined ? whole(id) : Effect.map(decoded(id, range.from, range.to), ({ messages }) => messages),

    list: (options) =>
      many(
        "list",
        sql<Database.SessionRow>`
          SELECT * FROM sessions ${options?.source === undefined ? sql`` : sql`WHERE source = ${options.source}`}
          ${newestFirst} LIMIT ${Math.max(0, options?.limit ?? SessionStore.defaultLimit)}`
      ),

    resolve: Reference.resolve({
      byId,
      byIdPrefix: (prefix) =>
        many(
          "resolve",
          sql<Database.SessionRow>`
            SELECT * FROM sessions WHERE substr(id, 1, length(${prefix})) = ${prefix}
            ${newestFirst} LIMIT ${Reference.maxCandidates}`
        ),
      byTitle: (title) => one("resolve", sql<Database.SessionRow>`SELECT * FROM sessions WHERE title = ${title}`),
      byTitlePrefix: (prefix) =>
        many("resolve", sql<Database.SessionRow>`
          SELECT * FROM sessions WHERE substr(title, 1, length(${prefix})) = ${prefix}`),
      names: read("resolve", Effect.map(
        sql<{ readonly id: string; readonly title: string | null }>`
          SELECT id, title FROM sessions WHERE source NOT IN ${sql.in(hiddenSources)} ${newestFirst}`,
        (rows) => rows.flatMap(({ id, title }) => title === null ? [id] : [id, title])
      )),
      latest: one(
        "resolve",
        sql<Database.SessionRow>`
          SELECT * FROM sessions WHERE source NOT IN ${sql.in(hiddenSources)} ${newestFirst} LIMIT 1`
      )
    }),

    usageByModel: (id) =>
      read(
        "usageByModel",
        Effect.map(
          sql<Database.UsageRow>`SELECT * FROM session_model_usage WHERE session_id = ${id} ORDER BY rowid`,
          (rows) => rows.map((row) => ({ provider: row.provider, model: row.model, usage: Database.toUsage(row), cost: Database.toCost(row) }))
        )
      )
  })
  return store
}

/** Store, search, run record and retention on one database. */
export interface Backend {
  readonly record: SqliteRecord.SqliteRecord
  readonly retention: SessionRetention
  readonly store: SessionStore.Service
  readonly search: SessionSearch
  readonly activity: SessionActivity
  readonly maintenance: SessionMaintenance
  readonly together: Together
}

const activityOf = ({ read, sql }: Database.Database, { sequence, since }: SqliteRecord.SqliteRecord): SessionActivity => ({
  version: Effect.map(read("version", sql<{ readonly data_version: number }>`PRAGMA data_version`), ([row]) => row?.data_version ?? 0),
  sequence,
  since,
  running: read("running", Effect.map(Leases.heldSessions(sql), (ids) => new Set(ids))),
  spoken: ({ since, until }) =>
    read("spoken", Effect.gen(function*() {
      const counts = yield* sql<{ readonly id: string; readonly messages: number; readonly users: number }>`
        SELECT session_id AS id, count(*) AS messages, sum(body ->> '$.origin' = 'user') AS users FROM run_record
        WHERE kind = 'MessageAppended' AND at >= ${since} AND at < ${until} AND json_valid(body)
          AND body ->> '$.copyOf' IS NULL AND position IS NOT NULL
        GROUP BY session_id`
      const chosen = yield* sql<{ readonly id: string; readonly at: number; readonly text: string }>`
        SELECT session_id AS id, created_at AS at, substr(content, 1, ${promptLength}) AS text FROM messages
        WHERE role = 'user' AND created_at >= ${since} AND created_at < ${until} AND substr(content, 1, 6) = '<skill'
          AND NOT EXISTS (SELECT 1 FROM run_record r WHERE r.session_id = messages.session_id AND r.position = messages.position
            AND json_valid(r.body) AND r.body ->> '$.copyOf' IS NOT NULL)`
      const skills = Map.groupBy(
        chosen.flatMap(({ at, id, text }) => {
          const name = StoredForm.chosenSkill(text)
          return name === undefined ? [] : [{ id, at, name }]
        }),
        ({ id }) => id
      )
      return new Map(counts.map(({ id, messages, users }): [string, Spoken] => [id, { messages, userMessages: users, skills: skills.get(id) ?? [] }]))
    })),
  prompts: (ids) =>
    Effect.map(
      Effect.forEach(Arr.chunksOf(ids, SqliteRecord.insertSize), (some) =>
        read("prompts", sql<{ readonly id: string; readonly text: string | null }>`
          SELECT id, (SELECT substr(content, 1, ${promptLength}) FROM messages
            WHERE session_id = sessions.id AND role = 'user' ORDER BY position LIMIT 1) AS text
          FROM sessions WHERE id IN ${sql.in(some)}`)),
      (rows) => new Map(rows.flat().flatMap(({ id, text }) => text === null ? [] : [[id, text] as const]))
    )
})

/** Opens the store, the search and the run record on the database in a file, which is closed with the scope. */
export const open = (path: string, readOnly = false) =>
  Effect.map(readOnly ? Database.openForReading(path) : Database.open(path), (database): Backend => {
    const record = SqliteRecord.make(database)
    const store = make(database)
    return {
      record,
      retention: SqliteRetention.make(database),
      store,
      search: SqliteSearch.make(database),
      activity: activityOf(database, record),
      maintenance: SqliteMaintenance.make(database, store),
      together: database.together
    }
  })
