// A conversation that compaction carried over several sessions: its sums count each session once.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Prompt from "effect/ai/Prompt"
import * as Conversation from "../../src/base/domain/Conversation.ts"
import type * as Cost from "../../src/base/domain/Cost.ts"
import { SessionId, TurnId } from "../../src/base/domain/Ids.ts"
import * as Usage from "../../src/base/domain/Usage.ts"
import * as Aggregation from "../../src/observe/studio/Aggregation.ts"
import * as SessionIndex from "../../src/observe/studio/SessionIndex.ts"
import * as SessionQueries from "../../src/observe/studio/SessionQueries.ts"
import * as ContextCopy from "../../src/store/ContextCopy.ts"
import * as RunRecord from "../../src/store/RunRecord.ts"
import * as SessionChain from "../../src/store/SessionChain.ts"
import { SessionMaintenance } from "../../src/store/SessionMaintenance.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import { makeNewSession, makeUserMessage } from "../support/sessionStoreConformance.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

const sqlite = Layer.unwrap(
  Effect.map(temporaryDirectory, (directory) => SessionStore.layerSqlite({ path: `${directory}/state.db` }))
)

const names = ["first", "second", "third"].map((name) => SessionId.make(name))
const cost = (usd: number | null): Cost.Spent => ({
  usd,
  status: usd === null ? "unknown" : "estimated",
  source: usd === null ? "none" : "official_docs_snapshot"
})
const used = (model: string, tokens: number, usd: number | null) => ({
  provider: "p",
  model,
  usage: { ...Usage.zero, inputTokens: tokens, outputTokens: 1, requestCount: 1 },
  cost: cost(usd)
})

/** Three sessions of one conversation, each with usage of its own but the last, and another session. */
const filled = Effect.gen(function* () {
  const store = yield* SessionStore.SessionStore
  const [first = SessionId.make(""), second = first, third = first] = names
  yield* store.create(makeNewSession("first"))
  yield* store.append(first, [makeUserMessage("a"), makeUserMessage("b")])
  yield* store.recordUsage(first, used("m1", 100, 0.5))
  const next = (from: SessionId, id: SessionId) =>
    store.continueIn(from, {
      id,
      provider: "p",
      model: "m1",
      systemPrompt: "",
      messages: [makeUserMessage("summary")],
      endReason: "text_response"
    })
  yield* next(first, second)
  yield* store.recordUsage(second, used("m1", 10, 0.25))
  yield* store.recordUsage(second, used("m2", 1, 0.25))
  yield* next(second, third)
  yield* store.create(makeNewSession("other"))
  yield* store.recordUsage(SessionId.make("other"), used("m2", 7, null))
  return { first, second, third, get: (id: SessionId) => Effect.map(store.get(id), Option.getOrThrow) }
})

const memory = Layer.merge(SessionStore.layerMemory, RunRecord.layerMemory())

for (const [name, layer] of [
  ["memory", memory],
  ["sqlite", sqlite]
] as const) {
  describe(`a chain of sessions in ${name}`, () => {
    it.effect("is the sum of its sessions, as far as the asked one", () =>
      Effect.gen(function* () {
        const { first, get, third } = yield* filled
        const chain = yield* SessionChain.readChain(yield* get(third))
        assert.deepStrictEqual(
          chain.map(({ id }) => id),
          names
        )
        const sums = yield* SessionChain.sumUsage(yield* get(third))
        assert.deepStrictEqual(sums, {
          usage: { ...Usage.zero, inputTokens: 111, outputTokens: 3, requestCount: 3 },
          cost: cost(1),
          models: [
            { ...used("m1", 110, 0.75), usage: { ...Usage.zero, inputTokens: 110, outputTokens: 2, requestCount: 2 } },
            used("m2", 1, 0.25)
          ],
          compactions: 2
        })
        const alone = yield* SessionChain.sumUsage(yield* get(first))
        assert.deepStrictEqual([alone.usage.inputTokens, alone.compactions], [100, 0])
      }).pipe(Effect.provide(layer, { local: true }))
    )

    it.effect("knows what was left out, each once, and of equal messages the older ones", () =>
      Effect.gen(function* () {
        const store = yield* SessionStore.SessionStore
        const [first = SessionId.make(""), second = first, third = first] = names
        const next = (from: SessionId, id: SessionId, texts: ReadonlyArray<string>) =>
          store.continueIn(from, {
            id,
            provider: "p",
            model: "m",
            systemPrompt: "",
            messages: texts.map(makeUserMessage),
            endReason: "text_response"
          })
        yield* store.create(makeNewSession("first"))
        yield* store.append(first, ["task", "yes", "a", "yes", "b"].map(makeUserMessage))
        yield* next(first, second, ["task", "note", "yes", "b"])
        yield* store.append(second, [makeUserMessage("c")])
        const last = yield* next(second, third, ["task", "note 2", "c"])
        assert.deepStrictEqual(
          yield* SessionChain.readRemoved(last),
          ["yes", "a", "note", "yes", "b"].map(makeUserMessage)
        )
        assert.deepStrictEqual(yield* SessionChain.readRemoved(Option.getOrThrow(yield* store.get(first))), [])
      }).pipe(Effect.provide(layer, { local: true }))
    )

    it.effect("knows by the record which of equal messages were left out, and which were shortened", () =>
      Effect.gen(function* () {
        const store = yield* SessionStore.SessionStore
        const record = yield* RunRecord.RunRecord
        const [first = SessionId.make(""), second = first] = names
        yield* store.create(makeNewSession("first"))
        yield* store.append(first, ["task", "yes", "long", "yes", "b"].map(makeUserMessage))
        const last = yield* store.continueIn(first, {
          id: second,
          provider: "p",
          model: "m",
          systemPrompt: "",
          messages: ["task", "yes", "long", "b"].map(makeUserMessage),
          endReason: "text_response"
        })
        const made: ReadonlyArray<ContextCopy.Copy> = [0, 1, 2, 4].map((position, at) => ({
          message: makeUserMessage(["task", "yes", "long", "b"][at] ?? ""),
          position,
          isChanged: position === 2
        }))
        yield* record.append(
          yield* ContextCopy.makeEntries(
            record,
            {
              sessionId: second,
              turnId: ContextCopy.makeCompressionTurnId(second),
              at: 0,
              link: { _tag: "ReplayBegun", source: first, position: 5, changed: ["compression"] },
              rewritten: {
                _tag: "ContextRewritten",
                reason: "compression",
                before: 5,
                after: 4,
                source: first,
                removed: ContextCopy.listRemoved(made, 5)
              }
            },
            made
          )
        )
        assert.deepStrictEqual(yield* SessionChain.readRemoved(last), ["long", "yes"].map(makeUserMessage))
      }).pipe(Effect.provide(layer, { local: true }))
    )

    it.effect("has the id of its first session, also where that was removed", () =>
      Effect.gen(function* () {
        const { first, get, third } = yield* filled
        const conversations = Effect.flatMap(
          Effect.all([get(third), get(SessionId.make("other"))]),
          Effect.forEach(SessionChain.findFirstId)
        )
        assert.deepStrictEqual(yield* conversations, [first, SessionId.make("other")])
        yield* SessionStore.SessionStore.use((store) => store.remove(first))
        assert.deepStrictEqual(yield* conversations, [first, SessionId.make("other")])
      }).pipe(Effect.provide(layer, { local: true }))
    )

    it.effect("goes on where a session of it was removed", () =>
      Effect.gen(function* () {
        const { get, second, third } = yield* filled
        yield* SessionStore.SessionStore.use((store) => store.remove(second))
        assert.deepStrictEqual(
          (yield* SessionChain.readChain(yield* get(third))).map(({ id }) => id),
          [third]
        )
      }).pipe(Effect.provide(layer, { local: true }))
    )
  })
}

it.effect("statistics and insights count a conversation once", () =>
  Effect.gen(function* () {
    yield* filled
    const { continuations, sessions, sources } = yield* SessionMaintenance.use(({ stats }) => stats)
    assert.deepStrictEqual(
      [sessions, continuations, sources],
      [2, 2, [{ source: "cli", sessions: 2, messages: 4, toolCalls: 0 }]]
    )
    const world = yield* Effect.flatMap(SessionIndex.make(Effect.succeed(true)), ({ refresh }) => refresh)
    const found = SessionQueries.find(world, {}, new Set())
    assert.strictEqual(found.length, 4)
    assert.strictEqual((yield* Aggregation.aggregate(world, found, {})).sessions, 2)
  }).pipe(Effect.provide(sqlite, { local: true }))
)

it.effect("statistics count messages and calls that were copied where they happened", () =>
  Effect.gen(function* () {
    const store = yield* SessionStore.SessionStore
    const record = yield* RunRecord.RunRecord
    const [first = SessionId.make(""), second = first, fork = first] = names
    const call = (id: string) =>
      Prompt.assistantMessage({
        content: [Prompt.toolCallPart({ id, name: "look", params: {}, providerExecuted: false })]
      })
    const before = [
      makeUserMessage("task"),
      call("c1"),
      Conversation.makeToolResult({ id: "c1", name: "look" }, { output: "one", isFailure: false }),
      makeUserMessage("go on")
    ]
    yield* store.create(makeNewSession("first"))
    yield* store.append(first, before)
    const after = [makeUserMessage("summary"), ...before.slice(1)]
    yield* store.continueIn(first, {
      id: second,
      provider: "p",
      model: "m",
      systemPrompt: "",
      messages: after,
      endReason: "text_response"
    })
    yield* store.create(makeNewSession("third"))
    yield* store.append(fork, before)
    for (const [sessionId, messages] of [
      [second, after],
      [fork, before]
    ] as const) {
      yield* record.append(
        yield* ContextCopy.makeEntries(
          record,
          {
            sessionId,
            turnId: TurnId.make(sessionId),
            at: 0,
            link: { _tag: "ReplayBegun", source: first, position: before.length, changed: [] }
          },
          ContextCopy.findCopies(messages, before)
        )
      )
    }
    yield* store.append(second, [call("c2")])
    const stats = SessionMaintenance.use(({ stats }) => stats)
    const { messages, sources, toolCalls } = yield* stats
    assert.deepStrictEqual(
      [messages, toolCalls, sources],
      [6, 2, [{ source: "cli", sessions: 2, messages: 6, toolCalls: 2 }]]
    )
    yield* store.remove(first)
    const { messages: left, toolCalls: leftCalls } = yield* stats
    assert.deepStrictEqual([left, leftCalls], [9, 3])
  }).pipe(Effect.provide(sqlite, { local: true }))
)
