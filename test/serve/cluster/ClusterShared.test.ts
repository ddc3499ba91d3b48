// Facts that runners share through their database: who is there, budgets, refusals, scheduled jobs.
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { Offline, Runtime, SessionStore } from "../../../src/index.ts"
import { Cluster } from "../../../src/kit/entry/cluster.ts"
import { SessionId, TurnId } from "../../../src/base/domain/Ids.ts"
import * as ClusterDatabase from "../../../src/serve/cluster/ClusterDatabase.ts"
import * as ClusterJobs from "../../../src/serve/cluster/ClusterJobs.ts"
import * as ClusterMarks from "../../../src/serve/cluster/ClusterMarks.ts"
import * as ClusterRetention from "../../../src/serve/cluster/ClusterRetention.ts"
import * as Members from "../../../src/serve/cluster/Members.ts"
import { makeLimits } from "../../../src/models/routing/RateLimitGate.ts"
import * as PoolStore from "../../../src/models/routing/PoolStore.ts"
import { SharedMarks } from "../../../src/models/routing/SharedMarks.ts"
import { RunRecord } from "../../../src/store/RunRecord.ts"
import { CronJobs } from "../../../src/tools/cron/CronJobs.ts"
import { withWarnings } from "../../support/middlewareContexts.ts"
import { missing, type Server, startServer } from "../../support/postgresServer.ts"
import { eventually, readUntil } from "../../support/waiting.ts"

describe.skipIf(missing !== undefined)(
  `runners over one Postgres${missing === undefined ? "" : ` (skipped: ${missing})`}`,
  () => {
    let server: Server
    let schemas = 0
    beforeAll(async () => {
      server = await startServer()
    })
    afterAll(() => server.remove())

    const newUrl = Effect.sync(() => Redacted.make(server.url(`shared${schemas++}`)))
    const agentAt = (url: Redacted.Redacted) => {
      const store = SessionStore.layerPostgres({ url, connections: 4 })
      return Runtime.layer({ provider: Offline.layer(), store }).pipe(Layer.provideMerge(store))
    }
    const runnerAt = (url: Redacted.Redacted, options: Cluster.RunnerOptions = {}) =>
      Cluster.layerRunner({ url, concurrency: 2, ...options }).pipe(Layer.provide(agentAt(url)))
    const databaseAt = (url: Redacted.Redacted) => ClusterDatabase.layer(url, 4)
    const schemaOf = (url: Redacted.Redacted) => new URL(Redacted.value(url)).searchParams.get("schema")

    it.live(
      "runners of two versions work side by side; one of another protocol is refused with one line, until those at work are drained",
      () =>
        Effect.gen(function* () {
          const url = yield* newUrl
          const set = (column: string, value: string) =>
            Effect.sync(() => server.query(`UPDATE ${schemaOf(url)}.members SET ${column} = '${value}'`))
          yield* Effect.scoped(
            Effect.gen(function* () {
              const first = Context.get(yield* Layer.build(runnerAt(url)), Cluster.Runner)
              // Taken for dead while it did not reach the server, it joins again.
              server.query(`DELETE FROM ${schemaOf(url)}.members`)
              yield* readUntil(
                "the runner joins again",
                Effect.sync(() => server.query(`SELECT count(*) FROM ${schemaOf(url)}.members`)),
                (count) => count === "1"
              )
              assert.isTrue(Option.isNone(yield* Effect.timeoutOption(first.drained, "500 millis")))
              yield* set("version", "9.9.9")
              yield* Effect.scoped(Layer.build(runnerAt(url)))
              yield* set("protocol", "99")
              const refused = yield* Effect.flip(Effect.scoped(Layer.build(runnerAt(url))))
              assert.match(
                refused.message,
                /^Postgres at .* has 1 runner of version 9\.9\.9 \(protocol 99\), this is [\d.]+ \(protocol \d+\): run `hermes cluster drain --all` first, or start a version of the same protocol$/
              )
              const client = yield* Effect.flip(Effect.scoped(Layer.build(Cluster.layerClient({ url }))))
              assert.match(client.message, /\(protocol \d+\): submit with the version of the runners$/)
              assert.strictEqual(yield* Effect.provide(Members.requestDrain(undefined), databaseAt(url)), 1)
              yield* first.drained
              yield* first.close
              yield* Effect.scoped(Layer.build(runnerAt(url)))
            })
          )
          assert.deepStrictEqual(yield* Effect.provide(Members.list, databaseAt(url)), [])
        })
    )

    it.live(
      "what is over is removed after its days, by one runner within the hour; what waits or is younger stays",
      () =>
        Effect.gen(function* () {
          const url = yield* newUrl
          const schema = schemaOf(url)
          const number = (sql: string) => Number(server.query(sql))
          yield* Effect.provide(
            Effect.gen(function* () {
              const ids = ["old-1", "old-2", "young"]
              for (const id of ids)
                yield* Cluster.submit(Cluster.makeTurnRequest({ id, sessionId: id, prompt: `Reply exactly ${id}` }))
              yield* Cluster.waitForOutcomes(ids)
              // The workflow says that it is over after its run is.
              yield* readUntil(
                "the workflows are over",
                Effect.sync(() => number(`SELECT count(*) FROM ${schema}.cluster_messages WHERE NOT processed`)),
                (open) => open === 0
              )
            }),
            runnerAt(url),
            { local: true }
          )
          server.query(
            `UPDATE ${schema}.runs SET ended_at = ended_at - 40 * 86400000::bigint, submitted_at = submitted_at - 40 * 86400000::bigint WHERE id LIKE 'old-%'`
          )
          server.query(
            `UPDATE ${schema}.shared SET changed_at = changed_at - interval '2 hours' WHERE kind = 'retention'`
          )
          server.query(
            `INSERT INTO ${schema}.agents VALUES ('old', '{}', now() - interval '40 days'), ('new', '{}', now())`
          )
          server.query(
            `INSERT INTO ${schema}.runs (id, batch, kind, session_id, state, starts, submitted_at) VALUES ('waits', 'b', 'k', 's', 'waiting', 0, 1)`
          )
          server.query(
            `INSERT INTO ${schema}.leases VALUES ('session gone', 'o', 1, 'h', 1, now() - interval '3 days')`
          )
          const before = number(`SELECT count(*) FROM ${schema}.cluster_messages`)
          const sweeps = yield* Effect.all([ClusterRetention.sweep(30), ClusterRetention.sweep(30)], {
            concurrency: 2
          }).pipe(Effect.provide(databaseAt(url)))
          assert.deepStrictEqual(sweeps.toSorted(), [2, undefined])
          assert.strictEqual(server.query(`SELECT string_agg(id, ' ' ORDER BY id) FROM ${schema}.runs`), "waits young")
          // Of three equal runs one is left, and no reply without its message.
          assert.strictEqual(number(`SELECT count(*) FROM ${schema}.cluster_messages`) * 3, before)
          assert.strictEqual(
            number(
              `SELECT count(*) FROM ${schema}.cluster_replies WHERE request_id NOT IN (SELECT id FROM ${schema}.cluster_messages)`
            ),
            0
          )
          assert.strictEqual(number(`SELECT count(*) FROM ${schema}.leases WHERE name = 'session gone'`), 0)
          // A run that waits may name an old agent.
          assert.strictEqual(number(`SELECT count(*) FROM ${schema}.agents`), 2)
          server.query(`DELETE FROM ${schema}.runs WHERE id = 'waits'`)
          server.query(
            `UPDATE ${schema}.shared SET changed_at = changed_at - interval '2 hours' WHERE kind = 'retention'`
          )
          assert.strictEqual(yield* Effect.provide(ClusterRetention.sweep(30), databaseAt(url)), 0)
          assert.strictEqual(server.query(`SELECT string_agg(digest, ' ') FROM ${schema}.agents`), "new")
          // The young one is known still.
          const known = yield* Effect.provide(
            Cluster.submit(Cluster.makeTurnRequest({ id: "young", sessionId: "young", prompt: "again" })),
            Cluster.layerClient({ url }),
            { local: true }
          )
          assert.strictEqual(known?.status, "finished")
        })
    )

    it.live(
      "a drained runner begins nothing more; what waits is done by the next one, also where its workflow was left suspended",
      () =>
        Effect.gen(function* () {
          const url = yield* newUrl
          const schema = schemaOf(url)
          const ids = Array.from({ length: 6 }, (_, index) => `run-${index}`)
          yield* Effect.scoped(
            Effect.gen(function* () {
              const services = yield* Layer.build(runnerAt(url))
              yield* Context.get(services, Cluster.Runner).close
              const { submit } = Context.get(services, Cluster.Cluster)
              for (const id of ids)
                yield* submit(Cluster.makeTurnRequest({ id, sessionId: id, prompt: `Reply exactly ${id}` }))
              yield* Effect.sleep("1 second")
              assert.strictEqual((yield* Context.get(services, Cluster.Cluster).outcomes(ids)).size, 0)
              assert.strictEqual(
                server.query(`SELECT count(*) FROM ${schema}.cluster_messages WHERE tag = 'run'`),
                String(ids.length)
              )
            })
          )
          // As a runner leaves them that loses their shards in the middle: two under way, two waiting.
          const those = "('run-0', 'run-2', 'run-3', 'run-5')"
          const left = `entity_id IN (SELECT entity_id FROM ${schema}.cluster_messages WHERE tag = 'run' AND payload::json->>'id' IN ${those})`
          server.query(`INSERT INTO ${schema}.cluster_replies (id, kind, request_id, payload)
        SELECT id + 1, 0, id, '{"_tag":"Success","value":{"_tag":"Suspended"}}' FROM ${schema}.cluster_messages WHERE ${left}`)
          server.query(`UPDATE ${schema}.cluster_messages SET processed = TRUE, last_reply_id = id + 1 WHERE ${left}`)
          assert.strictEqual(server.query(`SELECT count(*) FROM ${schema}.cluster_messages WHERE processed`), "4")
          server.query(
            `UPDATE ${schema}.runs SET state = 'running', runner = 'gone', starts = 1 WHERE id IN ('run-0', 'run-3')`
          )
          const outcomes = yield* Effect.provide(Cluster.waitForOutcomes(ids), runnerAt(url), { local: true })
          assert.deepStrictEqual(
            ids.map((id) => outcomes.get(id)?.output?.includes(`"text":"${id}"`)),
            ids.map(() => true)
          )
          assert.strictEqual(
            server.query(`SELECT string_agg(starts::text, ' ' ORDER BY id) FROM ${schema}.runs`),
            "2 1 1 2 1 1"
          )
        })
    )

    it.live(
      "a run whose workflow breaks off fails with the reason, and its session goes on; also where that could not be written at once",
      () =>
        Effect.gen(function* () {
          const url = yield* newUrl
          const schema = schemaOf(url)
          const odd = (id: string): Cluster.Request => ({
            id,
            batch: "odd",
            kind: "odd",
            sessionId: id,
            input: "{}",
            retries: 3
          })
          const turn = (id: string, sessionId: string) =>
            Cluster.makeTurnRequest({ id, sessionId, prompt: `Reply exactly ${id}`, batch: "turns" })
          // A handler of an application without types: its outcome has no stored form, which is a defect of the
          // attempt.
          const outcome: unknown = { status: "finished", output: 5 }
          const handlers = { odd: () => Effect.succeed(outcome as Cluster.Outcome) }
          yield* Effect.provide(
            Effect.gen(function* () {
              for (const request of [odd("first"), turn("after-first", "first")]) yield* Cluster.submit(request)
              const outcomes = yield* Cluster.waitForOutcomes(["first", "after-first"])
              assert.deepStrictEqual(
                [outcomes.get("first")?.status, outcomes.get("after-first")?.status],
                ["failed", "finished"]
              )
              assert.strictEqual(outcomes.get("first")?.message, 'the run broke off: Expected string at ["output"]')
              // The database takes no end of this run.
              server.query(
                `CREATE FUNCTION ${schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no end''; END'`
              )
              server.query(
                `CREATE TRIGGER refuse BEFORE UPDATE ON ${schema}.runs FOR EACH ROW WHEN (NEW.id = 'second' AND NEW.state = 'done') EXECUTE FUNCTION ${schema}.refuse()`
              )
              for (const request of [odd("second"), turn("after-second", "second")]) yield* Cluster.submit(request)
              // Both messages of it are answered: the engine has nothing to do for it any more.
              const answered = Effect.sync(() =>
                server.query(`
          SELECT count(*) FROM ${schema}.cluster_messages WHERE processed AND entity_id IN
            (SELECT entity_id FROM ${schema}.cluster_messages WHERE tag = 'run' AND payload::json->>'id' = 'second')`)
              )
              yield* readUntil("both messages are answered", answered, (count) => count === "2")
              assert.strictEqual(
                server.query(
                  `SELECT string_agg(id || ' ' || state, ', ' ORDER BY made) FROM ${schema}.runs WHERE session_id = 'second'`
                ),
                "second running, after-second waiting"
              )
              server.query(`DROP TRIGGER refuse ON ${schema}.runs`)
              const later = yield* Cluster.waitForOutcomes(["second", "after-second"])
              assert.strictEqual(later.get("second")?.status, "failed")
              assert.strictEqual(later.get("second")?.message, outcomes.get("first")?.message)
              assert.include(later.get("after-second")?.output ?? "", '"text":"after-second"')
              assert.deepStrictEqual(
                yield* Cluster.Cluster.use(({ counts, failures }) => Effect.all([counts, failures(1)])),
                [
                  [
                    { batch: "odd", waiting: 0, suspended: 0, running: 0, finished: 0, failed: 2 },
                    { batch: "turns", waiting: 0, suspended: 0, running: 0, finished: 2, failed: 0 }
                  ],
                  [{ id: "second", batch: "odd", sessionId: "second", message: later.get("second")?.message ?? "" }]
                ]
              )
            }),
            runnerAt(url, { handlers }),
            { local: true }
          )
        })
    )

    it.live("turns of one session follow each other as they were submitted", () =>
      Effect.gen(function* () {
        const url = yield* newUrl
        const ids = Array.from({ length: 4 }, (_, index) => `turn-${index}`)
        yield* Effect.provide(
          Effect.gen(function* () {
            for (const id of ids)
              yield* Cluster.submit(Cluster.makeTurnRequest({ id, sessionId: "one", prompt: `Reply exactly ${id}` }))
            const outcomes = yield* Cluster.waitForOutcomes(ids)
            assert.deepStrictEqual(
              ids.map((id) => outcomes.get(id)?.output?.includes(`"text":"${id}"`)),
              ids.map(() => true)
            )
          }),
          runnerAt(url, { concurrency: 4 }),
          { local: true }
        )
      })
    )

    it.live("a budget counts the model calls of all runners; nothing begins when it is used up", () =>
      Effect.gen(function* () {
        const url = yield* newUrl
        const one = Effect.gen(function* () {
          const agent = yield* Layer.build(agentAt(url))
          const budget = Context.get(
            yield* Layer.build(
              ClusterMarks.layerBudget({ tokens: 60 }).pipe(
                Layer.provide(databaseAt(url)),
                Layer.provide(Layer.succeedContext(agent))
              )
            ),
            ClusterMarks.ClusterBudget
          )
          const spend = Context.get(agent, RunRecord).append
          return { budget, spend, agent }
        })
        yield* Effect.scoped(
          Effect.gen(function* () {
            const [first, second] = [yield* one, yield* one]
            const usage = {
              inputTokens: 20,
              outputTokens: 10,
              cacheReadTokens: 0,
              cacheWriteTokens: 0,
              reasoningTokens: 0,
              requestCount: 1
            }
            for (const [index, { agent, spend }] of [first, second].entries()) {
              const id = SessionId.make(`s${index}`)
              yield* Context.get(agent, SessionStore.SessionStore).create({
                id,
                source: "test",
                provider: "p",
                model: "m",
                systemPrompt: ""
              })
              assert.isUndefined(yield* first.budget.exhausted)
              yield* spend([
                {
                  sessionId: id,
                  turnId: TurnId.make("t"),
                  at: 0,
                  event: { _tag: "AttemptEnded", apiRequestId: "a", status: "answered", answer: [], usage }
                }
              ])
            }
            yield* Effect.sleep("2500 millis")
            for (const { budget } of [first, second]) {
              assert.strictEqual(
                yield* budget.exhausted,
                "the cluster has used 60 of 60 tokens: raise cluster.budget_tokens"
              )
            }
          })
        )
      })
    )

    it.live("a runner that cannot write its last use says how much that is", () =>
      Effect.gen(function* () {
        const url = yield* newUrl
        const { warnings } = yield* withWarnings(
          Effect.scoped(
            Effect.gen(function* () {
              const agent = yield* Layer.build(agentAt(url))
              yield* Layer.build(
                ClusterMarks.layerBudget({}).pipe(
                  Layer.provide(databaseAt(url)),
                  Layer.provide(Layer.succeedContext(agent))
                )
              )
              const sessionId = SessionId.make("s")
              yield* Context.get(agent, SessionStore.SessionStore).create({
                id: sessionId,
                source: "test",
                provider: "p",
                model: "m",
                systemPrompt: ""
              })
              const usage = {
                inputTokens: 20,
                outputTokens: 10,
                cacheReadTokens: 0,
                cacheWriteTokens: 0,
                reasoningTokens: 0,
                requestCount: 1
              }
              yield* Context.get(agent, RunRecord).append([
                {
                  sessionId,
                  turnId: TurnId.make("t"),
                  at: 0,
                  event: {
                    _tag: "AttemptEnded",
                    apiRequestId: "a",
                    status: "answered",
                    answer: [],
                    usage,
                    cost: { usd: 0.25, status: "actual", source: "provider_usage" }
                  }
                }
              ])
              server.query(`DROP TABLE ${schemaOf(url)}.budgets`)
            })
          )
        )
        assert.deepStrictEqual(
          warnings.filter((warning) => warning.includes("budget")).map((warning) => warning.replace(/: .*/s, "")),
          ["the cluster's budget lacks the last use of this runner (30 tokens, $0.2500)"]
        )
      })
    )

    it.live("a refusal that one runner had closes the key for the others; keys that are set aside are so for all", () =>
      Effect.gen(function* () {
        const url = yield* newUrl
        yield* Effect.scoped(
          Effect.gen(function* () {
            const marks = Effect.map(Layer.build(Layer.provide(ClusterMarks.layer, databaseAt(url))), (context) =>
              Context.get(context, SharedMarks)
            )
            const [first, second] = [yield* marks, yield* marks]
            const unlimited = { tenant: undefined, tokens: () => 0 }
            const limits = (shared: typeof first) => Effect.provideService(makeLimits, SharedMarks, shared)
            const [mine, beside, other] = [yield* limits(first), yield* limits(first), yield* limits(second)]
            yield* Effect.sleep("300 millis")
            const now = Date.now()
            const slot = mine.take("key", unlimited, now) ?? assert.fail("no slot")
            assert.isDefined(other.take("key", unlimited, now))
            assert.isDefined(beside.take("key", unlimited, now))
            mine.refused(slot, Duration.minutes(30), now)
            // Another runtime of the same process knows at once.
            assert.isUndefined(beside.take("key", unlimited, now))
            yield* readUntil(
              "the other runner learns of the refusal",
              Effect.sync(() => other.take("key", unlimited, Date.now())),
              (taken) => taken === undefined
            )
            assert.isUndefined(other.take("key", unlimited, Date.now()))
            assert.isAbove(other.expected("key", unlimited, Date.now()), 1_200_000)
            yield* first?.guard.close("account", 3_600_000) ?? Effect.void
            assert.isAbove((yield* second?.guard.closedFor("account") ?? Effect.succeed(0)) ?? 0, 3_000_000)
            const pools = [first, second].map((marks) => marks?.pools ?? assert.fail("no marks"))
            const [ours, theirs] = pools
            if (ours?.listen === undefined || theirs?.listen === undefined) return assert.fail("nobody tells of pools")
            const resting = (until: number, used: number) => ({ until, reason: "billing", used })
            const heard: Array<PoolStore.PoolRecord["keys"]> = []
            yield* theirs.listen("pool", (keys) => void heard.push(keys))
            const until = Date.now() + 3_600_000
            yield* ours.save("pool", { last: "k1", keys: { k1: resting(until, 2), k2: resting(5, 1) } })
            yield* eventually(
              "the other pool is told",
              Effect.sync(() => heard.length > 0)
            )
            // Nobody's mark is lost to one who did not know of it; what is over has no time.
            yield* theirs.save("pool", { last: "k2", keys: { k1: resting(0, 1), k2: resting(until, 3) } })
            const { keys, last } = yield* ours.load("pool")
            assert.deepStrictEqual([last, keys["k1"]?.used, keys["k2"]?.used, heard[0]?.["k2"]?.until], ["k2", 2, 3, 0])
            for (const mark of [heard[0]?.["k1"], keys["k1"], keys["k2"]])
              assert.closeTo(mark?.until ?? 0, until, 5_000)
          })
        )
      })
    )

    it.live("a job that is due is claimed by one of many runners", () =>
      Effect.gen(function* () {
        const url = yield* newUrl
        const jobsAt = Effect.map(Layer.build(Layer.provide(ClusterJobs.layer, databaseAt(url))), (context) =>
          Context.get(context, CronJobs)
        )
        yield* Effect.scoped(
          Effect.gen(function* () {
            const runners = yield* Effect.all(Array.from({ length: 4 }, () => jobsAt))
            const [first] = runners
            const job = yield* (
              first?.create({ schedule: new Date(Date.now() + 500).toISOString(), prompt: "tick", name: "tick" }) ??
              Effect.die("no runner")
            )
            yield* Effect.sleep("1200 millis")
            const due = yield* Effect.forEach(runners, (jobs) => jobs.due)
            assert.deepStrictEqual(
              due.map((list) => list.map(({ id }) => id)),
              runners.map(() => [job.id])
            )
            const claims = yield* Effect.forEach(runners, (jobs) => jobs.claim(job.id), { concurrency: "unbounded" })
            assert.strictEqual(claims.filter((claim) => claim !== undefined).length, 1)
          })
        )
      })
    )
  }
)
