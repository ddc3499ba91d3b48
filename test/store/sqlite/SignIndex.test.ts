import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Effect from "effect/Effect"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Schema from "effect/Schema"
import { copyFileSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import { SessionId } from "../../../src/base/domain/Ids.ts"
import { type SearchOptions, SessionSearch } from "../../../src/store/SessionSearch.ts"
import * as SearchQuery from "../../../src/store/SearchQuery.ts"
import { SessionStore, layerMemory } from "../../../src/store/SessionStore.ts"
import * as Database from "../../../src/store/sqlite/Database.ts"
import * as Migrations from "../../../src/store/sqlite/Migrations.ts"
import * as SignIndex from "../../../src/store/sqlite/SignIndex.ts"
import * as SqliteRepair from "../../../src/store/sqlite/SqliteRepair.ts"
import * as SqliteSearch from "../../../src/store/sqlite/SqliteSearch.ts"
import * as SqliteStore from "../../../src/store/sqlite/SqliteStore.ts"
import { makeNewSession, makeUserMessage } from "../../support/sessionStoreConformance.ts"
import { effectProp } from "../../support/property.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const id = SessionId.make("s")

const opened = Effect.fnUntraced(function* (path: string) {
  const database = yield* Database.open(path)
  const store = SqliteStore.make(database)
  const search = SqliteSearch.make(database)
  const places = (query: string, options?: SearchOptions) =>
    Effect.map(search.search(query, { limit: 100, ...options }), (hits) =>
      hits.map(({ messageId, sessionId }) => `${sessionId}:${messageId}`)
    )
  const rows = Effect.map(database.sql<{ readonly id: number }>`SELECT rowid AS id FROM signs_fts`, (all) =>
    all.map((row) => row.id)
  )
  return { database, index: SignIndex.make(database), places, rows, search, store }
})

const file = Effect.map(temporaryDirectory, (directory) => `${directory}/state.db`)

describe("a query in the index of signs", () => {
  const read: ReadonlyArray<readonly [query: string, fts: string | undefined]> = [
    ["会議", '("会 議")'],
    ["会議 OR 会計", '("会 議") OR ("会 計")'],
    ["API仕様 会", '("仕 様" AND "会")'],
    ["サーバー", '("サ ハ")'],
    ["会議 NOT 議会", '("会 議")'],
    ["会議 OR fox", undefined],
    ["fox NOT 会議", undefined]
  ]
  for (const [query, fts] of read) {
    it(`${query} is ${fts ?? "not asked"}`, () => assert.strictEqual(SignIndex.toFts(SearchQuery.parse(query)), fts))
  }
})

describe("the index of signs", () => {
  it.effect("is not written when a message is stored, and has all messages with signs after a search", () =>
    Effect.gen(function* () {
      const { places, rows, store } = yield* opened(yield* file)
      yield* store.create(makeNewSession(id))
      yield* store.append(id, [
        makeUserMessage("plain"),
        makeUserMessage("明日の会議"),
        makeUserMessage("café"),
        makeUserMessage("会計")
      ])
      assert.deepStrictEqual(yield* rows, [])
      assert.deepStrictEqual(yield* places("fox"), [])
      assert.deepStrictEqual(yield* rows, [])
      assert.deepStrictEqual(yield* places("会議"), ["s:1"])
      assert.deepStrictEqual(yield* rows, [2, 4])
      yield* store.append(id, [makeUserMessage("次の会議")])
      assert.deepStrictEqual(yield* places("会議"), ["s:4", "s:1"])
      assert.deepStrictEqual(yield* places("会議", { sort: "oldest" }), ["s:1", "s:4"])
      assert.deepStrictEqual(yield* places("会議", { sort: "oldest", limit: 1 }), ["s:1"])
    })
  )

  it.effect("fills in steps: what it does not have yet is scanned", () =>
    Effect.gen(function* () {
      const { database, index, places, rows, store } = yield* opened(yield* file)
      yield* store.create(makeNewSession(id))
      // More than one transaction adds.
      yield* store.append(
        id,
        Array.from({ length: 1_100 }, (_, n) => makeUserMessage(n % 550 === 0 ? "会議の記録" : "の"))
      )
      yield* index.fill(1)
      assert.lengthOf(yield* rows, 1_000)
      yield* database.sql`PRAGMA query_only = 1`
      assert.deepStrictEqual(yield* places("会議"), ["s:550", "s:0"])
      yield* database.sql`UPDATE messages SET content = '会議' WHERE position = 1050`.pipe(Effect.flip)
      yield* database.sql`PRAGMA query_only = 0`
      assert.deepStrictEqual(yield* places("会議", { sort: "oldest" }), ["s:0", "s:550"])
      assert.lengthOf(yield* rows, 1_100)
    })
  )

  it.effect("a file that another process writes to is scanned, and not waited for", () =>
    Effect.gen(function* () {
      const path = yield* file
      const { places, rows, store } = yield* opened(path)
      yield* store.create(makeNewSession(id))
      yield* store.append(id, [makeUserMessage("会議")])
      const other = yield* Effect.acquireRelease(
        Effect.sync(() => new DatabaseSync(path)),
        (database) => Effect.sync(() => database.close())
      )
      other.exec("BEGIN IMMEDIATE")
      // The clock of the test stands still: a write of a session would wait for it.
      assert.deepStrictEqual(yield* places("会議"), ["s:0"])
      other.exec("COMMIT")
      assert.deepStrictEqual(yield* rows, [])
      assert.deepStrictEqual(yield* places("会議"), ["s:0"])
      assert.deepStrictEqual(yield* rows, [1])
    })
  )

  it.effect("a file that can only be read is scanned", () =>
    Effect.gen(function* () {
      const path = yield* file
      yield* Effect.scoped(
        Effect.gen(function* () {
          const { store } = yield* opened(path)
          yield* store.create(makeNewSession(id))
          yield* store.append(id, [makeUserMessage("会議")])
        })
      )
      const copy = `${path}.newer`
      yield* Effect.scoped(
        Effect.gen(function* () {
          const { sql } = yield* Database.open(path)
          yield* sql`INSERT INTO schema_version (version, name, applied_at) VALUES (99, 'later', 1)`
        })
      )
      copyFileSync(path, copy)
      const { search } = yield* SqliteStore.open(copy, true)
      assert.lengthOf(yield* search.search("会議"), 1)
    })
  )

  it.effect("messages of an older schema are found", () =>
    Effect.gen(function* () {
      const path = yield* file
      yield* Effect.scoped(
        Effect.gen(function* () {
          const { sql } = yield* Database.open(path, Migrations.migrations.slice(0, 6))
          yield* sql`INSERT INTO sessions (id, source, provider, model, started_at, updated_at, system_prompt) VALUES (${id}, 'cli', 'p', 'm', 1, 1, '')`
          yield* sql`INSERT INTO messages (session_id, position, role, created_at, content, tool_name, tool_calls, envelope)
          VALUES (${id}, 0, 'user', 1, 'ab 会議', '', '', '')`
        })
      )
      assert.deepStrictEqual(yield* (yield* opened(path)).places("会議"), ["s:0"])
    })
  )

  it.effect("a repair leaves it right", () =>
    Effect.gen(function* () {
      const path = yield* file
      yield* Effect.scoped(
        Effect.gen(function* () {
          const { places, store } = yield* opened(path)
          yield* store.create(makeNewSession(id))
          yield* store.append(id, [makeUserMessage("会議"), makeUserMessage("会計")])
          assert.deepStrictEqual(yield* places("会議"), ["s:0"])
        })
      )
      const rows = new DatabaseSync(path, { defensive: false })
      rows.exec("UPDATE signs_fts_data SET block = zeroblob(8) WHERE id > 10")
      rows.close()
      const { done } = yield* Effect.provide(SqliteRepair.repair(path, { checkOnly: false }), NodeServices.layer)
      assert.deepStrictEqual(done, ["built the search index anew"])
      const repaired = yield* opened(path)
      assert.deepStrictEqual(yield* repaired.rows, [])
      assert.deepStrictEqual(yield* repaired.places("会議"), ["s:0"])
    })
  )
})

const Text = Schema.Literals([
  "会議",
  "議会 の",
  "会、議",
  "APIの仕様",
  "サーバー",
  "ก็",
  "กั",
  "가나",
  "plain words",
  "会 a 議",
  "𠮷野家",
  "words of a fox"
])
const Action = Schema.Union([
  Schema.Struct({ do: Schema.Literal("append"), session: Schema.Literals(["a", "b", "c"]), text: Text }),
  Schema.Struct({ do: Schema.Literal("remove"), session: Schema.Literals(["a", "b", "c"]) }),
  Schema.Struct({
    do: Schema.Literal("search"),
    query: Schema.Literals([
      "会議",
      "会",
      "API仕様",
      "の仕様",
      "サーバ",
      "ก็",
      "가나",
      "吉野",
      "𠮷野",
      "会議 OR 가",
      "会 NOT 議会",
      "の*",
      "fox",
      "words NOT fox",
      "pla* OR fox"
    ])
  })
])

effectProp(
  "whatever was stored and removed before, a search finds what a store without an index finds",
  { actions: Arbitrary.array(Arbitrary.schema(Action), { minLength: 4, maxLength: 24 }) },
  ({ actions }) =>
    Effect.scoped(
      Effect.gen(function* () {
        const sqlite = yield* opened(yield* file)
        const memory = yield* Effect.all({ store: SessionStore, search: SessionSearch })
        const there = new Set<string>()
        for (const action of actions) {
          if (action.do === "search") {
            const expected = yield* memory.search.search(action.query, { limit: 100 })
            assert.sameMembers(
              [...(yield* sqlite.places(action.query))],
              expected.map(({ messageId, sessionId }) => `${sessionId}:${messageId}`),
              action.query
            )
            continue
          }
          const session = SessionId.make(action.session)
          for (const { store } of [sqlite, memory]) {
            if (action.do === "append") {
              if (!there.has(session)) yield* store.create(makeNewSession(session))
              yield* store.append(session, [makeUserMessage(action.text)])
            } else if (there.has(session)) yield* store.remove(session)
          }
          if (action.do === "append") there.add(session)
          else there.delete(session)
        }
      })
    ).pipe(Effect.provide(layerMemory, { local: true })),
  { arbitrary: { runs: 30 } }
)
