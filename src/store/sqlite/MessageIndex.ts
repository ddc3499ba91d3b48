/**
 * Indexes of messages that are filled by searches: a turn of a run writes only its messages, not the index.
 *
 * **Details**
 *
 * `state_meta` has the place of each index: the id up to which messages are indexed. A search first adds later messages
 * in several transactions, each of which also moves the place. Messages that could not be added (the file is read-only,
 * another process writes to it) are read and scanned instead, so that a search always covers every message.
 * `hermes sessions optimize` adds missing messages as well.
 *
 * A message that is removed or changed leaves its index by a trigger; the place moves back where the ids of removed
 * messages are given again.
 */
import * as Effect from "effect/Effect"
import type { SqlError } from "effect/sql/SqlError"
import type { SessionStoreError } from "../../base/domain/AgentError.ts"
import type * as SqliteClient from "../../base/platform/SqliteClient.ts"
import type { Database } from "./Database.ts"

type All = SqliteClient.Database["all"]

/** Row of `state_meta` with the id up to which messages are in the index of words. */
export const wordsKey = "words_until"

/** Messages and bytes of text that one transaction adds to the index of words. */
const messagesPerWrite = 1_000
const bytesPerWrite = 1_000_000

const readPlace = "SELECT value FROM state_meta WHERE key = ?"
const writePlace = "INSERT OR REPLACE INTO state_meta (key, value) VALUES (?, ?)"
const readSizes = `SELECT id, octet_length(content) + octet_length(tool_name) + octet_length(tool_calls) AS bytes
  FROM messages WHERE id > ? ORDER BY id LIMIT ?`
const addRows = `INSERT INTO messages_fts (rowid, content, tool_name, tool_calls)
  SELECT id, content, tool_name, tool_calls FROM messages WHERE id > ? AND id <= ? ORDER BY id`

/** Some messages that were added to an index: the id of the last, and how much was added, in the unit of the index. */
export interface AddedMessages {
  readonly last: number
  readonly added: number
}

/** An index that is filled by those who search it. */
export interface MessageIndex {
  /** The id up to which messages are in the index. */
  readonly place: Effect.Effect<number, SessionStoreError>
  /** Adds messages that are not in the index yet, until all are or `most` was added. */
  readonly fill: (most?: number) => Effect.Effect<void, SqlError>
}

/**
 * Adds the next messages and moves the place. Returns the number of added messages, or undefined if none was missing.
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
 * Makes an index of an open database from the key of its place in `state_meta` and a function that adds the messages
 * after a place.
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
  // Unlike the write of a session, this does not wait while another process writes to the file: missing messages are
  // scanned.
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
        // Other fibers of this program run in between.
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

/** Adds all messages that the index of words lacks. */
export const addWords = (all: All): void => {
  while (addSome(wordsKey, addWordsBehind)(all) !== undefined);
}

/** Makes the index of words: FTS5 ranks by it. */
export const makeWordIndex = (database: Database): MessageIndex =>
  make(database, wordsKey, Number.MAX_SAFE_INTEGER, addWordsBehind)
