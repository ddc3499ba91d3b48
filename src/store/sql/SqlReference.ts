/** Finds sessions in a database by a user's text: an id, the beginning of one, a title, or the newest of a folder. */
import * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type { SqlError } from "effect/sql/SqlError"
import type { Fragment } from "effect/sql/Statement"
import type { SessionStoreError } from "../../base/domain/AgentError.ts"
import * as Reference from "../Reference.ts"
import { hiddenSources } from "../SessionSearch.ts"
import type { Session } from "../SessionStorePort.ts"
import type * as SqlRows from "./SqlRows.ts"
import type { SqlPlace } from "./SqlStore.ts"

type Rows = Effect.Effect<ReadonlyArray<SqlRows.SessionRow>, SqlError>

/** A database, and the queries of its store. */
interface ReferencePlace extends Pick<SqlPlace, "made" | "read" | "sql"> {
  readonly newestFirst: Fragment
  readonly readOne: (operation: string, rows: Rows) => Effect.Effect<Option.Option<Session>, SessionStoreError>
  readonly readMany: (operation: string, rows: Rows) => Effect.Effect<ReadonlyArray<Session>, SessionStoreError>
}

/** Creates the resolver of references. */
export const makeResolver = ({ made, newestFirst, read, readMany, readOne, sql }: ReferencePlace) =>
  Reference.makeResolver({
    byId: (id) => readOne("get", sql<SqlRows.SessionRow>`SELECT * FROM sessions WHERE id = ${id}`),
    byIdPrefix: (prefix) =>
      readMany(
        "resolve",
        sql<SqlRows.SessionRow>`
            SELECT * FROM sessions WHERE substr(id, 1, length(${prefix})) = ${prefix}
            ${newestFirst} LIMIT ${Reference.maxCandidates}`
      ),
    byTitle: (title) =>
      readMany("resolve", sql<SqlRows.SessionRow>`SELECT * FROM sessions WHERE title = ${title} ${newestFirst}`),
    byTitlePrefix: (prefix) =>
      readMany(
        "resolve",
        sql<SqlRows.SessionRow>`
          SELECT * FROM sessions WHERE substr(title, 1, length(${prefix})) = ${prefix}`
      ),
    names: read(
      "resolve",
      Effect.map(
        sql<{ readonly id: string; readonly title: string | null }>`
          SELECT id, title FROM sessions WHERE source NOT IN ${sql.in(hiddenSources)} ${newestFirst}`,
        (rows) => rows.flatMap(({ id, title }) => (title === null ? [id] : [id, title]))
      )
    ),
    latest: readOne(
      "resolve",
      sql<SqlRows.SessionRow>`
          SELECT * FROM sessions WHERE source NOT IN ${sql.in(hiddenSources)} ${newestFirst} LIMIT 1`
    ),
    directories: read(
      "resolve",
      Effect.map(
        sql<{ readonly cwd: string }>`
          SELECT cwd FROM sessions WHERE source NOT IN ${sql.in(hiddenSources)} AND cwd IS NOT NULL
          GROUP BY cwd ORDER BY MAX(updated_at) DESC, MAX(${sql.literal(made)}) DESC`,
        (rows) => rows.map(({ cwd }) => cwd)
      )
    ),
    latestIn: (directory) =>
      readOne(
        "resolve",
        sql<SqlRows.SessionRow>`
            SELECT * FROM sessions WHERE source NOT IN ${sql.in(hiddenSources)} AND cwd = ${directory} ${newestFirst}
            LIMIT 1`
      )
  })
