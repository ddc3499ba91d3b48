/**
 * Search in an open database. Its full-text index finds and ranks the matches. Words in scripts without spaces are not
 * in that index. For these words, the character index finds messages, which are then read and compared. Messages that
 * are missing from an index are added first, or scanned if they cannot be added.
 *
 * **Details**
 *
 * The index is read from the newest message to the oldest. If very many messages match, only the newest
 * {@link mostRanked} are ranked, so that the search time does not grow with the database. Neighbours and excerpts are
 * read only for hits.
 */
import * as Effect from "effect/Effect"
import type { Fragment } from "effect/sql/Statement"
import type { SessionId } from "../../base/domain/Ids.ts"
import * as SearchQuery from "../SearchQuery.ts"
import * as SearchScan from "../SearchScan.ts"
import * as SearchWords from "../SearchWords.ts"
import * as SessionSearch from "../SessionSearch.ts"
import type { Database } from "./Database.ts"
import * as MessageIndex from "./MessageIndex.ts"
import * as SignIndex from "./SignIndex.ts"

type Role = SessionSearch.Role

/** Maximum number of matching messages that are ranked. Older messages become hits only if fewer messages match. */
export const mostRanked = 2_000

/** Number of messages that are read at once during a scan. */
const scannedAtOnce = 200

interface PlaceRow {
  readonly session_id: SessionId
  readonly position: number
  readonly role: Role
  readonly before_role: Role | null
  readonly before_text: string
  readonly after_role: Role | null
  readonly after_text: string
}

interface TextRow extends PlaceRow {
  readonly id: number
  readonly content: string
  readonly tool_name: string
  readonly tool_calls: string
}

const toNeighbour = (role: Role | null, text: string): SessionSearch.Neighbour | undefined =>
  role === null ? undefined : { role, text }

const toHit = (row: PlaceRow, snippet: string): SessionSearch.Hit => ({
  sessionId: row.session_id,
  messageId: row.position,
  role: row.role,
  snippet,
  before: toNeighbour(row.before_role, row.before_text),
  after: toNeighbour(row.after_role, row.after_text)
})

const findExcerpt = (query: SearchQuery.SearchQuery, row: TextRow): string | undefined =>
  SearchScan.find(query, { content: row.content, toolNames: row.tool_name, toolCalls: row.tool_calls })

const toFtsTerms = (terms: ReadonlyArray<SearchQuery.Term>, operator: string): string =>
  terms.map(({ words, prefix }) => `"${words.join(" ")}"${prefix ? "*" : ""}`).join(operator)

/**
 * Converts a query to an FTS5 query. Words consist of letters and digits and are quoted, so they cannot contain
 * operators.
 */
export const toFts = (query: SearchQuery.SearchQuery): string =>
  query
    .map(({ all, none }) =>
      none.length === 0
        ? `(${toFtsTerms(all, " AND ")})`
        : `((${toFtsTerms(all, " AND ")}) NOT (${toFtsTerms(none, " OR ")}))`
    )
    .join(" OR ")

const listUnspacedWords = (terms: ReadonlyArray<SearchQuery.Term>): ReadonlyArray<string> =>
  terms.flatMap((term) => term.words.filter(SearchWords.isUnspaced))

/** Creates the search in an open database. */
export const make = (database: Database): SessionSearch.Service => {
  const { read, sql } = database
  const words = MessageIndex.makeWordIndex(database)
  const signs = SignIndex.make(database)
  const place = sql`
    m.session_id, m.position, m.role,
    b.role AS before_role, substr(b.content, 1, ${sql.literal(String(SessionSearch.neighbourLength))}) AS before_text,
    a.role AS after_role, substr(a.content, 1, ${sql.literal(String(SessionSearch.neighbourLength))}) AS after_text`
  const joins = sql`
    JOIN sessions s ON s.id = m.session_id
    LEFT JOIN messages b ON b.session_id = m.session_id AND b.position = m.position - 1
    LEFT JOIN messages a ON a.session_id = m.session_id AND a.position = m.position + 1`

  const buildFilters = (options: SessionSearch.SearchOptions): ReadonlyArray<Fragment> => [
    sql`s.source NOT IN ${sql.in(SessionSearch.hiddenSources)}`,
    ...(options.sessionId === undefined ? [] : [sql`m.session_id = ${options.sessionId}`]),
    ...(options.tenant === undefined ? [] : [sql`s.tenant = ${options.tenant}`]),
    ...(options.except === undefined ? [] : [sql`m.session_id NOT IN ${sql.in(options.except)}`]),
    ...(options.roles === undefined ? [] : [sql`m.role IN ${sql.in(options.roles)}`])
  ]
  /** Limits a search of the index to the range of a session's row ids. These ids are close together. */
  const limitToSession = (index: Fragment, sessionId: SessionId | undefined): ReadonlyArray<Fragment> =>
    sessionId === undefined
      ? []
      : [
          sql`${index}.rowid BETWEEN
      (SELECT min(id) FROM messages WHERE session_id = ${sessionId})
      AND (SELECT max(id) FROM messages WHERE session_id = ${sessionId})`
        ]
  const isOldestFirst = ({ sort }: SessionSearch.SearchOptions): boolean => sort === "oldest"

  const searchIndex = (
    query: SearchQuery.SearchQuery,
    options: SessionSearch.SearchOptions,
    limit: number,
    until: number
  ) => {
    const isRanked = options.sort === undefined
    const hits = sql`
      SELECT messages_fts.rowid AS id, ${isRanked ? sql`bm25(messages_fts)` : sql`0`} AS rank
      FROM messages_fts CROSS JOIN messages m ON m.id = messages_fts.rowid CROSS JOIN sessions s ON s.id = m.session_id
      WHERE ${sql.and([sql`messages_fts MATCH ${toFts(query)}`, sql`messages_fts.rowid <= ${until}`, ...limitToSession(sql`messages_fts`, options.sessionId), ...buildFilters(options)])}
      ORDER BY messages_fts.rowid ${isOldestFirst(options) ? sql`ASC` : sql`DESC`}
        LIMIT ${isRanked ? mostRanked : limit}`
    return Effect.map(
      sql<TextRow>`
        WITH hits AS MATERIALIZED (${hits}),
          best AS MATERIALIZED (SELECT id, rank FROM hits ${isRanked ? sql`ORDER BY rank, id LIMIT ${limit}` : sql``})
        SELECT ${place}, m.id, m.content, m.tool_name, m.tool_calls
        FROM best CROSS JOIN messages m ON m.id = best.id ${joins}
        ORDER BY ${isRanked ? sql`best.rank, best.id` : isOldestFirst(options) ? sql`best.id` : sql`best.id DESC`}`,
      (rows) =>
        rows.map((row) =>
          toHit(row, findExcerpt(query, row) ?? SearchWords.truncateText(row.content, SessionSearch.neighbourLength))
        )
    )
  }

  const holdsSigns = (alternative: SearchQuery.Alternative): Fragment =>
    sql.and(
      listUnspacedWords(alternative.all).map(
        (sign) =>
          sql`(instr(m.content, ${sign}) > 0 OR instr(m.tool_calls, ${sign}) > 0 OR instr(m.tool_name, ${sign}) > 0)`
      )
    )

  /**
   * Finds the matching messages that a source query selects, in the requested order. `id` is the column by which they
   * are ordered.
   */
  const scanMessages = Effect.fnUntraced(function* (
    { from, id }: { readonly from: Fragment; readonly id: Fragment },
    query: SearchQuery.SearchQuery,
    options: SessionSearch.SearchOptions,
    limit: number
  ) {
    const hits: Array<SessionSearch.Hit> = []
    let beyond = sql``
    for (let size = 2 * limit; ; size = scannedAtOnce) {
      const rows = yield* sql<TextRow>`
        SELECT ${place}, m.id, m.content, m.tool_name, m.tool_calls FROM ${from}
        AND ${sql.and(buildFilters(options))} ${beyond}
        ORDER BY ${id} ${isOldestFirst(options) ? sql`ASC` : sql`DESC`} LIMIT ${size}`
      for (const row of rows) {
        const snippet = findExcerpt(query, row)
        if (snippet !== undefined) hits.push(toHit(row, snippet))
        if (hits.length >= limit) return hits
      }
      const last = rows.at(-1)
      if (last === undefined || rows.length < size) return hits
      beyond = isOldestFirst(options) ? sql`AND ${id} > ${last.id}` : sql`AND ${id} < ${last.id}`
    }
  })

  const searchByWords = Effect.fnUntraced(function* (
    query: SearchQuery.SearchQuery,
    options: SessionSearch.SearchOptions,
    limit: number
  ) {
    const until = yield* words.place
    const behind = scanMessages(
      { id: sql`m.id`, from: sql`messages m ${joins} WHERE m.id > ${until}` },
      query,
      options,
      limit
    )
    // The index contains the older messages, so it is searched first.
    if (isOldestFirst(options)) {
      const hits = yield* searchIndex(query, options, limit, until)
      return hits.length < limit ? [...hits, ...(yield* behind).slice(0, limit - hits.length)] : hits
    }
    const hits = yield* behind
    return hits.length < limit ? [...hits, ...(yield* searchIndex(query, options, limit - hits.length, until))] : hits
  })

  const searchBySigns = Effect.fnUntraced(function* (
    query: SearchQuery.SearchQuery,
    options: SessionSearch.SearchOptions,
    limit: number
  ) {
    const match = SignIndex.toFts(query)
    const until = match === undefined ? 0 : yield* signs.place
    const scan = {
      id: sql`m.id`,
      from: sql`messages m ${joins} WHERE m.id > ${until} AND ${sql.or(query.map(holdsSigns))}`
    }
    const index =
      match === undefined
        ? []
        : [
            {
              id: sql`signs_fts.rowid`,
              from: sql`signs_fts CROSS JOIN messages m ON m.id = signs_fts.rowid ${joins}
                WHERE ${sql.and([sql`signs_fts MATCH ${match}`, ...limitToSession(sql`signs_fts`, options.sessionId)])}`
            }
          ]
    const hits: Array<SessionSearch.Hit> = []
    // The index contains the older messages.
    for (const source of isOldestFirst(options) ? [...index, scan] : [scan, ...index]) {
      if (hits.length < limit) hits.push(...(yield* scanMessages(source, query, options, limit - hits.length)))
    }
    return hits
  })

  return {
    search: (input, options = {}) => {
      const query = SearchQuery.parse(input)
      const limit = Math.max(0, options.limit ?? SessionSearch.defaultLimit)
      if (query.length === 0 || limit === 0) return Effect.succeed([])
      const inIndex = listUnspacedWords(query.flatMap(({ all, none }) => [...all, ...none])).length === 0
      // If messages cannot be added to the index, the search continues and scans them.
      return Effect.andThen(
        Effect.ignore((inIndex ? words : signs).fill(), { log: "Debug" }),
        read("search", inIndex ? searchByWords(query, options, limit) : searchBySigns(query, options, limit))
      )
    }
  }
}
