// A store that fails now and then: each operation of the port, by rate and seed, and what becomes of runs over it.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../../src/agent/Agent.ts"
import * as Conversation from "../../../src/base/domain/Conversation.ts"
import { SessionId } from "../../../src/base/domain/Ids.ts"
import * as Usage from "../../../src/base/domain/Usage.ts"
import * as Scripted from "../../../src/models/provider/Scripted.ts"
import * as Runtime from "../../../src/program/Runtime.ts"
import * as SessionStore from "../../../src/store/SessionStore.ts"
import * as Chaos from "../../../src/kit/testing/Chaos.ts"
import * as SessionSamples from "../../../src/kit/testing/SessionSamples.ts"
import * as Toolset from "../../../src/tools/Toolset.ts"

const id = SessionId.make("s")
const next = {
  id: SessionId.make("next"),
  provider: "p",
  model: "m",
  systemPrompt: "",
  messages: [],
  endReason: "compacted"
}

type Store = SessionStore.Service

/** Each operation once, on a session that is there. */
const operations: Readonly<
  Record<Chaos.StoreOperation, (store: Store) => Effect.Effect<unknown, unknown, Scope.Scope>>
> = {
  acquire: (store) => store.acquire(id),
  answerQuestions: (store) =>
    store.answerQuestions(id, [{ questionId: "q", answer: "yes", by: undefined, answeredAt: 1 }]),
  append: (store) => store.append(id, [SessionSamples.makeUserMessage("Hello?")]),
  begin: (store) => store.begin(id, ["c1"]),
  begun: (store) => store.begun(id),
  closeQuestions: (store) => store.closeQuestions(id, ["c1"], "withdrawn"),
  committed: (store) => store.committed ?? Effect.void,
  continueIn: (store) => store.continueIn(id, next),
  create: (store) => store.create(SessionSamples.makeNewSession("another")),
  end: (store) => store.end(id, "text_response"),
  get: (store) => store.get(id),
  list: (store) => store.list(),
  listQuestions: (store) => store.listQuestions({ sessionId: id }),
  listSteps: (store) => store.listSteps(id),
  messages: (store) => store.messages(id),
  newest: (store) => store.newest(id),
  readable: (store) => store.readable(id),
  recordUsage: (store) =>
    store.recordUsage(id, {
      provider: "p",
      model: "m",
      usage: Usage.zero,
      cost: { usd: 1, status: "included", source: "none" }
    }),
  remove: (store) => store.remove(id),
  rename: (store) => store.rename(id, "Title"),
  resolve: (store) => store.resolve("s"),
  storeStep: (store) => store.storeStep(id, { callId: "c1", name: "paid", value: 1 }),
  suspend: (store) => store.suspend(id, { questions: [], callIds: [], reason: "suspended" }),
  usageByModel: (store) => store.usageByModel(id)
}
const names = [...Chaos.storeWrites, ...Chaos.storeReads]

/** All that a store in memory has of its sessions. */
const stateOf = (store: Store) =>
  Effect.gen(function* () {
    const sessions = yield* store.list({ limit: 100 })
    return {
      sessions,
      messages: yield* store.messages(id),
      begun: yield* store.begun(id),
      usage: yield* store.usageByModel(id),
      newest: yield* store.newest(id)
    }
  })

describe("a store that fails now and then", () => {
  it("knows each operation of the port", () =>
    assert.deepStrictEqual(names.toSorted(), Object.keys(operations).toSorted()))

  for (const name of names.filter((one) => one !== "committed")) {
    it.effect(`${name} fails with its name, and has done nothing; the others do not fail`, () =>
      Effect.gen(function* () {
        const inner = yield* SessionStore.SessionStore
        yield* inner.create(SessionSamples.makeNewSession("s"))
        const chaotic = yield* Layer.build(
          Chaos.layerStore(
            Layer.succeed(SessionStore.SessionStore, inner),
            Chaos.make({ seed: 1, rates: { failed: 1 } }),
            [name]
          )
        )
        const store = yield* Effect.provideContext(SessionStore.SessionStore, chaotic)
        const before = yield* stateOf(inner)
        const error = yield* Effect.flip(operations[name](store))
        assert.deepInclude(error, {
          _tag: "SessionStoreError",
          operation: name,
          message: `${name} failed, as this test wants it`
        })
        assert.deepStrictEqual(yield* stateOf(inner), before)
        // The session is removed last.
        for (const other of [...names.filter((one) => one !== "remove"), "remove"] as const)
          if (other !== name) yield* operations[other](store)
      }).pipe(Effect.scoped, Effect.provide(SessionStore.layerMemory))
    )
  }

  it.effect("fails at the same places for the same seed, at the rate that it is given", () =>
    Effect.gen(function* () {
      const played = (seed: number) =>
        Effect.forEach(Array.from({ length: 200 }), () =>
          Effect.isSuccess(SessionStore.SessionStore.use((store) => store.list()))
        ).pipe(
          Effect.provide(Chaos.layerStore(SessionStore.layerMemory, Chaos.make({ seed, rates: { failed: 0.25 } })))
        )
      const [first, again, other] = [yield* played(1), yield* played(1), yield* played(2)]
      assert.deepStrictEqual(first, again)
      assert.notDeepEqual(first, other)
      const failed = first.filter((isSuccess) => !isSuccess).length
      assert.isTrue(failed > 30 && failed < 70, String(failed))
    })
  )

  it.live("ends runs in a result or a failure of the store, with a session that can be gone on with", () =>
    Effect.gen(function* () {
      const Note = Tool.make("note", { description: "Takes a note", success: Schema.String })
      const toolkit = Toolkit.make(Note)
      const notes = Toolset.make("notes", toolkit, toolkit.toLayer({ note: () => Effect.succeed("noted") }))
      const ends = new Map<string, number>()
      for (let seed = 1; seed <= 60; seed++) {
        const kept = Layer.succeedContext(yield* Layer.build(Layer.fresh(SessionStore.layerMemory)))
        const runWith = (store: typeof SessionStore.layerMemory) =>
          Agent.run({ prompt: "Note it.", sessionId: "s" }).pipe(
            Effect.provide(
              Runtime.layer({
                provider: Scripted.layer([
                  Scripted.complete({ toolCalls: [{ name: "note", params: {} }] }),
                  Scripted.complete("Noted.")
                ]),
                tools: [notes],
                store
              })
            ),
            Effect.exit
          )
        const exit = yield* runWith(Chaos.layerStore(kept, Chaos.make({ seed, rates: { failed: 0.15 } })))
        const end = Exit.isSuccess(exit)
          ? exit.value.exit
          : exit.cause.reasons.map((reason) => (reason._tag === "Fail" ? reason.error._tag : reason._tag)).join()
        ends.set(end, (ends.get(end) ?? 0) + 1)
        assert.include(["text_response", "SessionStoreError"], end, `seed ${seed}`)
        const after = yield* runWith(kept)
        assert.isTrue(Exit.isSuccess(after) && after.value.text === "Noted.", `seed ${seed}`)
        const messages = yield* SessionStore.SessionStore.use((store) => store.messages(id)).pipe(Effect.provide(kept))
        assert.deepStrictEqual(Conversation.closeOpenCalls(messages), messages, `seed ${seed}`)
      }
      assert.strictEqual(ends.size, 2, JSON.stringify([...ends]))
    }).pipe(Effect.scoped, Effect.provide(Logger.layer([])))
  )
})
