/**
 * Leases in Postgres: a name has one owner at a time among all machines that share a database.
 *
 * **Details**
 *
 * A lease is a row with its owner and the time when it expires. The time is taken from the clock of the server, because
 * the clocks of the machines differ. Each process holds its own advisory lock on a dedicated connection. The server
 * frees this lock when the process ends, so the lease of a killed process can be taken at once. The lease of a process
 * that is frozen, or whose machine lost power, can be taken when the server ends the silent connection: after the
 * takeover time (`PostgresClient.Client`), as the shards of `effect/cluster`. All times here are multiples
 * of it.
 *
 * After a restart of the server, all advisory locks are free, and no leases were renewed in the meantime. For
 * {@link graceFactor} times the takeover time after the start of the server, earlier leases are not taken over, so that
 * their owners can reconnect. After a restart a process renews its lease only while it holds its lock again. If a lease
 * was renewed after the restart and the lock is free, the process has ended. An owner that could not reach the server
 * detects the loss of its lease before it writes protected data, because the write names its owner.
 *
 * If a process could not remove the row of a released lease, the process may take that row again. The row is identified
 * by its owner, because another fiber of the same process may have acquired the lease a moment ago over another
 * connection.
 */
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import type { SqlError } from "effect/sql/SqlError"
import type { Fragment } from "effect/sql/Statement"
import { randomUUID } from "node:crypto"
import { hostname } from "node:os"
import { type Lease, LeaseTaken, type Service, toSessionName } from "./Leases.ts"
import { getCurrentProcess } from "./ProcessIdentity.ts"
import type { Client } from "./PostgresClient.ts"

/** Time for which a lease is valid without renewal, as a multiple of the takeover time. */
const validityFactor = 3
/**
 * Time after the start of the server during which earlier leases are not taken over, as a multiple of the takeover
 * time.
 */
const graceFactor = 1.5

type Timed = Pick<Client, "takeoverSeconds">

const computeValidSeconds = ({ takeoverSeconds }: Timed): number => takeoverSeconds * validityFactor
const computeGraceSeconds = ({ takeoverSeconds }: Timed): number => takeoverSeconds * graceFactor
/** Returns the time between two signs of life, in seconds. Three of them fit into the takeover time. */
const computeSignSeconds = ({ takeoverSeconds }: Timed): number => takeoverSeconds / 4

/** First of the two numbers of the advisory lock of a process: `HeEf` in ASCII. */
const lockSpace = 0x48654566

/** Statement that creates the table of the leases. */
export const table = `CREATE TABLE IF NOT EXISTS leases (
  name TEXT PRIMARY KEY,
  owner TEXT NOT NULL,
  process INTEGER NOT NULL,
  host TEXT NOT NULL,
  pid INTEGER NOT NULL,
  expires_at TIMESTAMPTZ NOT NULL
)`

/** The advisory lock that shows other processes that this process is alive. */
export interface ProcessLock {
  /** Second number of the advisory lock. */
  readonly number: number
  /** Completes when the lock is held. */
  readonly held: Effect.Effect<void>
}

/** Schedule for taking the lock of this process again, for as long as the process has leases. */
const reacquisitions = Schedule.spaced("500 millis")
/** Schedule for taking a lease whose state is changing, until it is taken by this or by another owner. */
const acquisitions = Schedule.spaced("100 millis")

/**
 * Holds the advisory lock of this process until the scope closes. If the connection breaks, the lock is taken again on
 * a new connection. The server ends the connection of a process that is silent for the takeover time.
 */
export const holdProcess = Effect.fnUntraced(function* (
  sql: Client
): Effect.fn.Return<ProcessLock, never, Scope.Scope> {
  const number = yield* Random.nextIntBetween(1, 0x7fffffff)
  const first = yield* Deferred.make<void>()
  const hold = Effect.scoped(
    Effect.gen(function* () {
      const connection = yield* sql.reserve
      yield* Effect.addFinalizer(() =>
        Effect.ignore(
          connection.executeUnprepared(
            `SELECT pg_advisory_unlock(${lockSpace}, ${number}),
              (SELECT set_config(name, reset_val, false) FROM pg_settings WHERE name = 'idle_session_timeout')`,
            [],
            undefined
          )
        )
      )
      // Servers before version 14 do not have the setting.
      yield* connection.executeUnprepared(
        `SELECT set_config(name, '${sql.takeoverSeconds * 1000}', false) FROM pg_settings
          WHERE name = 'idle_session_timeout'`,
        [],
        undefined
      )
      yield* connection.executeUnprepared(`SELECT pg_advisory_lock(${lockSpace}, ${number})`, [], undefined)
      yield* Deferred.succeed(first, undefined)
      return yield* Effect.schedule(
        connection.executeUnprepared("SELECT 1", [], undefined),
        Schedule.spaced(Duration.seconds(computeSignSeconds(sql)))
      )
    })
  )
  yield* hold.pipe(
    Effect.catchCause((cause) => Effect.logDebug("reacquiring the lock of this process", cause)),
    Effect.repeat(reacquisitions),
    Effect.forkScoped
  )
  return { number, held: Deferred.await(first) }
})

/**
 * The leases in a database, and the owner ids of the leases that this process holds. A protected write succeeds only
 * for the owner of the lease.
 */
export interface PostgresLeases<E> extends Service<E> {
  readonly getOwner: (name: string) => string | undefined
}

/** Returns the host name of this process. */
export const hostOfProcess = (): string => hostname()

/** Returns an SQL condition that tests whether the advisory lock of a process, given by number, is held. */
const isHeldIn = (sql: Client, process: Fragment): Fragment => sql`EXISTS (
  SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = ${lockSpace}
  AND objid = CAST(${process} AS oid)
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
)`

/** Returns an SQL query for the numbers of the processes whose advisory lock is held, in the column `number`. */
export const selectHeld = (sql: Client): Fragment => sql`
  SELECT CAST(CAST(objid AS BIGINT) AS INTEGER) AS number FROM pg_locks
  WHERE locktype = 'advisory' AND granted AND classid = ${lockSpace}
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

/**
 * Returns an SQL condition that tests whether a free lock proves that its process has ended. `seen` is the time when
 * the process was last seen. The condition is true if the server did not restart since then, or if the grace period
 * after its start is over.
 */
const isSettledIn = (sql: Client, seen: Fragment): Fragment =>
  sql`pg_postmaster_start_time() < greatest(
    clock_timestamp() - make_interval(secs => ${computeGraceSeconds(sql)}), ${seen})`

/**
 * Returns an SQL condition that tests whether a process, given by number and by the time when it was last seen, is
 * alive or may still reconnect after a restart of the server. `isHeld` is the condition that its lock is held.
 */
export const isProcessAlive = (
  sql: Client,
  process: Fragment,
  seen: Fragment,
  isHeld: Fragment = isHeldIn(sql, process)
): Fragment => sql`(${isHeld} OR NOT ${isSettledIn(sql, seen)})`

/** Returns an SQL condition that tests whether the owner of a row in `leases` has ended. */
const isOverIn = (sql: Client): Fragment => sql`(
  ${isSettledIn(sql, sql`leases.expires_at - make_interval(secs => ${computeValidSeconds(sql)})`)}
  AND (leases.expires_at < clock_timestamp() OR NOT ${isHeldIn(sql, sql`leases.process`)})
)`

/** Returns the ids of the sessions whose lease is taken. */
export const listHeldSessions = (sql: Client): Effect.Effect<ReadonlyArray<string>, SqlError> => {
  const prefix = toSessionName("")
  return Effect.map(
    sql<{
      readonly name: string
    }>`SELECT name FROM leases WHERE substr(name, 1, length(${prefix})) = ${prefix} AND NOT ${isOverIn(sql)}`,
    (rows) => rows.map(({ name }) => name.slice(prefix.length))
  )
}

/**
 * Creates the leases of an open database. `write` runs a statement, repeats it while the server is unavailable, and
 * maps its failure.
 */
export const make = <E>(
  sql: Client,
  lock: ProcessLock,
  write: <A>(effect: Effect.Effect<A, SqlError>) => Effect.Effect<A, E>
): PostgresLeases<E> => {
  const owners = new Map<string, string>()
  /** Former owners in this process, by lease name. They released the lease, but their row may still exist. */
  const left = new Map<string, ReadonlyArray<string>>()
  const isOver = isOverIn(sql)
  const hasLock = isHeldIn(sql, sql.literal(String(lock.number)))
  const until = sql`clock_timestamp() + make_interval(secs => ${computeValidSeconds(sql)})`
  const renewEvery = Duration.seconds(computeSignSeconds(sql) * validityFactor)

  const acquireLease = (name: string, owner: string) =>
    write(
      Effect.gen(function* () {
        const taken = yield* sql`
        INSERT INTO leases (name, owner, process, host, pid, expires_at)
        SELECT CAST(${name} AS TEXT), CAST(${owner} AS TEXT), CAST(${lock.number} AS INTEGER),
          CAST(${hostname()} AS TEXT), CAST(${getCurrentProcess().pid} AS INTEGER), ${until}
        WHERE ${hasLock}
        ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, process = excluded.process, host = excluded.host,
          pid = excluded.pid, expires_at = excluded.expires_at WHERE ${isOver}
          OR leases.owner IN ${sql.in([owner, ...(left.get(name) ?? [])])}
        RETURNING name`
        if (taken.length > 0) return undefined
        const [row] = yield* sql<{
          readonly process: number
          readonly pid: number
        }>`SELECT process, pid FROM leases WHERE name = ${name}`
        return row ?? ("again" as const)
      })
    )

  const take: Service<E>["take"] = Effect.fnUntraced(function* (name) {
    const owner = randomUUID()
    const lost = yield* Deferred.make<void>()
    let isOurs = true
    const renew = Effect.flatMap(
      write(
        sql`UPDATE leases SET expires_at = CASE WHEN ${hasLock} THEN ${until} ELSE expires_at END WHERE name = ${name}
          AND owner = ${owner} RETURNING name`
      ),
      (rows) => (rows.length > 0 ? Effect.succeed(true) : Effect.as(Deferred.succeed(lost, undefined), false))
    )
    // The release does not wait for an unavailable server, because a row that remains there expires.
    const giveBack = write(sql`DELETE FROM leases WHERE name = ${name} AND owner = ${owner} RETURNING name`).pipe(
      Effect.interruptible,
      Effect.timeout("5 seconds"),
      Effect.catchCause((cause) => Effect.as(Effect.logDebug(`the lease of ${name} was not released`, cause), [])),
      Effect.map((rows) => {
        if (rows.length === 0) left.set(name, [...(left.get(name) ?? []), owner])
      })
    )
    yield* Effect.addFinalizer(() => (isOurs ? giveBack : Effect.void))
    yield* lock.held
    // Either the advisory lock is being restored after the server was unavailable, or the owner has just released the
    // lease.
    const taken = yield* Effect.repeat(acquireLease(name, owner), {
      while: (row) => row === "again",
      schedule: acquisitions
    })
    if (taken === "again") return yield* Effect.die("a lease is acquired again until its state is known")
    if (taken !== undefined) {
      isOurs = false
      return yield* new LeaseTaken({ name, pid: taken.pid, isOwn: taken.process === lock.number })
    }
    left.delete(name)
    // A lost lease may have been taken again by this process, so only the matching owner is removed.
    yield* Effect.acquireRelease(
      Effect.sync(() => owners.set(name, owner)),
      () => Effect.sync(() => owners.get(name) === owner && owners.delete(name))
    )
    yield* renew.pipe(
      // A failed renewal is retried before the lease expires; until then the lease is valid.
      Effect.catchCause((cause) => Effect.as(Effect.logDebug(`the lease of ${name} was not renewed`, cause), true)),
      Effect.repeat({ while: (held) => held, schedule: Schedule.spaced(renewEvery) }),
      Effect.delay(renewEvery),
      Effect.forkScoped
    )
    const lease: Lease<E> = { isHeld: Effect.sync(() => !Deferred.isDoneUnsafe(lost)), lost: Deferred.await(lost) }
    return lease
  })

  const waits = Schedule.spaced("50 millis").pipe(Schedule.upTo({ times: 240 }))
  return {
    getOwner: (name) => owners.get(name),
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
