/**
 * Indexes of messages. Searches add messages to them, so that a run writes only its messages and not the index.
 *
 * **Details**
 *
 * `state_meta` contains the position of each index: the id up to which messages are indexed. A search first adds later
 * messages in several transactions, each of which also advances the position. Messages that could not be added (the
 * file is read-only, another process writes to it) are read and scanned instead, so that a search always covers every
 * message. `hermes sessions optimize` adds missing messages as well.
 *
 * A trigger removes deleted or changed messages from the index. If the ids of deleted messages may be reused, it also
 * moves the position back.
 */
import * as Effect from "effect/Effect"
import type { SqlError } from "effect/sql/SqlError"
import type { SessionStoreError } from "../../base/domain/AgentError.ts"
import type * as SqliteClient from "../../base/platform/SqliteClient.ts"
import type { Database } from "./Database.ts"

type All = SqliteClient.Database["all"]

/** Key in `state_meta` of the id up to which messages are in the word index. */
export const wordsKey = "words_until"

/** Maximum number of messages, and of bytes of text, that one transaction adds to the word index. */
const messagesPerWrite = 1_000
const bytesPerWrite = 1_000_000

const readPlace = "SELECT value FROM state_meta WHERE key = ?"
const writePlace = "INSERT OR REPLACE INTO state_meta (key, value) VALUES (?, ?)"
const readSizes = `SELECT id, octet_length(content) + octet_length(tool_name) + octet_length(tool_calls) AS bytes
  FROM messages WHERE id > ? ORDER BY id LIMIT ?`
const addRows = `INSERT INTO messages_fts (rowid, content, tool_name, tool_calls)
  SELECT id, content, tool_name, tool_calls FROM messages WHERE id > ? AND id <= ? ORDER BY id`

/** Messages that were added to an index: the id of the last one, and the amount added, in the unit of the index. */
export interface AddedMessages {
  readonly last: number
  readonly added: number
}

/** An index to which searches add the missing messages. */
export interface MessageIndex {
  /** Id up to which messages are in the index. */
  readonly place: Effect.Effect<number, SessionStoreError>
  /**
   * Adds messages that are missing from the index, until all are added or the amount `most` is reached, in the unit of
   * the index.
   */
  readonly fill: (most?: number) => Effect.Effect<void, SqlError>
}

/**
 * Adds the next messages and advances the position. Returns the amount added, or `undefined` if no message was missing.
 */
const addSome =
  (key: string, add: (all: All, place: number) => AddedMessages | undefined) =>
  (all: All): number | undefined => {
    const some = add(all, Number(all(readPlace, [key])[0]?.["value"] ?? 0))
    if (some === undefined) return undefined
    all(writePlace, [key, String(some.last)])
    return some.added
  }

/**
 * Creates an index of an open database. `key` is the key of its position in `state_meta`; `add` adds the messages after
 * a position.
 */
export const make = (
  { read, sql }: Database,
  key: string,
  most: number,
  add: (all: All, place: number) => AddedMessages | undefined
): MessageIndex => {
  const isFilled = Effect.map(
    sql<{ readonly isFilled: number }>`
      SELECT coalesce((SELECT CAST(value AS INTEGER) FROM state_meta WHERE key = ${key}), 0) >= coalesce(max(id), 0) AS isFilled FROM messages`,
    ([row]) => row?.isFilled === 1
  )
  // Unlike a write to a session, this write does not wait for another process that is writing to the file, because
  // missing messages are scanned instead.
  const write = sql.transaction(sql.statements(addSome(key, add)))
  return {
    place: Effect.map(
      read("search", sql<{ readonly value: string }>`SELECT value FROM state_meta WHERE key = ${key}`),
      ([row]) => Number(row?.value ?? 0)
    ),
    fill: Effect.fnUntraced(function* (atMost = most) {
      if (yield* isFilled) return
      for (let left = atMost; left > 0;) {
        const added = yield* write
        if (added === undefined) return
        left -= added
        // Lets other fibers of this program run.
        yield* Effect.yieldNow
      }
    })
  }
}

const addWordsBehind = (all: All, place: number): AddedMessages | undefined => {
  let last = place
  let added = 0
  for (const { bytes, id } of all(readSizes, [place, messagesPerWrite])) {
    last = Number(id)
    if ((added += Number(bytes)) >= bytesPerWrite) break
  }
  if (last === place) return undefined
  all(addRows, [place, last])
  return { last, added }
}

/** Adds all messages that are missing from the word index. */
export const addWords = (all: All): void => {
  while (addSome(wordsKey, addWordsBehind)(all) !== undefined);
}

/** Creates the word index, which uses FTS5 and ranks its matches. */
export const makeWordIndex = (database: Database): MessageIndex =>
  make(database, wordsKey, Number.MAX_SAFE_INTEGER, addWordsBehind)
