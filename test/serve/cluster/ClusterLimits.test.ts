// Limits that three runner processes share, against a provider that counts: keys that are set aside, rates, the budget.
// It waits for real times and is part of `npm run test:cluster` alone.
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { Cluster } from "../../../src/kit/entry/cluster.ts"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { machine } from "../../support/hermes.ts"
import * as Inference from "../../support/inferenceServer.ts"
import { missing, type Server, startServer } from "../../support/postgresServer.ts"

/** Tokens of an answer. */
const tokens = 10
const budget = 100 * tokens
const runners = 3
const concurrency = 2

const skipped =
  missing ?? (process.env["HERMES_TEST_CLUSTER_KILLS"] === undefined ? "npm run test:cluster plays it" : undefined)

describe.skipIf(skipped !== undefined)(
  `limits of a cluster${skipped === undefined ? "" : ` (skipped: ${skipped})`}`,
  () => {
    let server: Server
    beforeAll(async () => {
      server = await startServer()
    })
    afterAll(() => server.remove())

    it.live(
      "three runners keep to what one of them was told: no key that is set aside, no request before its time, no run over the budget",
      () =>
        Effect.gen(function* () {
          const url = server.url("limits")
          const [spent, good] = ["sk-spent-4f3e2d1c0b9a88776655", "sk-good-0a1b2c3d4e5f60718293"]
          /** Requests as they came: key, time and status. */
          const seen: Array<{ readonly key: string; readonly at: number; readonly status: number }> = []
          let isClosed = false
          const model = yield* Inference.make({
            answer: () => undefined,
            before: (_, response) => {
              const key = model.headers.at(-1)?.["authorization"]?.replace("Bearer ", "") ?? ""
              const answered = (status: number, body: unknown) => {
                seen.push({ key, at: Date.now(), status })
                HttpServer.json(response, status, body)
              }
              if (key === spent)
                answered(429, {
                  error: {
                    message: "You exceeded your current quota.",
                    type: "insufficient_quota",
                    code: "insufficient_quota"
                  }
                })
              else if (isClosed) {
                isClosed = false
                response.setHeader("retry-after", "4")
                answered(429, {
                  error: { message: "Rate limit reached.", type: "requests", code: "rate_limit_exceeded" }
                })
              } else {
                const message = { role: "assistant", content: "done" }
                setTimeout(
                  () =>
                    answered(200, {
                      id: "1",
                      object: "chat.completion",
                      created: 1,
                      model: "m",
                      choices: [{ index: 0, message, finish_reason: "stop" }],
                      usage: { prompt_tokens: tokens - 1, completion_tokens: 1, total_tokens: tokens }
                    }),
                  30
                )
              }
              return true
            }
          })
          const { hermes, keep } = yield* machine
          keep(
            "config.yaml",
            JSON.stringify({
              model: { provider: "lab", default: "m", streaming: false },
              custom_providers: [{ name: "lab", base_url: model.url }],
              lab: { api_keys: [spent, good] },
              cluster: { budget_tokens: budget }
            })
          )
          const env = { HERMES_CLUSTER__DATABASE_URL: url }
          for (let index = 0; index < runners; index++)
            yield* Effect.forkScoped(hermes(["cluster", "runner", "--concurrency", String(concurrency)], { env }))
          // All of them have a good share of the shards.
          const sharing = Effect.sync(() =>
            server.query(
              "SELECT count(*) FROM (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2 GROUP BY pid HAVING count(*) > 50) AS a"
            )
          )
          yield* Effect.repeat(Effect.andThen(Effect.sleep("100 millis"), sharing), {
            until: (count) => count === String(runners),
            times: 600
          })
          let submitted = 0
          const submit = Effect.fnUntraced(function* (count: number) {
            const ids = Array.from({ length: count }, () => `row-${submitted++}`)
            for (const id of ids)
              yield* Cluster.submit(Cluster.makeTurnRequest({ id, sessionId: id, prompt: "Say done.", batch: "b" }))
            return ids
          })
          const done = Effect.fnUntraced(function* (ids: ReadonlyArray<string>) {
            const outcomes = yield* Cluster.waitForOutcomes(ids)
            assert.deepStrictEqual(
              ids.filter((id) => outcomes.get(id)?.status !== "finished").map((id) => outcomes.get(id)?.message),
              []
            )
            return server.query(
              `SELECT count(DISTINCT runner) FROM limits.runs WHERE id IN (${ids.map((id) => `'${id}'`).join(", ")})`
            )
          })
          const statuses = () => seen.map(({ key, status }) => `${key === spent ? "spent" : "good"} ${status}`)
          yield* Effect.gen(function* () {
            // One learns that a key is spent.
            yield* done(yield* submit(1))
            assert.deepStrictEqual(statuses(), ["spent 429", "good 200"])
            yield* Effect.sleep("1500 millis")
            assert.strictEqual(yield* done(yield* submit(30)), String(runners))
            assert.deepStrictEqual(
              statuses().slice(2),
              Array.from({ length: 30 }, () => "good 200")
            )
            // One is told to wait; the others get their work after that.
            isClosed = true
            const first = yield* submit(1)
            yield* Effect.repeat(
              Effect.andThen(
                Effect.sleep("20 millis"),
                Effect.sync(() => seen.at(-1)?.status)
              ),
              { until: (status) => status === 429, times: 3_000 }
            )
            const closedAt = seen.at(-1)?.at ?? 0
            yield* Effect.sleep("1 second")
            const rest = yield* submit(30)
            assert.strictEqual(yield* done([...first, ...rest]), String(runners))
            const after = seen.slice(33)
            assert.deepStrictEqual(
              after.map(({ status }) => status),
              Array.from({ length: 31 }, () => 200)
            )
            assert.isAtLeast(Math.min(...after.map(({ at }) => at)) - closedAt, 4_000)
            // What is left of the budget is for 38 rows; those under way when it is used up may end.
            const outcomes = yield* Cluster.waitForOutcomes(yield* submit(60))
            const answered = seen.filter(({ status }) => status === 200).length
            assert.isAtLeast(answered * tokens, budget)
            assert.isBelow(answered * tokens, budget + runners * concurrency * tokens)
            const refused = Array.from(outcomes.values()).filter(({ status }) => status === "failed")
            assert.strictEqual(refused.length, submitted - answered)
            for (const { message } of refused)
              assert.match(message ?? "", /^the cluster has used \d+ of 1000 tokens: raise cluster\.budget_tokens$/)
            const used = Effect.sync(() => Number(server.query("SELECT tokens FROM limits.budgets")))
            assert.strictEqual(
              yield* Effect.repeat(Effect.andThen(Effect.sleep("100 millis"), used), {
                until: (sum) => sum >= answered * tokens,
                times: 100
              }),
              answered * tokens
            )
          }).pipe(Effect.provide(Cluster.layerClient({ url: Redacted.make(url) }), { local: true }))
        })
    )
  }
)
