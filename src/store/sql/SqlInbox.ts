/**
 * Messages to the process that works on a session, and its notices, in the tables of a database.
 *
 * **Details**
 *
 * The database's clock is used for all times, because the clocks of machines differ. A text that is taken has a lease,
 * so that another process takes it only after its process ended. `body` of a text is empty once its effect is stored,
 * and `reply` is empty once its sender has read it. The row is removed when both are.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type { SqlError } from "effect/sql/SqlError"
import type { SessionStoreError } from "../../base/domain/AgentError.ts"
import type * as Leases from "../../base/platform/Leases.ts"
import { type InboxMessage, mostMessages, type SentMessage, type Service } from "../SessionInbox.ts"
import type { SqlPlace } from "./SqlStore.ts"

/** Time after which a message whose sender does not read the reply is removed, in milliseconds. */
const retention = 3_600_000

/** A database with the tables of the inbox. */
interface InboxPlace extends Pick<SqlPlace, "read" | "sql" | "write"> {
  /** Notifies other processes of a change, as a part of its transaction. */
  readonly notify: Effect.Effect<unknown, SqlError>
  readonly changes: Stream.Stream<void>
  readonly leases: Pick<Leases.Service<SessionStoreError>, "take">
  /** Texts that this process holds are released when the scope closes. */
  readonly scope: Scope.Scope
  /** Expression for the current time in epoch milliseconds. */
  readonly clock: string
}

interface DeliveryRow {
  readonly taken_at: number | null
  readonly reply: string | null
}

interface MessageRow extends Pick<InboxMessage, "body" | "kind"> {
  readonly seq: number | string
  readonly sent_at: number | string
  readonly taken_at: number | string | null
}

const toSentMessage = ({ seq, sent_at }: Pick<MessageRow, "seq" | "sent_at">): SentMessage => ({
  number: Number(seq),
  id: `${seq}-${Number(sent_at).toString(36)}`
})

type InboxPart<Members extends keyof Service> = Pick<Service, Members>

/** The texts that this process holds. */
interface HeldTexts {
  readonly isHeld: (number: number) => boolean
  /** Holds a text. Returns false if another process, or this one, holds it. */
  readonly hold: (number: number) => Effect.Effect<boolean, SessionStoreError>
  readonly release: (numbers: ReadonlyArray<number>) => Effect.Effect<void>
  /** Runs an Effect if no process holds a text. */
  readonly runUnheld: <A>(
    number: number,
    effect: Effect.Effect<A, SessionStoreError>
  ) => Effect.Effect<A | undefined, SessionStoreError>
}

const makeHeldTexts = ({ leases, scope: parent }: Pick<InboxPlace, "leases" | "scope">): HeldTexts => {
  const scopes = new Map<number, Scope.Closeable>()
  /** Takes the lease of a text. Returns false if it is taken. */
  const takeLease = (number: number, scope: Scope.Scope) =>
    leases.take(`text ${number}`).pipe(
      Effect.as(true),
      Effect.catchTag("LeaseTaken", () => Effect.succeed(false)),
      Scope.provide(scope)
    )
  const release: HeldTexts["release"] = Effect.forEach(
    (number: number) =>
      Effect.suspend(() => {
        const scope = scopes.get(number)
        scopes.delete(number)
        return scope === undefined ? Effect.void : Scope.close(scope, Exit.void)
      }),
    { discard: true }
  )
  return {
    isHeld: (number) => scopes.has(number),
    hold: (number) =>
      Effect.uninterruptible(
        Effect.gen(function* () {
          const scope = yield* Scope.fork(parent)
          scopes.set(number, scope)
          const isTaken = yield* Effect.onError(takeLease(number, scope), () => release([number]))
          if (!isTaken) yield* release([number])
          return isTaken
        })
      ),
    release,
    runUnheld: (number, effect) =>
      Effect.scopedWith((scope) =>
        Effect.flatMap(takeLease(number, scope), (isTaken) => (isTaken ? effect : Effect.undefined))
      )
  }
}

/** Creates the operations of the sender of a message. */
const makeSender = (
  { clock, notify, read, sql, write }: InboxPlace,
  texts: HeldTexts
): InboxPart<"read" | "remove" | "send" | "withdraw"> => ({
  send: ({ body, kind, sessionId }) =>
    write(
      "send",
      Effect.gen(function* () {
        const now = sql.literal(clock)
        yield* sql`
          DELETE FROM session_inbox WHERE sent_at < ${now} - ${retention} AND (kind <> 'steer' OR body = '')`
        const [row] = yield* sql<Pick<MessageRow, "seq" | "sent_at">>`
          INSERT INTO session_inbox (session_id, kind, body, sent_at)
          SELECT id, ${kind}, ${body}, ${now} FROM sessions WHERE id = ${sessionId}
            AND (SELECT count(*) FROM session_inbox WHERE session_id = ${sessionId}) < ${mostMessages}
          RETURNING seq, sent_at`
        yield* notify
        return row === undefined ? undefined : toSentMessage(row)
      })
    ),
  withdraw: Effect.fnUntraced(function* (sessionId, number) {
    const removeWhere = (state: string) =>
      write(
        "withdraw",
        Effect.map(
          sql`DELETE FROM session_inbox
            WHERE seq = ${number} AND session_id = ${sessionId} AND ${sql.literal(state)} RETURNING seq`,
          ({ length }) => length > 0
        )
      )
    if (yield* removeWhere("taken_at IS NULL")) return true
    return (yield* texts.runUnheld(number, removeWhere("kind = 'steer' AND body <> ''"))) ?? false
  }),
  read: (sessionId, number) =>
    read(
      "delivery",
      Effect.map(
        sql<DeliveryRow>`
          SELECT taken_at, reply FROM session_inbox WHERE seq = ${number} AND session_id = ${sessionId}`,
        ([row]) => {
          if (row === undefined) return { _tag: "removed" }
          if (row.reply !== null) return { _tag: "replied", reply: row.reply }
          return { _tag: row.taken_at === null ? "pending" : "taken" }
        }
      )
    ),
  remove: (sessionId, number) =>
    write(
      "remove",
      // The change locks the row, so that of two processes that end a text at once the second one removes it.
      Effect.andThen(
        sql`UPDATE session_inbox SET reply = '' WHERE seq = ${number} AND session_id = ${sessionId}`,
        Effect.asVoid(sql`DELETE FROM session_inbox
          WHERE seq = ${number} AND session_id = ${sessionId} AND (kind <> 'steer' OR body = '')`)
      )
    )
})

/** Creates the operations of the process that works on a session. */
const makeReceiver = (
  { clock, notify, read, sql, write }: InboxPlace,
  texts: HeldTexts
): InboxPart<"release" | "reply" | "settle" | "take" | "waiting"> => {
  const unsettled = sql.literal("(taken_at IS NULL OR (kind = 'steer' AND body <> ''))")
  return {
    waiting: read(
      "waiting",
      Effect.map(
        sql<{ readonly id: string }>`SELECT DISTINCT session_id AS id FROM session_inbox WHERE ${unsettled}`,
        (rows) => rows.map(({ id }) => id)
      )
    ),
    take: Effect.fnUntraced(function* (sessionId) {
      const rows = yield* read(
        "take",
        sql<MessageRow>`
          SELECT seq, kind, body, sent_at, taken_at FROM session_inbox
          WHERE session_id = ${sessionId} AND ${unsettled} ORDER BY seq`
      )
      const found = yield* Effect.filter(rows, ({ kind, seq }) => {
        if (texts.isHeld(Number(seq))) return Effect.succeed(false)
        return kind === "steer" ? texts.hold(Number(seq)) : Effect.succeed(true)
      })
      if (found.length === 0) return []
      const numbers = found.map(({ seq }) => Number(seq))
      const taken = yield* write(
        "take",
        Effect.map(
          sql<Pick<MessageRow, "seq">>`
            UPDATE session_inbox SET taken_at = ${sql.literal(clock)}
            WHERE session_id = ${sessionId} AND ${sql.in("seq", numbers)} AND ${unsettled} RETURNING seq`,
          (all) => new Set(all.map(({ seq }) => Number(seq)))
        )
      ).pipe(Effect.onError(() => texts.release(numbers)))
      // The others were taken, withdrawn or settled meanwhile.
      yield* texts.release(numbers.filter((number) => !taken.has(number)))
      return found
        .filter(({ seq }) => taken.has(Number(seq)))
        .map((row) => ({
          ...toSentMessage(row),
          sessionId,
          kind: row.kind,
          body: row.body,
          isRepeated: row.taken_at !== null
        }))
    }),
    settle: (sessionId, numbers) =>
      numbers.length === 0
        ? Effect.void
        : write(
            "settle",
            Effect.andThen(
              sql`UPDATE session_inbox SET body = '' WHERE session_id = ${sessionId} AND ${sql.in("seq", numbers)}`,
              sql`DELETE FROM session_inbox
                WHERE session_id = ${sessionId} AND ${sql.in("seq", numbers)} AND reply = ''`
            )
          ).pipe(Effect.andThen(texts.release(numbers))),
    release: texts.release,
    reply: ({ number, sessionId }, reply) =>
      write(
        "reply",
        Effect.andThen(
          sql`UPDATE session_inbox SET reply = ${reply}
            WHERE seq = ${number} AND session_id = ${sessionId} AND reply IS NULL`,
          Effect.asVoid(notify)
        )
      )
  }
}

/** Creates the inbox in a database. */
export const makeInbox = (place: InboxPlace): Service => {
  const { changes, clock, notify, read, sql, write } = place
  const texts = makeHeldTexts(place)
  return {
    ...makeSender(place, texts),
    ...makeReceiver(place, texts),
    post: (sessionId, kind, body) =>
      write(
        "post",
        Effect.andThen(
          body === undefined
            ? sql`DELETE FROM session_notices WHERE session_id = ${sessionId} AND kind = ${kind}`
            : sql`INSERT INTO session_notices (session_id, kind, body)
                SELECT id, ${kind}, ${body} FROM sessions WHERE id = ${sessionId}
                ON CONFLICT (session_id, kind) DO UPDATE SET body = excluded.body`,
          Effect.asVoid(notify)
        )
      ),
    find: (sessionId, kind) =>
      read(
        "notice",
        Effect.map(
          sql<{ readonly body: string }>`
            SELECT body FROM session_notices WHERE session_id = ${sessionId} AND kind = ${kind}`,
          ([row]) => row?.body
        )
      ),
    watch: (sessionId, millis) =>
      write(
        "watch",
        Effect.asVoid(sql`
          INSERT INTO session_notices (session_id, kind, body)
          SELECT id, 'watched', CAST(${sql.literal(clock)} + ${millis} AS TEXT) FROM sessions WHERE id = ${sessionId}
          ON CONFLICT (session_id, kind) DO UPDATE SET body = excluded.body`)
      ),
    isWatched: (sessionId) =>
      read(
        "watched",
        Effect.map(
          sql`SELECT 1 AS found FROM session_notices WHERE session_id = ${sessionId} AND kind = 'watched'
            AND CAST(body AS DOUBLE PRECISION) > ${sql.literal(clock)}`,
          ({ length }) => length > 0
        )
      ),
    changes
  }
}
