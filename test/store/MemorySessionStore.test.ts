import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as TestClock from "effect/testing/TestClock"
import { SessionId } from "../../src/base/domain/Ids.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import { makeNewSession, suite, makeUserMessage } from "../support/sessionStoreConformance.ts"
import { withWarnings } from "../support/middlewareContexts.ts"

suite("MemorySessionStore", SessionStore.layerMemory)

it.effect("keeps the message objects themselves", () =>
  Effect.gen(function* () {
    const store = yield* SessionStore.SessionStore
    const message = makeUserMessage("hi")
    yield* store.create(makeNewSession("s"))
    yield* store.append(SessionId.make("s"), [message])
    assert.strictEqual((yield* store.messages(SessionId.make("s")))[0], message)
  }).pipe(Effect.provide(SessionStore.layerMemory))
)

const ids = (...names: ReadonlyArray<string>) => names.map((name) => SessionId.make(name))

/** Names of the sessions that are kept, the newest first. */
const keptSessions = Effect.map(
  SessionStore.SessionStore.use((store) => store.list({ limit: 100 })),
  (sessions) => sessions.map(({ id }) => id)
)

it.effect("drops the conversation that was used least recently, and warns once", () =>
  Effect.gen(function* () {
    const store = yield* SessionStore.SessionStore
    const { warnings } = yield* withWarnings(
      Effect.gen(function* () {
        for (const id of ["a", "b", "c"]) yield* store.create(makeNewSession(id))
        yield* store.append(SessionId.make("a"), [makeUserMessage("still here")])
        for (const id of ["d", "e"]) yield* store.create(makeNewSession(id))
      })
    )
    assert.deepStrictEqual(yield* keptSessions, ids("e", "d", "a"))
    assert.lengthOf(warnings, 1)
    assert.include(warnings[0], "SessionStore.layerSqlite")
    assert.isTrue(Option.isNone(yield* store.get(SessionId.make("b"))))
  }).pipe(Effect.provide(SessionStore.layerMemoryWith({ sessions: 3 })))
)

it.effect("keeps a conversation as a whole: its continuation keeps the sessions before it", () =>
  Effect.gen(function* () {
    const store = yield* SessionStore.SessionStore
    yield* store.create(makeNewSession("first"))
    yield* store.create(makeNewSession("other"))
    yield* store.continueIn(SessionId.make("first"), {
      ...makeNewSession("second"),
      id: SessionId.make("second"),
      endReason: "compression",
      messages: [makeUserMessage("summary")]
    })
    yield* store.create(makeNewSession("new"))
    assert.sameMembers(Array.from(yield* keptSessions), ids("first", "second", "new"))
    assert.strictEqual(yield* store.newest(SessionId.make("first")), "second")
  }).pipe(Effect.provide(SessionStore.layerMemoryWith({ sessions: 3 })))
)

it.effect("never drops the session of a run that goes on", () =>
  Effect.scoped(
    Effect.gen(function* () {
      const store = yield* SessionStore.SessionStore
      yield* store.create(makeNewSession("owned"))
      yield* store.acquire(SessionId.make("owned"))
      for (const id of ["a", "b", "c"]) yield* store.create(makeNewSession(id))
      assert.deepStrictEqual(yield* keptSessions, ids("c", "owned"))
    })
  ).pipe(Effect.provide(SessionStore.layerMemoryWith({ sessions: 2 })))
)

it.effect("is bounded by the size of its messages, and keeps the one that is written", () =>
  Effect.gen(function* () {
    const store = yield* SessionStore.SessionStore
    for (let n = 0; n < 50; n++) {
      const id = SessionId.make(`s${n}`)
      yield* store.create(makeNewSession(id))
      yield* store.append(id, [makeUserMessage("x".repeat(100_000))])
    }
    assert.deepStrictEqual(yield* keptSessions, ids("s49", "s48", "s47", "s46"))
    yield* store.append(SessionId.make("s46"), [makeUserMessage("y".repeat(2_000_000))])
    assert.deepStrictEqual(yield* keptSessions, ids("s46"))
  }).pipe(Effect.provide(SessionStore.layerMemoryWith({ characters: 450_000 })))
)

it.effect("counts a session that is removed no more", () =>
  Effect.gen(function* () {
    const store = yield* SessionStore.SessionStore
    for (const id of ids("a", "b")) {
      yield* store.create(makeNewSession(id))
      yield* store.append(id, [makeUserMessage("x".repeat(1000))])
    }
    yield* store.remove(SessionId.make("b"))
    yield* store.create(makeNewSession("c"))
    assert.deepStrictEqual(yield* keptSessions, ids("c", "a"))
  }).pipe(Effect.provide(SessionStore.layerMemoryWith({ sessions: 2, characters: 3000 })))
)

it.effect("counts the idle time of a conversation from the end of its last run", () =>
  Effect.gen(function* () {
    const store = yield* SessionStore.SessionStore
    yield* store.create(makeNewSession("long"))
    yield* Effect.scoped(Effect.andThen(store.acquire(SessionId.make("long")), TestClock.adjust("2 hours")))
    yield* store.create(makeNewSession("other"))
    assert.deepStrictEqual(yield* keptSessions, ids("other", "long"))
    yield* TestClock.adjust("61 minutes")
    yield* store.create(makeNewSession("last"))
    assert.deepStrictEqual(yield* keptSessions, ids("last"))
  }).pipe(Effect.provide(SessionStore.layerMemoryWith({ idleMillis: 3_600_000 })))
)

it.effect("drops conversations that were idle for longer than the bound, without a warning", () =>
  Effect.gen(function* () {
    const store = yield* SessionStore.SessionStore
    const { warnings } = yield* withWarnings(
      Effect.gen(function* () {
        for (const id of ["old", "used"]) yield* store.create(makeNewSession(id))
        yield* TestClock.adjust("50 minutes")
        yield* Effect.scoped(store.acquire(SessionId.make("used")))
        yield* TestClock.adjust("50 minutes")
        yield* store.create(makeNewSession("new"))
      })
    )
    assert.deepStrictEqual(yield* keptSessions, ids("new", "used"))
    assert.lengthOf(warnings, 0)
  }).pipe(Effect.provide(SessionStore.layerMemoryWith({ idleMillis: 3_600_000 })))
)

/** Runs without a name, one after the other: each creates a session and a sub-agent of it. */
const useUnnamed = (...names: ReadonlyArray<string>) =>
  SessionStore.SessionStore.use((store) =>
    Effect.forEach(
      ids(...names),
      (id) =>
        Effect.scoped(
          Effect.gen(function* () {
            yield* store.acquire(id)
            yield* store.create({ ...makeNewSession(id), isUnnamed: true })
            yield* store.create({ ...makeNewSession(`${id}-child`), parentId: id })
          })
        ),
      { discard: true }
    )
  )

it.effect("keeps the newest sessions without a name; one that a caller continues is named from then on", () =>
  Effect.gen(function* () {
    const store = yield* SessionStore.SessionStore
    yield* store.create(makeNewSession("named"))
    yield* useUnnamed("a", "b")
    yield* Effect.scoped(store.acquire(SessionId.make("a")))
    yield* useUnnamed("c", "d", "e")
    assert.sameMembers(Array.from(yield* keptSessions), ids("named", "a", "a-child", "d", "d-child", "e", "e-child"))
  }).pipe(Effect.provide(SessionStore.layerMemoryWith({ unnamed: 2 })))
)

it.effect("keeps a session without a name while one of its sub-agents runs", () =>
  Effect.gen(function* () {
    const store = yield* SessionStore.SessionStore
    yield* Effect.scoped(
      Effect.gen(function* () {
        yield* store.acquire(SessionId.make("a-child"))
        yield* useUnnamed("a")
        assert.sameMembers(Array.from(yield* keptSessions), ids("a", "a-child"))
      })
    )
    assert.deepStrictEqual(yield* keptSessions, [])
  }).pipe(Effect.provide(SessionStore.layerMemoryWith({ unnamed: 0 })))
)

it.effect("layerNone keeps no session after its run, named or not", () =>
  Effect.gen(function* () {
    const store = yield* SessionStore.SessionStore
    const id = SessionId.make("named")
    yield* Effect.scoped(
      Effect.gen(function* () {
        yield* store.acquire(id)
        yield* store.create(makeNewSession(id))
        assert.isTrue(Option.isSome(yield* store.get(id)))
      })
    )
    yield* useUnnamed("a")
    assert.deepStrictEqual(yield* keptSessions, [])
  }).pipe(Effect.provide(SessionStore.layerNone))
)
