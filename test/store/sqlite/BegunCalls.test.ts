// Starts of calls that are stored with a message, and starts that are not, are known until their results are stored.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { DatabaseSync } from "node:sqlite"
import { SessionId } from "../../../src/base/domain/Ids.ts"
import * as SqliteStore from "../../../src/store/sqlite/SqliteStore.ts"
import type { TableRows } from "../../../src/store/SessionBackup.ts"
import {
  buildToolResult,
  makeAssistantMessage,
  makeNewSession,
  makeToolCalls,
  makeUserMessage
} from "../../support/sessionStoreConformance.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const id = SessionId.make("s")

/** A session whose answer was stored with the start of its first call. */
const opened = Effect.gen(function* () {
  const path = `${yield* temporaryDirectory}/state.db`
  const backend = yield* SqliteStore.open(path)
  const { store, together } = backend
  yield* store.create(makeNewSession(id))
  yield* store.append(id, [makeUserMessage("go")])
  yield* together(Effect.andThen(store.append(id, [makeToolCalls("c1", "c2", "c3")]), store.begin(id, ["c1"])))
  const begun = Effect.map(store.begun(id), (calls) => Array.from(calls).toSorted())
  const countRows = () => {
    const rows = new DatabaseSync(path, { readOnly: true })
    try {
      return Number(rows.prepare("SELECT count(*) AS count FROM begun_calls").get()?.["count"])
    } finally {
      rows.close()
    }
  }
  return { ...backend, path, begun, countRows }
})

describe("a start of a call that is stored with a message", () => {
  it.effect("is no row of its own, and known until the result of its call is stored", () =>
    Effect.gen(function* () {
      const { begun, countRows, store, together } = yield* opened
      assert.deepStrictEqual([yield* begun, countRows()], [["c1"], 0])
      yield* together(Effect.andThen(store.append(id, [buildToolResult("c1", "one")]), store.begin(id, ["c2", "c3"])))
      assert.deepStrictEqual([yield* begun, countRows()], [["c2", "c3"], 0])
      yield* store.append(id, [buildToolResult("c3", "three")])
      assert.deepStrictEqual(yield* begun, ["c2"])
      yield* store.append(id, [buildToolResult("c2", "two"), makeAssistantMessage("done")])
      assert.deepStrictEqual(yield* begun, [])
    }).pipe(Effect.scoped)
  )

  it.effect("is known beside starts that were stored alone", () =>
    Effect.gen(function* () {
      const { begun, countRows, store } = yield* opened
      yield* store.begin(id, ["c2"])
      assert.deepStrictEqual([yield* begun, countRows()], [["c1", "c2"], 1])
      yield* store.append(id, [buildToolResult("c2", "two"), buildToolResult("c1", "one")])
      assert.deepStrictEqual([yield* begun, countRows()], [[], 0])
    }).pipe(Effect.scoped)
  )

  it.effect("begins anew if its id had been used before", () =>
    Effect.gen(function* () {
      const { begun, store, together } = yield* opened
      yield* together(Effect.andThen(store.append(id, [buildToolResult("c1", "one")]), store.begin(id, ["c1"])))
      assert.deepStrictEqual(yield* begun, ["c1"])
    }).pipe(Effect.scoped)
  )

  it.effect("is forgotten with a transaction that fails, and by a run that waits for the call", () =>
    Effect.gen(function* () {
      const { begun, store, together } = yield* opened
      yield* Effect.exit(
        together(
          store
            .append(id, [buildToolResult("c1", "one")])
            .pipe(Effect.andThen(store.begin(id, ["c2"])), Effect.andThen(Effect.fail("no more")))
        )
      )
      assert.deepStrictEqual(yield* begun, ["c1"])
      yield* together(Effect.andThen(store.append(id, [makeUserMessage("and")]), store.begin(id, ["c2", "c3"])))
      yield* store.suspend(id, { reason: "waiting", callIds: ["c1", "c3"], questions: [] })
      assert.deepStrictEqual(yield* begun, ["c2"])
      yield* store.append(id, [buildToolResult("c2", "two")])
      assert.deepStrictEqual(yield* begun, [])
    }).pipe(Effect.scoped)
  )

  it.effect("is in a backup", () =>
    Effect.gen(function* () {
      const { backup, store } = yield* opened
      yield* store.begin(id, ["c2"])
      const rows: Array<TableRows["rows"]> = []
      yield* backup.read((part) => Effect.sync(() => void (part.table === "begun_calls" && rows.push(part.rows))))
      assert.deepStrictEqual(rows, [
        [
          { session_id: id, call_id: "c1" },
          { session_id: id, call_id: "c2" }
        ]
      ])
    }).pipe(Effect.scoped)
  )
})
