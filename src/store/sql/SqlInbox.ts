/** Messages to the process that works on a session, and its notices, in the tables of a database. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import type { SqlError } from "effect/sql/SqlError"
import { type InboxMessage, mostMessages, type Service } from "../SessionInbox.ts"
import type { SqlPlace } from "./SqlStore.ts"

/** Time after which a message whose sender does not read the reply is removed, in milliseconds. */
const retention = 3_600_000

/** A database with the tables of the inbox. */
interface InboxPlace extends Pick<SqlPlace, "read" | "sql" | "write"> {
  /** Notifies other processes of a change, as a part of its transaction. */
  readonly notify: Effect.Effect<unknown, SqlError>
  readonly changes: Stream.Stream<void>
}

interface DeliveryRow {
  readonly taken_at: number | null
  readonly reply: string | null
}

type InboxPart<Members extends keyof Service> = Pick<Service, Members>

/** Creates the operations of the sender of a message. */
const makeSender = ({ notify, read, sql, write }: InboxPlace): InboxPart<"read" | "remove" | "send" | "withdraw"> => ({
  send: ({ body, kind, sessionId }) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) =>
      write(
        "send",
        Effect.gen(function* () {
          yield* sql`DELETE FROM session_inbox WHERE sent_at < ${now - retention}`
          const [row] = yield* sql<{ readonly seq: number | string }>`
            INSERT INTO session_inbox (session_id, kind, body, sent_at)
            SELECT id, ${kind}, ${body}, ${now} FROM sessions WHERE id = ${sessionId}
              AND (SELECT count(*) FROM session_inbox WHERE session_id = ${sessionId}) < ${mostMessages}
            RETURNING seq`
          yield* notify
          return row === undefined ? undefined : Number(row.seq)
        })
      )
    ),
  withdraw: (sessionId, number) =>
    write(
      "withdraw",
      Effect.map(
        sql`DELETE FROM session_inbox
          WHERE seq = ${number} AND session_id = ${sessionId} AND taken_at IS NULL RETURNING seq`,
        ({ length }) => length > 0
      )
    ),
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
    write("remove", Effect.asVoid(sql`DELETE FROM session_inbox WHERE seq = ${number} AND session_id = ${sessionId}`))
})

/** Creates the operations of the process that works on a session. */
const makeReceiver = ({ notify, read, sql, write }: InboxPlace): InboxPart<"reply" | "take" | "waiting"> => ({
  waiting: read(
    "waiting",
    Effect.map(
      sql<{ readonly id: string }>`SELECT DISTINCT session_id AS id FROM session_inbox WHERE taken_at IS NULL`,
      (rows) => rows.map(({ id }) => id)
    )
  ),
  take: (sessionId) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) =>
      write(
        "take",
        Effect.map(
          sql<Omit<InboxMessage, "number"> & { readonly number: number | string }>`
            UPDATE session_inbox SET taken_at = ${now} WHERE session_id = ${sessionId} AND taken_at IS NULL
            RETURNING seq AS number, session_id AS "sessionId", kind, body`,
          (rows) =>
            rows
              .map((row): InboxMessage => ({ ...row, number: Number(row.number) }))
              .toSorted((one, other) => one.number - other.number)
        )
      )
    ),
  reply: ({ number, sessionId }, reply) =>
    write(
      "reply",
      Effect.andThen(
        sql`UPDATE session_inbox SET reply = ${reply} WHERE seq = ${number} AND session_id = ${sessionId}`,
        Effect.asVoid(notify)
      )
    )
})

/** Creates the inbox in a database. */
export const makeInbox = (place: InboxPlace): Service => {
  const { changes, notify, read, sql, write } = place
  return {
    ...makeSender(place),
    ...makeReceiver(place),
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
    changes
  }
}
