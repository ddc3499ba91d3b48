// What a runtime keeps of its runs: a bounded number of sessions with their record, and nothing that was deleted.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { join } from "node:path"
import * as Agent from "../../src/agent/Agent.ts"
import { createHermes } from "../../src/kit/promise/CreateHermes.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import { RunRecord } from "../../src/store/RunRecord.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

const hello = "Reply exactly hello"

const count = Effect.gen(function* () {
  const { list } = yield* SessionStore.SessionStore
  const { read } = yield* RunRecord
  const entries = yield* Stream.runCollect(read())
  return {
    sessions: (yield* list({ limit: 10_000 })).length,
    recorded: new Set(entries.map(({ sessionId }) => sessionId)).size
  }
})

const runs = (times: number) => Effect.repeat(Agent.run({ prompt: hello }), { times: times - 1 })

describe("a runtime", () => {
  it.live("keeps the sessions of the last hundred runs without a name, and their record", () =>
    Effect.gen(function* () {
      yield* Agent.run({ prompt: hello, sessionId: "named" })
      yield* runs(150)
      assert.deepStrictEqual(yield* count, { sessions: 101, recorded: 101 })
      yield* runs(150)
      assert.deepStrictEqual(yield* count, { sessions: 101, recorded: 101 })
      const { sessionId } = yield* Agent.run({ prompt: hello })
      yield* Agent.run({ prompt: hello, sessionId })
      assert.lengthOf(yield* SessionStore.SessionStore.use((store) => store.messages(sessionId)), 4)
    }).pipe(Effect.provide(Runtime.layer()))
  )

  it.live("with unnamed: 0 a session without a name ends with its run", () =>
    Effect.gen(function* () {
      yield* Agent.run({ prompt: hello, sessionId: "named" })
      yield* runs(20)
      assert.deepStrictEqual(yield* count, { sessions: 1, recorded: 1 })
    }).pipe(Effect.provide(Runtime.layer({ store: SessionStore.layerMemoryWith({ unnamed: 0 }) })))
  )

  it.live("tells listeners the end of sessions that it has dropped or deleted, once each", () =>
    Effect.gen(function* () {
      const ended: Array<string> = []
      const record = RunRecord.use(({ listen }) =>
        listen((entries) => {
          for (const { event, sessionId } of entries) if (event._tag === "SessionEnded") ended.push(sessionId)
        })
      )
      const ran = yield* Effect.scoped(
        Effect.gen(function* () {
          const context = yield* Layer.build(Runtime.layer({ store: SessionStore.layerMemoryWith({ unnamed: 0 }) }))
          return yield* Effect.gen(function* () {
            yield* record
            const agent = yield* Agent.Agent
            yield* Agent.run({ prompt: hello, sessionId: "gone" })
            yield* agent.deleteSession("gone")
            const { sessionId } = yield* Agent.run({ prompt: hello })
            yield* agent.finalize(sessionId, { reason: "session_boundary" })
            assert.deepStrictEqual(yield* count, { sessions: 0, recorded: 0 })
            return ["gone", sessionId]
          }).pipe(Effect.provide(context))
        })
      )
      assert.deepStrictEqual(ended, ran)
    })
  )

  const deletes = Effect.gen(function* () {
    const agent = yield* Agent.Agent
    yield* Agent.run({ prompt: hello, sessionId: "kept" })
    yield* Agent.run({ prompt: hello, sessionId: "gone" })
    assert.isTrue(yield* agent.deleteSession("gone"))
    assert.isFalse(yield* agent.deleteSession("gone"))
    assert.isFalse(yield* agent.deleteSession("never"))
    assert.deepStrictEqual(yield* count, { sessions: 1, recorded: 1 })
    const { messages } = yield* SessionStore.SessionStore
    yield* Agent.run({ prompt: hello, sessionId: "gone" })
    assert.lengthOf(yield* messages((yield* Agent.run({ prompt: hello, sessionId: "gone" })).sessionId), 4)
  })

  it.live("deletes a session with its record: in memory", () => Effect.provide(deletes, Runtime.layer()))

  it.live("deletes a session with its record: in SQLite", () =>
    Effect.flatMap(temporaryDirectory, (folder) =>
      Effect.provide(deletes, Runtime.layer({ store: SessionStore.layerSqlite({ path: join(folder, "state.db") }) }))
    )
  )
})

describe("createHermes", () => {
  /** True if the second run of a session sees the first one. */
  const remembers = async (
    store: Parameters<typeof createHermes>[0]["store"],
    sessionId: string | undefined
  ): Promise<boolean> => {
    await using hermes = createHermes({ model: "offline", store })
    const first = await hermes.run({ prompt: hello, sessionId })
    return await hermes.deleteSession(first.sessionId)
  }

  it("keeps sessions with a name; a session without one ends with its run, unless the store is memory", async () => {
    assert.isTrue(await remembers(undefined, "s"))
    assert.isFalse(await remembers(undefined, undefined))
    assert.isTrue(await remembers("memory", undefined))
    assert.isFalse(await remembers("none", "s"))
  })

  it("does not delete a session while it runs", async () => {
    await using hermes = createHermes({ model: "offline" })
    const deleted: Array<unknown> = []
    await hermes.run({
      prompt: hello,
      sessionId: "s",
      onEvent: async ({ _tag }) => {
        if (_tag === "StepStarted")
          deleted.push(await hermes.deleteSession("s").catch((error: { readonly tag: string }) => error.tag))
      }
    })
    assert.deepStrictEqual(deleted, ["SessionBusy"])
    assert.isTrue(await hermes.deleteSession("s"))
  })
})
