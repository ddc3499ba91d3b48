// The index of words is filled by those who search: nothing is found late, twice or not at all.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { copyFileSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import { SessionId } from "../../../src/base/domain/Ids.ts"
import type { SearchOptions } from "../../../src/store/SessionSearch.ts"
import * as Database from "../../../src/store/sqlite/Database.ts"
import * as MessageIndex from "../../../src/store/sqlite/MessageIndex.ts"
import * as SqliteMaintenance from "../../../src/store/sqlite/SqliteMaintenance.ts"
import * as SqliteRepair from "../../../src/store/sqlite/SqliteRepair.ts"
import * as SqliteSearch from "../../../src/store/sqlite/SqliteSearch.ts"
import * as SqliteStore from "../../../src/store/sqlite/SqliteStore.ts"
import { makeNewSession, makeUserMessage } from "../../support/sessionStoreConformance.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const id = SessionId.make("s")
const other = SessionId.make("t")

const file = Effect.map(temporaryDirectory, (directory) => `${directory}/state.db`)

const opened = Effect.fnUntraced(function* (path: string) {
  const database = yield* Database.open(path)
  const store = SqliteStore.make(database)
  const search = SqliteSearch.make(database)
  const places = (query: string, options?: SearchOptions) =>
    Effect.map(search.search(query, { limit: 100, ...options }), (hits) =>
      hits.map(({ messageId, sessionId }) => `${sessionId}:${messageId}`)
    )
  return {
    database,
    maintenance: SqliteMaintenance.make(database, store),
    index: MessageIndex.makeWordIndex(database),
    places,
    store
  }
})

/** Ids of the messages that the index has; fails where it does not fit the messages up to its place. */
const indexed = (path: string) =>
  Effect.sync(() => {
    const rows = new DatabaseSync(path, { defensive: false })
    try {
      const place = Number(rows.prepare("SELECT value FROM state_meta WHERE key = 'words_until'").get()?.["value"])
      const ids = rows
        .prepare("SELECT id FROM messages_fts_docsize ORDER BY id")
        .all()
        .map((row) => Number(row["id"]))
      assert.deepStrictEqual(
        ids,
        rows
          .prepare("SELECT id FROM messages WHERE id <= ? ORDER BY id")
          .all(place)
          .map((row) => Number(row["id"]))
      )
      return ids
    } finally {
      rows.close()
    }
  })

describe("the index of words", () => {
  it.effect("has its place before messages that reuse the ids of removed ones, indexed or not", () =>
    Effect.gen(function* () {
      const path = yield* file
      const { places, store } = yield* opened(path)
      for (const round of [1, 2, 3]) {
        yield* store.create(makeNewSession(id))
        yield* store.append(id, [makeUserMessage(`a fox 会議 ${round}`), makeUserMessage("a hound")])
        assert.deepStrictEqual(yield* places("fox"), ["s:0"])
        assert.deepStrictEqual(yield* places("会議"), ["s:0"])
        // The newest message is not in the index when all are removed.
        yield* store.append(id, [makeUserMessage("late")])
        yield* store.remove(id)
        assert.deepStrictEqual(yield* indexed(path), [])
      }
    })
  )

  it.effect("is not written when a message is stored, and has all messages after a search", () =>
    Effect.gen(function* () {
      const path = yield* file
      const { places, store } = yield* opened(path)
      yield* store.create(makeNewSession(id))
      yield* store.append(id, [makeUserMessage("a fox"), makeUserMessage("a hound")])
      assert.deepStrictEqual(yield* indexed(path), [])
      assert.deepStrictEqual(yield* places("fox"), ["s:0"])
      assert.deepStrictEqual(yield* indexed(path), [1, 2])
      yield* store.append(id, [makeUserMessage("another fox")])
      assert.deepStrictEqual(yield* indexed(path), [1, 2])
      assert.deepStrictEqual(yield* places("fox", { sort: "oldest" }), ["s:0", "s:2"])
      assert.deepStrictEqual(yield* indexed(path), [1, 2, 3])
    })
  )

  it.effect("fills in steps: what it does not have yet is scanned, in every order and with every filter", () =>
    Effect.gen(function* () {
      const path = yield* file
      const { database, index, places, store } = yield* opened(path)
      yield* store.create(makeNewSession(id))
      // More than one transaction adds.
      yield* store.append(
        id,
        Array.from({ length: 1_100 }, (_, n) => makeUserMessage(n % 350 === 0 ? "a fox" : "a hound"))
      )
      yield* store.create(makeNewSession(other))
      yield* store.append(other, [makeUserMessage("the fox")])
      yield* index.fill(1)
      assert.lengthOf(yield* indexed(path), 1_000)
      const searched = Effect.all({
        ranked: places("fox"),
        newest: places("fox", { sort: "newest" }),
        oldest: places("fox", { sort: "oldest" }),
        first: places("fox", { sort: "oldest", limit: 4 }),
        last: places("fox", { sort: "newest", limit: 2 }),
        of: places("fox", { sessionId: other }),
        except: places("fox", { sort: "newest", except: [other] }),
        not: places("fox NOT the", { sort: "oldest" })
      })
      yield* database.sql`PRAGMA query_only = 1`
      const expected = {
        newest: ["t:0", "s:1050", "s:700", "s:350", "s:0"],
        oldest: ["s:0", "s:350", "s:700", "s:1050", "t:0"],
        first: ["s:0", "s:350", "s:700", "s:1050"],
        last: ["t:0", "s:1050"],
        of: ["t:0"],
        except: ["s:1050", "s:700", "s:350", "s:0"],
        not: ["s:0", "s:350", "s:700", "s:1050"]
      }
      const { ranked, ...all } = yield* searched
      yield* database.sql`PRAGMA query_only = 0`
      assert.deepStrictEqual(all, expected)
      assert.sameMembers([...ranked], expected.newest)
      assert.lengthOf(yield* indexed(path), 1_000)
      yield* index.fill()
      assert.lengthOf(yield* indexed(path), 1_101)
      const { ranked: _, ...filled } = yield* searched
      assert.deepStrictEqual(filled, expected)
    })
  )

  it.effect("a file that another process writes to, or that can only be read, is scanned, and not waited for", () =>
    Effect.gen(function* () {
      const path = yield* file
      const { database, places, store } = yield* opened(path)
      yield* store.create(makeNewSession(id))
      yield* store.append(id, [makeUserMessage("a fox")])
      const second = yield* Effect.acquireRelease(
        Effect.sync(() => new DatabaseSync(path)),
        (rows) => Effect.sync(() => rows.close())
      )
      second.exec("BEGIN IMMEDIATE")
      // The clock of the test stands still: a write of a session would wait for it.
      assert.deepStrictEqual(yield* places("fox"), ["s:0"])
      second.exec("COMMIT")
      assert.deepStrictEqual(yield* indexed(path), [])
      yield* database.sql`INSERT INTO schema_version (version, name, applied_at) VALUES (99, 'later', 1)`
      const copy = `${path}.newer`
      yield* database.sql.unsafe("PRAGMA wal_checkpoint(TRUNCATE)").unprepared
      copyFileSync(path, copy)
      const { search } = yield* SqliteStore.open(copy, true)
      assert.lengthOf(yield* search.search("fox"), 1)
    })
  )

  it.effect("a message that is removed is not found, whether the index had it or not, and its id is given again", () =>
    Effect.gen(function* () {
      const path = yield* file
      const { places, store } = yield* opened(path)
      yield* store.create(makeNewSession(id))
      yield* store.append(id, [makeUserMessage("a fox")])
      assert.deepStrictEqual(yield* places("fox"), ["s:0"])
      yield* store.remove(id)
      assert.deepStrictEqual(yield* indexed(path), [])
      yield* store.create(makeNewSession(other))
      yield* store.append(other, [makeUserMessage("a hound")])
      assert.deepStrictEqual(yield* places("fox"), [])
      assert.deepStrictEqual(yield* places("hound"), ["t:0"])
      yield* store.create(makeNewSession(id))
      yield* store.append(id, [makeUserMessage("a late fox")])
      yield* store.remove(other)
      yield* store.remove(id)
      assert.deepStrictEqual(yield* indexed(path), [])
      assert.deepStrictEqual([...(yield* places("fox")), ...(yield* places("hound"))], [])
    })
  )

  it.effect("a text that is changed is found as it is, whether the index had it or not", () =>
    Effect.gen(function* () {
      const path = yield* file
      const { database, places, store } = yield* opened(path)
      yield* store.create(makeNewSession(id))
      yield* store.append(id, [makeUserMessage("a fox")])
      yield* places("fox")
      yield* store.append(id, [makeUserMessage("a fox")])
      yield* database.sql`UPDATE messages SET content = 'a hound'`
      assert.deepStrictEqual(yield* indexed(path), [1])
      assert.deepStrictEqual(yield* places("fox"), [])
      assert.deepStrictEqual(yield* places("hound", { sort: "oldest" }), ["s:0", "s:1"])
    })
  )

  it.effect("care of the database fills it; a check that finds it unfilled finds nothing wrong and adds nothing", () =>
    Effect.gen(function* () {
      const path = yield* file
      const { maintenance, store } = yield* opened(path)
      yield* store.create(makeNewSession(id))
      yield* store.append(id, [makeUserMessage("a fox"), makeUserMessage("a hound")])
      for (const checkOnly of [true, false]) {
        assert.deepInclude(yield* Effect.provide(SqliteRepair.repair(path, { checkOnly }), NodeServices.layer), {
          problems: [],
          done: []
        })
        assert.deepStrictEqual(yield* indexed(path), [])
      }
      yield* maintenance.optimize
      assert.deepStrictEqual(yield* indexed(path), [1, 2])
    })
  )
})
