/**
 * The index of signs: finds messages by words of scripts that put no blanks between words, which the full-text index takes for one
 * long word each.
 *
 * **Details**
 *
 * `signs_fts` holds the signs of a message one by one, folded as search compares them, and nothing else of it: a message without such
 * signs has no row. The signs of a word must follow one another there; a text that only looks so (`会 a 議` for `会議`) is told apart by
 * reading it.
 *
 * Nothing is written to the index when a message is stored: it is filled up to the newest message when somebody searches for signs, at
 * most {@link signsAtOnce} in one search; `hermes sessions optimize` adds the rest. Messages behind that place are read and scanned.
 * `state_meta` has the place. A message that is removed leaves the index by a trigger; the place moves back where the ids of removed
 * messages are given again.
 */
import * as Effect from "effect/Effect"
import type { SqlError } from "effect/sql/SqlError"
import type { SessionStoreError } from "../../domain/AgentError.ts"
import type * as SearchQuery from "../SearchQuery.ts"
import * as SearchWords from "../SearchWords.ts"
import type { Database } from "./Database.ts"

/** Signs that one search adds to the index, in about a quarter of a second. */
const signsAtOnce = 400_000

/** Messages and signs that one transaction adds. */
const messagesPerWrite = 1_000
const signsPerWrite = 100_000

/** Row of `state_meta` with the id up to which messages are in the index. */
export const placeKey = "signs_until"

const readPlace = "SELECT value FROM state_meta WHERE key = ?"
// Most texts have a byte for each character, and so none of the signs.
const readTexts = `SELECT id, iif(octet_length(content) + octet_length(tool_name) + octet_length(tool_calls)
    = length(content) + length(tool_name) + length(tool_calls), '', content || char(10) || tool_name || char(10) || tool_calls) AS text
  FROM messages WHERE id > ? ORDER BY id LIMIT ?`
const addSigns = "INSERT OR REPLACE INTO signs_fts (rowid, signs) VALUES (?, ?)"
const writePlace = "INSERT OR REPLACE INTO state_meta (key, value) VALUES (?, ?)"

/**
 * The signs of a query's alternatives in the language of FTS5: every message that fits is found by it. `undefined` where an alternative
 * asks for none.
 */
export const toFts = (query: SearchQuery.SearchQuery): string | undefined => {
  const alternatives = query.map(({ all }) =>
    all.flatMap(({ words }) => {
      const signs = SearchWords.signs(words.join(" "))
      return signs.length === 0 ? [] : [`"${signs.join(" ")}"`]
    }))
  return alternatives.some((phrases) => phrases.length === 0) ? undefined : alternatives.map((phrases) => `(${phrases.join(" AND ")})`).join(" OR ")
}

/** The index of signs of an open database. */
export interface SignIndex {
  /** The id up to which messages are in the index. */
  readonly place: Effect.Effect<number, SessionStoreError>
  /** Adds messages that are not in the index yet, until all are or `most` signs were added. */
  readonly fill: (most?: number) => Effect.Effect<void, SqlError>
}

/** Makes the index of an open database. */
export const make = ({ read, sql }: Database): SignIndex => {
  const isFilled = Effect.map(
    sql<{ readonly isFilled: number }>`
      SELECT coalesce((SELECT CAST(value AS INTEGER) FROM state_meta WHERE key = ${placeKey}), 0) >= coalesce(max(id), 0) AS isFilled FROM messages`,
    ([row]) => row?.isFilled === 1
  )
  // A file that another process writes to is not waited for as a write of a session is: what is missing is scanned.
  const addSome = sql.transaction(sql.statements((all) => {
    const place = Number(all(readPlace, [placeKey])[0]?.["value"] ?? 0)
    let last = place
    let added = 0
    for (const { id, text } of all(readTexts, [place, messagesPerWrite])) {
      const signs = SearchWords.signs(String(text))
      if (signs.length > 0) all(addSigns, [id, signs.join(" ")])
      last = Number(id)
      if ((added += signs.length) >= signsPerWrite) break
    }
    if (last === place) return undefined
    all(writePlace, [placeKey, String(last)])
    return added
  }))

  return {
    place: Effect.map(
      read("search", sql<{ readonly value: string }>`SELECT value FROM state_meta WHERE key = ${placeKey}`),
      ([row]) => Number(row?.value ?? 0)
    ),
    fill: Effect.fnUntraced(function*(most = signsAtOnce) {
      if (yield* isFilled) return
      for (let left = most; left > 0;) {
        const added = yield* addSome
        if (added === undefined) return
        left -= added
        // Others of this program go on in between.
        yield* Effect.yieldNow
      }
    })
  }
}
