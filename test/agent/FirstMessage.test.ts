// A session is never stored without the message that began it, whenever its process is killed.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as Agent from "../../src/agent/Agent.ts"
import * as Conversation from "../../src/base/domain/Conversation.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import * as Scripted from "../../src/models/provider/Scripted.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as RunRecord from "../../src/store/RunRecord.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

const id = SessionId.make("s")

/** Reads what another process would find in the database: undefined without a session, else its messages. */
const readFrom = (path: string) =>
  Effect.provide(
    Effect.gen(function* () {
      const store = yield* SessionStore.SessionStore
      if (Option.isNone(yield* store.get(id))) return undefined
      return (yield* store.messages(id)).map(Conversation.readText)
    }),
    SessionStore.layerSqlite({ path }),
    { local: true }
  )

const records = { "of the same database": undefined, "in memory": RunRecord.layerMemory() }

describe("the first message of a session", () => {
  for (const [where, record] of Object.entries(records)) {
    it.live(`is stored with the session: at no moment is one there without it (record ${where})`, () =>
      Effect.gen(function* () {
        const path = `${yield* temporaryDirectory}/state.db`
        const seen: Array<readonly [when: string, messages: ReadonlyArray<string> | undefined]> = []
        const look = (when: string) =>
          Effect.map(Effect.orDie(readFrom(path)), (messages) => void seen.push([when, messages]))
        const runtime = Runtime.layer({
          provider: Scripted.layer([Scripted.complete("hello")]),
          store: SessionStore.layerSqlite({ path }),
          ...(record === undefined ? {} : { record }),
          hooks: [
            Hooks.on("on_session_start", () => look("on_session_start")),
            Hooks.on("pre_llm_call", () => Effect.as(look("pre_llm_call"), undefined))
          ],
          middleware: [
            Middleware.lifecycle({
              name: "looks",
              beforeAgent: () => Effect.as(Effect.orDie(look("before_agent")), Middleware.noChanges)
            })
          ]
        })
        yield* Effect.provide(Agent.run({ prompt: "the question", sessionId: id }), runtime)
        assert.deepStrictEqual(seen, [
          ["on_session_start", undefined],
          ["before_agent", undefined],
          ["pre_llm_call", ["the question"]]
        ])
      })
    )
  }

  it.live("of a run that middleware refuses is not stored; the session has the end of the run", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/state.db`
      const runtime = Runtime.layer({
        provider: Scripted.layer([Scripted.complete("hello")]),
        store: SessionStore.layerSqlite({ path }),
        middleware: [
          Middleware.lifecycle({ name: "refuses", onFailure: "closed", beforeAgent: () => Effect.die("not now") })
        ]
      })
      const events = yield* Effect.provide(
        Effect.gen(function* () {
          const exit = yield* Effect.exit(Agent.run({ prompt: "the question", sessionId: id }))
          assert.isTrue(Exit.isFailure(exit))
          const entries = yield* Stream.runCollect((yield* RunRecord.RunRecord).read({ sessionId: id }))
          return entries.map(({ event }) => event._tag)
        }),
        Layer.provideMerge(runtime, Layer.empty)
      )
      assert.deepStrictEqual(yield* readFrom(path), [])
      assert.includeMembers(Array.from(events), ["RunStarted", "RunEnded"])
    })
  )
})
