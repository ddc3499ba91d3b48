import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as Prompt from "effect/ai/Prompt"
import { SessionId } from "../../src/base/domain/Ids.ts"
import * as RunRecord from "../../src/store/RunRecord.ts"
import * as SessionFork from "../../src/store/SessionFork.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import { makeNewSession, makeUserMessage } from "../support/sessionStoreConformance.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

const sqlite = Layer.unwrap(
  Effect.map(temporaryDirectory, (directory) => SessionStore.layerSqlite({ path: `${directory}/state.db` }))
)
const memory = Layer.merge(SessionStore.layerMemory, RunRecord.layerMemory())

const result = (text: string) =>
  Prompt.toolMessage({
    content: [Prompt.toolResultPart({ id: "c", name: "look", isFailure: false, result: text, providerExecuted: false })]
  })
const asked = Prompt.assistantMessage({
  content: [Prompt.toolCallPart({ id: "c", name: "look", params: {}, providerExecuted: false })]
})

for (const [name, layer] of [
  ["memory", memory],
  ["sqlite", sqlite]
] as const) {
  describe(`a fork of a session in ${name}`, () => {
    it.effect(
      "records the original of each message, also of equal ones, and reads no message of the source itself",
      () =>
        Effect.gen(function* () {
          const store = yield* SessionStore.SessionStore
          const source = yield* store.create(makeNewSession("source"))
          yield* store.append(source.id, [
            makeUserMessage("again"),
            asked,
            result("found"),
            makeUserMessage("again"),
            makeUserMessage("again"),
            makeUserMessage("behind")
          ])
          const originals = yield* store.messages(source.id)
          const history = originals.slice(0, 5).map((message, at) => (at === 2 ? result("another") : message))
          const fork = yield* SessionFork.fork(source, {
            history,
            originals,
            position: 5,
            changed: ["result"],
            source: "replay"
          }).pipe(
            Effect.provideService(SessionStore.SessionStore, { ...store, messages: () => Effect.die("a second read") })
          )
          assert.deepStrictEqual(yield* store.messages(fork.id), history)
          const entries = yield* RunRecord.RunRecord.use(({ read }) => Stream.runCollect(read({ sessionId: fork.id })))
          assert.deepStrictEqual(
            entries.map(({ event }) =>
              event._tag === "ReplayBegun"
                ? [event.source, event.position]
                : event._tag === "MessageAppended"
                  ? [event.position, event.copyOf]
                  : event._tag
            ),
            [
              [source.id, 5],
              [0, { sessionId: SessionId.make("source"), position: 0 }],
              [1, { sessionId: SessionId.make("source"), position: 1 }],
              [2, { sessionId: SessionId.make("source"), position: 2, changed: true }],
              [3, { sessionId: SessionId.make("source"), position: 3 }],
              [4, { sessionId: SessionId.make("source"), position: 4 }]
            ]
          )
        }).pipe(Effect.provide(layer))
    )
  })
}
