/** Retention of sessions in an open database. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { SessionStoreError } from "../../base/domain/AgentError.ts"
import * as Leases from "../../base/platform/Leases.ts"
import { hiddenSources } from "../SessionSearch.ts"
import type { Limit, PruneResult, Service } from "../SessionRetention.ts"
import * as SqlRows from "../sql/SqlRows.ts"
import type * as Database from "./Database.ts"

/** Key in `state_meta` of the time of the last automatic removal. */
const lastKey = "last_auto_prune"

/** Name of the lease held by the process that removes sessions. */
const pruning = "session retention"

/** Returns the name of the lease of a program that has a session open. */
export const formatOpenName = (id: string): string => `open session ${id}`

/**
 * Selects the sessions below the root of each conversation. `UNION` ends cycles in the parents of a damaged database.
 */
export const selectFamilies = (sql: Database.Database["sql"], root: string | undefined) => sql`
  WITH RECURSIVE family (root, id) AS (
    SELECT id, id FROM sessions
    WHERE ${
      root === undefined
        ? sql`parent_session_id IS NULL OR parent_session_id NOT IN (SELECT id FROM sessions)`
        : sql`id = ${root}`
    }
    UNION
    SELECT family.root, sessions.id FROM family JOIN sessions ON sessions.parent_session_id = family.id
  )`

/** Creates the retention service of an open database. */
export const make = ({ read, sql, write }: Database.Database): Service => {
  const leases = Leases.make<SessionStoreError>(sql, (effect) => write("prune", effect))

  /**
   * Selects the roots of conversations that have ended, are old and do not wait for an answer. A sub-agent whose end is
   * missing because its process was killed does not count as active.
   */
  const findOldRoots = ({ before, source, tenant }: Limit, root?: string) =>
    sql<{ readonly root: string }>`
      ${selectFamilies(sql, root)}
      SELECT family.root FROM family JOIN sessions ON sessions.id = family.id
      GROUP BY family.root
      HAVING max(max(updated_at, coalesce(ended_at, 0))) < ${before}
        AND sum(ended_at IS NULL AND (family.id = family.root OR source NOT IN ${sql.in(hiddenSources)})) = 0
        AND sum(EXISTS (SELECT 1 FROM questions WHERE session_id = family.id AND state IN ('open', 'answered'))) = 0
        ${source === undefined ? sql`` : sql`AND sum(family.id = family.root AND source = ${source}) = 1`}
        ${tenant === undefined ? sql`` : sql`AND sum(family.id = family.root AND tenant = ${tenant}) = 1`}`

  /** Removes a conversation if it is still old and not in use. */
  const removeConversation = (root: string, limit: Limit) =>
    write(
      "prune",
      Effect.gen(function* () {
        const [still] = yield* findOldRoots(limit, root)
        if (still === undefined) return false
        const members = yield* sql<{ readonly id: string }>`${selectFamilies(sql, root)} SELECT id FROM family`
        const ids = members.map(({ id }) => id)
        const now = yield* Clock.currentTimeMillis
        if (
          yield* Leases.isAnyHeld(
            sql,
            ids.flatMap((id) => [Leases.toSessionName(id), formatOpenName(id)]),
            now
          )
        )
          return false
        // Messages are deleted before their session, so that triggers update the full-text index for each message.
        yield* sql`DELETE FROM messages WHERE session_id IN ${sql.in(ids)}`
        yield* sql`DELETE FROM sessions WHERE id IN ${sql.in(ids)}`
        return true
      })
    )

  const lastTime = read(
    "prune",
    sql<{ readonly value: string }>`SELECT value FROM state_meta WHERE key = ${lastKey}`
  ).pipe(Effect.map(([row]) => Number(row?.value ?? 0)))

  return {
    expired: (limit) =>
      read(
        "prune",
        Effect.flatMap(findOldRoots(limit), (roots) =>
          roots.length === 0
            ? Effect.succeed([])
            : sql<SqlRows.SessionRow>`SELECT * FROM sessions WHERE id IN ${sql.in(roots.map(({ root }) => root))}
              ORDER BY updated_at, rowid`
        )
      ).pipe(Effect.map((rows) => rows.map(SqlRows.toSession))),

    prune: Effect.fnUntraced(function* (limit) {
      const pruned: { -readonly [K in keyof PruneResult]: PruneResult[K] } = { removed: 0, kept: 0 }
      for (const { root } of yield* read("prune", findOldRoots(limit))) {
        pruned[(yield* removeConversation(root, limit)) ? "removed" : "kept"]++
        // Lets other fibers of this program write.
        yield* Effect.yieldNow
      }
      return pruned
    }),

    compact: read(
      "compact",
      Effect.gen(function* () {
        const [pages] = yield* sql<{ readonly free: number; readonly total: number }>`
        SELECT freelist_count AS free, page_count AS total FROM pragma_freelist_count, pragma_page_count`
        if (pages === undefined || pages.free * 4 < pages.total) return
        yield* sql.unsafe("VACUUM").unprepared
        yield* sql.unsafe("PRAGMA wal_checkpoint(TRUNCATE)").unprepared
      })
    ),

    whenDue: (intervalMillis, removal) =>
      Effect.scoped(
        Effect.gen(function* () {
          const isDue = Effect.zipWith(Clock.currentTimeMillis, lastTime, (now, last) => now - last >= intervalMillis)
          if (!(yield* isDue)) return undefined
          yield* leases.take(pruning)
          // Another process may have removed sessions in the meantime.
          if (!(yield* isDue)) return undefined
          const done = yield* removal
          const now = yield* Clock.currentTimeMillis
          yield* write("prune", sql`INSERT OR REPLACE INTO state_meta (key, value) VALUES (${lastKey}, ${String(now)})`)
          return done
        })
      ).pipe(Effect.catchTag("LeaseTaken", () => Effect.succeed(undefined))),

    hold: (id) => Effect.asVoid(Effect.catchTag(leases.take(formatOpenName(id)), "LeaseTaken", () => Effect.void))
  }
}
