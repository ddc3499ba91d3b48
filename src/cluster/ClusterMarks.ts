/**
 * Marks of keys, and a budget, that all runners share through the database.
 *
 * **Details**
 *
 * A refusal for a rate is told to the other runners by a notification: each takes it as one of its own, so that a limit that one runner
 * learnt holds for all. A notification that is lost costs a refusal. Keys that are set aside and accounts at their limits are rows; the
 * server's clock does not matter, because a key is closed for a length of time and not until a moment.
 *
 * The budget counts each answered model call, as the run record has it. A run begins only while something is left of it: those under way
 * when it is used up are finished.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Schema from "effect/Schema"
import * as Json from "../domain/Json.ts"
import * as Usage from "../domain/Usage.ts"
import { PoolRecord, type PoolStore } from "../routing/PoolStore.ts"
import type { RateGuard } from "../routing/RateGuard.ts"
import { type Marks, type Refusals, SharedMarks } from "../routing/SharedMarks.ts"
import { RunRecord } from "../session/RunRecord.ts"
import { ClusterDatabase } from "./ClusterDatabase.ts"
import type { ClusterError } from "./Cluster.ts"

const decodePool = Schema.decodeUnknownOption(PoolRecord)
const nothing: PoolRecord = { keys: {} }

/** A failure of the database here costs a refusal by the provider, and no run. */
const lenient = <A>(effect: Effect.Effect<A, ClusterError>, otherwise: A): Effect.Effect<A> =>
  Effect.catch(effect, ({ message }) => Effect.as(Effect.logDebug(message), otherwise))

const poolsOf = ({ run, sql }: ClusterDatabase["Service"]): PoolStore => ({
  load: (pool) =>
    lenient(
      Effect.map(run(sql<{ readonly value: string }>`SELECT value FROM shared WHERE kind = 'pool' AND key = ${pool}`), ([row]) =>
        row === undefined ? nothing : Option.getOrElse(Option.flatMap(Json.parse(row.value), decodePool), () => nothing)),
      nothing
    ),
  save: (pool, record) =>
    lenient(Effect.asVoid(run(sql`
      INSERT INTO shared (kind, key, value) VALUES ('pool', ${pool}, ${JSON.stringify(record)})
      ON CONFLICT (kind, key) DO UPDATE SET value = excluded.value, changed_at = clock_timestamp()`)), undefined)
})

const guardOf = ({ run, sql }: ClusterDatabase["Service"]): RateGuard => ({
  closedFor: (key) =>
    lenient(
      Effect.map(
        run(sql<{ readonly millis: number }>`
          SELECT CAST(extract(epoch FROM changed_at + make_interval(secs => CAST(value AS DOUBLE PRECISION) / 1000) - clock_timestamp()) * 1000 AS DOUBLE PRECISION)
            AS millis FROM shared WHERE kind = 'guard' AND key = ${key}`),
        ([row]) => row === undefined || row.millis <= 0 ? undefined : row.millis
      ),
      undefined
    ),
  close: (key, millis) =>
    lenient(Effect.asVoid(run(sql`
      INSERT INTO shared (kind, key, value) VALUES ('guard', ${key}, ${String(millis)})
      ON CONFLICT (kind, key) DO UPDATE SET value = excluded.value, changed_at = clock_timestamp()`)), undefined),
  open: (key) => lenient(Effect.asVoid(run(sql`DELETE FROM shared WHERE kind = 'guard' AND key = ${key}`)), undefined)
})

const Refusal = Schema.Struct({ from: Schema.Int, key: Schema.String, closedFor: Schema.Finite })
const decodeRefusal = Schema.decodeUnknownOption(Schema.fromJsonString(Refusal))

const refusalsOf = Effect.fnUntraced(function*({ lock, schema, sql }: ClusterDatabase["Service"]) {
  const channel = `hermes_rates_${schema}`.slice(0, 60)
  const told = yield* Queue.sliding<typeof Refusal.Type>(1_000)
  const listeners = new Set<(key: string, closedFor: number) => void>()
  yield* Effect.flatMap(Queue.take(told), (refusal) => sql.notify(channel, JSON.stringify(refusal))).pipe(
    Effect.catch((error) => Effect.logDebug("a refusal was not told to the other runners", error)),
    Effect.forever,
    Effect.forkScoped
  )
  yield* Effect.scoped(Effect.flatMap(sql.listen(channel), (news) =>
    Effect.forever(Effect.map(Queue.take(news), (payload) => {
      const refusal = Option.getOrUndefined(decodeRefusal(payload))
      if (refusal === undefined || refusal.from === lock.number) return
      for (const heard of listeners) heard(refusal.key, refusal.closedFor)
    })))).pipe(
      Effect.catchCause((cause) => Effect.logDebug("the listener for refusals begins again", cause)),
      Effect.andThen(Effect.sleep("1 second")),
      Effect.forever,
      Effect.forkScoped
    )
  const refusals: Refusals = {
    tell: (key, closedFor) => void Queue.offerUnsafe(told, { from: lock.number, key, closedFor }),
    listen: (heard) => void listeners.add(heard)
  }
  return refusals
})

/** The marks of keys of a cluster. */
export const layer: Layer.Layer<never, never, ClusterDatabase> = Layer.effect(SharedMarks, Effect.gen(function*() {
  const database = yield* ClusterDatabase
  const marks: Marks = { pools: poolsOf(database), guard: guardOf(database), refusals: yield* refusalsOf(database) }
  return marks
}))

/** Limits of all runs of all runners. */
export interface BudgetLimits {
  readonly tokens?: number | undefined
  readonly dollars?: number | undefined
}

/** Uses of a budget, over all runners. */
export interface BudgetUse {
  readonly tokens: number
  readonly dollars: number
}

/** A budget of several runners. */
export interface BudgetService {
  /** The reason why nothing may begin, as far as the newest sum says. */
  readonly exhausted: Effect.Effect<string | undefined>
}

/** The budget of a cluster. */
export class ClusterBudget extends Context.Service<ClusterBudget, BudgetService>()("hermes-effect/cluster/ClusterBudget") {}

const budgetName = "cluster"

/** Reads what was used of the budget. */
export const used = Effect.gen(function*() {
  const { run, sql } = yield* ClusterDatabase
  const [row] = yield* run(sql<BudgetUse>`SELECT tokens, dollars FROM budgets WHERE name = ${budgetName}`)
  return row ?? { tokens: 0, dollars: 0 }
})

/** Counts the model calls of this process into the budget of the cluster. */
export const budget = (limits: BudgetLimits): Layer.Layer<ClusterBudget, never, ClusterDatabase | RunRecord> =>
  Layer.effect(ClusterBudget, Effect.gen(function*() {
    const { run, sql } = yield* ClusterDatabase
    const record = yield* RunRecord
    let pending: BudgetUse = { tokens: 0, dollars: 0 }
    let sum: BudgetUse = pending
    let readAt = -Infinity
    yield* record.listen((entries) => {
      for (const { event } of entries) {
        if (event._tag !== "AttemptEnded") continue
        pending = {
          tokens: pending.tokens + (event.usage === undefined ? 0 : Usage.totalTokens(event.usage)),
          dollars: pending.dollars + (event.cost?.usd ?? 0)
        }
      }
    })
    /** Adds what is pending, and reads the sum over all runners. */
    const settle = Effect.gen(function*() {
      const added = pending
      pending = { tokens: 0, dollars: 0 }
      const [row] = yield* Effect.tapError(
        run(sql<BudgetUse>`
          INSERT INTO budgets (name, tokens, dollars) VALUES (${budgetName}, ${added.tokens}, CAST(${added.dollars} AS DOUBLE PRECISION))
          ON CONFLICT (name) DO UPDATE SET tokens = budgets.tokens + excluded.tokens, dollars = budgets.dollars + excluded.dollars
          RETURNING tokens, dollars`),
        () => Effect.sync(() => void (pending = { tokens: pending.tokens + added.tokens, dollars: pending.dollars + added.dollars }))
      )
      if (row !== undefined) sum = row
      readAt = yield* Clock.currentTimeMillis
    })
    const counted = Effect.catch(settle, ({ message }) => Effect.logDebug(message))
    if (limits.tokens !== undefined || limits.dollars !== undefined) {
      yield* Effect.forkScoped(Effect.forever(Effect.andThen(Effect.sleep("1 second"), counted)))
    }
    yield* Effect.addFinalizer(() => pending.tokens + pending.dollars === 0 ? Effect.void : Effect.ignore(Effect.timeout(counted, "3 seconds")))
    return {
      exhausted: Effect.gen(function*() {
        if (limits.tokens === undefined && limits.dollars === undefined) return undefined
        if ((yield* Clock.currentTimeMillis) - readAt > 1_000) yield* counted
        if (limits.tokens !== undefined && sum.tokens >= limits.tokens) {
          return `the cluster has used ${sum.tokens} of ${limits.tokens} tokens: raise cluster.budget_tokens`
        }
        return limits.dollars !== undefined && sum.dollars >= limits.dollars
          ? `the cluster has used $${sum.dollars.toFixed(2)} of $${limits.dollars}: raise cluster.budget_dollars`
          : undefined
      })
    }
  }))
