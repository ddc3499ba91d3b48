// Messages and ends of runs that cross: a notification before the listener, a failure of a runner that another one has
// replaced, a cancelled run that pauses, and a session that is compacted while it is watched.
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import type { SqlError } from "effect/sql/SqlError"
import * as Stream from "effect/Stream"
import { DatabaseSync } from "node:sqlite"
import { SessionId, TurnId } from "../../../src/base/domain/Ids.ts"
import { Offline, RunRecord, Runtime, SessionStore } from "../../../src/index.ts"
import { Cluster } from "../../../src/kit/entry/cluster.ts"
import * as ClusterDatabase from "../../../src/serve/cluster/ClusterDatabase.ts"
import { computeExecutionId } from "../../../src/serve/cluster/RunWorkflow.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"
import { readUntil } from "../../support/waiting.ts"

const finished: Cluster.Outcome = { status: "finished" }
const failed: Cluster.Outcome = { status: "failed", message: "no luck", isPassing: true }

const makeRequest = (id: string, kind: string, sessionId = id, retries = 0): Cluster.Request => ({
  id,
  batch: "crossed",
  kind,
  sessionId,
  retries,
  input: "{}"
})

const setUp = (handlers: Readonly<Record<string, Cluster.Handler>>) =>
  Effect.gen(function* () {
    const directory = yield* temporaryDirectory
    const store = SessionStore.layerSqlite({ path: `${directory}/state.db` })
    const agent = Runtime.layer({ provider: Offline.layer(), store }).pipe(Layer.provideMerge(store))
    const path = `${directory}/cluster.db`
    const query = (sql: string) =>
      Effect.acquireUseRelease(
        Effect.sync(() => new DatabaseSync(path)),
        (database) => Effect.sync(() => database.prepare(sql).all()),
        (database) => Effect.sync(() => database.close())
      )
    return { query, cluster: Cluster.layerSqlite({ path, handlers }).pipe(Layer.provide(agent)) }
  })

describe("a listener", () => {
  it.effect("reads once it listens, because a notification before that is lost", () =>
    Effect.gen(function* () {
      const messages: Array<string> = []
      const read: Array<string> = []
      const listening = yield* Deferred.make<void>()
      const sql = {
        listen: () =>
          Effect.gen(function* () {
            // It is sent while the connection is made.
            messages.push("cancel")
            return yield* Queue.make<string, SqlError>()
          })
      }
      const look = Effect.andThen(
        Effect.sync(() => void read.push(...messages.splice(0))),
        Deferred.succeed(listening, undefined)
      )
      const fiber = yield* Effect.forkChild(ClusterDatabase.listenOn(sql, "channel", look))
      yield* Deferred.await(listening)
      assert.deepStrictEqual(read, ["cancel"])
      yield* Fiber.interrupt(fiber)
    })
  )
})

describe("a run of two runners", () => {
  it.live("does not end by the failure of the one that was replaced", () =>
    Effect.gen(function* () {
      const replaced = yield* Deferred.make<void>()
      let replace: Effect.Effect<void> = Effect.void
      const { cluster, query } = yield* setUp({
        frozen: () =>
          Effect.andThen(
            Effect.suspend(() => replace),
            Effect.as(Deferred.succeed(replaced, undefined), failed)
          )
      })
      replace = Effect.asVoid(query("UPDATE runs SET starts = starts + 1, runner = 'other' WHERE id = 'one'"))
      yield* Effect.gen(function* () {
        yield* Cluster.submit(makeRequest("one", "frozen"))
        yield* Deferred.await(replaced)
        // The time in which the failure would be stored.
        yield* Effect.sleep("700 millis")
        yield* query(
          `UPDATE runs SET state = 'done', outcome = '{"status":"finished"}' WHERE id = 'one' AND state <> 'done'`
        )
        assert.deepStrictEqual((yield* Cluster.waitForOutcomes(["one"])).get("one"), finished)
      }).pipe(Effect.provide(cluster, { local: true }))
    })
  )
})

describe("a cancelled run that pauses between two attempts", () => {
  it.live("does not hold the next turn of its session", () =>
    Effect.gen(function* () {
      const third = yield* Deferred.make<void>()
      const { cluster, query } = yield* setUp({
        flaky: ({ starts }) => Effect.as(starts < 3 ? Effect.void : Deferred.succeed(third, undefined), failed),
        note: () => Effect.succeed(finished)
      })
      yield* Effect.gen(function* () {
        yield* Cluster.submit(makeRequest("first", "flaky", "s", 9))
        yield* Cluster.submit(makeRequest("second", "note", "s"))
        yield* Deferred.await(third)
        yield* readUntil(
          "the first run waits",
          query("SELECT state FROM runs WHERE id = 'first'"),
          ([row]) => row?.["state"] === "waiting"
        )
        assert.isTrue(yield* Cluster.cancel("first"))
        assert.deepStrictEqual((yield* Cluster.waitForOutcomes(["second"])).get("second"), finished)
        const execution = yield* computeExecutionId("first")
        const open = yield* query(
          `SELECT 1 FROM cluster_messages WHERE tag = 'run' AND entity_id = '${execution}' AND NOT EXISTS (
            SELECT 1 FROM cluster_replies WHERE request_id = cluster_messages.id AND payload LIKE '%Complete%')`
        )
        assert.lengthOf(open, 1, "the workflow of the first run is still in its pause")
      }).pipe(Effect.provide(cluster, { local: true }))
    })
  )
})

describe("a run that is watched", () => {
  it.live("has the entries of every session of its conversation, also of those between two looks", () =>
    Effect.gen(function* () {
      const store = yield* SessionStore.SessionStore
      const record = yield* RunRecord.RunRecord
      const ids = ["one", "two", "three"].map((id) => SessionId.make(id))
      const write = (id: SessionId, text: string) =>
        record.append([{ sessionId: id, turnId: TurnId.make("turn"), at: 10, event: { _tag: "Noted", text } }])
      const create = (id: SessionId, continues: SessionId | undefined) =>
        store.create({ id, continues, source: "test", provider: "p", model: "m", systemPrompt: "" })
      const [one, two, three] = ids
      if (one === undefined || two === undefined || three === undefined) return
      yield* create(one, undefined)
      yield* write(one, "a")
      let looks = 0
      const cluster = Layer.mock(Cluster.Cluster, {
        find: (id) =>
          Effect.gen(function* () {
            looks++
            if (looks === 2) {
              // Two compactions between two looks.
              yield* write(one, "b")
              yield* create(two, one)
              yield* write(two, "c")
              yield* create(three, two)
              yield* write(three, "d")
            }
            return {
              id,
              batch: "b",
              sessionId: "one",
              state: looks < 2 ? "running" : "done",
              outcome: undefined,
              tenant: undefined,
              startedAt: 1,
              endedAt: looks < 2 ? undefined : 20,
              retriedAs: undefined,
              starts: 1
            } as const
          }).pipe(Effect.orDie)
      })
      const entries = yield* Effect.provide(Stream.runCollect(Cluster.watch("run")), cluster)
      assert.deepStrictEqual(
        entries.map(({ entry }) => (entry.event._tag === "Noted" ? entry.event.text : entry.event._tag)),
        ["a", "b", "c", "d"]
      )
    }).pipe(
      Effect.provide(
        Layer.unwrap(
          Effect.map(temporaryDirectory, (directory) => SessionStore.layerSqlite({ path: `${directory}/state.db` }))
        )
      )
    )
  )
})
