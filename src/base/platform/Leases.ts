/**
 * Leases: a name has one owner at a time among all processes that share a database (`<HERMES_HOME>/state.db`).
 *
 * **Details**
 *
 * A lease is a row with its owner, the owner's process and the time when it expires. It is read and taken in one
 * transaction that holds SQLite's write lock from the beginning (`BEGIN IMMEDIATE`), so that no other process can read
 * it in between. It is renewed every {@link renewEvery} and released with its scope.
 *
 * Another owner can take the lease only if it has expired, or if the process of its owner has certainly ended. After a
 * `kill -9` it can therefore be taken at once. An owner that could not renew its lease in time (for example on a
 * suspended machine) detects this with {@link Lease.isHeld} before it writes protected data, and with
 * {@link Lease.lost}.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import type { SqlClient } from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { randomUUID } from "node:crypto"
import { openOnce } from "./OpenOnce.ts"
import { getCurrentProcess, isDead } from "./ProcessIdentity.ts"
import type * as SqliteClient from "./SqliteClient.ts"

/** Time for which a lease is valid without renewal, in milliseconds. */
export const goodForMillis = 60_000
/** Time between two renewals of a lease. */
const renewEvery = "15 seconds"

/** Error raised when another owner holds the lease. */
export class LeaseTaken extends Schema.TaggedError<LeaseTaken>("hermes-effect/LeaseTaken")("LeaseTaken", {
  name: Schema.String,
  /** Process id of the owner. */
  pid: Schema.Int,
  /** True if the owner is this process. */
  isOwn: Schema.Boolean
}) {
  override get message(): string {
    return (
      `${this.name} is in use by ${this.isOwn ? "this process" : `process ${this.pid}`}: wait for it to ` +
      "end, or end it"
    )
  }
}

/**
 * Error raised when the database of the leases could not be read or written. `message` contains the reason and the
 * remedy.
 */
export class LeaseFailed extends Schema.TaggedError<LeaseFailed>("hermes-effect/LeaseFailed")("LeaseFailed", {
  message: Schema.String,
  cause: Schema.optional(Schema.Defect())
}) {}

/** A lease that was taken. It is released when its scope closes. */
export interface Lease<E = LeaseFailed> {
  /** Tests whether the lease is still held. Queries the database only if the lease could have expired. */
  readonly isHeld: Effect.Effect<boolean, E>
  /** Completes when the lease is found to be lost. */
  readonly lost: Effect.Effect<void>
}

/** Acquires and releases leases. */
export interface Service<E = LeaseFailed> {
  /** Takes a lease for the duration of the scope. Fails at once if another owner holds it. */
  readonly take: (name: string) => Effect.Effect<Lease<E>, LeaseTaken | E, Scope.Scope>
  /** Runs an Effect while holding a lease. Waits up to 12 s for the lease. */
  readonly during: <A, E2, R>(
    name: string,
    use: (lease: Lease<E>) => Effect.Effect<A, E2, R>
  ) => Effect.Effect<A, LeaseTaken | E | E2, R>
}

/** Service for the leases of a program. */
export class Leases extends Context.Service<Leases, Service>()("hermes-effect/platform/Leases") {}

/** Statement that creates the table of the leases, run when the database is opened. */
export const table = `CREATE TABLE IF NOT EXISTS leases (
  name TEXT PRIMARY KEY,
  owner TEXT NOT NULL,
  machine TEXT NOT NULL,
  pid INTEGER NOT NULL,
  start_time TEXT NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT`

interface Row {
  readonly machine: string
  readonly pid: number
  readonly start_time: string
  readonly expires_at: number
}

const isOver = ({ expires_at, machine, pid, start_time }: Row, now: number): boolean =>
  expires_at <= now || isDead({ machine, pid, startTime: start_time })

/** Prefix in the name of a session's lease, before the session id. */
const sessionPrefix = "session "

/** Returns the name of the lease for a session, which is held by the run that owns the session. */
export const toSessionName = (id: string): string => `${sessionPrefix}${id}`

/**
 * Tests whether at least one of the given leases is held. Within a transaction, free leases cannot be taken until the
 * transaction ends.
 */
export const isAnyHeld = (
  sql: SqlClient,
  names: ReadonlyArray<string>,
  now: number
): Effect.Effect<boolean, SqlError> =>
  names.length === 0
    ? Effect.succeed(false)
    : Effect.map(
        sql<Row>`SELECT machine, pid, start_time, expires_at FROM leases WHERE name IN ${sql.in(names)}`,
        (rows) => rows.some((row) => !isOver(row, now))
      )

/** Returns the ids of the sessions whose lease is held. */
export const listHeldSessions = Effect.fnUntraced(function* (
  sql: SqlClient
): Effect.fn.Return<ReadonlyArray<string>, SqlError> {
  const now = yield* Clock.currentTimeMillis
  const rows = yield* sql<Row & { readonly name: string }>`
    SELECT name, machine, pid, start_time, expires_at FROM leases
    WHERE substr(name, 1, length(${sessionPrefix})) = ${sessionPrefix}`
  return rows.filter((row) => !isOver(row, now)).map(({ name }) => name.slice(sessionPrefix.length))
})

/** Schedule of the renewals of a lease, until its scope closes or the lease is lost. */
const renewals = Schedule.spaced(renewEvery)

/** Schedule for waiting for a lease that is taken: up to 12 seconds. */
const waits = Schedule.spaced("50 millis").pipe(Schedule.upTo({ times: 240 }))

const selectLease = "SELECT machine, pid, start_time, expires_at FROM leases WHERE name = ?"
const insertLease =
  "INSERT OR REPLACE INTO leases (name, owner, machine, pid, start_time, expires_at) VALUES (?, ?, ?, ?, ?, ?)"
const deleteLease = "DELETE FROM leases WHERE name = ? AND owner = ?"

const toRow = (row: SqliteClient.Row): Row => ({
  machine: String(row["machine"]),
  pid: Number(row["pid"]),
  start_time: String(row["start_time"]),
  expires_at: Number(row["expires_at"])
})

/** Creates the leases of an open database. `write` runs statements in one transaction and maps their failures. */
export const make = <E>(
  sql: SqliteClient.Client,
  write: <A>(effect: Effect.Effect<A, SqlError>) => Effect.Effect<A, E>
): Service<E> => {
  /** Takes a lease. If another owner holds it, returns the row of that owner. */
  const acquireLease = (name: string, owner: string, now: number) =>
    write(
      sql.statements((all): Row | undefined => {
        const [found] = all(selectLease, [name])
        const row = found === undefined ? undefined : toRow(found)
        if (row !== undefined && !isOver(row, now)) return row
        const { machine, pid, startTime } = getCurrentProcess()
        all(insertLease, [name, owner, machine, pid, startTime, now + goodForMillis])
        return undefined
      })
    )

  const take: Service<E>["take"] = Effect.fnUntraced(function* (name) {
    const owner = randomUUID()
    const lost = yield* Deferred.make<void>()
    const now = yield* Clock.currentTimeMillis
    let expiresAt = now + goodForMillis
    let isOurs = true

    const release = write(sql.statements((all) => void all(deleteLease, [name, owner])))
    const renew = Effect.gen(function* () {
      const until = (yield* Clock.currentTimeMillis) + goodForMillis
      const rows = yield* write(
        sql`UPDATE leases SET expires_at = ${until} WHERE name = ${name} AND owner = ${owner} RETURNING name`
      )
      if (rows.length > 0) expiresAt = until
      else yield* Deferred.succeed(lost, undefined)
      return rows.length > 0
    })

    // Registered before the lease is acquired: an interruption in between must not leave a lease that is never
    // released.
    yield* Effect.addFinalizer(() =>
      isOurs
        ? // A row that stays behind expires.
          Effect.catchCause(release, (cause) => Effect.logDebug(`the lease of ${name} was not released`, cause))
        : Effect.void
    )
    const taken = yield* acquireLease(name, owner, now)
    if (taken !== undefined) {
      isOurs = false
      const { machine, pid } = getCurrentProcess()
      return yield* new LeaseTaken({ name, pid: taken.pid, isOwn: taken.pid === pid && taken.machine === machine })
    }
    yield* renew.pipe(
      // A failed renewal is retried before the lease expires; until then the lease is valid.
      Effect.catchCause((cause) => Effect.as(Effect.logDebug(`the lease of ${name} was not renewed`, cause), true)),
      Effect.repeat({ while: (held) => held, schedule: renewals }),
      Effect.delay(renewEvery),
      Effect.forkScoped
    )
    return {
      isHeld: Effect.clockWith((clock) => {
        if (Deferred.isDoneUnsafe(lost)) return Effect.succeed(false)
        return clock.currentTimeMillisUnsafe() < expiresAt ? Effect.succeed(true) : renew
      }),
      lost: Deferred.await(lost)
    }
  })

  return {
    take,
    during: (name, use) =>
      Effect.scoped(
        Effect.flatMap(
          take(name).pipe(Effect.retry({ while: (error) => error instanceof LeaseTaken, schedule: waits })),
          use
        )
      )
  }
}

const openLeaseFile = (path: string) =>
  Effect.flatMap(
    Effect.promise(() => import("./LeaseFile.ts")),
    (file) => file.open(path)
  )

/**
 * Runs an Effect while holding a lease of the database file at `path`. The database is open only for this lease, which
 * is suitable for occasional changes to a file in its directory.
 */
export const runWithLease = <A, E, R>(
  path: string,
  name: string,
  use: (lease: Lease) => Effect.Effect<A, E, R>
): Effect.Effect<A, LeaseTaken | LeaseFailed | E, R> =>
  Effect.scopedWith((scope) =>
    Effect.flatMap(Scope.provide(openLeaseFile(path), scope), ({ during }) => during(name, use))
  )

/** Provides the leases in the database file at `path`. The file is opened when the first lease is taken. */
export const layer = (path: string): Layer.Layer<Leases> =>
  Layer.effect(
    Leases,
    Effect.gen(function* () {
      const opened = yield* openOnce(openLeaseFile(path))
      return {
        take: (name) => Effect.flatMap(opened, ({ take }) => take(name)),
        during: (name, use) => Effect.flatMap(opened, ({ during }) => during(name, use))
      }
    })
  )
