/**
 * Messages to the runner that owns a session: cancellations and steering.
 *
 * **Details**
 *
 * A message is a row. Its sender notifies the runners, and the runner that works on the session takes it. Messages of a
 * session are taken in the order in which they were sent. Each is taken once: the row is removed in the transaction
 * that stores its effect. If the runner dies before, the next owner of the session takes the message when it starts.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as PubSub from "effect/PubSub"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { ClusterDatabase } from "./ClusterDatabase.ts"
import type { ClusterError } from "./Cluster.ts"
import { type RunsPlace, runSqlite } from "./Runs.ts"

/** Kinds of messages. */
export type Kind = "cancel" | "steer"

/** A message for the owner of a session. */
export interface Message {
  readonly sessionId: string
  readonly kind: Kind
  /** Id of the run to cancel, or text for the model. */
  readonly body: string
}

/** A message with its number in the inbox. */
export interface ReceivedMessage extends Message {
  readonly seq: number
}

/** A session with messages of a kind. */
export type PendingMessages = Pick<Message, "kind" | "sessionId">

/** Service that carries messages to the owners of sessions. */
export interface Service {
  readonly send: (message: Message) => Effect.Effect<void, ClusterError>
  /**
   * Takes the messages of one kind for a session, in order. `mark` stores their effect in the same transaction. Returns
   * `undefined` without calling it if there are no messages.
   */
  readonly take: <A, E>(
    sessionId: string,
    kind: Kind,
    mark: (messages: ReadonlyArray<Message>) => Effect.Effect<A, E>
  ) => Effect.Effect<A | undefined, ClusterError | E>
  /** Reads the messages of one kind for a session, in order, and leaves them in the inbox. */
  readonly read: (sessionId: string, kind: Kind) => Effect.Effect<ReadonlyArray<ReceivedMessage>, ClusterError>
  /** Removes messages by their numbers. */
  readonly remove: (numbers: ReadonlyArray<number>) => Effect.Effect<void, ClusterError>
  /** Returns the kinds of messages that the given sessions have. */
  readonly listPending: (
    sessionIds: ReadonlyArray<string>
  ) => Effect.Effect<ReadonlyArray<PendingMessages>, ClusterError>
  /** Runs `then` whenever a message may have arrived. */
  readonly listen: (then: Effect.Effect<void>) => Effect.Effect<never>
}

/** Service that carries messages to the owners of sessions. */
export class Inbox extends Context.Service<Inbox, Service>()("hermes-effect/cluster/Inbox") {}

interface InboxPlace extends Pick<RunsPlace, "listed" | "listen" | "run" | "sql"> {
  readonly transaction: <A, E>(effect: Effect.Effect<A, E>) => Effect.Effect<A, E | SqlError>
  /** Notifies the readers of the inbox. Part of the transaction that adds the message, so that none is lost. */
  readonly notify: Effect.Effect<unknown, SqlError>
}

const makeInbox = ({ listed, listen, notify, run, sql, transaction }: InboxPlace): Service => ({
  send: ({ body, kind, sessionId }) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) =>
      Effect.asVoid(
        run(
          transaction(
            Effect.andThen(
              sql`INSERT INTO inbox (session_id, kind, body, sent_at) VALUES (${sessionId}, ${kind}, ${body}, ${now})`,
              notify
            )
          )
        )
      )
    ),
  take: (sessionId, kind, mark) =>
    run(
      transaction(
        Effect.gen(function* () {
          const rows = yield* sql<ReceivedMessage>`
            DELETE FROM inbox WHERE session_id = ${sessionId} AND kind = ${kind}
            RETURNING seq, session_id AS "sessionId", kind, body`
          return rows.length === 0 ? undefined : yield* mark(rows.toSorted((one, other) => one.seq - other.seq))
        })
      )
    ),
  read: (sessionId, kind) =>
    run(sql<ReceivedMessage>`
      SELECT seq, session_id AS "sessionId", kind, body FROM inbox
      WHERE session_id = ${sessionId} AND kind = ${kind} ORDER BY seq`),
  remove: (numbers) =>
    numbers.length === 0 ? Effect.void : Effect.asVoid(run(sql`DELETE FROM inbox WHERE ${sql.in("seq", numbers)}`)),
  listPending: (sessionIds) =>
    sessionIds.length === 0
      ? Effect.succeed([])
      : run(sql<PendingMessages>`
          SELECT DISTINCT session_id AS "sessionId", kind FROM inbox WHERE session_id IN (${listed(sessionIds)})`),
  listen
})

/** The inbox in the database of a cluster. */
export const layerPostgres: Layer.Layer<Inbox, never, ClusterDatabase> = Layer.effect(
  Inbox,
  Effect.gen(function* () {
    const { news, run, sql } = yield* ClusterDatabase
    return makeInbox({
      sql,
      run,
      listed: (texts) => sql`SELECT json_array_elements_text(CAST(${JSON.stringify(texts)} AS json))`,
      transaction: sql.transaction,
      notify: news.notify("inbox"),
      listen: (then) => news.subscribe("inbox", () => then)
    })
  })
)

/** The inbox in the SQLite file at `path`, for one process. */
export const layerSqlite = (path: string): Layer.Layer<Inbox, never, SqlClient.SqlClient> =>
  Layer.effect(
    Inbox,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const news = yield* PubSub.sliding<void>(1)
      return makeInbox({
        sql,
        run: runSqlite(path),
        listed: (texts) => sql`SELECT value FROM json_each(${JSON.stringify(texts)})`,
        transaction: sql.withTransaction,
        notify: Effect.asVoid(PubSub.publish(news, undefined)),
        listen: (then) =>
          Effect.scoped(
            Effect.flatMap(PubSub.subscribe(news), (arrivals) =>
              Effect.forever(Effect.andThen(PubSub.take(arrivals), then))
            )
          )
      })
    })
  )
