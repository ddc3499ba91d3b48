/** Rules of the search in stored sessions: words, phrases, what a hit shows, and how hits are chosen. */
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import { SessionId } from "../domain/Ids.ts"
import { SessionSearch } from "../session/SessionSearch.ts"
import { SessionStore } from "../session/SessionStore.ts"
import * as Check from "./Check.ts"
import * as Conformance from "./Conformance.ts"
import { assistant, calling, newSession, result, user } from "./SessionSamples.ts"

const a = SessionId.make("20250102_030405_aaaaaa")
const b = SessionId.make("20250102_030405_bbbbbb")

const made = (): ReadonlyArray<Conformance.Rule<SessionStore | SessionSearch>> => {
  const rules: Array<Conformance.Rule<SessionStore | SessionSearch>> = []
  const test = <E>(name: string, body: Effect.Effect<void, E, SessionStore | SessionSearch>): void =>
  void rules.push(Conformance.timedRule("search", name, body))

  const find = (query: string, options?: Parameters<SessionSearch["Service"]["search"]>[1]) =>
    SessionSearch.use(({ search }) => search(query, options))
  const places = (query: string, options?: Parameters<SessionSearch["Service"]["search"]>[1]) =>
    Effect.map(find(query, options), (hits) => hits.map((hit) => `${hit.sessionId}:${hit.messageId}`).sort())

  const filled = Effect.gen(function*() {
    const store = yield* SessionStore
    yield* store.create(newSession("one"))
    yield* store.append(SessionId.make("one"), [
      user("How do I parse a well-known format in Réunion?"),
      calling("report"),
      result("report", "The quick brown fox jumps over the lazy dog"),
      assistant("Parsing is done by parse_format, see src/lib.parser.ts.")
    ])
    yield* store.create(newSession("two"))
    yield* store.append(SessionId.make("two"), [
      user("a format that is known to work well"),
      assistant("明日の会議は十時です。Then parser wins.")
    ])
    yield* store.create(newSession("hidden", { source: "subagent" }))
    yield* store.append(SessionId.make("hidden"), [user("the quick brown fox, secretly")])
  })

  const cases: ReadonlyArray<readonly [query: string, places: ReadonlyArray<string>]> = [
    ["fox", ["one:2"]],
    ["FOX quick", ["one:2"]],
    ["reunion", ["one:0"]],
    ["quick cat", []],
    ["\"brown fox\"", ["one:2"]],
    ["\"fox brown\"", []],
    ["well-known", ["one:0"]],
    ["known well", ["one:0", "two:0"]],
    ["parse_format", ["one:3"]],
    ["pars*", ["one:0", "one:3", "two:1"]],
    ["pars", []],
    ["fox OR wins", ["one:2", "two:1"]],
    ["format NOT work", ["one:0", "one:3"]],
    ["format AND work", ["two:0"]],
    ["read_file", ["one:1", "one:2"]],
    ["docs/report.md", ["one:1"]],
    ["会議", ["two:1"]],
    ["議会", []],
    ["会議 wins OR fox", ["one:2", "two:1"]]
  ]
  for (const [query, expected] of cases) {
    test(`${query} finds ${expected.length === 0 ? "nothing" : expected.join(", ")}`, Effect.gen(function*() {
      yield* filled
      Check.same(yield* places(query), expected)
    }))
  }

  test("a query that asks for nothing finds nothing", Effect.gen(function*() {
    yield* filled
    const queries = ["", "  ", "\"", "\"\"", "*", "AND", "OR", "NOT", "NOT fox", "OR OR", "()", "-", "!!! ???", "\u0000"]
    for (const query of queries) Check.same(yield* find(query), [], query)
  }))

  test("a query with loose ends asks for the rest of it", Effect.gen(function*() {
    yield* filled
    const queries = [
      "\"brown fox", "fox\"", "fox AND", "AND fox", "fox OR", "OR fox", "fox NOT", "(fox", "fox)", "fox -", "^fox", "{fox}",
      "fox;--", "+fox", "fox:", "fox AND NOT", "fox'"
    ]
    for (const query of queries) Check.same(yield* places(query), ["one:2"], query)
  }))

  test("a hit shows where it fits, and what stands around it", Effect.gen(function*() {
    const store = yield* SessionStore
    yield* store.create(newSession(a))
    yield* store.append(a, [user("😀".repeat(300)), assistant("one needle in the hay"), user("short")])
    Check.same(yield* find("needle"), [{
      sessionId: a,
      messageId: 1,
      role: "assistant",
      snippet: "one >>>needle<<< in the hay",
      before: { role: "user", text: "😀".repeat(200) },
      after: { role: "user", text: "short" }
    }])
  }))

  test("a long message is shown around the fit", Effect.gen(function*() {
    const store = yield* SessionStore
    yield* store.create(newSession(a))
    yield* store.append(a, [user(`${"before ".repeat(500)}the needle ${"after ".repeat(500)}`)])
    const [hit] = yield* find("\"the needle\"")
    Check.includes(hit?.snippet, ">>>the needle<<<")
    Check.holds((hit?.snippet.length ?? Infinity) < 400)
    Check.same([hit?.before, hit?.after], [undefined, undefined])
  }))

  test("hits are chosen by session, role, order and number", Effect.gen(function*() {
    const store = yield* SessionStore
    yield* store.create(newSession(a))
    yield* store.create(newSession(b))
    yield* store.append(a, [user("same 1"), assistant("same 2")])
    yield* TestClock.adjust(1)
    yield* store.append(b, [user("same 3")])
    yield* TestClock.adjust(1)
    yield* store.append(a, [user("same 4")])
    const numbers = (options: Parameters<SessionSearch["Service"]["search"]>[1]) =>
      Effect.map(find("same", options), (hits) => hits.map((hit) => hit.snippet.replace(/\D/gu, "")))
    Check.same(yield* numbers({ sort: "newest" }), ["4", "3", "2", "1"])
    Check.same(yield* numbers({ sort: "oldest" }), ["1", "2", "3", "4"])
    Check.same(yield* numbers({ sort: "oldest", limit: 2 }), ["1", "2"])
    Check.same(yield* numbers({ sort: "oldest", sessionId: b }), ["3"])
    Check.same(yield* numbers({ sort: "oldest", except: [a] }), ["3"])
    Check.same(yield* numbers({ sort: "oldest", except: [] }), ["1", "2", "3", "4"])
    Check.same(yield* numbers({ roles: ["assistant"] }), ["2"])
    Check.same(yield* numbers({ roles: [] }), [])
    Check.same((yield* find("same", { limit: 0 })).length, 0)
  }))

  return rules
}

/** The rules. */
export const rules: ReadonlyArray<Conformance.Rule<SessionStore | SessionSearch>> = made()
