/** Retention of sessions in an open database. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { SqlError } from "effect/sql/SqlError"
import type { SessionStoreError } from "../../base/domain/AgentError.ts"
import * as Leases from "../../base/platform/Leases.ts"
import type { Service } from "../SessionRetention.ts"
import * as SqlMaintenance from "../sql/SqlMaintenance.ts"
import type * as Database from "./Database.ts"

/** Key in `state_meta` of the time of the last automatic removal. */
const lastKey = "last_auto_prune"

/** Name of the lease held by the process that removes sessions. */
const pruning = "session retention"

/** Returns the name of the lease of a program that has a session open. */
const formatOpenName = (id: string): string => `open session ${id}`

/** Tests whether a process runs one of the sessions, or has it open. */
export const isInUse =
  (sql: Database.Database["sql"]) =>
  (ids: ReadonlyArray<string>): Effect.Effect<boolean, SqlError> =>
    Effect.flatMap(Clock.currentTimeMillis, (now) =>
      Leases.isAnyHeld(
        sql,
        ids.flatMap((id) => [Leases.toSessionName(id), formatOpenName(id)]),
        now
      )
    )

/** Creates the retention service of an open database. */
export const make = ({ read, sql, write }: Database.Database): Service => {
  const leases = Leases.make<SessionStoreError>(sql, (effect) => write("prune", effect))

  const lastTime = read(
    "prune",
    sql<{ readonly value: string }>`SELECT value FROM state_meta WHERE key = ${lastKey}`
  ).pipe(Effect.map(([row]) => Number(row?.value ?? 0)))

  return {
    ...SqlMaintenance.makeRetention({ sql, read, write, made: "rowid", isInUse: isInUse(sql) }),

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
