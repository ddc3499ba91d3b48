/**
 * The runners of a cluster: their names, their versions, and whether they are about to leave.
 *
 * **Details**
 *
 * Runners with the same protocol version ({@link "./ClusterDatabase.ts"}) work side by side even if their program
 * versions differ, so that they can be replaced one after another. A runner with another protocol version would misread
 * the shared data, so it may join only after the current runners are drained. The same applies to a client that submits
 * runs. When a runner's process dies, the server frees its advisory lock, and the other runners take its shards within
 * a second.
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Semaphore from "effect/Semaphore"
import * as Option from "effect/Option"
import { Runner } from "effect/cluster/Runner"
import * as RunnerAddress from "effect/cluster/RunnerAddress"
import * as SqlRunnerStorage from "effect/cluster/SqlRunnerStorage"
import * as SqlClient from "effect/sql/SqlClient"
import * as Version from "../../base/domain/Version.ts"
import { getCurrentProcess } from "../../base/platform/ProcessIdentity.ts"
import * as PostgresLeases from "../../base/platform/PostgresLeases.ts"
import { ClusterDatabase, protocol } from "./ClusterDatabase.ts"
import { ClusterError } from "./Cluster.ts"

/** Schedule on which a runner checks itself and the other runners. */
const looks = Schedule.spaced("1 second")

/** A runner, as stored in the database for other processes. */
export interface Member {
  readonly address: string
  readonly host: string
  readonly pid: number
  readonly version: string
  readonly concurrency: number
  readonly running: number
  readonly isDraining: boolean
  readonly isAlive: boolean
  readonly seconds: number
}

/** Membership of this runner in the cluster. */
export interface Service {
  readonly address: RunnerAddress.RunnerAddress
  /** Completes when this runner is asked to leave. */
  readonly drained: Effect.Effect<void>
  /** Makes this runner leave, as if another process had asked it to. */
  readonly drain: Effect.Effect<void>
  /** Publishes the number of active runs of this runner. */
  readonly report: (running: number) => void
  /** The runners that may own shards, as of the last check, each with its health. */
  readonly runners: Effect.Effect<Array<readonly [runner: Runner, isHealthy: boolean]>>
  /** Checks this runner and the others now. */
  readonly check: Effect.Effect<void>
}

/** Service for the membership of this runner in the cluster. */
export class Membership extends Context.Service<Membership, Service>()("hermes-effect/cluster/Membership") {}

const isAliveIn = ({ sql }: ClusterDatabase["Service"]) =>
  PostgresLeases.isProcessAlive(sql, sql`members.process`, sql`members.seen_at`)

/** All runners, including dead ones that the other runners have not noticed yet. */
export const list = Effect.gen(function* () {
  const database = yield* ClusterDatabase
  const { run, sql } = database
  const rows = yield* run(sql<Member>`
    SELECT address, host, pid, version, concurrency, running, is_draining AS "isDraining", ${isAliveIn(database)} AS "isAlive",
      CAST(extract(epoch FROM clock_timestamp() - started_at) AS INTEGER) AS seconds
    FROM members ORDER BY started_at, address`)
  return rows
})

/**
 * Asks runners to leave: all runners, or the runners whose address or host begins with `which`. Returns the number of
 * these runners.
 */
export const requestDrain = Effect.fnUntraced(function* (which: string | undefined) {
  const { run, sql } = yield* ClusterDatabase
  const rows = yield* run(sql`
    UPDATE members SET is_draining = TRUE
    WHERE ${which === undefined ? sql`TRUE` : sql`(substr(address, 1, length(${which})) = ${which} OR host = ${which})`} RETURNING address`)
  return rows.length
})

const joining = 0x48654569

interface OtherRunners {
  readonly version: string
  readonly protocol: number
  readonly count: number
}

/** Finds active runners with another protocol version that are not about to leave. */
const findOtherRunners = (database: ClusterDatabase["Service"]) =>
  database.sql<OtherRunners>`
    SELECT version, protocol, count(*) AS count FROM members
    WHERE protocol <> ${protocol} AND NOT is_draining AND ${isAliveIn(database)} GROUP BY version, protocol ORDER BY version`

const refuseOthers = Effect.fnUntraced(function* (
  { place }: ClusterDatabase["Service"],
  [other]: ReadonlyArray<OtherRunners>,
  remedy: string
) {
  if (other === undefined) return
  return yield* new ClusterError({
    message:
      `${place} has ${other.count} ${other.count === 1 ? "runner" : "runners"} of version ${other.version} ` +
      `(protocol ${other.protocol}), ` +
      `this is ${Version.version} (protocol ${protocol}): ${remedy}`
  })
})

const joinCluster = Effect.fnUntraced(function* (address: string, concurrency: number) {
  const database = yield* ClusterDatabase
  const { lock, run, sql } = database
  const { pid } = getCurrentProcess()
  const others = yield* run(
    sql.transaction(
      Effect.gen(function* () {
        yield* sql`SELECT pg_advisory_xact_lock(${joining})`
        yield* sql`DELETE FROM members WHERE NOT ${isAliveIn(database)}`
        const found = yield* findOtherRunners(database)
        if (found.length > 0) return found
        yield* sql`
      INSERT INTO members (address, process, host, pid, version, protocol, concurrency)
      VALUES (${address}, ${lock.number}, ${PostgresLeases.hostOfProcess()}, ${pid}, ${Version.version}, ${protocol}, ${concurrency})`
        return []
      })
    )
  )
  yield* refuseOthers(
    database,
    others,
    "run `hermes cluster drain --all` first, or start a version of the same protocol"
  )
})

/**
 * A Layer that fails if the active runners use another protocol version than this process. Used by clients, which
 * submit runs to the runners.
 */
export const sameProtocol: Layer.Layer<never, ClusterError, ClusterDatabase> = Layer.effectDiscard(
  Effect.gen(function* () {
    const database = yield* ClusterDatabase
    yield* refuseOthers(
      database,
      yield* database.run(findOtherRunners(database)),
      "submit with the version of the runners"
    )
  })
)

/** Port of all addresses. They are not addresses of a network: runners communicate only through the database. */
const port = 1

/** Result of a check. */
interface Check {
  /** Absent if the other runners considered this one dead. */
  readonly is_draining: boolean | null
  readonly dead: ReadonlyArray<string> | null
  readonly runners: ReadonlyArray<readonly [runner: string, isHealthy: boolean]> | null
}

const decodeRunner = Option.liftThrowable(Runner.decodeSync)

/**
 * Publishes the state of this runner, removes dead runners from the members and from the owners of shards, and returns
 * the others, in one statement. A runner counts as seen while it holds its lock. If a runner was seen after the start
 * of the server but no longer holds its lock, it is dead.
 */
const checkMembers = ({ runnerPrefix, sql }: ClusterDatabase["Service"], address: string, running: number) => {
  const runners = sql(`${runnerPrefix}_runners`)
  // The locks are read once. With a query for each member, the server would compile the statement each time.
  const isHeld = sql`members.process IN (SELECT number FROM held)`
  const isAlive = PostgresLeases.isProcessAlive(sql, sql`members.process`, sql`members.seen_at`, isHeld)
  const isOwner = sql`(address = ${`${address}:${port}`} OR address IN (SELECT address FROM alive))`
  return sql<Check>`
    WITH held AS MATERIALIZED (${PostgresLeases.selectHeld(sql)}
    ), alive AS MATERIALIZED (
      SELECT address || ${`:${port}`} AS address FROM members WHERE ${isAlive}
    ), own AS (
      UPDATE members SET running = ${running}, seen_at = CASE WHEN ${isHeld} THEN clock_timestamp() ELSE seen_at END
      WHERE address = ${address} RETURNING is_draining
    ), dead AS (
      DELETE FROM members WHERE address IN (
        SELECT address FROM members WHERE address <> ${address} AND NOT ${isAlive} FOR UPDATE SKIP LOCKED)
      RETURNING address
    ), removed AS (
      DELETE FROM ${runners} WHERE NOT ${isOwner}
    )
    SELECT (SELECT is_draining FROM own) AS is_draining, (SELECT json_agg(address) FROM dead) AS dead,
      (SELECT json_agg(json_build_array(runner, healthy)) FROM ${runners} WHERE ${isOwner}) AS runners`
}

/** Joins the cluster, and leaves it when the scope closes. Dead runners are removed from the cluster. */
export const layer = (concurrency: number): Layer.Layer<Membership, ClusterError, ClusterDatabase> =>
  Layer.effect(
    Membership,
    Effect.gen(function* () {
      const database = yield* ClusterDatabase
      const { lock, run, runnerPrefix, sql } = database
      const address = RunnerAddress.make(
        `${PostgresLeases.hostOfProcess()}-${getCurrentProcess().pid}-${lock.number.toString(36)}`,
        port
      )
      yield* Layer.build(SqlRunnerStorage.layerMigrations({ prefix: runnerPrefix })).pipe(
        Effect.provideService(SqlClient.SqlClient, sql)
      )
      yield* joinCluster(address.host, concurrency)
      yield* Effect.addFinalizer(() =>
        Effect.ignore(Effect.timeout(sql`DELETE FROM members WHERE address = ${address.host}`, "2 seconds"))
      )
      const asked = yield* Deferred.make<void>()
      let running = 0
      let found: Array<readonly [runner: Runner, isHealthy: boolean]> = []
      const check = Effect.gen(function* () {
        const [checked] = yield* run(checkMembers(database, address.host, running))
        found = (checked?.runners ?? []).flatMap(([text, isHealthy]) =>
          Option.match(decodeRunner(text), { onNone: () => [], onSome: (runner) => [[runner, isHealthy] as const] })
        )
        for (const dead of checked?.dead ?? [])
          yield* Effect.logWarning(`Runner ${dead} is gone; the others go on with its runs.`)
        const isDraining = checked?.is_draining ?? null
        if (isDraining === null) {
          // The other runners considered this one dead while it could not reach the server.
          yield* Effect.catch(joinCluster(address.host, concurrency), ({ message }) =>
            Effect.andThen(Effect.logWarning(message), Effect.asVoid(Deferred.succeed(asked, undefined)))
          )
        } else if (isDraining) yield* Deferred.succeed(asked, undefined)
      }).pipe(
        Effect.provideService(ClusterDatabase, database),
        Effect.catch(({ message }) => Effect.logWarning(message)),
        Semaphore.makeUnsafe(1).withPermit
      )
      yield* Effect.forkScoped(Effect.repeat(check, looks))
      return {
        address,
        drained: Deferred.await(asked),
        drain: Effect.andThen(
          Effect.ignore(
            Effect.timeout(sql`UPDATE members SET is_draining = TRUE WHERE address = ${address.host}`, "2 seconds")
          ),
          Deferred.succeed(asked, undefined)
        ),
        report: (now) => void (running = now),
        runners: Effect.sync(() => found),
        check
      }
    })
  )
