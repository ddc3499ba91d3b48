/** Opens the database file that contains the leases, for callers that need nothing else from the database. */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { SqlError } from "effect/sql/SqlError"
import * as Leases from "./Leases.ts"
import * as SqlFailure from "./SqlFailure.ts"
import * as SqliteClient from "./SqliteClient.ts"

/** SQLite application id of the databases of this program: `HeEf` in ASCII. */
export const applicationId = 0x48654566

/** Opens the leases in the file at `path`. Creates the file if it is missing, and closes it when the scope closes. */
export const open = (path: string): Effect.Effect<Leases.Service, Leases.LeaseFailed, Scope.Scope> => {
  const toLeaseFailure = (error: SqlError): Leases.LeaseFailed =>
    new Leases.LeaseFailed({ message: SqlFailure.describe(path, error), cause: error.reason.cause })
  const mapFailure = <A>(effect: Effect.Effect<A, SqlError>): Effect.Effect<A, Leases.LeaseFailed> =>
    Effect.mapError(SqliteClient.retryWhileLocked(effect), toLeaseFailure)

  return Effect.gen(function* () {
    const sql = yield* Effect.mapError(SqliteClient.open(path), toLeaseFailure)
    yield* mapFailure(SqliteClient.configure(sql))
    const [header] = yield* mapFailure(sql<{ readonly application_id: number }>`PRAGMA application_id`)
    const [tables] = yield* mapFailure(
      sql<{ readonly count: number }>`SELECT count(*) AS count FROM sqlite_schema WHERE tbl_name <> 'leases'`
    )
    if (header?.application_id !== applicationId && tables?.count !== 0) {
      return yield* new Leases.LeaseFailed({
        message: `${path} is the database of another program: move it away, or set another HERMES_HOME`
      })
    }
    yield* mapFailure(sql.unsafe(Leases.table).unprepared)
    return Leases.make<Leases.LeaseFailed>(sql, (effect) =>
      mapFailure(Effect.uninterruptible(sql.withTransaction(effect)))
    )
  })
}
