import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { SessionId } from "../../src/base/domain/Ids.ts"
import * as SearchQuery from "../../src/store/SearchQuery.ts"
import { SessionSearch } from "../../src/store/SessionSearch.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import { mostRanked, toFts } from "../../src/store/sqlite/SqliteSearch.ts"
import { makeNewSession, makeUserMessage } from "../support/sessionStoreConformance.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"
import { effectProp } from "../support/property.ts"

describe("a query", () => {
  const read: ReadonlyArray<readonly [query: string, fts: string]> = [
    ["one two", '("one" AND "two")'],
    ["one OR two three", '("one") OR ("two" AND "three")'],
    ["one NOT two", '(("one") NOT ("two"))'],
    ['one NOT two NOT "three four"', '(("one") NOT ("two" OR "three four"))'],
    ['"AND" and Or', '("AND" AND "and" AND "Or")'],
    ["well-known a.b/c", '("well known" AND "a b c")'],
    ["begin*", '("begin"*)'],
    ['"quoted star*"', '("quoted star")'],
    ["content:secret", '("content secret")'],
    ["NEAR(one two)", '("NEAR" AND "one" AND "two")'],
    ["NOT one OR two", '("two")']
  ]
  for (const [query, fts] of read) {
    it(`${query} is read as ${fts}`, () => assert.strictEqual(toFts(SearchQuery.parse(query)), fts))
  }

  it("of more than 32 terms is cut there", () => {
    const query = SearchQuery.parse(Array.from({ length: 100 }, (_, index) => `w${index}`).join(" "))
    assert.strictEqual(query[0]?.all.length, 32)
  })
})

// Few words, so that queries often find something.
const Piece = Schema.Literals([
  "red",
  "green",
  "Blue",
  "réd",
  "red_green",
  "gre*",
  '"red green"',
  '"',
  "AND",
  "OR",
  "NOT",
  "(",
  "-",
  "会",
  "会議"
])
const Phrase = Schema.Array(Piece).check(Schema.isMaxLength(6))

const places = (query: string) =>
  SessionSearch.use(({ search }) =>
    Effect.map(search(query, { limit: 100 }), (hits) => hits.map((hit) => hit.messageId).sort((a, b) => a - b))
  )

const filled = (texts: ReadonlyArray<string>) =>
  SessionStore.SessionStore.use((store) =>
    Effect.andThen(store.create(makeNewSession("s")), store.append(SessionId.make("s"), texts.map(makeUserMessage)))
  )

const sqlite = Layer.unwrap(
  Effect.map(temporaryDirectory, (directory) => SessionStore.layerSqlite({ path: `${directory}/state.db` }))
)

it.effect("of words that are everywhere the newest messages are ranked, and older ones are found where fewer fit", () =>
  Effect.gen(function* () {
    const store = yield* SessionStore.SessionStore
    const [old, more] = [SessionId.make("old"), SessionId.make("more")]
    yield* store.create(makeNewSession("old"))
    yield* store.append(old, [makeUserMessage("common needle common common common"), makeUserMessage("common")])
    yield* store.create(makeNewSession("more"))
    yield* store.append(
      more,
      Array.from({ length: mostRanked }, (_, index) =>
        makeUserMessage(`${"common ".repeat(index === 7 ? 5 : 1)} ${index}`)
      )
    )
    const { search } = yield* SessionSearch
    const found = (query: string, options: Parameters<typeof search>[1] = {}) =>
      Effect.map(search(query, { limit: 3, ...options }), (hits) =>
        hits.map(({ messageId, sessionId }) => `${sessionId} ${messageId}`)
      )
    const last = mostRanked - 1
    assert.deepStrictEqual((yield* found("common"))[0], "more 7")
    assert.notInclude(yield* found("common", { limit: mostRanked + 10 }), "old 0")
    assert.deepStrictEqual(yield* found("common needle"), ["old 0"])
    assert.deepStrictEqual(yield* found("common", { sessionId: old }), ["old 0", "old 1"])
    assert.deepStrictEqual(yield* found("common", { sort: "oldest" }), ["old 0", "old 1", "more 0"])
    assert.deepStrictEqual(yield* found("common", { sort: "newest" }), [
      `more ${last}`,
      `more ${last - 1}`,
      `more ${last - 2}`
    ])
  }).pipe(Effect.provide(sqlite, { local: true }))
)

effectProp(
  "the index finds what a scan finds",
  {
    texts: Arbitrary.array(
      Arbitrary.map(Arbitrary.schema(Phrase), (words) => words.join(" ")),
      { maxLength: 6 }
    ),
    queries: Arbitrary.array(
      Arbitrary.map(Arbitrary.schema(Phrase), (words) => words.join(" ")),
      { maxLength: 6 }
    )
  },
  ({ texts, queries }) =>
    Effect.gen(function* () {
      const found = Effect.andThen(filled(texts), Effect.forEach(queries, places))
      const scanned = yield* Effect.provide(found, SessionStore.layerMemory, { local: true })
      const indexed = yield* Effect.provide(found, sqlite, { local: true })
      assert.deepStrictEqual(indexed, scanned)
    }),
  { arbitrary: { runs: 40 } }
)
