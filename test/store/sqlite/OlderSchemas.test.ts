// A database of every earlier schema, made by the statements that made it then, is brought up to date by the program
// with all that is in it.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { mkdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import * as Migrations from "../../../src/store/sqlite/Migrations.ts"
import { applicationId } from "../../../src/base/platform/LeaseFile.ts"
import { SessionId } from "../../../src/base/domain/Ids.ts"
import * as SessionStore from "../../../src/store/SessionStore.ts"
import { machine } from "../../support/hermesInProcess.ts"

const { migrations } = Migrations
const newest = migrations.length

const envelope = (role: string, text: string): string =>
  JSON.stringify({ v: 1, message: { role, options: {}, content: [{ type: "text", text, options: {} }] } })

/** Makes the database of a version, as its program left it: one session of two messages. */
const makeAt = (path: string, version: number): void => {
  const rows = new DatabaseSync(path)
  rows.exec(`PRAGMA journal_mode = WAL; PRAGMA application_id = ${applicationId}`)
  rows.exec(
    "CREATE TABLE schema_version (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT"
  )
  for (const { name, statements, version: own } of migrations.slice(0, version)) {
    for (const statement of statements) rows.exec(statement)
    rows.prepare("INSERT INTO schema_version VALUES (?, ?, 1)").run(own, name)
  }
  rows
    .prepare(`INSERT INTO sessions (id, source, provider, model, title, started_at, updated_at, ended_at, end_reason, message_count, input_tokens, api_call_count, system_prompt)
    VALUES ('20250101_000000_abcdef', 'cli', 'offline', 'offline', 'Old talk', 1, 2, 2, 'text_response', 2, 7, 1, 'Be kind.')`)
    .run()
  const message =
    rows.prepare(`INSERT INTO messages (session_id, position, role, created_at, content, tool_name, tool_calls, envelope)
    VALUES ('20250101_000000_abcdef', ?, ?, 1, ?, '', '', ?)`)
  message.run(0, "user", "where is the zebra", envelope("user", "where is the zebra"))
  message.run(1, "assistant", "it sleeps", envelope("assistant", "it sleeps"))
  rows.exec(`INSERT INTO session_model_usage (session_id, provider, model, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, api_call_count)
    VALUES ('20250101_000000_abcdef', 'offline', 'offline', 7, 0, 0, 0, 0, 1)`)
  if (version >= 3) rows.exec("INSERT INTO begun_calls VALUES ('20250101_000000_abcdef', 'call-1')")
  if (version >= 4) {
    rows.exec(`INSERT INTO run_record (session_id, turn_id, at, version, kind, body)
      VALUES ('20250101_000000_abcdef', 't', 1, 1, 'SessionEnded', '{"_tag":"SessionEnded","reason":"shutdown"}')`)
  }
  if (version >= 9) {
    const [sessionId, callId] = ["20250101_000000_abcdef", "call-1"]
    const question = { id: "q", sessionId, runId: "t", callId, kind: "text", title: "Go on?", schema: {}, createdAt: 1 }
    rows
      .prepare(`INSERT INTO questions (id, session_id, call_id, place, kind, state, created_at, body)
        VALUES ('q', '20250101_000000_abcdef', 'call-1', '', 'text', 'open', 1, ?)`)
      .run(JSON.stringify(question))
    rows.exec(`INSERT INTO call_steps VALUES ('20250101_000000_abcdef', 'call-1', 'paid', '{"amount":3}')`)
  }
  rows.close()
}

/** Tables, columns, indexes and triggers of a database. */
const shapeOf = (path: string): unknown => {
  const rows = new DatabaseSync(path)
  try {
    const all = rows.prepare("SELECT type, name, tbl_name FROM sqlite_schema ORDER BY type, name").all()
    const columns = all
      .filter(({ type }) => type === "table")
      .map(({ name }) =>
        rows.prepare('SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info(?)').all(String(name))
      )
    return JSON.parse(
      JSON.stringify({ all, columns, versions: rows.prepare("SELECT version, name FROM schema_version").all() })
    )
  } finally {
    rows.close()
  }
}

describe("a database of an earlier schema", () => {
  for (const { name, version } of migrations.slice(0, -1)) {
    it.live(`version ${version} (${name}) is shown, searched, continued, exported and found sound`, () =>
      Effect.gen(function* () {
        const { hermes, home, put } = yield* machine
        mkdirSync(home)
        const database = join(home, "state.db")
        makeAt(database, version)
        put("turns.yaml", "turns: [{ text: still sleeping }]")
        const shown = yield* hermes(["sessions", "show", "Old talk"])
        assert.strictEqual(shown.code, 0, shown.stderr)
        assert.include(shown.stdout, "You: where is the zebra\n\nAgent: it sleeps\n")
        assert.include(shown.stdout, "7 tokens")
        assert.include((yield* hermes(["sessions", "search", "zebra"])).stdout, ">>>zebra<<<")
        const resumed = yield* hermes(["-Q", "-q", "and now?", "--script", "turns.yaml", "--resume", "Old talk"])
        assert.deepInclude(resumed, { code: 0, stdout: "still sleeping\n" })
        const exported = JSON.parse((yield* hermes(["sessions", "export"])).stdout)
        assert.deepInclude(exported, {
          id: "20250101_000000_abcdef",
          title: "Old talk",
          started_at: 1,
          message_count: 4,
          system_prompt: "Be kind."
        })
        assert.deepInclude(yield* hermes(["sessions", "repair"]), { code: 0, stdout: "The database is sound\n" })
        const waiting = yield* SessionStore.SessionStore.use((store) =>
          Effect.all([store.listQuestions(), store.listSteps(SessionId.make("20250101_000000_abcdef"))])
        ).pipe(Effect.provide(SessionStore.layerSqlite({ path: database }), { local: true }))
        assert.deepStrictEqual(
          waiting.map(({ length }) => length),
          version < 9 ? [0, 0] : [1, 1]
        )

        const fresh = yield* machine
        fresh.put("turns.yaml", "turns: [{ text: hello }]")
        yield* fresh.hermes(["-Q", "-q", "hi", "--script", "turns.yaml"])
        assert.deepStrictEqual(shapeOf(database), shapeOf(join(fresh.home, "state.db")))
      })
    )
  }

  it.live("is left as it is by a repair that only checks, and is repaired in its own version first", () =>
    Effect.gen(function* () {
      const { hermes, home } = yield* machine
      mkdirSync(home)
      const database = join(home, "state.db")
      makeAt(database, 1)
      const rows = new DatabaseSync(database)
      rows.exec("INSERT INTO messages_fts (messages_fts) VALUES ('delete-all'); PRAGMA wal_checkpoint(TRUNCATE)")
      rows.close()
      const before = readFileSync(database)
      const checked = yield* hermes(["sessions", "repair", "--check"])
      assert.deepInclude(checked, { code: 1, stdout: "Found: the search index does not fit the messages\n" })
      assert.deepStrictEqual(readFileSync(database), before)
      assert.strictEqual((yield* hermes(["sessions", "repair"])).code, 0)
      assert.include((yield* hermes(["sessions", "search", "zebra"])).stdout, ">>>zebra<<<")
      const after = new DatabaseSync(database)
      assert.strictEqual(after.prepare("SELECT max(version) AS version FROM schema_version").get()?.["version"], newest)
      after.close()
    })
  )
})
