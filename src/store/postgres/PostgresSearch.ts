/**
 * Search in a Postgres database. The index finds messages that contain the words of a query. These messages are then
 * read, newest first, and compared with the query.
 *
 * **Details**
 *
 * The index contains the words as split by `SearchWords`, including single characters of scripts without spaces. It
 * therefore does not need a server extension or a dictionary, and finds the same messages as a SQLite store. It does
 * not contain the order of words, so phrases are searched in the text of the messages.
 *
 * For messages that are not in the index (`words IS NULL`), the folded text is searched.
 */
import * as Effect from "effect/Effect"
import type { Fragment } from "effect/sql/Statement"
import type { SessionId } from "../../base/domain/Ids.ts"
import type { Client } from "../../base/platform/PostgresClient.ts"
import * as SearchQuery from "../SearchQuery.ts"
import * as SearchScan from "../SearchScan.ts"
import * as SearchWords from "../SearchWords.ts"
import * as SessionSearch from "../SessionSearch.ts"
import type { Run } from "../sql/SqlStore.ts"
import * as PostgresTexts from "./PostgresTexts.ts"

/** Number of messages that are read at once. */
const pageSize = 200

/** Maximum length of a word in the index, in characters. Postgres allows 2,046 bytes. */
const wordLength = 60
/** Maximum total length of the words of a message in the index, in characters. Postgres allows one megabyte. */
const mostChars = 250_000

const truncateWord = (word: string): string => SearchWords.truncateText(word, wordLength)

/** Returns the words of folded text for the index, or `undefined` if there are too many. */
export const listIndexWords = (folded: string): ReadonlyArray<string> | undefined => {
  const found = new Set<string>()
  let chars = 0
  for (const { text } of SearchWords.splitWords(folded)) {
    const word = text.length <= wordLength ? text : truncateWord(text)
    if (found.has(word)) continue
    found.add(word)
    if ((chars += word.length) > mostChars) return undefined
  }
  return Array.from(found)
}

/**
 * Converts the words of an alternative to the query language of the index. Words consist of letters and digits, so they
 * cannot contain operators.
 */
const toLexemes = ({ all }: SearchQuery.Alternative): ReadonlyArray<string> =>
  all.flatMap(({ prefix, words }) =>
    words.flatMap((word, index) => {
      const folded = truncateWord(SearchWords.fold(word))
      return folded === "" ? [] : [`'${folded}'${prefix && index === words.length - 1 ? ":*" : ""}`]
    })
  )

interface Row extends PostgresTexts.TextColumns {
  readonly id: number
  readonly session_id: SessionId
  readonly position: number
  readonly role: SessionSearch.Role
}

/** A message that a query found, with its snippet. */
interface Found {
  readonly row: Row
  readonly snippet: string
}

const formatPlace = (sessionId: string, position: number): string => `${sessionId} ${position}`

/** Condition that a message matches all words of an alternative. */
const matchAlternative = (sql: Client, alternative: SearchQuery.Alternative): Fragment => {
  const lexemes = toLexemes(alternative)
  const inText = alternative.all.flatMap(({ words }) =>
    words.map((word) => sql`position(${SearchWords.fold(word)} in m.folded) > 0`)
  )
  return lexemes.length === 0
    ? sql`TRUE`
    : sql`(m.words @@ CAST(${lexemes.join(" & ")} AS tsquery) OR (m.words IS NULL AND ${sql.and(inText)}))`
}

/** Conditions of the options of a search. */
const buildFilters = (sql: Client, options: SessionSearch.SearchOptions): ReadonlyArray<Fragment> => [
  sql`s.source NOT IN ${sql.in(SessionSearch.hiddenSources)}`,
  ...(options.sessionId === undefined ? [] : [sql`m.session_id = ${options.sessionId}`]),
  ...(options.tenant === undefined ? [] : [sql`s.tenant = ${options.tenant}`]),
  ...(options.except === undefined || options.except.length === 0
    ? []
    : [sql`m.session_id NOT IN ${sql.in(options.except)}`]),
  ...(options.roles === undefined
    ? []
    : [options.roles.length === 0 ? sql`FALSE` : sql`m.role IN ${sql.in(options.roles)}`])
]

/** Creates the search service over an open client. */
export const make = (sql: Client, read: Run): SessionSearch.Service => {
  const findHits = Effect.fnUntraced(function* (
    query: SearchQuery.SearchQuery,
    options: SessionSearch.SearchOptions,
    limit: number
  ) {
    const isOldestFirst = options.sort === "oldest"
    const hits: Array<Found> = []
    let beyond = sql`TRUE`
    while (true) {
      const rows = yield* sql<Row>`
        SELECT m.id, m.session_id, m.position, m.role, m.content, m.tool_name, m.tool_calls, m.envelope
        FROM messages m JOIN sessions s ON s.id = m.session_id
        WHERE ${sql.and([beyond, sql.or(query.map((alternative) => matchAlternative(sql, alternative))), ...buildFilters(sql, options)])}
        ORDER BY m.id ${isOldestFirst ? sql`ASC` : sql`DESC`} LIMIT ${pageSize}`
      for (const row of rows) {
        const snippet = SearchScan.find(query, PostgresTexts.readTexts(row))
        if (snippet !== undefined) hits.push({ row, snippet })
        if (hits.length >= limit) return hits
      }
      const last = rows.at(-1)
      if (last === undefined || rows.length < pageSize) return hits
      beyond = isOldestFirst ? sql`m.id > ${last.id}` : sql`m.id < ${last.id}`
    }
  })

  /** Reads the messages before and after the found ones, by their places. */
  const readNeighbours = (hits: ReadonlyArray<Found>) => {
    const places = hits.flatMap(({ row: { position, session_id } }) =>
      [position - 1, position + 1].map((at) => ({ session_id, position: at }))
    )
    return Effect.map(
      sql<Row>`
        SELECT m.id, m.session_id, m.position, m.role, m.content, m.tool_name, m.tool_calls, m.envelope
        FROM messages m JOIN json_to_recordset(CAST(${JSON.stringify(places)} AS json))
          AS a (session_id TEXT, position INTEGER) ON a.session_id = m.session_id AND a.position = m.position`,
      (rows) =>
        new Map(
          rows.map((row) => [
            formatPlace(row.session_id, row.position),
            {
              role: row.role,
              text: PostgresTexts.takeChars(PostgresTexts.readTexts(row).content, SessionSearch.neighbourLength)
            }
          ])
        )
    )
  }

  const findWithNeighbours = Effect.fnUntraced(function* (
    query: SearchQuery.SearchQuery,
    options: SessionSearch.SearchOptions,
    limit: number
  ) {
    const hits = yield* findHits(query, options, limit)
    if (hits.length === 0) return []
    const neighbours = yield* readNeighbours(hits)
    return hits.map(({ row: { position, role, session_id: sessionId }, snippet }): SessionSearch.Hit => ({
      sessionId,
      messageId: position,
      role,
      snippet,
      before: neighbours.get(formatPlace(sessionId, position - 1)),
      after: neighbours.get(formatPlace(sessionId, position + 1))
    }))
  })

  return {
    search: (input, options = {}) => {
      const query = SearchQuery.parse(input)
      const limit = Math.max(0, options.limit ?? SessionSearch.defaultLimit)
      return query.length === 0 || limit === 0
        ? Effect.succeed([])
        : read("search", findWithNeighbours(query, options, limit))
    }
  }
}
