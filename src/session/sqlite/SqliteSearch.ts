/**
 * Search on an open database: by its full-text index, which ranks. Words in scripts that do not put blanks between them are
 * not in the index; for these the messages that hold every sign are read and scanned.
 */
import * as Effect from "effect/Effect"
import type { Fragment } from "effect/sql/Statement"
import type { SessionId } from "../../domain/Ids.ts"
import * as SearchQuery from "../SearchQuery.ts"
import * as SearchScan from "../SearchScan.ts"
import * as SearchWords from "../SearchWords.ts"
import * as SessionSearch from "../SessionSearch.ts"
import type { Database } from "./Database.ts"

type Role = SessionSearch.Role

interface PlaceRow {
  readonly session_id: SessionId
  readonly position: number
  readonly role: Role
  readonly before_role: Role | null
  readonly before_text: string
  readonly after_role: Role | null
  readonly after_text: string
}

interface IndexedRow extends PlaceRow {
  readonly snippet: string
}

interface ScannedRow extends PlaceRow {
  readonly content: string
  readonly tool_name: string
  readonly tool_calls: string
}

const neighbour = (role: Role | null, text: string): SessionSearch.Neighbour | undefined =>
  role === null ? undefined : { role, text }

const toHit = (row: PlaceRow, snippet: string): SessionSearch.Hit => ({
  sessionId: row.session_id,
  messageId: row.position,
  role: row.role,
  snippet,
  before: neighbour(row.before_role, row.before_text),
  after: neighbour(row.after_role, row.after_text)
})

const ftsTerms = (terms: ReadonlyArray<SearchQuery.Term>, operator: string): string =>
  terms.map(({ words, prefix }) => `"${words.join(" ")}"${prefix ? "*" : ""}`).join(operator)

/** A query in the language of FTS5. Words are letters and digits: quoted, they are never part of that language. */
export const toFts = (query: SearchQuery.SearchQuery): string =>
  query.map(({ all, none }) =>
    none.length === 0 ? `(${ftsTerms(all, " AND ")})` : `((${ftsTerms(all, " AND ")}) NOT (${ftsTerms(none, " OR ")}))`
  ).join(" OR ")

const unspacedWords = (terms: ReadonlyArray<SearchQuery.Term>): ReadonlyArray<string> =>
  terms.flatMap((term) => term.words.filter(SearchWords.isUnspaced))

/** Makes the search on an open database. */
export const make = ({ sql, read }: Database): SessionSearch.Service => {
  const place = sql`
    m.session_id, m.position, m.role,
    b.role AS before_role, substr(b.content, 1, ${sql.literal(String(SessionSearch.neighbourLength))}) AS before_text,
    a.role AS after_role, substr(a.content, 1, ${sql.literal(String(SessionSearch.neighbourLength))}) AS after_text`
  const joins = sql`
    JOIN sessions s ON s.id = m.session_id
    LEFT JOIN messages b ON b.session_id = m.session_id AND b.position = m.position - 1
    LEFT JOIN messages a ON a.session_id = m.session_id AND a.position = m.position + 1`

  const filters = (options: SessionSearch.SearchOptions): ReadonlyArray<Fragment> => [
    sql`s.source NOT IN ${sql.in(SessionSearch.hiddenSources)}`,
    ...(options.sessionId === undefined ? [] : [sql`m.session_id = ${options.sessionId}`]),
    ...(options.except === undefined ? [] : [sql`m.session_id NOT IN ${sql.in(options.except)}`]),
    ...(options.roles === undefined ? [] : [sql`m.role IN ${sql.in(options.roles)}`])
  ]
  const chronological = (options: SessionSearch.SearchOptions): Fragment =>
    options.sort === "oldest" ? sql`ORDER BY m.id` : sql`ORDER BY m.id DESC`

  const indexed = (query: SearchQuery.SearchQuery, options: SessionSearch.SearchOptions, limit: number) =>
    Effect.map(
      sql<IndexedRow>`
        SELECT ${place}, snippet(messages_fts, -1, '>>>', '<<<', '…', 32) AS snippet
        FROM messages_fts JOIN messages m ON m.id = messages_fts.rowid ${joins}
        WHERE ${sql.and([sql`messages_fts MATCH ${toFts(query)}`, ...filters(options)])}
        ${options.sort === undefined ? sql`ORDER BY rank` : chronological(options)} LIMIT ${limit}`,
      (rows) => rows.map((row) => toHit(row, row.snippet))
    )

  const holdsSigns = (alternative: SearchQuery.Alternative): Fragment =>
    sql.and(
      unspacedWords(alternative.all).map((sign) =>
        sql`instr(m.content || char(10) || m.tool_name || char(10) || m.tool_calls, ${sign}) > 0`
      )
    )

  const scanned = (query: SearchQuery.SearchQuery, options: SessionSearch.SearchOptions, limit: number) =>
    Effect.map(
      sql<ScannedRow>`
        SELECT ${place}, m.content, m.tool_name, m.tool_calls FROM messages m ${joins}
        WHERE ${sql.and([sql.or(query.map(holdsSigns)), ...filters(options)])} ${chronological(options)}`,
      (rows) =>
        rows.flatMap((row) => {
          const text = { content: row.content, toolNames: row.tool_name, toolCalls: row.tool_calls }
          const snippet = SearchScan.find(query, text)
          return snippet === undefined ? [] : [toHit(row, snippet)]
        }).slice(0, limit)
    )

  return {
    search: (input, options = {}) => {
      const query = SearchQuery.parse(input)
      const limit = Math.max(0, options.limit ?? SessionSearch.defaultLimit)
      if (query.length === 0) return Effect.succeed([])
      const inIndex = unspacedWords(query.flatMap(({ all, none }) => [...all, ...none])).length === 0
      return read("search", inIndex ? indexed(query, options, limit) : scanned(query, options, limit))
    }
  }
}
