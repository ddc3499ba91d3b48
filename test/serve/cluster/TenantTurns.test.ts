// Turns of a cluster and jobs with a tenant: the tenant is a part of the submitted turn or the stored job, and its limits
// and its ledger apply to the process that executes it.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Tenants from "../../../src/agent/Tenants.ts"
import { SessionId } from "../../../src/base/domain/Ids.ts"
import * as Offline from "../../../src/models/provider/Offline.ts"
import * as Runtime from "../../../src/program/Runtime.ts"
import * as JobAgent from "../../../src/research/cron/JobAgent.ts"
import * as Cluster from "../../../src/serve/cluster/Cluster.ts"
import * as SessionStore from "../../../src/store/SessionStore.ts"
import * as CronJobs from "../../../src/tools/cron/CronJobs.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const makeRuntime = (directory: string) => {
  const store = SessionStore.layerSqlite({ path: `${directory}/state.db` })
  const tenants = Tenants.layerFrom([
    { id: "acme", perDay: { tokens: 1_000_000 } },
    { id: "poor", perDay: { tokens: 1 } }
  ])
  return Runtime.layer({ provider: Offline.layer(), store }).pipe(
    Layer.provideMerge(tenants),
    Layer.provideMerge(store),
    Layer.provideMerge(NodeServices.layer)
  )
}

describe("a tenant travels with", () => {
  it.live("the turn that it submits to a cluster", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const cluster = Cluster.layerSqlite({ path: `${directory}/cluster.db` }).pipe(
        Layer.provideMerge(makeRuntime(directory))
      )
      yield* Effect.gen(function* () {
        const submit = (id: string, tenant: string | undefined) =>
          Cluster.submit(Cluster.makeTurnRequest({ id, sessionId: id, prompt: "Reply exactly hello", tenant }))
        yield* submit("of-acme", "acme")
        yield* submit("of-poor", "poor")
        yield* submit("of-owner", undefined)
        const outcomes = yield* Cluster.waitForOutcomes(["of-acme", "of-poor", "of-owner"])
        const readExit = (id: string): unknown => {
          const outcome = outcomes.get(id)
          return outcome?.status === "finished" ? JSON.parse(outcome.output ?? "{}").exit : outcome
        }
        assert.deepStrictEqual(["of-acme", "of-poor", "of-owner"].map(readExit), [
          "text_response",
          "budget_exhausted",
          "text_response"
        ])
        const store = yield* SessionStore.SessionStore
        const session = Option.getOrThrow(yield* store.get(SessionId.make("of-acme")))
        assert.strictEqual(session.tenant, "acme")
        const usage = yield* Tenants.Tenants.use((tenants) => tenants.usage())
        assert.deepStrictEqual(
          usage.map(({ calls, tenant }) => [tenant, calls]),
          [["acme", 1]]
        )
      }).pipe(Effect.provide(cluster, { local: true }))
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.live("a scheduled job", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const agents = JobAgent.layer().pipe(Layer.provideMerge(makeRuntime(directory)))
      yield* Effect.gen(function* () {
        const jobs = yield* CronJobs.CronJobs
        const job = yield* jobs.create({ name: "report", prompt: "Reply", schedule: "every 2h", tenant: "acme" })
        const { open } = yield* JobAgent.JobAgent
        const ask = yield* open(job)
        const { sessionId } = yield* ask({ prompt: "Reply exactly hello", source: "cron" })
        const store = yield* SessionStore.SessionStore
        assert.strictEqual(Option.getOrThrow(yield* store.get(sessionId)).tenant, "acme")
      }).pipe(Effect.provide(Layer.merge(agents, CronJobs.layerMemory), { local: true }), Effect.scoped)
    }).pipe(Effect.provide(NodeServices.layer))
  )
})
