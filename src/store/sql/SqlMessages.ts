/** Reads the messages of sessions from a database. Messages of a long session that were read before are cached. */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Prompt from "effect/ai/Prompt"
import { SessionStoreError } from "../../base/domain/AgentError.ts"
import type { SessionId } from "../../base/domain/Ids.ts"
import type { MessageRange, Service } from "../SessionStorePort.ts"
import * as StoredForm from "../StoredForm.ts"
import type { SqlPlace } from "./SqlStore.ts"

/** A session with the messages that were last read. */
interface ReadSession {
  readonly row: number
  readonly startedAt: number
  readonly messages: ReadonlyArray<Prompt.Message>
  /** Position after the last message. */
  readonly next: number
}

interface StoredMessage {
  readonly envelope: string
  readonly position: number
}

/**
 * Maximum number of sessions whose decoded messages are cached. With the cache, a turn of a long session reads only new
 * messages.
 */
const maxSessionsRead = 4

/** Maximum number of messages that are read with one statement. */
const messagesAtOnce = 256

/** Creates the operations that read messages. `forgetSession` drops the cached messages of a removed session. */
export const makeMessages = ({ made, read, sql }: Pick<SqlPlace, "made" | "read" | "sql">) => {
  const readPage = (id: SessionId, from: number, to: number) =>
    read(
      "messages",
      sql<StoredMessage>`
      SELECT envelope, position FROM messages WHERE session_id = ${id} AND position >= ${from} AND position < ${to}
      ORDER BY position LIMIT ${messagesAtOnce}`
    )

  /** Reads and handles messages page by page, and lets other fibers run between two pages. */
  const readPages = Effect.fnUntraced(function* <A>(
    id: SessionId,
    range: MessageRange,
    handle: (row: StoredMessage) => Effect.Effect<A, SessionStoreError>
  ) {
    const handled: Array<A> = []
    for (let from = range.from; ;) {
      const rows = yield* readPage(id, from, range.to)
      for (const row of rows) handled.push(yield* handle(row))
      // Positions in a repaired session may have gaps.
      from = (rows.at(-1)?.position ?? from - 1) + 1
      if (rows.length < messagesAtOnce) return { handled, next: from }
      yield* Effect.yieldNow
    }
  })
  const readMessage = (
    id: SessionId,
    { envelope, position }: StoredMessage
  ): Result.Result<Prompt.Message, SessionStoreError> =>
    Result.mapError(
      StoredForm.decode(envelope),
      ({ cause, message }) =>
        new SessionStoreError({
          operation: "messages",
          message: `message ${position} of session ${id} ${message}`,
          cause
        })
    )

  const readRange = (
    id: SessionId,
    range: MessageRange
  ): Effect.Effect<Pick<ReadSession, "messages" | "next">, SessionStoreError> =>
    Effect.map(
      readPages(id, range, (row) => Effect.fromResult(readMessage(id, row))),
      ({ handled, next }) => ({ messages: handled, next })
    )

  const sessionsRead = new Map<SessionId, ReadSession>()

  /**
   * Returns all messages of a session. Messages that were read before are not read again, because messages are never
   * rewritten.
   */
  const readAllMessages = Effect.fnUntraced(function* (
    id: SessionId
  ): Effect.fn.Return<ReadonlyArray<Prompt.Message>, SessionStoreError> {
    const [row] = yield* read(
      "messages",
      sql<Pick<ReadSession, "row" | "startedAt"> & { readonly count: number }>`
      SELECT ${sql.literal(made)} AS row, started_at AS "startedAt", message_count AS count FROM sessions
      WHERE id = ${id}`
    )
    if (row === undefined) return []
    const before = sessionsRead.get(id)
    // The id of a removed session may have been reused by another session.
    const isSame =
      before !== undefined &&
      before.row === row.row &&
      before.startedAt === row.startedAt &&
      before.messages.length <= row.count
    const known = isSame ? before : { messages: [], next: 0 }
    const added = yield* readRange(id, { from: known.next, to: Number.MAX_SAFE_INTEGER })
    const messages = [...known.messages, ...added.messages]
    sessionsRead.delete(id)
    sessionsRead.set(id, { row: row.row, startedAt: row.startedAt, messages, next: added.next })
    const [oldest] = sessionsRead.keys()
    if (sessionsRead.size > maxSessionsRead && oldest !== undefined) sessionsRead.delete(oldest)
    return messages.slice()
  })

  const readSessionMessages: Service["messages"] = (id, range) =>
    range === undefined ? readAllMessages(id) : Effect.map(readRange(id, range), ({ messages }) => messages)

  const readUndamaged: Service["readable"] = (id) =>
    Effect.map(
      readPages(id, { from: 0, to: Number.MAX_SAFE_INTEGER }, (row) =>
        Effect.succeed(Result.map(readMessage(id, row), (message) => ({ position: row.position, message })))
      ),
      ({ handled }) => {
        const [messages, faults] = Arr.partition(handled, (one) => one)
        return { messages, faults: faults.map(({ message }) => message) }
      }
    )

  return {
    messages: readSessionMessages,
    readable: readUndamaged,
    forgetSession: (id: SessionId): void => void sessionsRead.delete(id)
  }
}
