// Runs that are cancelled, started again and watched from another process than their runner's.
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { Offline, Runtime, SessionStore, Toolset } from "../../../src/index.ts"
import { Cluster } from "../../../src/kit/entry/cluster.ts"
import { Provider } from "../../../src/models/provider/Provider.ts"
import * as ClusterDatabase from "../../../src/serve/cluster/ClusterDatabase.ts"
import * as Inbox from "../../../src/serve/cluster/Inbox.ts"
import * as Fake from "../../support/fakeModel.ts"
import { missing, type Server, startServer } from "../../support/postgresServer.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const finished: Cluster.Outcome = { status: "finished" }
const cancelled: Cluster.Outcome = {
  status: "failed",
  message: "the run was cancelled",
  isPassing: false,
  isCancelled: true
}

const makeRequest = (id: string, kind: string, sessionId = id): Cluster.Request => ({
  id,
  batch: "inbox",
  kind,
  sessionId,
  retries: 0,
  input: "{}"
})

describe("a run of one process", () => {
  it.live("is cancelled while it runs, and the next one of its session starts", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const store = SessionStore.layerSqlite({ path: `${directory}/state.db` })
      const agent = Runtime.layer({ provider: Offline.layer(), store }).pipe(Layer.provideMerge(store))
      const begun = yield* Deferred.make<void>()
      const handlers: Readonly<Record<string, Cluster.Handler>> = {
        hold: ({ cancelled = Effect.never }) =>
          Deferred.succeed(begun, undefined).pipe(Effect.andThen(cancelled), Effect.as(finished)),
        note: () => Effect.succeed(finished)
      }
      yield* Effect.gen(function* () {
        yield* Cluster.submit(makeRequest("first", "hold", "s"))
        yield* Cluster.submit(makeRequest("second", "note", "s"))
        yield* Deferred.await(begun)
        assert.isTrue(yield* Cluster.cancel("first"))
        const outcomes = yield* Cluster.waitForOutcomes(["first", "second"])
        assert.deepStrictEqual(outcomes.get("first"), cancelled)
        assert.deepStrictEqual(outcomes.get("second"), finished)
        assert.isFalse(yield* Cluster.cancel("first"))
        assert.strictEqual((yield* Effect.flip(Cluster.cancel("none"))).message, "there is no run none: check its id")
      }).pipe(
        Effect.provide(Cluster.layerSqlite({ path: `${directory}/cluster.db`, handlers }).pipe(Layer.provide(agent)), {
          local: true
        })
      )
    })
  )
})

describe.skipIf(missing !== undefined)(
  `runs of a cluster, from another process${missing === undefined ? "" : ` (skipped: ${missing})`}`,
  () => {
    let server: Server
    beforeAll(async () => {
      server = await startServer()
    })
    afterAll(() => server.remove())

    const storeAt = (url: string) => SessionStore.layerPostgres({ url: Redacted.make(url), connections: 3 })
    const runnerAt = (url: string, handlers: Readonly<Record<string, Cluster.Handler>> = {}) => {
      const store = storeAt(url)
      const agent = Runtime.layer({ provider: Offline.layer(), store }).pipe(Layer.provideMerge(store))
      return Cluster.layerRunner({ url: Redacted.make(url), concurrency: 2, handlers }).pipe(Layer.provide(agent))
    }
    const clientAt = (url: string) => Cluster.layerClient({ url: Redacted.make(url) })

    it.live("are cancelled, waiting or running; a turn that runs is stopped, and its session continues", () =>
      Effect.gen(function* () {
        const url = server.url("cancel")
        const begun = yield* Deferred.make<void>()
        const toolkit = Toolkit.make(Tool.make("slow", { parameters: Schema.Struct({}), success: Schema.String }))
        const fake = Fake.make(Fake.calls(Fake.call("a", "slow", {})), Fake.text("done"))
        const store = storeAt(url)
        const agent = Runtime.layer({
          provider: Layer.succeed(Provider, fake.provider),
          store,
          tools: [
            Toolset.make(
              "slow",
              toolkit,
              toolkit.toLayer({ slow: () => Effect.andThen(Deferred.succeed(begun, undefined), Effect.never) })
            )
          ]
        }).pipe(Layer.provideMerge(store))
        const runner = Cluster.layerRunner({ url: Redacted.make(url), concurrency: 2 }).pipe(Layer.provide(agent))
        yield* Effect.scoped(
          Effect.gen(function* () {
            yield* Layer.build(runner)
            yield* Effect.gen(function* () {
              for (const id of ["one", "two", "three"])
                yield* Cluster.submit(Cluster.makeTurnRequest({ id, sessionId: "talk", prompt: id }))
              yield* Deferred.await(begun)
              assert.isTrue(yield* Cluster.cancel("two"))
              assert.deepStrictEqual((yield* Cluster.waitForOutcomes(["two"])).get("two"), cancelled)
              assert.isTrue(yield* Cluster.cancel("one"))
              const outcomes = yield* Cluster.waitForOutcomes(["one", "three"])
              assert.deepStrictEqual(outcomes.get("one"), cancelled)
              assert.include(outcomes.get("three")?.output ?? "", '"text":"done"')
            }).pipe(Effect.provide(clientAt(url), { local: true }))
          })
        )
        assert.strictEqual(server.query("SELECT count(*) FROM cancel.inbox"), "0")
      })
    )

    it.live("are cancelled by the next runner if theirs died before it took the message", () =>
      Effect.gen(function* () {
        const url = server.url("died")
        const begun = yield* Deferred.make<void>()
        yield* Effect.scoped(
          Effect.gen(function* () {
            const hold: Cluster.Handler = () => Effect.andThen(Deferred.succeed(begun, undefined), Effect.never)
            const services = yield* Layer.build(runnerAt(url, { hold }))
            yield* Context.get(services, Cluster.Cluster).submit(makeRequest("held", "hold"))
            yield* Deferred.await(begun)
          })
        )
        let runs = 0
        yield* Effect.gen(function* () {
          assert.isTrue(yield* Cluster.cancel("held"))
          assert.strictEqual(server.query("SELECT count(*) FROM died.inbox"), "1")
        }).pipe(Effect.provide(clientAt(url), { local: true }))
        const hold: Cluster.Handler = () =>
          Effect.as(
            Effect.sync(() => runs++),
            finished
          )
        const outcomes = yield* Effect.provide(Cluster.waitForOutcomes(["held"]), runnerAt(url, { hold }), {
          local: true
        })
        assert.deepStrictEqual(outcomes.get("held"), cancelled)
        assert.strictEqual(runs, 0)
        assert.strictEqual(server.query("SELECT count(*) FROM died.inbox"), "0")
      })
    )

    it.live("are started again once after a failure, and watched by a cursor until they are over", () =>
      Effect.gen(function* () {
        const url = server.url("retried")
        let calls = 0
        const flaky: Cluster.Handler = () =>
          Effect.sync(() => (++calls === 1 ? { status: "failed", message: "no luck", isPassing: false } : finished))
        yield* Layer.build(runnerAt(url, { flaky }))
        yield* Effect.gen(function* () {
          yield* Cluster.submit(makeRequest("luck", "flaky"))
          yield* Cluster.waitForOutcomes(["luck"])
          const ids = yield* Effect.all([Effect.result(Cluster.retry("luck")), Effect.result(Cluster.retry("luck"))], {
            concurrency: 2
          })
          assert.isTrue(ids.some((one) => one._tag === "Success" && one.success === "luck~2"))
          assert.deepStrictEqual((yield* Cluster.waitForOutcomes(["luck~2"])).get("luck~2"), finished)
          assert.strictEqual(calls, 2)
          for (const [id, message] of [
            ["luck", "run luck was started again before, as luck~2"],
            ["luck~2", "run luck~2 is finished: only a failed run starts again"]
          ] as const)
            assert.strictEqual((yield* Effect.flip(Cluster.retry(id))).message, message)
          assert.deepStrictEqual(yield* Cluster.Cluster.use(({ failures }) => failures(5)), [])

          yield* Cluster.submit(
            Cluster.makeTurnRequest({ id: "turn", sessionId: "watched", prompt: "Reply exactly hello" })
          )
          const entries = yield* Stream.runCollect(Cluster.watch("turn"))
          const kinds = entries.map(({ entry }) => entry.event._tag)
          assert.deepStrictEqual([kinds[0], kinds.at(-1)], ["RunStarted", "RunEnded"])
          const middle = entries[2]?.sequence ?? assert.fail()
          const rest = yield* Stream.runCollect(Cluster.watch("turn", { after: middle }))
          assert.deepStrictEqual(rest, entries.slice(3))
        }).pipe(Effect.provide(Layer.merge(clientAt(url), storeAt(url)), { local: true }))
      })
    )

    it.live("take each message once and in order; a mark that fails leaves them", () =>
      Effect.gen(function* () {
        const url = server.url("once")
        const send = (body: string) => Inbox.Inbox.use(({ send }) => send({ sessionId: "s", kind: "steer", body }))
        const read = (messages: ReadonlyArray<Inbox.Message>) => Effect.succeed(messages.map(({ body }) => body))
        yield* Effect.gen(function* () {
          const inbox = yield* Inbox.Inbox
          for (let number = 0; number < 5; number++) yield* send(`${number}`)
          assert.strictEqual(
            yield* Effect.flip(inbox.take("s", "steer", () => Effect.fail("no mark" as const))),
            "no mark"
          )
          const taken = yield* Effect.all(
            [1, 2, 3].map(() => inbox.take("s", "steer", read)),
            { concurrency: 3 }
          )
          assert.deepStrictEqual(
            taken.filter((one) => one !== undefined),
            [["0", "1", "2", "3", "4"]]
          )
          assert.deepStrictEqual(yield* inbox.listPending(["s"]), [])
        }).pipe(
          Effect.provide(Inbox.layerPostgres.pipe(Layer.provide(ClusterDatabase.layer(Redacted.make(url), 4)))),
          Effect.scoped
        )
      })
    )
  }
)
