// Writes of a step that are collected into one statement: what the server has done is not done again, and what cannot
// be collected runs in a transaction.
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import { SessionId, TurnId } from "../../../src/base/domain/Ids.ts"
import type { Entry } from "../../../src/base/domain/RecordEvent.ts"
import * as Usage from "../../../src/base/domain/Usage.ts"
import * as RunRecord from "../../../src/store/RunRecord.ts"
import * as SessionStore from "../../../src/store/SessionStore.ts"
import { missing, type Server, startServer } from "../../support/postgresServer.ts"
import { makeAssistantMessage, makeNewSession, makeUserMessage } from "../../support/sessionStoreConformance.ts"

const id = SessionId.make("s")
const usage = {
  provider: "p",
  model: "m",
  usage: { ...Usage.zero, inputTokens: 7, requestCount: 1 },
  cost: { usd: 0.5, status: "estimated", source: "none" }
} as const
const entry: Entry = {
  sessionId: id,
  turnId: TurnId.make("t"),
  at: 1,
  event: { _tag: "SessionEnded", reason: "shutdown" }
}

describe.skipIf(missing !== undefined)(
  `writes of a step in Postgres${missing === undefined ? "" : ` (skipped: ${missing})`}`,
  () => {
    let server: Server
    let schemas = 0
    beforeAll(async () => {
      server = await startServer()
    })
    afterAll(() => server.remove())

    /** Runs a test with an owned session of one message. */
    const withSession = <A, E>(
      use: (given: {
        readonly store: SessionStore.Service
        readonly together: NonNullable<SessionStore.Service["together"]>
        readonly query: (sql: string) => string
      }) => Effect.Effect<A, E, RunRecord.RunRecord>
    ) =>
      Effect.suspend(() => {
        const schema = `w${schemas++}`
        return Effect.scoped(
          Effect.gen(function* () {
            const store = yield* SessionStore.SessionStore
            yield* store.acquire(id)
            const { together } = store
            if (together === undefined) return assert.fail("the store has no transactions")
            yield* together(
              Effect.andThen(store.create(makeNewSession(id)), store.append(id, [makeUserMessage("one")]))
            )
            return yield* use({ store, together, query: (sql) => server.query(`SET search_path TO ${schema}; ${sql}`) })
          })
        ).pipe(Effect.provide(SessionStore.layerPostgres({ url: Redacted.make(server.url(schema)), connections: 3 })))
      })

    it.live("messages, usage, starts of calls, the record and the end are stored together", () =>
      withSession(({ query, store, together }) =>
        Effect.gen(function* () {
          const record = yield* RunRecord.RunRecord
          const position = yield* together(
            Effect.gen(function* () {
              yield* store.recordUsage(id, usage)
              yield* store.recordUsage(id, usage)
              const first = yield* store.append(id, [makeAssistantMessage("two")])
              yield* store.begin(id, ["call"])
              yield* record.append([entry])
              yield* store.end(id, "text_response")
              return first
            })
          )
          assert.strictEqual(position, 1)
          const session = Option.getOrThrow(yield* store.get(id))
          assert.deepInclude(session, { messageCount: 2, endReason: "text_response" })
          assert.strictEqual(session.usage.inputTokens, 14)
          assert.strictEqual((yield* store.usageByModel(id))[0]?.usage.requestCount, 2)
          assert.deepStrictEqual(Array.from(yield* store.begun(id)), ["call"])
          assert.strictEqual((yield* Stream.runCollect(record.read({ sessionId: id }))).length, 1)
          assert.strictEqual(query("SELECT count(*) FROM messages WHERE content <> ''"), "0")
        })
      )
    )

    it.live("a failure between the writes stores none of them", () =>
      withSession(({ store, together }) =>
        Effect.gen(function* () {
          const failed = yield* Effect.flip(
            together(Effect.andThen(store.append(id, [makeUserMessage("two")]), Effect.fail("no" as const)))
          )
          assert.strictEqual(failed, "no")
          assert.strictEqual((yield* store.messages(id)).length, 1)
          assert.strictEqual(yield* together(store.append(id, [makeUserMessage("two")])), 1)
        })
      )
    )

    it.live("a read between the writes sees them", () =>
      withSession(({ store, together }) =>
        Effect.gen(function* () {
          const seen = yield* together(
            Effect.andThen(
              store.append(id, [makeUserMessage("two")]),
              Effect.map(store.messages(id), (all) => all.length)
            )
          )
          assert.strictEqual(seen, 2)
        })
      )
    )

    it.live("a session with messages that this process does not know gets the right positions", () =>
      withSession(({ query, store, together }) =>
        Effect.gen(function* () {
          query(`INSERT INTO messages (session_id, position, role, created_at, content, tool_name, tool_calls, folded,
              envelope)
            SELECT session_id, 1, role, created_at, content, tool_name, tool_calls, folded, envelope FROM messages;
            UPDATE sessions SET message_count = 2`)
          assert.strictEqual(yield* together(store.append(id, [makeUserMessage("three")])), 2)
          assert.strictEqual(yield* together(store.append(id, [makeUserMessage("four")])), 3)
        })
      )
    )

    it.live("a session that another process took is not written", () =>
      withSession(({ query, store, together }) =>
        Effect.gen(function* () {
          query("UPDATE leases SET owner = 'another'")
          const failed = yield* Effect.flip(together(store.append(id, [makeUserMessage("two")])))
          assert.match(failed.message, /was taken over by another process/)
          assert.strictEqual(query("SELECT count(*) FROM messages"), "1")
        })
      )
    )

    it.live("a statement that the server has done is not done again", () =>
      withSession(({ query, store, together }) =>
        Effect.gen(function* () {
          // The same number, as that of a statement whose answer was lost.
          const repeated = Random.withSeed(together(store.append(id, [makeUserMessage("two")])), "seed")
          yield* repeated
          query("UPDATE sessions SET message_count = 1; DELETE FROM messages WHERE position = 1")
          yield* store.get(id)
          yield* repeated
          assert.strictEqual(query("SELECT message_count FROM sessions"), "1")
          yield* together(store.append(id, [makeUserMessage("two")]))
          assert.strictEqual(query("SELECT message_count FROM sessions"), "2")
        })
      )
    )
  }
)
