/**
 * The part of the session store that is common to SQLite and Postgres. Each database implements its differences as an
 * {@link SqlPlace}.
 *
 * Source: `ARCHITECTURE.md` §8.
 */
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type * as Prompt from "effect/ai/Prompt"
import type { SqlClient } from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { SessionBusy, SessionStoreError } from "../../base/domain/AgentError.ts"
import type { SessionId } from "../../base/domain/Ids.ts"
import * as Conversation from "../../base/domain/Conversation.ts"
import * as Leases from "../../base/platform/Leases.ts"
import * as SessionStore from "../SessionStorePort.ts"
import * as StoredForm from "../StoredForm.ts"
import * as StoredMask from "../StoredMask.ts"
import * as MessageText from "../MessageText.ts"
import * as StoreFailure from "../StoreFailure.ts"
import * as Title from "../Title.ts"
import * as SqlMessages from "./SqlMessages.ts"
import * as SqlQuestions from "./SqlQuestions.ts"
import * as SqlReference from "./SqlReference.ts"
import * as SqlRows from "./SqlRows.ts"

/** Runs statements for an operation of the store. Its failures contain the operation's name. */
export type Run = <A>(
  operation: string,
  effect: Effect.Effect<A, SqlError | SessionStoreError>
) => Effect.Effect<A, SessionStoreError>

/** Messages to be added to a session, in their stored form. */
export interface AppendedMessages {
  readonly rows: ReadonlyArray<SqlRows.NewMessage>
  /** Number of tool calls in the messages; `answered` has the ids of the calls whose results they contain. */
  readonly calls: number
  readonly answered: ReadonlyArray<string>
  readonly now: number
}

/** Access to the calls of a session that have started and have no result. Ids are in the encoding of the database. */
export interface BegunCalls {
  readonly listCalls: (id: string) => Effect.Effect<ReadonlyArray<string>, SqlError>
  /** Forgets that calls have started. Must be called in a transaction. */
  readonly forgetCalls: (id: string, callIds: ReadonlyArray<string>) => Effect.Effect<void, SqlError>
}

/** A database with the tables of sessions, and the writes that each database implements itself. */
export interface SqlPlace {
  readonly sql: SqlClient
  /** Runs read-only statements. */
  readonly read: Run
  /** Runs statements in one transaction: all of them or none. */
  readonly write: Run
  readonly leases: Leases.Service<SessionStoreError>
  /** Column that numbers the rows of a table in insertion order. */
  readonly made: "rowid" | "made"
  /** Encoding of strings that must be preserved byte for byte. */
  readonly exact: { readonly encode: (text: string) => string; readonly decode: (text: string) => string }
  /**
   * Adds messages in one transaction. Returns the position of the first message, or `undefined` if the session does not
   * exist.
   */
  readonly append: (id: SessionId, appended: AppendedMessages) => Effect.Effect<number | undefined, SessionStoreError>
  /** Records that calls of a session are about to start. Returns false if the session does not exist. */
  readonly begin: (id: SessionId, callIds: ReadonlyArray<string>) => Effect.Effect<boolean, SessionStoreError>
  readonly begunCalls: BegunCalls
  /** Adds counters to the totals of a session and of its model. Returns false if the session does not exist. */
  readonly addUsage: (
    id: SessionId,
    model: Pick<SessionStore.UsageRecord, "provider" | "model">,
    counted: SqlRows.UsageCounts
  ) => Effect.Effect<boolean, SessionStoreError>
  /**
   * Collects writes that are stored together later. Returns false for a write that must be stored now. Absent if writes
   * are not collected.
   */
  readonly collected?:
    | {
        readonly create: (row: SqlRows.SessionRow) => Effect.Effect<boolean>
        readonly end: (id: string, at: number, reason: string) => Effect.Effect<boolean>
      }
    | undefined
  /** Waits until earlier writes are durable. Absent if writes are durable when they return. */
  readonly committed?: Effect.Effect<void, SessionStoreError> | undefined
}

/** Returns the columns of a new message. */
const encodeMessage = (message: Prompt.Message): Result.Result<SqlRows.NewMessage, SessionStoreError> =>
  Result.mapBoth(StoredForm.encode(message), {
    onSuccess: (envelope) => {
      const { content, toolCalls, toolNames } = MessageText.extractSearchText(message)
      return { role: message.role, envelope, content, toolNames, toolCalls }
    },
    onFailure: ({ cause, message: problem }) =>
      new SessionStoreError({ operation: "append", message: `a message of role ${message.role} ${problem}`, cause })
  })

/** Maximum number of continuations that are followed. The limit ends cycles in a damaged database. */
const maxContinuations = 10_000

/** Maximum number of sessions that a list reads with one statement. */
const sessionsAtOnce = 128

/** Creates the session store in a database. */
export const make = ({
  addUsage,
  append,
  begin,
  begunCalls,
  collected,
  committed,
  exact,
  leases,
  made,
  read,
  sql,
  write
}: SqlPlace): SessionStore.Service => {
  const toSession = (row: SqlRows.SessionRow): SessionStore.Session =>
    SqlRows.toSession({ ...row, system_prompt: exact.decode(row.system_prompt) })
  const toFirstSession = (rows: ReadonlyArray<SqlRows.SessionRow>): Option.Option<SessionStore.Session> =>
    Option.map(Option.fromUndefinedOr(rows[0]), toSession)
  const readOne = (operation: string, rows: Effect.Effect<ReadonlyArray<SqlRows.SessionRow>, SqlError>) =>
    read(operation, Effect.map(rows, toFirstSession))
  const readMany = (operation: string, rows: Effect.Effect<ReadonlyArray<SqlRows.SessionRow>, SqlError>) =>
    read(
      operation,
      Effect.map(rows, (rows) => rows.map(toSession))
    )

  /**
   * Reads sessions by id, in the order of the ids, and lets other fibers run in between. Their system prompts are long.
   */
  const readSessions = Effect.fnUntraced(function* (ids: ReadonlyArray<{ readonly id: string }>) {
    const sessions: Array<SessionStore.Session> = []
    for (const some of Arr.chunksOf(ids, sessionsAtOnce)) {
      const rows = yield* readMany(
        "list",
        sql<SqlRows.SessionRow>`SELECT * FROM sessions WHERE id IN ${sql.in(some.map(({ id }) => id))}`
      )
      const byId = new Map<string, SessionStore.Session>(rows.map((session) => [session.id, session]))
      sessions.push(...some.flatMap(({ id }) => byId.get(id) ?? []))
      yield* Effect.yieldNow
    }
    return sessions
  })

  const findById = (id: string) => readOne("get", sql<SqlRows.SessionRow>`SELECT * FROM sessions WHERE id = ${id}`)
  const newestFirst = sql`ORDER BY updated_at DESC, ${sql.literal(made)} DESC`

  /**
   * Checks the result of an update that returns the id of the changed row. Fails if there is no row, because the
   * session then does not exist.
   */
  const requireRow = (operation: string, id: string, rows: ReadonlyArray<unknown>) =>
    rows.length === 0 ? Effect.fail(StoreFailure.makeUnknownSessionError(operation, id)) : Effect.void

  /** Leases of the sessions owned through this store. */
  const owned = new Map<string, Leases.Lease<SessionStoreError>>()
  const isHeld = (id: string): Effect.Effect<boolean, SessionStoreError> =>
    owned.get(id)?.isHeld ?? Effect.succeed(true)

  const appendHeld = (
    id: SessionId,
    messages: ReadonlyArray<Prompt.Message>
  ): Effect.Effect<number, SessionStoreError> =>
    Effect.flatMap(StoredMask.maskMessages(messages), (masked) => {
      const rows = Result.all(masked.map(encodeMessage))
      if (Result.isFailure(rows)) return Effect.fail(rows.failure)
      const answered = messages.flatMap(Conversation.listResultIds)
      const calls = messages.reduce((count, message) => count + Conversation.listToolCalls(message).length, 0)
      return Effect.clockWith((clock) =>
        Effect.flatMap(
          append(id, { rows: rows.success, calls, answered, now: clock.currentTimeMillisUnsafe() }),
          (first) => (first === undefined ? StoreFailure.makeUnknownSessionError("append", id) : Effect.succeed(first))
        )
      )
    })

  const acquire: SessionStore.Service["acquire"] = Effect.fnUntraced(function* (id) {
    const lease = yield* leases
      .take(Leases.toSessionName(id))
      .pipe(
        Effect.catchTag("LeaseTaken", ({ isOwn, pid }) =>
          Effect.fail(new SessionBusy({ sessionId: id, ...(isOwn ? {} : { pid }) }))
        )
      )
    yield* Effect.acquireRelease(
      Effect.sync(() => owned.set(id, lease)),
      // After a lease was lost, this process may have acquired the session again with a new lease.
      () => Effect.sync(() => owned.get(id) === lease && owned.delete(id))
    )
    return { lost: Effect.andThen(lease.lost, Effect.fail(new SessionBusy({ sessionId: id }))) }
  })

  const requireFreeTitle = (operation: string, id: string, title: string, tenant: string | null) =>
    Effect.flatMap(
      sql<{ readonly id: string }>`
        SELECT id FROM sessions WHERE title = ${title} AND coalesce(tenant, '') = ${tenant ?? ""} AND id <> ${id}`,
      ([owner]) =>
        owner === undefined ? Effect.void : Effect.fail(StoreFailure.makeTakenTitleError(operation, title, owner.id))
    )

  const { forgetSession, messages, readable } = SqlMessages.makeMessages({ made, read, sql })
  const { moveQuestions, ...questions } = SqlQuestions.makeQuestions({ begunCalls, exact, read, sql, write })

  const store = SessionStore.SessionStore.of({
    committed,
    ...questions,

    create: Effect.fnUntraced(function* (session) {
      const mask = yield* StoredMask.heldMask
      const title = session.title === undefined ? null : yield* Title.clean("create", mask(session.title))
      const now = yield* Clock.currentTimeMillis
      const row: SqlRows.SessionRow = SqlRows.makeSessionRow(
        { ...session, systemPrompt: exact.encode(mask(session.systemPrompt)) },
        title,
        now
      )
      if (collected !== undefined && (yield* collected.create(row))) return toSession(row)
      return yield* write(
        "create",
        Effect.gen(function* () {
          const taken = yield* sql`SELECT 1 FROM sessions WHERE id = ${session.id}`
          if (taken.length > 0) return yield* StoreFailure.makeExistingSessionError(session.id)
          if (title !== null) yield* requireFreeTitle("create", session.id, title, row.tenant)
          yield* sql`INSERT INTO sessions ${sql.insert(row)}`
          return toSession(row)
        })
      )
    }),

    acquire,

    begin: (id, callIds) =>
      Effect.flatMap(begin(id, callIds.map(exact.encode)), (isThere) =>
        isThere ? Effect.void : Effect.fail(StoreFailure.makeUnknownSessionError("begin", id))
      ),

    begun: (id) =>
      read(
        "begun",
        Effect.map(begunCalls.listCalls(id), (calls) => new Set(calls.map(exact.decode)))
      ),

    append: (id, messages) =>
      Effect.suspend(() => {
        const lease = owned.get(id)
        return lease === undefined
          ? appendHeld(id, messages)
          : Effect.flatMap(lease.isHeld, (isHeld) =>
              isHeld ? appendHeld(id, messages) : StoreFailure.makeLostSessionError(id)
            )
      }),

    recordUsage: (id, { cost, provider, model, usage }) => {
      const counted: SqlRows.UsageCounts = { ...SqlRows.fromUsage(usage), ...SqlRows.fromCost(cost) }
      return Effect.flatMap(addUsage(id, { provider, model }, counted), (isThere) =>
        isThere ? Effect.void : Effect.fail(StoreFailure.makeUnknownSessionError("recordUsage", id))
      )
    },

    end: Effect.fnUntraced(function* (id, reason) {
      const now = yield* Clock.currentTimeMillis
      if (collected !== undefined && (yield* collected.end(id, now, reason))) return
      yield* write(
        "end",
        Effect.flatMap(
          sql`UPDATE sessions SET ended_at = ${now}, end_reason = ${reason} WHERE id = ${id} RETURNING id`,
          (rows) => requireRow("end", id, rows)
        )
      )
    }),

    continueIn: Effect.fnUntraced(function* (id, { endReason, messages, ...session }) {
      if (!(yield* isHeld(id))) return yield* StoreFailure.makeLostSessionError(id)
      return yield* write(
        "continue",
        Effect.gen(function* () {
          const found = yield* findById(id)
          if (Option.isNone(found)) return yield* StoreFailure.makeUnknownSessionError("continue", id)
          const [newer] = yield* sql<{
            readonly id: string
          }>`SELECT id FROM sessions WHERE continues_session_id = ${id}`
          if (newer !== undefined) return yield* StoreFailure.makeContinuedSessionError(id, newer.id)
          const { branch, cwd, hasOwnPrompt, source, tenant, title } = found.value
          const prefix = title === undefined ? "" : Title.formatFamilyPrefix(title)
          const taken =
            title === undefined
              ? []
              : yield* sql<{ readonly title: string }>`
          SELECT title FROM sessions
          WHERE substr(title, 1, length(${prefix})) = ${prefix} AND coalesce(tenant, '') = ${tenant ?? ""}`
          yield* store.create({
            ...session,
            source,
            hasOwnPrompt,
            tenant,
            cwd,
            branch,
            parentId: id,
            continues: id,
            title:
              title === undefined
                ? undefined
                : Title.makeNext(
                    title,
                    taken.map((one) => one.title)
                  )
          })
          yield* store.append(session.id, messages)
          yield* store.end(session.id, endReason)
          yield* moveQuestions(id, session.id)
          yield* store.end(id, "compression")
          const [row] = yield* sql<SqlRows.SessionRow>`SELECT * FROM sessions WHERE id = ${session.id}`
          return row === undefined
            ? yield* StoreFailure.makeUnknownSessionError("continue", session.id)
            : toSession(row)
        })
      )
    }),

    newest: (id) =>
      read(
        "newest",
        Effect.map(
          sql<{ readonly id: SessionId }>`
          WITH RECURSIVE chain (id, place) AS (
            SELECT CAST(${id} AS TEXT), 0
            UNION ALL
            SELECT sessions.id, place + 1 FROM chain JOIN sessions ON sessions.continues_session_id = chain.id
            WHERE place < ${maxContinuations}
          )
          SELECT id FROM chain ORDER BY place DESC LIMIT 1`,
          ([last]) => last?.id ?? id
        )
      ),

    rename: Effect.fnUntraced(function* (id, wanted) {
      const title = yield* Title.clean("rename", (yield* StoredMask.heldMask)(wanted))
      yield* write(
        "rename",
        Effect.gen(function* () {
          const rows = yield* sql<Pick<SqlRows.SessionRow, "tenant">>`SELECT tenant FROM sessions WHERE id = ${id}`
          yield* requireRow("rename", id, rows)
          yield* requireFreeTitle("rename", id, title, rows[0]?.tenant ?? null)
          yield* sql`UPDATE sessions SET title = ${title} WHERE id = ${id}`
        })
      )
    }),

    remove: (id) =>
      write(
        "remove",
        Effect.gen(function* () {
          forgetSession(id)
          // Messages are deleted before their session, so that triggers update the full-text index for each message.
          yield* sql`DELETE FROM messages WHERE session_id = ${id}`
          yield* requireRow("remove", id, yield* sql`DELETE FROM sessions WHERE id = ${id} RETURNING id`)
        })
      ),

    get: findById,

    messages,
    readable,

    list: (options) => {
      const limit = Math.max(0, options?.limit ?? SessionStore.defaultLimit)
      const found = sql`FROM sessions WHERE ${sql.and([
        sql`TRUE`,
        ...(options?.source === undefined ? [] : [sql`source = ${options.source}`]),
        ...(options?.tenant === undefined ? [] : [sql`tenant = ${options.tenant}`])
      ])} ${newestFirst} LIMIT ${limit}`
      return limit <= sessionsAtOnce
        ? readMany("list", sql<SqlRows.SessionRow>`SELECT * ${found}`)
        : Effect.flatMap(read("list", sql<{ readonly id: string }>`SELECT id ${found}`), readSessions)
    },

    resolve: SqlReference.makeResolver({ made, newestFirst, read, readMany, readOne, sql }),

    usageByModel: (id) =>
      read(
        "usageByModel",
        Effect.map(
          sql<SqlRows.UsageRow>`SELECT * FROM session_model_usage WHERE session_id = ${id}
            ORDER BY ${sql.literal(made)}`,
          (rows) =>
            rows.map((row) => ({
              provider: row.provider,
              model: row.model,
              usage: SqlRows.toUsage(row),
              cost: SqlRows.toCost(row)
            }))
        )
      )
  })
  return store
}
