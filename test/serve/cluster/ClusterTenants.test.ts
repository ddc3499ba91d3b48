// The runs of a tenant in a cluster: for another tenant, each operation treats them as runs that do not exist, and the
// removal of a tenant removes them, in a file and in Postgres.
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import * as Tenants from "../../../src/agent/Tenants.ts"
import * as Scripted from "../../../src/models/provider/Scripted.ts"
import * as Runtime from "../../../src/program/Runtime.ts"
import * as Cluster from "../../../src/serve/cluster/Cluster.ts"
import * as SessionStore from "../../../src/store/SessionStore.ts"
import { CurrentTenant } from "../../../src/store/TenantScope.ts"
import { missing, type Server, startServer } from "../../support/postgresServer.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

let server: Server | undefined
let count = 0

beforeAll(async () => {
  if (missing === undefined) server = await startServer()
})
afterAll(async () => {
  await server?.remove()
})

/** Kinds of requests besides turns: one that fails, and one that waits for answers. */
const handlers = {
  fails: () => Effect.succeed({ status: "failed", message: "of acme", isPassing: false } as const),
  asks: () => Effect.succeed({ status: "suspended" } as const)
} satisfies Cluster.RunnerOptions["handlers"]

const makeWorld = (kind: "sqlite" | "postgres", directory: string) => {
  const url = Redacted.make(server?.url(`tenants_${++count}`) ?? "")
  const store =
    kind === "sqlite"
      ? SessionStore.layerSqlite({ path: `${directory}/state.db` })
      : SessionStore.layerPostgres({ url })
  const runtime = Runtime.layer({
    provider: Scripted.layer([Scripted.complete("hello"), Scripted.hang()]),
    store
  }).pipe(
    Layer.provideMerge(Tenants.layerFrom([{ id: "acme" }, { id: "zeta" }])),
    Layer.provideMerge(store),
    Layer.provideMerge(NodeServices.layer)
  )
  const cluster =
    kind === "sqlite"
      ? Cluster.layerSqlite({ path: `${directory}/cluster.db`, handlers })
      : Cluster.layerRunner({ url, handlers })
  return Layer.provideMerge(cluster, runtime)
}

const runAs = (tenant: string | undefined) => Effect.provideService(CurrentTenant, tenant)

const makeRequest = (id: string, kind: string, sessionId = `of-${id}`) => ({
  id,
  batch: "acme's batch",
  kind,
  sessionId,
  input: "{}",
  retries: 0
})

/** Each operation on one run or session, and the run of acme that it is tried on. */
const operations = {
  find: ["turn", (id) => Cluster.Cluster.use(({ find }) => find(id))],
  outcomes: ["turn", (id) => Cluster.Cluster.use(({ outcomes }) => Effect.map(outcomes([id]), ({ size }) => size))],
  suspended: ["asks", (id) => Cluster.Cluster.use(({ suspended }) => Effect.map(suspended([id]), ({ size }) => size))],
  cancel: ["waits", (id) => Cluster.cancel(id)],
  steer: ["waits", (id) => Cluster.steer(`of-${id}`, "Stop.")],
  resume: ["asks", (id) => Cluster.Cluster.use(({ resume }) => resume(id))],
  retry: ["fails", (id) => Cluster.retry(id)],
  answer: ["asks", (id) => Cluster.answer({ run: id, answers: [] })],
  questions: ["asks", (id) => Cluster.questions(id)],
  watch: ["turn", (id) => Stream.runCollect(Cluster.watch(id))]
} satisfies Record<
  string,
  readonly [
    run: string,
    use: (
      id: string
    ) => Effect.Effect<unknown, unknown, Effect.Services<ReturnType<typeof Cluster.answer>> | WatchNeeds>
  ]
>
type WatchNeeds = Stream.Services<ReturnType<typeof Cluster.watch>>

const observe = <R>(use: Effect.Effect<unknown, unknown, R>, id: string) =>
  Effect.map(Effect.exit(use), (exit) => JSON.stringify(exit).replaceAll(id, "ID"))

/** Submits a run of each kind for acme, and waits until they have begun. */
const prepare = Effect.gen(function* () {
  const cluster = yield* Cluster.Cluster
  yield* Effect.gen(function* () {
    yield* Cluster.submit(Cluster.makeTurnRequest({ id: "turn", sessionId: "of-turn", prompt: "Reply exactly hello" }))
    for (const kind of ["fails", "asks"]) yield* Cluster.submit(makeRequest(kind, kind))
    yield* Cluster.waitForOutcomes(["turn", "fails"])
    const batch = "acme's batch"
    yield* Cluster.submit(Cluster.makeTurnRequest({ id: "waits", sessionId: "of-waits", prompt: "Wait", batch }))
  }).pipe(runAs("acme"))
  const isReady = Effect.gen(function* () {
    return (yield* cluster.find("waits"))?.state === "running" && (yield* cluster.suspended(["asks"])).size === 1
  })
  while (!(yield* isReady)) yield* Effect.sleep("20 millis")
  return cluster
})

for (const kind of ["sqlite", "postgres"] as const) {
  describe.skipIf(kind === "postgres" && missing !== undefined)(`the runs of a tenant in ${kind}`, () => {
    it.live("do not exist for another tenant", () =>
      Effect.gen(function* () {
        const cluster = yield* prepare
        for (const [name, [id, use]] of Object.entries(operations)) {
          const foreign = yield* observe(runAs("zeta")(use(id)), id)
          const absent = `${id}-absent`
          assert.strictEqual(foreign, yield* observe(runAs("zeta")(use(absent)), absent), name)
          assert.notInclude(foreign, "of acme", name)
        }
        assert.deepStrictEqual(yield* runAs("zeta")(cluster.counts), [])
        assert.deepStrictEqual(yield* runAs("zeta")(cluster.failures(10)), [])
        assert.strictEqual(yield* runAs("zeta")(cluster.removeTenant("acme")), 0)
        // The outcome of a run is not returned to a submission of another tenant.
        const taken = yield* Effect.flip(runAs("zeta")(Cluster.submit(makeRequest("fails", "fails"))))
        assert.include(taken.message, "choose ids that cannot be guessed")
        const other = { ...makeRequest("other", "fails"), tenant: "acme" }
        assert.strictEqual(
          (yield* Effect.flip(runAs("zeta")(Cluster.submit(other)))).message,
          "there is no tenant acme"
        )
        // Nothing has changed.
        for (const tenant of ["acme", undefined]) {
          yield* Effect.gen(function* () {
            const found = yield* Effect.forEach(["turn", "waits", "fails", "asks"], cluster.find)
            assert.deepStrictEqual(
              // A suspended run without questions is tried again now and then.
              found.map((run) => [run?.tenant, run?.state === "done"]),
              [
                ["acme", true],
                ["acme", false],
                ["acme", true],
                ["acme", false]
              ]
            )
            assert.strictEqual((yield* cluster.outcomes(["turn", "fails"])).size, 2)
            assert.strictEqual((yield* cluster.failures(10))[0]?.message, "of acme")
            assert.strictEqual(yield* Cluster.steer("of-waits", "Go on."), "waits")
            assert.strictEqual((yield* cluster.counts).length, 2)
            const entries = yield* Stream.runCollect(Cluster.watch("turn"))
            assert.isAbove(entries.length, 0)
          }).pipe(runAs(tenant))
        }
        assert.isTrue(yield* runAs("acme")(Cluster.cancel("waits")))
      }).pipe(
        Effect.provide(Layer.unwrap(Effect.map(temporaryDirectory, (path) => makeWorld(kind, path)))),
        Effect.scoped,
        Effect.provide(NodeServices.layer)
      )
    )

    it.live("are stopped and removed with the tenant, and no others", () =>
      Effect.gen(function* () {
        const cluster = yield* prepare
        yield* runAs("zeta")(Cluster.submit(makeRequest("of-zeta", "fails")))
        yield* Cluster.submit(makeRequest("of-owner", "fails", "session-of-acme"))
        yield* Cluster.submit(makeRequest("own", "fails", "of-zeta"))
        yield* Cluster.waitForOutcomes(["of-zeta", "of-owner", "own"])
        // In the work for a tenant, its removal cannot name the sessions of others.
        assert.strictEqual(yield* runAs("nobody")(cluster.removeTenant("nobody", ["session-of-acme", "of-zeta"])), 0)
        const removeAll = cluster.removeTenant("acme", ["session-of-acme", "of-zeta-absent"])
        // A running run is asked to stop first.
        let removed = yield* Effect.result(removeAll)
        while (removed._tag === "Failure") {
          assert.include(removed.failure.message, "asked to stop")
          yield* Effect.sleep("50 millis")
          removed = yield* Effect.result(removeAll)
        }
        assert.strictEqual(removed.success, 5)
        assert.strictEqual(yield* removeAll, 0)
        assert.isUndefined(yield* cluster.find("of-owner"))
        assert.isDefined(yield* cluster.find("own"))
        assert.deepStrictEqual(yield* Effect.forEach(["turn", "waits", "fails", "asks"], cluster.find), [
          undefined,
          undefined,
          undefined,
          undefined
        ])
        assert.strictEqual((yield* cluster.find("of-zeta"))?.tenant, "zeta")
      }).pipe(
        Effect.provide(Layer.unwrap(Effect.map(temporaryDirectory, (path) => makeWorld(kind, path)))),
        Effect.scoped,
        Effect.provide(NodeServices.layer)
      )
    )
  })
}
