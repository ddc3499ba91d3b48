// Many sessions, and sessions with many messages: they are read in pieces, between which other fibers run.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import { SessionId } from "../../src/base/domain/Ids.ts"
import * as Json from "../../src/base/domain/Json.ts"
import * as SessionExport from "../../src/store/SessionExport.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import { countTurns } from "../support/otherFiber.ts"
import { makeNewSession, makeUserMessage } from "../support/sessionStoreConformance.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

const id = SessionId.make("s")
const key = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"

const withDatabase = <A, E, R>(body: Effect.Effect<A, E, R | SessionStore.SessionStore>) =>
  Effect.flatMap(temporaryDirectory, (directory) =>
    Effect.provide(body, SessionStore.layerSqlite({ path: `${directory}/state.db` }))
  )

const makeSession = Effect.fnUntraced(function* (messages: ReadonlyArray<Prompt.Message>) {
  const store = yield* SessionStore.SessionStore
  const session = yield* store.create(makeNewSession(id))
  yield* store.append(id, messages)
  return { store, session }
})

const makeName = (index: number): string => `session-${String(index).padStart(5, "0")}`

const makeSessions = Effect.fnUntraced(function* (count: number) {
  const store = yield* SessionStore.SessionStore
  const names = Array.from({ length: count }, (_, index) => makeName(index))
  yield* Effect.forEach(names, (name) => store.create(makeNewSession(SessionId.make(name))), { discard: true })
  return { store, names }
})

describe("a list of many sessions", () => {
  it.live("has all of them in order, and lets other fibers run between its parts", () =>
    withDatabase(
      Effect.gen(function* () {
        const { names, store } = yield* makeSessions(700)
        const [all, turns] = yield* countTurns(store.list({ limit: Number.MAX_SAFE_INTEGER }))
        assert.deepStrictEqual(
          all.map((session) => String(session.id)),
          names.toReversed()
        )
        assert.isAtLeast(turns, 5)
        const newest = yield* store.list({ limit: 300 })
        assert.deepStrictEqual(
          newest.map((session) => String(session.id)),
          names.toReversed().slice(0, 300)
        )
      })
    )
  )
})

describe("a name that no session has", () => {
  it.live("is compared with the names of all sessions, and other fibers run meanwhile", () =>
    withDatabase(
      Effect.gen(function* () {
        const { store } = yield* makeSessions(4_000)
        yield* store.rename(SessionId.make(makeName(7)), "The heron by the river")
        const [found, turns] = yield* countTurns(Effect.flip(store.resolve("The heron by teh rivr")))
        assert.strictEqual(found._tag, "SessionNotFound")
        assert.propertyVal(found, "meant", "The heron by the river")
        assert.isAtLeast(turns, 4)
      })
    )
  )
})

describe("a session of many messages", () => {
  it.live("is read in order, and other fibers run between its parts", () =>
    withDatabase(
      Effect.gen(function* () {
        const texts = Array.from({ length: 1_000 }, (_, index) => `message ${index}`)
        const { store } = yield* makeSession(texts.map(makeUserMessage))
        const expected = texts.map(makeUserMessage)
        const [{ faults, messages }, turns] = yield* countTurns(store.readable(id))
        assert.deepStrictEqual(
          messages.map(({ message }) => message),
          expected
        )
        assert.deepStrictEqual(faults, [])
        assert.isAtLeast(turns, 3)
        assert.deepStrictEqual(yield* store.messages(id, { from: 100, to: 900 }), expected.slice(100, 900))
        assert.deepStrictEqual(yield* store.messages(id), expected)
      })
    )
  )

  it.live("is exported with all its messages, without secrets, and other fibers run meanwhile", () =>
    withDatabase(
      Effect.gen(function* () {
        // More objects than one redaction of the whole session would examine.
        const rows = Array.from({ length: 4_000 }, (_, row) => ({ row, text: row === 0 ? key : "a note" }))
        const call = { name: "read", isFailure: false, providerExecuted: false }
        const result = (index: number) =>
          Prompt.toolMessage({ content: [Prompt.toolResultPart({ ...call, id: `c${index}`, result: rows })] })
        const { session } = yield* makeSession(Array.from({ length: 30 }, (_, index) => result(index)))
        const [exported, turns] = yield* countTurns(SessionExport.readWithRecord(session))
        const text = JSON.stringify(exported)
        assert.lengthOf(Json.readItems(Json.readFields(exported)["messages"]), 30)
        assert.notInclude(text, "limit>")
        assert.notInclude(text, key)
        assert.strictEqual(text.split('{"row":3999,"text":"a note"}').length - 1, 30)
        assert.isAtLeast(turns, 30)
      })
    )
  )
})
