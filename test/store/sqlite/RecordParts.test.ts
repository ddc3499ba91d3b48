// The entries of a session are found without an index of all rows, and go with their session however it is removed.
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import { DatabaseSync } from "node:sqlite"
import { SessionId, TurnId } from "../../../src/base/domain/Ids.ts"
import type * as RecordEvent from "../../../src/base/domain/RecordEvent.ts"
import * as SqliteStore from "../../../src/store/sqlite/SqliteStore.ts"
import { makeNewSession, makeUserMessage } from "../../support/sessionStoreConformance.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const [a, b] = [SessionId.make("a"), SessionId.make("b")]

const entry = (sessionId: SessionId, message: string): RecordEvent.Entry => ({
  sessionId,
  turnId: TurnId.make("t"),
  at: 1,
  event: { _tag: "Notice", level: "info", message }
})

/** Two sessions with so many entries each, which alternate in groups of a few. */
const filled = (entries: number) =>
  Effect.gen(function* () {
    const path = `${yield* temporaryDirectory}/state.db`
    const backend = yield* SqliteStore.open(path)
    const { record, store } = backend
    for (const id of [a, b]) {
      yield* store.create(makeNewSession(id))
      yield* store.append(id, [makeUserMessage("hello")])
      yield* store.end(id, "done")
    }
    for (let from = 0; from < entries; from += 3)
      for (const id of [a, b])
        yield* record.keep([0, 1, 2].map((index) => entry(id, `${id} ${from + index}`)).slice(0, entries - from))
    const texts = (sessionId: SessionId, since = 0) =>
      Effect.map(Stream.runCollect(record.since(since, { sessionId })), (found) =>
        found.map(({ entry: { event } }) => (event._tag === "Notice" ? event.message : event._tag))
      )
    const query = (text: string): ReadonlyArray<Record<string, unknown>> => {
      const rows = new DatabaseSync(path)
      try {
        return rows.prepare(text).all()
      } finally {
        rows.close()
      }
    }
    return { ...backend, path, texts, query }
  })

const countLeft = `SELECT session_id AS id, count(*) AS entries FROM run_record GROUP BY session_id
  UNION ALL SELECT session_id, 0 FROM record_parts GROUP BY session_id ORDER BY 1, 2`

describe("the record of a session", () => {
  it.effect("is read in its order over many parts, whole and from an entry on", () =>
    Effect.gen(function* () {
      const { query, texts } = yield* filled(700)
      const all = Array.from({ length: 700 }, (_, index) => `a ${index}`)
      assert.deepStrictEqual(yield* texts(a), all)
      const [row] = query("SELECT id FROM run_record WHERE session_id = 'a' AND body LIKE '%\"a 400\"%'")
      assert.deepStrictEqual(yield* texts(a, Number(row?.["id"])), all.slice(401))
      assert.lengthOf(query("SELECT * FROM record_parts WHERE session_id = 'a'"), 6)
    }).pipe(Effect.scoped)
  )

  it.effect("goes with the session, by removal, by retention and by a backup that replaces all", () =>
    Effect.gen(function* () {
      const removed = yield* filled(4)
      yield* removed.store.remove(a)
      assert.deepStrictEqual(
        removed.query(countLeft).map((row) => ({ ...row })),
        [
          { id: "b", entries: 0 },
          { id: "b", entries: 4 }
        ]
      )
      const maintained = yield* filled(4)
      yield* maintained.maintenance.remove(a)
      assert.deepStrictEqual(maintained.query(countLeft), removed.query(countLeft))
      const pruned = yield* filled(4)
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual(yield* pruned.retention.prune({ before: yield* Clock.currentTimeMillis }), {
        removed: 2,
        kept: 0
      })
      assert.deepStrictEqual(pruned.query(countLeft), [])
      const replaced = yield* filled(4)
      yield* replaced.backup.write(Stream.empty, { replace: true })
      assert.deepStrictEqual(replaced.query(countLeft), [])
    }).pipe(Effect.scoped)
  )

  it.effect("is found in a restored backup, and after a removal also for a new session of the same id", () =>
    Effect.gen(function* () {
      const source = yield* filled(300)
      const target = yield* filled(0)
      const parts: Array<Parameters<Parameters<typeof source.backup.read>[0]>[0]> = []
      yield* source.backup.read((part) => Effect.sync(() => void parts.push(part)))
      yield* target.backup.write(Stream.fromIterable(parts), { replace: true })
      assert.deepStrictEqual(yield* target.texts(b), yield* source.texts(b))
      yield* target.store.remove(b)
      yield* target.store.create(makeNewSession(b))
      assert.deepStrictEqual(yield* target.texts(b), [])
      yield* target.record.keep([entry(b, "again")])
      assert.deepStrictEqual(yield* target.texts(b), ["again"])
    }).pipe(Effect.scoped)
  )

  it.effect("takes no entry of a session that is not there", () =>
    Effect.gen(function* () {
      const { query, record } = yield* filled(1)
      yield* record.keep([entry(SessionId.make("gone"), "lost")])
      assert.deepStrictEqual(query("SELECT 1 FROM run_record WHERE session_id = 'gone'"), [])
      yield* record.keep([entry(a, "next")])
      assert.deepStrictEqual(
        query("SELECT kind FROM run_record WHERE session_id = 'a'").map(({ kind }) => kind),
        ["Notice", "Gap", "Notice"]
      )
    }).pipe(Effect.scoped)
  )
})
