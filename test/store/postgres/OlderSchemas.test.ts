// A Postgres database of every earlier schema, made by the statements that made it then, is brought up to date with all
// that is in it: the conversation goes on, is found, and its record and calls are there.
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import * as Conversation from "../../../src/base/domain/Conversation.ts"
import { SessionId } from "../../../src/base/domain/Ids.ts"
import * as PostgresClient from "../../../src/base/platform/PostgresClient.ts"
import * as PostgresMigrations from "../../../src/store/postgres/PostgresMigrations.ts"
import * as RunRecord from "../../../src/store/RunRecord.ts"
import { SessionMaintenance } from "../../../src/store/SessionMaintenance.ts"
import { SessionSearch } from "../../../src/store/SessionSearch.ts"
import * as SessionStore from "../../../src/store/SessionStore.ts"
import { missing, type Server, startServer } from "../../support/postgresServer.ts"
import { makeUserMessage } from "../../support/sessionStoreConformance.ts"

const { migrations } = PostgresMigrations
const id = SessionId.make("20250101_000000_abcdef")

const envelope = (role: string, text: string): string =>
  JSON.stringify({ v: 1, message: { role, options: {}, content: [{ type: "text", text, options: {} }] } })

/** Statements that fill a database of a version, as its program left it. */
const fill = (schema: string, version: number): string => {
  const rows = [
    `SET search_path TO ${schema}`,
    `INSERT INTO sessions (id, source, provider, model, title, started_at, updated_at, ended_at, end_reason,
      message_count, input_tokens, api_call_count, system_prompt)
    VALUES ('${id}', 'cli', 'offline', 'offline', 'Old talk', 1, 2, 2, 'text_response', 2, 7, 1, 'Be kind.')`,
    ...(["user", "assistant"] as const).map((role, position) => {
      const text = role === "user" ? "where is the zebra" : "it sleeps"
      return `INSERT INTO messages (session_id, position, role, created_at, content, tool_name, tool_calls, folded,
        envelope) VALUES ('${id}', ${position}, '${role}', 1, '${text}', '', '', '${text}', '${envelope(role, text)}')`
    }),
    `INSERT INTO session_model_usage (session_id, provider, model, input_tokens, api_call_count)
    VALUES ('${id}', 'offline', 'offline', 7, 1)`,
    `INSERT INTO begun_calls VALUES ('${id}', 'call-1')`,
    `INSERT INTO run_record (session_id, turn_id, at, version, kind, body)
    VALUES ('${id}', 't', 1, 1, 'SessionEnded', '{"_tag":"SessionEnded","reason":"shutdown"}')`,
    ...(version < 3
      ? []
      : [
          `INSERT INTO questions (id, session_id, call_id, place, kind, state, created_at, body)
          VALUES ('q', '${id}', 'call-1', '', 'text', 'open', 1, '${JSON.stringify({
            id: "q",
            sessionId: id,
            runId: "t",
            callId: "call-1",
            kind: "text",
            title: "Go on?",
            schema: {},
            createdAt: 1
          })}')`,
          `INSERT INTO call_steps VALUES ('${id}', 'call-1', 'paid', '{"amount":3}')`
        ])
  ]
  return rows.join(";\n")
}

describe.skipIf(missing !== undefined)(`older schemas${missing === undefined ? "" : ` (skipped: ${missing})`}`, () => {
  let server: Server
  beforeAll(async () => {
    server = await startServer()
  })
  afterAll(() => server.remove())

  for (const { name, version } of migrations) {
    it.live(`version ${version} (${name}) is shown, searched, continued and maintained`, () =>
      Effect.gen(function* () {
        const schema = `older${version}`
        const url = Redacted.make(server.url(schema))
        const sql = yield* PostgresClient.open({ url, connections: 1 })
        yield* PostgresMigrations.migrate(sql, schema, "here", migrations.slice(0, version))
        server.query(fill(schema, version))
        yield* Effect.gen(function* () {
          const store = yield* SessionStore.SessionStore
          const found = yield* store.resolve("Old talk")
          assert.deepInclude(found, { id, systemPrompt: "Be kind.", messageCount: 2, startedAt: 1 })
          assert.strictEqual(found.usage.inputTokens, 7)
          assert.deepStrictEqual((yield* store.messages(id)).map(Conversation.readText), [
            "where is the zebra",
            "it sleeps"
          ])
          const search = yield* SessionSearch
          assert.lengthOf(yield* search.search("zebra"), 1)
          assert.deepStrictEqual(Array.from(yield* store.begun(id)), ["call-1"])
          const record = yield* RunRecord.RunRecord
          assert.lengthOf(yield* Stream.runCollect(record.read({ sessionId: id })), 1)
          assert.lengthOf(yield* store.listQuestions({ sessionId: id }), version < 3 ? 0 : 1)
          assert.lengthOf(yield* store.listSteps(id), version < 3 ? 0 : 1)
          yield* Effect.scoped(
            Effect.andThen(store.acquire(id), store.append(id, [makeUserMessage("and the giraffe?")]))
          )
          assert.lengthOf(yield* search.search("giraffe"), 1)
          const stats = yield* SessionMaintenance.use(({ stats }) => stats)
          assert.deepInclude(stats, { sessions: 1, messages: 3, recordEntries: 1 })
        }).pipe(Effect.provide(SessionStore.layerPostgres({ url, connections: 2 }), { local: true }))
      }).pipe(Effect.scoped)
    )
  }
})
