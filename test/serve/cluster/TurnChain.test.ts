// Turns that wait for their session are chained: they make no statements while they wait, and each is woken by the end
// of the one before it, or by the look for runs that stand still.
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { Offline, Runtime, SessionStore } from "../../../src/index.ts"
import { Cluster } from "../../../src/kit/entry/cluster.ts"
import { missing, type Server, startServer } from "../../support/postgresServer.ts"

describe.skipIf(missing !== undefined)(
  `turns that wait for their session${missing === undefined ? "" : ` (skipped: ${missing})`}`,
  () => {
    let server: Server
    beforeAll(async () => {
      server = await startServer()
    })
    afterAll(() => server.remove())

    const runnerAt = (url: string, handlers: Readonly<Record<string, Cluster.Handler>>) => {
      const store = SessionStore.layerPostgres({ url: Redacted.make(url), connections: 4 })
      const agent = Runtime.layer({ provider: Offline.layer(), store }).pipe(Layer.provideMerge(store))
      return Cluster.layerRunner({ url: Redacted.make(url), concurrency: 4, handlers }).pipe(Layer.provide(agent))
    }
    const makeRequest = (id: string, kind: string, sessionId: string): Cluster.Request => ({
      id,
      batch: "chain",
      kind,
      sessionId,
      retries: 0,
      input: "{}"
    })

    /** Transactions of the database in some seconds; a statement outside of a transaction is one. */
    const countTransactions = Effect.gen(function* () {
      const read = Effect.sync(() =>
        Number(server.query("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'hermes'"))
      )
      const before = yield* read
      yield* Effect.sleep("4 seconds")
      return (yield* read) - before
    })

    it.live("make no statements while 100 of them wait, and run in their order", () =>
      Effect.gen(function* () {
        const release = yield* Deferred.make<void>()
        const order: Array<string> = []
        const finished: Cluster.Outcome = { status: "finished" }
        const handlers: Readonly<Record<string, Cluster.Handler>> = {
          hold: () => Effect.as(Deferred.await(release), finished),
          note: ({ id }) => Effect.sync(() => void order.push(id)).pipe(Effect.as(finished))
        }
        const ids = Array.from({ length: 100 }, (_, index) => `turn-${index}`)
        yield* Effect.provide(
          Effect.gen(function* () {
            yield* Cluster.submit(makeRequest("first", "hold", "busy"))
            const waiting = Effect.sync(() => server.query("SELECT count(*) FROM chain.runs WHERE state = 'running'"))
            yield* Effect.repeat(Effect.andThen(Effect.sleep("50 millis"), waiting), { until: (n) => n === "1" })
            yield* Effect.sleep("2 seconds")
            const alone = yield* countTransactions
            for (const id of ids) yield* Cluster.submit(makeRequest(id, "note", "busy"))
            // Each of them is suspended: its message is answered.
            const suspended = Effect.sync(() =>
              server.query("SELECT count(*) FROM chain.cluster_messages WHERE tag = 'run' AND processed")
            )
            yield* Effect.repeat(Effect.andThen(Effect.sleep("50 millis"), suspended), { until: (n) => n === "100" })
            yield* Effect.sleep("2 seconds")
            const crowded = yield* countTransactions
            assert.deepStrictEqual(order, [])
            // Polled twice a second, these turns would make 800 statements in this time.
            assert.isAtMost(crowded - alone, 400, `${alone} without waiting turns, ${crowded} with them`)
            yield* Deferred.succeed(release, undefined)
            yield* Cluster.waitForOutcomes(ids)
            assert.deepStrictEqual(order, ids)
          }),
          runnerAt(server.url("chain"), handlers),
          { local: true }
        )
      })
    )

    it.live("are woken even if the runner of the turn before them died between its end and the wake-up", () =>
      Effect.gen(function* () {
        const begun = yield* Deferred.make<void>()
        const finished: Cluster.Outcome = { status: "finished" }
        const handlers: Readonly<Record<string, Cluster.Handler>> = {
          hold: () => Effect.andThen(Deferred.succeed(begun, undefined), Effect.never),
          note: () => Effect.succeed(finished)
        }
        yield* Effect.provide(
          Effect.gen(function* () {
            yield* Cluster.submit(makeRequest("first", "hold", "lost"))
            yield* Cluster.submit(makeRequest("second", "note", "lost"))
            yield* Deferred.await(begun)
            yield* Effect.sleep("500 millis")
            // The end is stored, and nothing wakes the next turn.
            server.query(`UPDATE lost.runs SET state = 'done', outcome = '{"status":"finished"}' WHERE id = 'first'`)
            const outcomes = yield* Cluster.waitForOutcomes(["second"])
            assert.strictEqual(outcomes.get("second")?.status, "finished")
          }),
          runnerAt(server.url("lost"), handlers),
          { local: true }
        )
      })
    )
  }
)
