/**
 * A `SqlClient` for Postgres. It has a pool of connections, reports the true outcome of each transaction, and waits
 * while the server is unavailable.
 *
 * **Details**
 *
 * The driver is loaded when the first database is opened. If the server is unavailable, a statement is repeated until
 * the server answers, for up to {@link waitLimit}. This is reported once, and again when the server answers.
 *
 * If a connection breaks in the middle of a commit, the result of the transaction is unknown. The transaction id was
 * read before the commit. After reconnecting, the client asks the server for the status of this transaction, so that
 * committed data is not written again.
 *
 * 64-bit integers are read as numbers if a number can represent them exactly.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Queue from "effect/Queue"
import * as Random from "effect/Random"
import * as Redacted from "effect/Redacted"
import * as References from "effect/References"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Reactivity from "effect/reactivity/Reactivity"
import type { SqlClient } from "effect/sql/SqlClient"
import { isSqlError, SqlError, UnknownError } from "effect/sql/SqlError"
import * as OptionalPackage from "./OptionalPackage.ts"
import * as PostgresFailure from "./PostgresFailure.ts"

/** A client with transactions that are repeated when their connection is lost. */
export interface Client extends SqlClient {
  /**
   * Time after which the other processes replace a process that no longer answers the server, in seconds: the parameter
   * `takeover` of the address, from 2 to 600. Shards, leases and locks derive their times from it.
   */
  readonly takeoverSeconds: number
  /**
   * Runs an Effect in one transaction. Inside another transaction, the Effect becomes a part of that transaction. The
   * Effect runs again if the server becomes unavailable before the commit.
   */
  readonly transaction: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E | SqlError, R>
  /** Tests whether a fiber is inside a transaction. */
  readonly isWithin: (fiber: Fiber.Fiber<unknown, unknown>) => boolean
  /**
   * Records the id of the fiber's transaction. A statement can return the id in a column ({@link xact}), which saves a
   * separate query before the commit.
   */
  readonly identified: (id: string | null | undefined) => Effect.Effect<void>
  /** Runs an Effect once the transaction of the fiber is committed, or at once outside of a transaction. */
  readonly afterTransaction: (effect: Effect.Effect<void>) => Effect.Effect<void>
  /** Repeats statements while the server is unavailable. */
  readonly waiting: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /**
   * Listens on a channel until the scope closes. Returns a queue of the payloads that are sent to the channel. The
   * queue fails if the connection is lost.
   */
  readonly listen: (channel: string) => Effect.Effect<Queue.Dequeue<string, SqlError>, SqlError, Scope.Scope>
  /** Notifies the listeners of a channel. In a transaction, they are notified by its commit. */
  readonly notify: (channel: string, payload: string) => Effect.Effect<void, SqlError>
}

/** Options of {@link open}. */
export interface Options {
  /** Address of the database. Its parameter `schema` names the schema of the tables; defaults to `hermes`. */
  readonly url: Redacted.Redacted
  /** Maximum number of connections; defaults to 10. */
  readonly connections?: number | undefined
}

/** Maximum time to wait for a server that has become unavailable. */
const waitLimit = "10 minutes"

/** State of a fiber's transaction. */
interface TransactionState {
  /** Effects that run after the commit. */
  readonly then: Array<Effect.Effect<void>>
  id: string | undefined
}

const CurrentTransaction = Context.Reference<TransactionState | undefined>(
  "hermes-effect/platform/PostgresTransaction",
  { defaultValue: () => undefined }
)

/** SQL expression for the id of a transaction that writes, for {@link Client.identified}. */
export const xact = "CAST(pg_current_xact_id_if_assigned() AS TEXT)"

const pauses = Schedule.min([Schedule.exponential("100 millis", 1.6), Schedule.spaced("2 seconds")]).pipe(
  Schedule.addDelay(() => Random.nextIntBetween(0, 100)),
  Schedule.upTo({ duration: waitLimit })
)

/**
 * Returns the failure in a cause that reports an unavailable server; `undefined` if the cause contains no such failure.
 * Defects are searched too, because the driver reports a rollback over a broken connection as a defect.
 */
const findLoss = (cause: Cause.Cause<unknown>): SqlError | undefined => {
  for (const reason of cause.reasons) {
    const error = Cause.isFailReason(reason) ? reason.error : Cause.isDieReason(reason) ? reason.defect : undefined
    if (isSqlError(error) && PostgresFailure.isAway(error)) return error
  }
  return undefined
}

const makeIntegerTypes = (types: typeof import("@effect/sql-pg/PgTypes")) => {
  const registry = types.makeRegistry()
  const view = new DataView(new ArrayBuffer(8))
  registry.register<number | bigint>(types.OID.int8, {
    encode: (value) => {
      const bytes = new Uint8Array(8)
      new DataView(bytes.buffer).setBigInt64(0, BigInt(value))
      return Result.succeed(bytes)
    },
    decode: (bytes) => {
      bytes.forEach((byte, index) => view.setUint8(index, byte))
      const value = view.getBigInt64(0)
      const number = Number(value)
      // Ids of `effect/cluster` are larger than safe integers.
      return Result.succeed(Number.isSafeInteger(number) ? number : value)
    }
  })
  return registry
}

/**
 * Times at which servers became unavailable, by address. All pools of a process share the map, so that an outage is
 * reported only once.
 */
const away = new Map<string, number>()

/** Schema of the tables if the address does not name one. */
export const defaultSchema = "hermes"

/** Returns the name of the schema that contains the tables. */
export const readSchemaName = (url: Redacted.Redacted): string => {
  const text = Redacted.value(url)
  const named = URL.canParse(text) ? new URL(text).searchParams.get("schema") : null
  return named === null || named === "" ? defaultSchema : named
}

/** Time after which a silent process is replaced, in seconds, if the address does not state one. */
const defaultTakeoverSeconds = 20

const readTakeoverSeconds = (url: Redacted.Redacted): number => {
  const text = Redacted.value(url)
  const named = URL.canParse(text) ? new URL(text).searchParams.get("takeover") : null
  const seconds = named === null || named === "" ? Number.NaN : Number(named)
  return Number.isFinite(seconds) ? Math.min(Math.max(Math.round(seconds), 2), 600) : defaultTakeoverSeconds
}

/** Opens a database, which is closed with the scope. Fails at once if the server does not answer. */
export const open = Effect.fnUntraced(function* (options: Options): Effect.fn.Return<Client, SqlError, Scope.Scope> {
  const [{ make }, types] = yield* Effect.mapError(
    OptionalPackage.load("Postgres needs the package", ["@effect/sql-pg"], () =>
      Promise.all([
        import("@effect/sql-pg/PgClient").catch(OptionalPackage.rethrowImport),
        import("@effect/sql-pg/PgTypes").catch(OptionalPackage.rethrowImport)
      ])
    ),
    (cause) => new SqlError({ reason: new UnknownError({ cause, message: cause.message }) })
  )
  const sql = yield* make({
    url: options.url,
    applicationName: "hermes",
    maxConnections: options.connections ?? 10,
    idleTimeout: "20 seconds",
    connectTimeout: "10 seconds",
    keepAlive: "10 seconds",
    // With these parameters, a machine that disappears without closing its connection loses its locks within half a
    // minute.
    startupParameters: {
      tcp_keepalives_idle: "10",
      tcp_keepalives_interval: "5",
      tcp_keepalives_count: "3",
      timezone: "UTC",
      client_min_messages: "warning",
      search_path: `"${readSchemaName(options.url).replaceAll('"', "")}"`
    },
    types: makeIntegerTypes(types)
  }).pipe(Effect.provide(Reactivity.layer))
  yield* sql`SELECT 1`

  const isWithin: Client["isWithin"] = (fiber) =>
    Context.getOrUndefined(fiber.context, sql.transactionService) !== undefined

  const place = PostgresFailure.formatPlace(options.url)
  // Work whose own logs are suppressed may be the first to notice a loss, which is reported only once.
  const level = yield* References.MinimumLogLevel
  const reportOutage = (message: string) =>
    Effect.provideService(Effect.logWarning(message), References.MinimumLogLevel, level)
  const reportLoss = (error: SqlError) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      if (away.has(place)) return Effect.void
      away.set(place, now)
      return reportOutage(`${PostgresFailure.describe(options.url, error)}; waiting for it up to ${waitLimit}.`)
    })
  const back = Effect.flatMap(Clock.currentTimeMillis, (now) => {
    const since = away.get(place)
    if (since === undefined) return Effect.void
    const seconds = Math.round((now - since) / 1000)
    away.delete(place)
    return reportOutage(`The database answers again after ${seconds} s.`)
  })

  const waiting: Client["waiting"] = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.withFiber((fiber) => {
      // Inside a transaction, the whole transaction is repeated instead.
      if (isWithin(fiber)) return effect
      let losses = 0
      const attempt = Effect.tap(effect, () => (away.size === 0 ? Effect.void : back)).pipe(
        Effect.sandbox,
        Effect.tapError((cause) => {
          const loss = findLoss(cause)
          // The first loss is not reported, because a single connection of the pool may be broken while the server
          // answers others.
          return loss === undefined || ++losses < 2 ? Effect.void : reportLoss(loss)
        })
      )
      return Effect.retry(attempt, { while: (cause) => findLoss(cause) !== undefined, schedule: pauses }).pipe(
        Effect.catch((cause) => {
          const loss = findLoss(cause)
          // A lost connection is reported as a failure, even if the attempt to roll back failed with a defect. The cast
          // is safe, because the `E` of every SQL Effect contains `SqlError`.
          return Effect.failCause(loss === undefined ? cause : Cause.fail(loss as E))
        })
      )
    })

  const awaitStatus = (id: string) =>
    waiting(
      Effect.map(
        sql<{ readonly status: string | null }>`SELECT pg_xact_status(CAST(CAST(${id} AS TEXT) AS xid8)) AS status`,
        ([row]) => row?.status ?? "aborted"
      )
    ).pipe(
      // If the server was restored from a backup, it does not know the transaction. The transaction then counts as
      // aborted.
      Effect.catch((error) => (PostgresFailure.isAway(error) ? Effect.fail(error) : Effect.succeed("aborted"))),
      Effect.repeat({ while: (known) => known === "in progress", schedule: Schedule.spaced("200 millis") })
    )

  const runOnce = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | SqlError, R> =>
    Effect.suspend(() => {
      const current: TransactionState = { then: [], id: undefined }
      let done: { readonly id: string | null; readonly value: A } | undefined
      const recordEnd = (id: string | null, value: A): A => {
        done = { id, value }
        return value
      }
      const body = Effect.flatMap(Effect.provideService(effect, CurrentTransaction, current), (value) =>
        current.id !== undefined
          ? Effect.succeed(recordEnd(current.id, value))
          : Effect.map(sql<{ readonly id: string | null }>`SELECT ${sql.literal(xact)} AS id`, ([row]) =>
              recordEnd(row?.id ?? null, value)
            )
      )
      const known = Effect.catchCause(sql.withTransaction(body), (cause): Effect.Effect<A, E | SqlError> => {
        if (done === undefined || findLoss(cause) === undefined) return Effect.failCause(cause)
        const { id, value } = done
        if (id === null) return Effect.succeed(value)
        return Effect.flatMap(awaitStatus(id), (state) =>
          state === "committed" ? Effect.succeed(value) : Effect.failCause(cause)
        )
      })
      return Effect.tap(known, () =>
        current.then.length === 0 ? Effect.void : Effect.all(current.then, { discard: true })
      )
    })

  const transaction: Client["transaction"] = (effect) =>
    Effect.withFiber((fiber) => (isWithin(fiber) ? effect : waiting(Effect.uninterruptible(runOnce(effect)))))

  // The original `listen` is read before the member of this name is replaced.
  const { listen } = sql
  return Object.assign(sql, {
    takeoverSeconds: readTakeoverSeconds(options.url),
    transaction,
    isWithin,
    waiting,
    afterTransaction: (effect: Effect.Effect<void>) =>
      Effect.flatMap(CurrentTransaction, (current) =>
        current === undefined ? effect : Effect.sync(() => void current.then.push(effect))
      ),
    identified: (id: string | null | undefined) =>
      Effect.map(CurrentTransaction, (current) => {
        if (current !== undefined && typeof id === "string") current.id = id
      }),
    // The driver's own `notify` takes another connection, so that readers look before the commit.
    notify: (channel: string, payload: string) => Effect.asVoid(sql`SELECT pg_notify(${channel}, ${payload})`),
    listen: (channel: string) =>
      Effect.gen(function* () {
        const notified = yield* listen(channel)
        const payloads = yield* Queue.make<string, SqlError>()
        yield* Queue.take(notified).pipe(
          Effect.flatMap(({ payload }) => Queue.offer(payloads, payload)),
          Effect.forever,
          Effect.catch((error) => Queue.fail(payloads, error)),
          Effect.forkScoped
        )
        return payloads
      })
  })
})
