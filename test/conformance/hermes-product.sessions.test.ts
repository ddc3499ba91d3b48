import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import * as Conversation from "../../src/base/domain/Conversation.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import type * as Cost from "../../src/base/domain/Cost.ts"
import * as Usage from "../../src/base/domain/Usage.ts"
import { SessionSearch } from "../../src/store/SessionSearch.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import { runScript } from "../support/runScript.ts"
import { makeNewSession, makeUserMessage } from "../support/sessionStoreConformance.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"
import { effectProp } from "../support/property.ts"

const inFile = <A, E, R>(path: string, body: Effect.Effect<A, E, R | SessionStore.SessionStore | SessionSearch>) =>
  Effect.provide(body, SessionStore.layerSqlite({ path }), { local: true })

const stores = {
  memory: SessionStore.layerMemory,
  sqlite: Layer.unwrap(
    Effect.map(temporaryDirectory, (directory) => SessionStore.layerSqlite({ path: `${directory}/state.db` }))
  )
}

const id = SessionId.make("20250102_030405_abcdef")

for (const [name, layer] of Object.entries(stores)) {
  describe(`in ${name}`, () => {
    it.effect("T19 an id prefix of two sessions opens neither, names both and makes none", () =>
      Effect.gen(function* () {
        const store = yield* SessionStore.SessionStore
        yield* store.create(makeNewSession("20250102_030405_aaaaaa"))
        yield* store.create(makeNewSession("20250102_030405_bbbbbb"))
        const error = yield* Effect.flip(store.resolve("20250102_03"))
        assert.strictEqual(error._tag, "SessionNotFound")
        assert.include(error.message, "20250102_030405_aaaaaa")
        assert.include(error.message, "20250102_030405_bbbbbb")
        assert.strictEqual((yield* store.list()).length, 2)
      }).pipe(Effect.provide(layer, { local: true }))
    )

    it.effect("T62 a search with an unmatched quote or a dangling operator is no failure", () =>
      Effect.gen(function* () {
        const store = yield* SessionStore.SessionStore
        const { search } = yield* SessionSearch
        yield* store.create(makeNewSession(id))
        yield* store.append(id, [makeUserMessage("hello world")])
        assert.deepStrictEqual(yield* search('"'), [])
        assert.deepStrictEqual(yield* search("AND"), [])
        assert.strictEqual((yield* search('"hello')).length, 1)
        assert.strictEqual((yield* search("hello AND")).length, 1)
        assert.strictEqual((yield* search("OR hello NOT")).length, 1)
      }).pipe(Effect.provide(layer, { local: true }))
    )

    effectProp(
      "T62 no query is a failure",
      { queries: Schema.Array(Schema.String) },
      ({ queries }) =>
        Effect.gen(function* () {
          const { search } = yield* SessionSearch
          for (const query of queries) yield* search(query)
        }).pipe(Effect.provide(layer, { local: true })),
      { arbitrary: { runs: 25 } }
    )

    it.effect("T67 tokens of a session that switched model belong to both, and their sum is the session's", () =>
      Effect.gen(function* () {
        const store = yield* SessionStore.SessionStore
        yield* store.create(makeNewSession(id))
        const usage = (tokens: number): Usage.Usage => ({
          inputTokens: tokens,
          outputTokens: tokens + 1,
          cacheReadTokens: tokens + 2,
          cacheWriteTokens: tokens + 3,
          reasoningTokens: tokens + 4,
          requestCount: 1
        })
        const cost = (usd: number): Cost.Spent => ({ usd, status: "estimated", source: "official_docs_snapshot" })
        const unknown: Cost.Spent = { usd: null, status: "unknown", source: "none" }
        yield* store.recordUsage(id, { provider: "openrouter", model: "small", usage: usage(1), cost: cost(0.25) })
        yield* store.recordUsage(id, { provider: "openrouter", model: "small", usage: usage(2), cost: cost(0.5) })
        yield* store.recordUsage(id, { provider: "anthropic", model: "large", usage: usage(100), cost: unknown })
        const records = yield* store.usageByModel(id)
        assert.deepStrictEqual(records, [
          { provider: "openrouter", model: "small", usage: Usage.add(usage(1), usage(2)), cost: cost(0.75) },
          { provider: "anthropic", model: "large", usage: usage(100), cost: unknown }
        ])
        const session = Option.getOrThrow(yield* store.get(id))
        assert.deepStrictEqual(session.usage, Usage.add(Usage.add(usage(1), usage(2)), usage(100)))
        assert.deepStrictEqual(session.cost, { ...unknown, usd: 0.75 })
      }).pipe(Effect.provide(layer, { local: true }))
    )
  })
}

it.live("T61 ten processes that write at once lose no message and see no lock", () =>
  Effect.gen(function* () {
    const path = `${yield* temporaryDirectory}/state.db`
    const ended = yield* Effect.all(
      Array.from({ length: 10 }, () => runScript("sessionWriter.ts", [path, id, "15"])),
      { concurrency: "unbounded" }
    )
    for (const { code, lines, errors } of ended) {
      assert.deepStrictEqual([code, errors], [0, ""])
      assert.strictEqual(lines.length, 16)
    }
    const messages = yield* inFile(
      path,
      SessionStore.SessionStore.use((store) => store.messages(id))
    )
    const writers = Map.groupBy(messages, ({ content }) => {
      const part = typeof content === "string" ? undefined : content[0]
      return part?.type === "text" ? part.text.split(":")[0] : undefined
    })
    assert.deepStrictEqual(
      Array.from(writers.values(), (written) => written.length),
      Array.from({ length: 10 }, () => 15)
    )
  }).pipe(Effect.scoped)
)

it.effect("T64 the stored system prompt is returned byte for byte by whoever opens the session later", () =>
  Effect.gen(function* () {
    const path = `${yield* temporaryDirectory}/state.db`
    const systemPrompt = `# Context\r\n\n${"é会😀\t".repeat(5000)} \u0000\u2028 end \n`
    yield* inFile(
      path,
      SessionStore.SessionStore.use((store) => store.create(makeNewSession(id, { systemPrompt })))
    )
    yield* inFile(
      path,
      Effect.gen(function* () {
        const store = yield* SessionStore.SessionStore
        yield* store.append(id, [makeUserMessage("go on")])
        assert.strictEqual(Option.getOrThrow(yield* store.get(id)).systemPrompt, systemPrompt)
      })
    )
  })
)

it.live("T68 after a crash between a call and its result every call has a result again", () =>
  Effect.gen(function* () {
    const path = `${yield* temporaryDirectory}/state.db`
    const ended = yield* runScript("sessionCrash.ts", [path])
    assert.strictEqual(ended.signal, "SIGKILL", ended.errors)
    const stored = yield* inFile(
      path,
      SessionStore.SessionStore.use((store) => store.messages(SessionId.make("crashed")))
    )
    const [, calls, answer] = stored
    const closed = Conversation.closeOpenCalls(stored)
    assert.strictEqual(stored.length, 3)
    assert.deepStrictEqual(closed, [
      makeUserMessage("list"),
      calls,
      Conversation.makeCancelledResult({ id: "c1", name: "terminal" }),
      answer,
      Conversation.makeCancelledResult({ id: "c3", name: "terminal" })
    ])
    assert.isTrue(closed.every(Prompt.isMessage))
  }).pipe(Effect.scoped)
)
