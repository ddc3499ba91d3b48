// Many sessions, and sessions with many messages: they are read in pieces, between which other fibers run.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import { DatabaseSync } from "node:sqlite"
import { SessionId, TurnId } from "../../src/base/domain/Ids.ts"
import * as Json from "../../src/base/domain/Json.ts"
import * as Aggregation from "../../src/observe/studio/Aggregation.ts"
import * as SessionIndex from "../../src/observe/studio/SessionIndex.ts"
import * as SessionQueries from "../../src/observe/studio/SessionQueries.ts"
import { RunRecord } from "../../src/store/RunRecord.ts"
import { SessionActivity } from "../../src/store/SessionActivity.ts"
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

describe("the studio of many sessions", () => {
  it.live("summarizes and adds up all of them, and lets other fibers run meanwhile", () =>
    withDatabase(
      Effect.gen(function* () {
        const { names } = yield* makeSessions(1_500)
        const { refresh } = yield* SessionIndex.make(Effect.succeed(true))
        const [world, turns] = yield* countTurns(refresh)
        assert.deepStrictEqual(Array.from(world.summaries.keys()), names.toReversed())
        // They are read, cleaned and summarized in pieces.
        assert.isAtLeast(turns, 20)
        const found = SessionQueries.find(world, { sort: "title" }, new Set())
        assert.deepStrictEqual(
          found.map(({ id }) => id),
          names
        )
        const [sums, parts] = yield* countTurns(Aggregation.aggregate(world, found, {}))
        assert.strictEqual(sums.sessions, 1_500)
        assert.isAtLeast(parts, 15)
      })
    )
  )

  it.live("counts the messages of a session whose entries are far apart", () =>
    Effect.flatMap(temporaryDirectory, (directory) => {
      const path = `${directory}/state.db`
      const count = Effect.gen(function* () {
        const { spoken } = yield* SessionActivity
        return (yield* spoken({ since: 0, until: Number.MAX_SAFE_INTEGER })).get(id)
      })
      const fill = Effect.gen(function* () {
        yield* makeSession([makeUserMessage("one"), makeUserMessage("two")])
        const { append } = yield* RunRecord
        const entry = { sessionId: id, turnId: TurnId.make("t"), at: 1 }
        yield* append(
          [0, 1].map((position) => ({
            ...entry,
            event: { _tag: "MessageAppended", origin: "user", position, message: makeUserMessage("text") } as const
          }))
        )
        return yield* count
      })
      const withStore = <A, E, R>(body: Effect.Effect<A, E, R>) =>
        Effect.provide(body, SessionStore.layerSqlite({ path }), { local: true })
      return Effect.gen(function* () {
        const expected = { messages: 2, userMessages: 2, skills: [] }
        assert.deepStrictEqual(yield* withStore(fill), expected)
        const database = new DatabaseSync(path)
        database.exec("UPDATE run_record SET id = id + 40000 WHERE position = 1")
        database.close()
        const [counted, turns] = yield* countTurns(withStore(count))
        assert.deepStrictEqual(counted, expected)
        assert.isAtLeast(turns, 3)
      })
    })
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
