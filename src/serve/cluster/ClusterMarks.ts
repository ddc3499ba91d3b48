/**
 * Rate-limit and cooldown marks of API keys, and a budget, which all runners share through the database.
 *
 * **Details**
 *
 * If the provider refuses a request because of a rate limit, the other runners are notified and treat the refusal as
 * their own. A lost notification costs one more refusal. Keys that are set aside, and accounts that reached their
 * limits, are stored as rows with times from the database server's clock. Runners read a pool when it is opened and
 * whenever one of its keys is set aside.
 *
 * The budget counts each answered model call, as stored in the run record. Before a run begins, its runner adds its own
 * use so far to the database and reads the sum over all runners. A run begins only if some budget remains. Runs that
 * are active when the budget is exhausted continue until they end.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Record from "effect/Record"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type { Fragment } from "effect/sql/Statement"
import * as Json from "../../base/domain/Json.ts"
import * as Usage from "../../base/domain/Usage.ts"
import { PoolRecord, type PoolStore } from "../../models/routing/PoolStore.ts"
import type { RateGuard } from "../../models/routing/RateGuard.ts"
import { type Marks, type Refusal, SharedMarks } from "../../models/routing/SharedMarks.ts"
import { RunRecord } from "../../store/RunRecord.ts"
import { ClusterDatabase } from "./ClusterDatabase.ts"
import type { ClusterError } from "./Cluster.ts"

const decodePool = Schema.decodeUnknownOption(PoolRecord)
const nothing: PoolRecord = { keys: {} }

/**
 * Returns `otherwise` if the database fails. Such a failure costs at most a refusal by the provider, and never a run.
 */
const fallBackOnFailure = <A>(effect: Effect.Effect<A, ClusterError>, otherwise: A): Effect.Effect<A> =>
  Effect.catch(effect, ({ message }) => Effect.as(Effect.logDebug(message), otherwise))

/**
 * Converts the times of a pool record to another clock, which is `ahead` milliseconds ahead. Times that have passed
 * become 0.
 */
const shiftRecordTimes = ({ keys, ...record }: PoolRecord, now: number, ahead: number): PoolRecord => ({
  ...record,
  keys: Record.map(keys, (mark) => ({ ...mark, until: mark.until <= now ? 0 : mark.until + ahead }))
})

/** Merges two records of a pool. The longer cooldown of a key takes precedence. */
const mergePoolRecords = (kept: PoolRecord, added: PoolRecord): PoolRecord => ({
  ...kept,
  ...added,
  keys: Record.union(kept.keys, added.keys, (one, other) => ({
    ...(one.until > other.until ? one : other),
    used: Math.max(one.used, other.used)
  }))
})

/** Notification to the other runners: a rate-limit refusal, or a pool whose keys were set aside. */
const News = Schema.Union([
  Schema.Struct({ from: Schema.Int, key: Schema.String, closedFor: Schema.Finite }),
  Schema.Struct({ pool: Schema.String })
])
type News = typeof News.Type
const decodeNews = Schema.decodeUnknownOption(Schema.fromJsonString(News))

/** A listener that rereads the keys of a pool. */
interface PoolListener {
  readonly pool: string
  readonly read: Effect.Effect<void>
}

const makePoolStore = (
  { run, sql }: ClusterDatabase["Service"],
  tell: (news: News) => void,
  listeners: Set<PoolListener>
): PoolStore => {
  const readPoolRow = Effect.fnUntraced(function* (pool: string, lock: Fragment) {
    const [row] = yield* sql<{ readonly value: string; readonly now: number }>`
      SELECT value, CAST(extract(epoch FROM clock_timestamp()) * 1000 AS DOUBLE PRECISION) AS now FROM shared
      WHERE kind = 'pool' AND key = ${pool} ${lock}`
    const now = yield* Clock.currentTimeMillis
    const record =
      row === undefined ? nothing : Option.getOrElse(Option.flatMap(Json.parse(row.value), decodePool), () => nothing)
    return { record, now, server: row?.now ?? now }
  })
  const load: PoolStore["load"] = (pool) =>
    fallBackOnFailure(
      Effect.map(run(readPoolRow(pool, sql``)), ({ now, record, server }) =>
        shiftRecordTimes(record, server, now - server)
      ),
      nothing
    )
  return {
    load,
    save: (pool, record) =>
      fallBackOnFailure(
        Effect.map(
          run(
            sql.transaction(
              Effect.gen(function* () {
                yield* sql`INSERT INTO shared (kind, key, value) VALUES ('pool', ${pool}, ${JSON.stringify(nothing)}) ON CONFLICT DO NOTHING`
                const kept = yield* readPoolRow(pool, sql`FOR UPDATE`)
                const value = JSON.stringify(
                  mergePoolRecords(kept.record, shiftRecordTimes(record, kept.now, kept.server - kept.now))
                )
                yield* sql`UPDATE shared SET value = ${value}, changed_at = clock_timestamp() WHERE kind = 'pool' AND key = ${pool}`
              })
            )
          ),
          () => tell({ pool })
        ),
        undefined
      ),
    listen: (pool, heard) =>
      Effect.asVoid(
        Effect.acquireRelease(
          Effect.sync(() => {
            const listener: PoolListener = { pool, read: Effect.map(load(pool), ({ keys }) => heard(keys)) }
            listeners.add(listener)
            return listener
          }),
          (listener) => Effect.sync(() => listeners.delete(listener))
        )
      )
  }
}

const makeRateGuard = ({ run, sql }: ClusterDatabase["Service"]): RateGuard => ({
  closedFor: (key) =>
    fallBackOnFailure(
      Effect.map(
        run(sql<{ readonly millis: number }>`
          SELECT CAST(extract(epoch FROM changed_at + make_interval(secs => CAST(value AS DOUBLE PRECISION) / 1000) - clock_timestamp()) * 1000 AS DOUBLE PRECISION)
            AS millis FROM shared WHERE kind = 'guard' AND key = ${key}`),
        ([row]) => (row === undefined || row.millis <= 0 ? undefined : row.millis)
      ),
      undefined
    ),
  close: (key, millis) =>
    fallBackOnFailure(
      Effect.asVoid(
        run(sql`
      INSERT INTO shared (kind, key, value) VALUES ('guard', ${key}, ${String(millis)})
      ON CONFLICT (kind, key) DO UPDATE SET value = excluded.value, changed_at = clock_timestamp()`)
      ),
      undefined
    ),
  open: (key) =>
    fallBackOnFailure(Effect.asVoid(run(sql`DELETE FROM shared WHERE kind = 'guard' AND key = ${key}`)), undefined)
})

/** Schedule for adding the pending use of this process to a shared budget. */
const settlements = Schedule.spaced("1 second")

/** Shares the marks of API keys between the runners of a cluster. */
export const layer: Layer.Layer<never, never, ClusterDatabase> = Layer.effect(
  SharedMarks,
  Effect.gen(function* () {
    const database = yield* ClusterDatabase
    const { lock, news } = database
    const told = yield* Queue.sliding<News>(1_000)
    const queueNews = (news: News) => void Queue.offerUnsafe(told, news)
    const pools = new Set<PoolListener>()
    const refused = new Set<Refusal>()
    yield* Effect.flatMap(Queue.take(told), (mark) => news.notify("rates", JSON.stringify(mark))).pipe(
      Effect.catch((error) => Effect.logDebug("a mark was not told to the other runners", error)),
      Effect.forever,
      Effect.forkScoped
    )
    const rereadPools = (which: (listener: PoolListener) => boolean) =>
      Effect.forEach(Array.from(pools).filter(which), (listener) => listener.read, { discard: true })
    const handleNews = (news: News | undefined): Effect.Effect<void> => {
      if (news === undefined) return Effect.void
      if ("pool" in news) return rereadPools(({ pool }) => pool === news.pool)
      return Effect.sync(() => {
        if (news.from !== lock.number) for (const heard of refused) heard(news.key, news.closedFor)
      })
    }
    yield* Effect.forkScoped(
      news.subscribe("rates", (payloads) =>
        payloads.length === 0
          ? // The table contains the changes whose notifications were sent before this runner started to listen.
            rereadPools(() => true)
          : Effect.forEach(payloads, (payload) => handleNews(Option.getOrUndefined(decodeNews(payload))), {
              discard: true
            })
      )
    )
    const marks: Marks = {
      pools: makePoolStore(database, queueNews, pools),
      guard: makeRateGuard(database),
      refusals: {
        join: (heard) =>
          Effect.map(
            Effect.acquireRelease(
              Effect.sync(() => refused.add(heard)),
              () => Effect.sync(() => refused.delete(heard))
            ),
            (): Refusal => (key, closedFor) => {
              for (const other of refused) if (other !== heard) other(key, closedFor)
              queueNews({ from: lock.number, key, closedFor })
            }
          )
      }
    }
    return marks
  })
)

/** Limits for all runs of all runners together. */
export interface BudgetLimits {
  readonly tokens?: number | undefined
  readonly dollars?: number | undefined
}

/** Budget used so far, over all runners. */
export interface BudgetUse {
  readonly tokens: number
  readonly dollars: number
}

/** A budget that several runners share. */
export interface BudgetService {
  /** The reason why no run may begin, or `undefined` while some budget remains. */
  readonly exhausted: Effect.Effect<string | undefined>
}

/** The shared budget of a cluster. */
export class ClusterBudget extends Context.Service<ClusterBudget, BudgetService>()(
  "hermes-effect/cluster/ClusterBudget"
) {}

const budgetName = "cluster"

/** Reads the budget used so far. */
export const used = Effect.gen(function* () {
  const { run, sql } = yield* ClusterDatabase
  const [row] = yield* run(sql<BudgetUse>`SELECT tokens, dollars FROM budgets WHERE name = ${budgetName}`)
  return row ?? { tokens: 0, dollars: 0 }
})

/** Provides the budget, and counts the model calls of this process against it. */
export const layerBudget = (limits: BudgetLimits): Layer.Layer<ClusterBudget, never, ClusterDatabase | RunRecord> =>
  Layer.effect(
    ClusterBudget,
    Effect.gen(function* () {
      const { run, sql } = yield* ClusterDatabase
      const record = yield* RunRecord
      let pending: BudgetUse = { tokens: 0, dollars: 0 }
      let sum: BudgetUse = pending
      yield* record.listen((entries) => {
        for (const { event } of entries) {
          if (event._tag !== "AttemptEnded") continue
          pending = {
            tokens: pending.tokens + (event.usage === undefined ? 0 : Usage.countTotalTokens(event.usage)),
            dollars: pending.dollars + (event.cost?.usd ?? 0)
          }
        }
      })
      /** Adds this process's pending use, and reads the sum over all runners. */
      const settle = Effect.gen(function* () {
        const added = pending
        pending = { tokens: 0, dollars: 0 }
        const [row] = yield* Effect.tapError(
          run(sql<BudgetUse>`
          INSERT INTO budgets (name, tokens, dollars) VALUES (${budgetName}, ${added.tokens}, CAST(${added.dollars} AS DOUBLE PRECISION))
          ON CONFLICT (name) DO UPDATE SET tokens = budgets.tokens + excluded.tokens, dollars = budgets.dollars + excluded.dollars
          RETURNING tokens, dollars`),
          () =>
            Effect.sync(
              () => void (pending = { tokens: pending.tokens + added.tokens, dollars: pending.dollars + added.dollars })
            )
        )
        return (sum = row ?? sum)
      })
      const counted = Effect.catch(settle, ({ message }) => Effect.as(Effect.logDebug(message), sum))
      if (limits.tokens !== undefined || limits.dollars !== undefined) {
        yield* Effect.forkScoped(Effect.schedule(counted, settlements))
      }
      yield* Effect.addFinalizer(() => {
        const { dollars, tokens } = pending
        return tokens + dollars === 0
          ? Effect.void
          : Effect.timeout(settle, "3 seconds").pipe(
              Effect.catch(({ message }) =>
                Effect.logWarning(
                  `the cluster's budget lacks the last use of this runner (${tokens} tokens, ` +
                    `$${dollars.toFixed(4)}): ${message}`
                )
              )
            )
      })
      return {
        exhausted: Effect.gen(function* () {
          if (limits.tokens === undefined && limits.dollars === undefined) return undefined
          const { dollars, tokens } = yield* counted
          if (limits.tokens !== undefined && tokens >= limits.tokens) {
            return `the cluster has used ${tokens} of ${limits.tokens} tokens: raise cluster.budget_tokens`
          }
          return limits.dollars !== undefined && dollars >= limits.dollars
            ? `the cluster has used $${dollars.toFixed(2)} of $${limits.dollars}: raise cluster.budget_dollars`
            : undefined
        })
      }
    })
  )
