/**
 * The character index. It finds messages by words in scripts that do not separate words with spaces. The full-text
 * index would treat a whole sentence in such a script as one word.
 *
 * **Details**
 *
 * `signs_fts` holds the indexed characters of a message one by one, folded like a search query. A message without such
 * characters does not have a row. The characters of a word must be adjacent in the index. A message that only appears
 * to match (`会 a 議` for `会議`) is excluded by reading its text.
 *
 * Like in every {@link MessageIndex}, missing messages are added by searches. One search adds at most
 * {@link signsAtOnce} characters.
 */
import type * as SearchQuery from "../SearchQuery.ts"
import * as SearchWords from "../SearchWords.ts"
import type { Database } from "./Database.ts"
import * as MessageIndex from "./MessageIndex.ts"

/** Maximum number of characters that one search adds to the index, which takes about a quarter of a second. */
const signsAtOnce = 400_000

/** Maximum number of messages, and of characters, that one transaction adds. */
const messagesPerWrite = 1_000
const signsPerWrite = 100_000

/** Key in `state_meta` of the id up to which messages are in the index. */
export const placeKey = "signs_until"

// Text with one byte per character does not contain indexed characters. This is the case for most messages, which are
// therefore not read.
const readTexts = `SELECT id, iif(octet_length(content) + octet_length(tool_name) + octet_length(tool_calls)
    = length(content) + length(tool_name) + length(tool_calls), '', content || char(10) || tool_name || char(10) || tool_calls) AS text
  FROM messages WHERE id > ? ORDER BY id LIMIT ?`
const addSigns = "INSERT OR REPLACE INTO signs_fts (rowid, signs) VALUES (?, ?)"

/**
 * Converts a query to an FTS5 query for its indexed characters, which finds every matching message. Returns `undefined`
 * if an alternative contains no such characters.
 */
export const toFts = (query: SearchQuery.SearchQuery): string | undefined => {
  const alternatives = query.map(({ all }) =>
    all.flatMap(({ words }) => {
      const signs = SearchWords.listSigns(words.join(" "))
      return signs.length === 0 ? [] : [`"${signs.join(" ")}"`]
    })
  )
  return alternatives.some((phrases) => phrases.length === 0)
    ? undefined
    : alternatives.map((phrases) => `(${phrases.join(" AND ")})`).join(" OR ")
}

/** Creates the index of an open database. */
export const make = (database: Database): MessageIndex.MessageIndex =>
  MessageIndex.make(database, placeKey, signsAtOnce, (all, place) => {
    let last = place
    let added = 0
    for (const { id, text } of all(readTexts, [place, messagesPerWrite])) {
      const signs = SearchWords.listSigns(String(text))
      if (signs.length > 0) all(addSigns, [id, signs.join(" ")])
      last = Number(id)
      if ((added += signs.length) >= signsPerWrite) break
    }
    return last === place ? undefined : { last, added }
  })
