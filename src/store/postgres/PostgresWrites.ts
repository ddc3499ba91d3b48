/**
 * The writes of a step of a run as one statement: messages, usage, starts of calls, entries of the record, the end of
 * the run, or a new session with its first message.
 *
 * **Details**
 *
 * The writes that belong together are collected first. They name the number of messages that the session has, which
 * this process knows while it owns the session, so that the position of each message is known before the statement. The
 * statement changes nothing if another process took the session, or if the number differs. In that case, and for all
 * writes that cannot be collected, the effect runs again in a transaction.
 *
 * One statement needs no transaction around it. If the connection is lost before its answer, it runs again: the session
 * stores the number of its last collected write (`write_id`), so the statement is not applied twice.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Random from "effect/Random"
import type { SqlError } from "effect/sql/SqlError"
import type { Fragment } from "effect/sql/Statement"
import type { SessionStoreError } from "../../base/domain/AgentError.ts"
import type * as PostgresClient from "../../base/platform/PostgresClient.ts"
import * as SqlRecord from "../sql/SqlRecord.ts"
import * as SqlRows from "../sql/SqlRows.ts"
import type { AppendedMessages } from "../sql/SqlStore.ts"
import * as StoreFailure from "../StoreFailure.ts"
import * as PostgresTexts from "./PostgresTexts.ts"

/** Usage of a model. */
interface ModelUsage {
  readonly provider: string
  readonly model: string
  readonly counted: SqlRows.UsageCounts
}

/** Collected writes of one session. */
interface Writes {
  /** Number of the writes, the same for each repetition of their statement. */
  readonly number: number
  sessionId: string | undefined
  /** Row of a session that the writes create. */
  creation: SqlRows.SessionRow | undefined
  readonly messages: Array<SqlRows.NewMessage>
  calls: number
  /** Time of the writes with messages. */
  addedAt: number | undefined
  /**
   * New time of the session in lists. It changes with messages of the user and with the end of a run. Other writes
   * leave it, so that the server changes the row in place and not its indexes.
   */
  changedAt: number | undefined
  usage: ModelUsage | undefined
  readonly answered: Set<string>
  readonly begun: Set<string>
  /** New end of the session; absent if it does not change. */
  ending: { readonly at: number | null; readonly reason: string | null } | undefined
  readonly entries: Array<SqlRecord.Columns>
  /** Effects that run after the statement. */
  readonly then: Array<Effect.Effect<void>>
}

/** The writes that are collected in a fiber. */
const Collected = Context.Reference<Writes | undefined>("hermes-effect/store/PostgresWrites", {
  defaultValue: () => undefined
})

/** Defect that ends the collection: the effect runs again in a transaction. */
class NotCollectable {
  readonly _tag = "NotCollectable"
}
const notCollectable = new NotCollectable()

/** A database, and the parts of its store that collected writes need. */
export interface WritesPlace {
  readonly sql: PostgresClient.Client
  /** Condition that this process owns the session, or `undefined` if it does not. */
  readonly isOurs: (id: string) => Fragment | undefined
  readonly toRow: (message: SqlRows.NewMessage, index: number) => object
  readonly toEntry: (columns: SqlRecord.Columns) => object
}

/** Collects the writes of one session. Each function returns `undefined` if nothing is collected in this fiber. */
export interface PostgresWrites {
  /** Runs an effect and stores its writes. `inTransaction` runs it if they cannot be collected. */
  readonly collect: <A, E, R>(
    writes: Effect.Effect<A, E, R>,
    inTransaction: Effect.Effect<A, E | SqlError, R>
  ) => Effect.Effect<A, E | SqlError | SessionStoreError, R>
  /** Fails the collection before a statement that is not a collected write. */
  readonly leave: Effect.Effect<void>
  readonly create: (row: SqlRows.SessionRow) => Effect.Effect<boolean>
  /** Returns the position of the first message. */
  readonly append: (id: string, appended: AppendedMessages) => Effect.Effect<number | undefined>
  readonly begin: (id: string, callIds: ReadonlyArray<string>) => Effect.Effect<boolean>
  readonly addUsage: (id: string, usage: ModelUsage) => Effect.Effect<boolean>
  readonly end: (id: string, at: number, reason: string) => Effect.Effect<boolean>
  readonly record: (rows: ReadonlyArray<SqlRecord.Columns>) => Effect.Effect<boolean>
  readonly afterwards: (effect: Effect.Effect<void>) => Effect.Effect<void>
  /** Notes the number of messages of a session that this process owns. */
  readonly noteCount: (id: string, count: number) => void
}

const makeWrites = (number: number): Writes => ({
  number,
  sessionId: undefined,
  creation: undefined,
  messages: [],
  calls: 0,
  addedAt: undefined,
  changedAt: undefined,
  usage: undefined,
  answered: new Set(),
  begun: new Set(),
  ending: undefined,
  entries: [],
  then: []
})

/** Row of a created session after its collected writes. */
const completeRow = (row: SqlRows.SessionRow, { calls, changedAt, ending, messages, usage }: Writes) => ({
  ...row,
  message_count: messages.length,
  tool_call_count: calls,
  updated_at: changedAt ?? row.updated_at,
  ended_at: ending?.at ?? null,
  end_reason: ending?.reason ?? null,
  ...(usage === undefined ? {} : SqlRows.sum(row, usage.counted))
})

/** Result of the statement. */
interface Stored {
  readonly stored: number
  readonly is_ours: boolean | null
  readonly write_id: number | null
}

const noUsage: SqlRows.UsageCounts = {
  ...SqlRows.fromUsage({
    inputTokens: 0,
    outputTokens: 0,
    cacheReadTokens: 0,
    cacheWriteTokens: 0,
    reasoningTokens: 0,
    requestCount: 0
  }),
  estimated_cost_usd: 0,
  cost_status: "unknown",
  cost_source: "none"
}

/** Builds the part of the statement that creates or changes the row of the session. */
const buildSessionChange = (
  { sql }: WritesPlace,
  writes: Writes,
  { count, id, isOurs }: { readonly id: string; readonly count: number; readonly isOurs: Fragment }
): Fragment => {
  const { calls, changedAt, creation, ending, messages, number, usage } = writes
  if (creation !== undefined)
    return sql`
      INSERT INTO sessions ${sql.insert({ ...completeRow(creation, writes), write_id: number })}
      ON CONFLICT (id) DO NOTHING RETURNING id, message_count`
  const { cost_source, cost_status, ...sums } = usage?.counted ?? noUsage
  const [status, source] = usage === undefined ? [null, null] : [cost_status, cost_source]
  return sql`
    UPDATE sessions s SET message_count = s.message_count + ${messages.length},
      tool_call_count = s.tool_call_count + ${calls},
      updated_at = coalesce(CAST(${changedAt ?? null} AS BIGINT), s.updated_at),
      ended_at = CASE WHEN ${ending !== undefined} THEN CAST(${ending?.at ?? null} AS BIGINT) ELSE s.ended_at END,
      end_reason = CASE WHEN ${ending !== undefined} THEN ${ending?.reason ?? null} ELSE s.end_reason END,
      input_tokens = s.input_tokens + a.input_tokens, output_tokens = s.output_tokens + a.output_tokens,
      cache_read_tokens = s.cache_read_tokens + a.cache_read_tokens,
      cache_write_tokens = s.cache_write_tokens + a.cache_write_tokens,
      reasoning_tokens = s.reasoning_tokens + a.reasoning_tokens, api_call_count = s.api_call_count + a.api_call_count,
      estimated_cost_usd = s.estimated_cost_usd + a.estimated_cost_usd,
      cost_status = coalesce(CAST(${status} AS TEXT), s.cost_status),
      cost_source = coalesce(CAST(${source} AS TEXT), s.cost_source), write_id = ${number}
    FROM json_to_record(CAST(${JSON.stringify(sums)} AS json)) AS a (input_tokens BIGINT, output_tokens BIGINT,
      cache_read_tokens BIGINT, cache_write_tokens BIGINT, reasoning_tokens BIGINT, api_call_count BIGINT,
      estimated_cost_usd DOUBLE PRECISION)
    WHERE s.id = ${id} AND s.message_count = ${count} AND ${isOurs} AND s.write_id IS DISTINCT FROM ${number}
    RETURNING s.id, s.message_count`
}

const listTexts = (texts: Iterable<string>): string => JSON.stringify(Array.from(texts))

/** Runs the statement of collected writes, and returns false if the effect must run again in a transaction. */
const storeWrites = Effect.fnUntraced(function* (
  place: WritesPlace,
  writes: Writes,
  count: number
): Effect.fn.Return<boolean, SqlError | SessionStoreError> {
  const { addedAt, answered, begun, creation, entries, messages, number, sessionId: id, usage } = writes
  if (id === undefined) return true
  const { sql, toEntry, toRow } = place
  const isOurs = place.isOurs(id)
  if (isOurs === undefined) return false
  const { cost_source, cost_status, ...sums } = usage?.counted ?? noUsage
  const usages = usage === undefined ? [] : [{ provider: usage.provider, model: usage.model, ...sums }]
  const [found] = yield* sql.waiting(sql<Stored>`
    WITH counted AS (${buildSessionChange(place, writes, { id, count, isOurs })}
    ), added AS (
      INSERT INTO messages (session_id, position, role, created_at, content, tool_name, tool_calls, folded, words,
        envelope)
      SELECT counted.id, counted.message_count - ${messages.length} + a.index, a.role, ${addedAt ?? 0}, a.content,
        a.tool_name, a.tool_calls, a.folded, array_to_tsvector(a.words), a.envelope
      FROM counted, json_to_recordset(CAST(${JSON.stringify(messages.map(toRow))} AS json))
        AS a (index INTEGER, role TEXT, content TEXT, tool_name TEXT, tool_calls TEXT, folded TEXT, words TEXT[],
          envelope TEXT)
    ), closed AS (
      DELETE FROM begun_calls USING counted WHERE session_id = counted.id
        AND call_id IN (SELECT json_array_elements_text(CAST(${listTexts(answered)} AS json)))
    ), begun AS (
      INSERT INTO begun_calls (session_id, call_id)
      SELECT counted.id, a.call_id
      FROM counted, json_array_elements_text(CAST(${listTexts(begun)} AS json)) AS a (call_id)
      ON CONFLICT DO NOTHING
    ), of_model AS (
      INSERT INTO session_model_usage AS u (session_id, provider, model, input_tokens, output_tokens,
        cache_read_tokens, cache_write_tokens, reasoning_tokens, api_call_count, estimated_cost_usd, cost_status,
        cost_source)
      SELECT counted.id, a.*, ${cost_status}, ${cost_source}
      FROM counted, json_to_recordset(CAST(${JSON.stringify(usages)} AS json)) AS a (provider TEXT, model TEXT,
        input_tokens BIGINT, output_tokens BIGINT, cache_read_tokens BIGINT, cache_write_tokens BIGINT,
        reasoning_tokens BIGINT, api_call_count BIGINT, estimated_cost_usd DOUBLE PRECISION)
      ${sql.literal(PostgresTexts.addToModelUsage)}
    ), recorded AS (
      INSERT INTO run_record (session_id, turn_id, at, version, kind, content_key, position, body)
      SELECT counted.id, a.turn_id, a.at, a.version, a.kind, a.content_key, a.position, a.body
      FROM counted, ROWS FROM (json_to_recordset(CAST(${JSON.stringify(entries.map(toEntry))} AS json)) AS (
        turn_id TEXT, at DOUBLE PRECISION, version INTEGER, kind TEXT, content_key TEXT, position INTEGER, body TEXT))
        WITH ORDINALITY AS a (turn_id, at, version, kind, content_key, position, body, place)
      WHERE a.content_key IS NULL OR NOT EXISTS (
        SELECT 1 FROM run_record r WHERE r.session_id = counted.id AND r.content_key = a.content_key)
      ORDER BY a.place
    )
    SELECT CAST((SELECT count(*) FROM counted) AS INTEGER) AS stored,
      (SELECT ${isOurs}) AS is_ours, (SELECT write_id FROM sessions WHERE id = ${id}) AS write_id`)
  if (found === undefined) return false
  // The connection was lost after an earlier repetition of this statement.
  if (found.stored > 0 || found.write_id === number) return true
  if (found.is_ours === false) return yield* StoreFailure.makeLostSessionError(id)
  // The transaction finds out what is wrong.
  return creation !== undefined ? yield* StoreFailure.makeExistingSessionError(id) : false
})

/** Number of sessions above which those that this process does not own any more are forgotten. */
const mostCounts = 256

/** Numbers of messages of the sessions that this process owns. */
interface MessageCounts {
  readonly get: (id: string) => number | undefined
  readonly set: (id: string, count: number) => void
  readonly forget: (id: string) => void
}

const makeCounts = ({ isOurs }: WritesPlace): MessageCounts => {
  const counts = new Map<string, number>()
  return {
    get: (id) => counts.get(id),
    set: (id, count) => {
      counts.set(id, count)
      if (counts.size <= mostCounts) return
      for (const other of counts.keys()) if (isOurs(other) === undefined) counts.delete(other)
    },
    forget: (id) => void counts.delete(id)
  }
}

const fail = Effect.die(notCollectable)

/** Makes the functions that collect one kind of write each. */
const makeCollectors = (
  { isOurs, sql }: WritesPlace,
  counts: MessageCounts
): Omit<PostgresWrites, "collect" | "noteCount"> => {
  /** Runs `use` with the writes of the fiber, if it collects writes of this session. */
  const withWrites = <A>(id: string, otherwise: A, use: (writes: Writes) => Effect.Effect<A>): Effect.Effect<A> =>
    Effect.flatMap(Collected, (writes) => {
      if (writes === undefined) return Effect.succeed(otherwise)
      if (isOurs(id) === undefined || (writes.sessionId !== undefined && writes.sessionId !== id)) return fail
      writes.sessionId = id
      return use(writes)
    })

  return {
    leave: Effect.flatMap(Collected, (writes) => (writes === undefined ? Effect.void : fail)),
    create: (row) =>
      withWrites(row.id, false, (writes) => {
        const isPlain = row.title === null && row.continues_session_id === null
        if (!isPlain || writes.creation !== undefined || writes.entries.length + writes.messages.length > 0) return fail
        writes.creation = row
        return Effect.succeed(true)
      }),
    append: (id, { answered, calls, now, rows }) =>
      withWrites<number | undefined>(id, undefined, (writes) => {
        const count = writes.creation === undefined ? counts.get(id) : 0
        if (count === undefined || answered.some((call) => writes.begun.has(call))) return fail
        const first = count + writes.messages.length
        writes.messages.push(...rows)
        writes.calls += calls
        writes.addedAt = now
        if (rows.some(({ role }) => role === "user")) writes.changedAt = now
        writes.ending = { at: null, reason: null }
        for (const call of answered) writes.answered.add(call)
        return Effect.succeed(first)
      }),
    begin: (id, callIds) =>
      withWrites(id, false, (writes) => {
        if (callIds.some((call) => writes.answered.has(call))) return fail
        for (const call of callIds) writes.begun.add(call)
        return Effect.succeed(true)
      }),
    addUsage: (id, usage) =>
      withWrites(id, false, (writes) => {
        const before = writes.usage
        if (before !== undefined && (before.provider !== usage.provider || before.model !== usage.model)) return fail
        writes.usage = before === undefined ? usage : { ...usage, counted: SqlRows.sum(before.counted, usage.counted) }
        return Effect.succeed(true)
      }),
    end: (id, at, reason) =>
      withWrites(id, false, (writes) => {
        writes.ending = { at, reason }
        writes.changedAt = at
        return Effect.succeed(true)
      }),
    record: (rows) => {
      const id = rows[0]?.[0]
      if (typeof id !== "string") return Effect.succeed(false)
      return withWrites(id, false, (writes) => {
        if (rows.some(([other]) => other !== id)) return fail
        writes.entries.push(...rows)
        return Effect.succeed(true)
      })
    },
    afterwards: (effect) =>
      Effect.flatMap(Collected, (writes) =>
        writes === undefined ? sql.afterTransaction(effect) : Effect.sync(() => void writes.then.push(effect))
      )
  }
}

/** Makes the collector of a database. */
export const makePostgresWrites = (place: WritesPlace): PostgresWrites => {
  const counts = makeCounts(place)

  const collect: PostgresWrites["collect"] = (writes, inTransaction) =>
    Effect.withFiber((fiber) => {
      if (place.sql.isWithin(fiber) || Context.get(fiber.context, Collected) !== undefined) return writes
      const run = Effect.gen(function* () {
        const number = yield* Random.nextIntBetween(1, 2 ** 52)
        const collected = makeWrites(number)
        const exit = yield* Effect.exit(Effect.provideService(writes, Collected, collected))
        if (Exit.isFailure(exit)) {
          const isLeft = exit.cause.reasons.some(
            (reason) => Cause.isDieReason(reason) && reason.defect === notCollectable
          )
          return isLeft ? yield* inTransaction : yield* Effect.failCause(exit.cause)
        }
        const { creation, messages, sessionId } = collected
        const count = sessionId === undefined || creation !== undefined ? 0 : counts.get(sessionId)
        if (count === undefined || !(yield* storeWrites(place, collected, count))) {
          if (sessionId !== undefined) counts.forget(sessionId)
          return yield* inTransaction
        }
        if (sessionId !== undefined) counts.set(sessionId, count + messages.length)
        yield* Effect.all(collected.then, { discard: true })
        return exit.value
      })
      return Effect.uninterruptible(run)
    })

  return {
    ...makeCollectors(place, counts),
    collect,
    noteCount: (id, count) => {
      if (place.isOurs(id) !== undefined) counts.set(id, count)
      else counts.forget(id)
    }
  }
}
