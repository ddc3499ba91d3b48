/** Rules for searching stored sessions: words, phrases, and the contents and selection of hits. */
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import { SessionId } from "../../base/domain/Ids.ts"
import { SessionSearch } from "../../store/SessionSearch.ts"
import { SessionStore } from "../../store/SessionStore.ts"
import * as Check from "./Check.ts"
import * as Conformance from "./Conformance.ts"
import {
  makeAssistantMessage,
  makeToolCalls,
  makeNewSession,
  buildToolResult,
  makeUserMessage
} from "./SessionSamples.ts"

const a = SessionId.make("20250102_030405_aaaaaa")
const b = SessionId.make("20250102_030405_bbbbbb")

const searchSessions = (query: string, options?: Parameters<SessionSearch["Service"]["search"]>[1]) =>
  SessionSearch.use(({ search }) => search(query, options))
const listPlaces = (query: string, options?: Parameters<SessionSearch["Service"]["search"]>[1]) =>
  Effect.map(searchSessions(query, options), (hits) => hits.map((hit) => `${hit.sessionId}:${hit.messageId}`).sort())

const filled = Effect.gen(function* () {
  const store = yield* SessionStore
  yield* store.create(makeNewSession("one"))
  yield* store.append(SessionId.make("one"), [
    makeUserMessage("How do I parse a well-known format in Réunion?"),
    makeToolCalls("report"),
    buildToolResult("report", "The quick brown fox jumps over the lazy dog"),
    makeAssistantMessage("Parsing is done by parse_format, see src/lib.parser.ts.")
  ])
  yield* store.create(makeNewSession("two"))
  yield* store.append(SessionId.make("two"), [
    makeUserMessage("a format that is known to work well"),
    makeAssistantMessage("明日の会議は十時です。Then parser wins.")
  ])
  yield* store.create(makeNewSession("hidden", { source: "subagent" }))
  yield* store.append(SessionId.make("hidden"), [makeUserMessage("the quick brown fox, secretly")])
})

const cases: ReadonlyArray<readonly [query: string, places: ReadonlyArray<string>]> = [
  ["fox", ["one:2"]],
  ["FOX quick", ["one:2"]],
  ["reunion", ["one:0"]],
  ["quick cat", []],
  ['"brown fox"', ["one:2"]],
  ['"fox brown"', []],
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
const queryRules = cases.map(([query, expected]) =>
  Conformance.makeTimedRule(
    "search",
    `${query} finds ${expected.length === 0 ? "nothing" : expected.join(", ")}`,
    Effect.gen(function* () {
      yield* filled
      Check.equals(yield* listPlaces(query), expected)
    })
  )
)

/** The rules for searching. */
export const rules: ReadonlyArray<Conformance.Rule<SessionStore | SessionSearch>> = [
  ...queryRules,
  Conformance.makeTimedRule(
    "search",
    "a query that asks for nothing finds nothing",
    Effect.gen(function* () {
      yield* filled
      const queries = ["", "  ", '"', '""', "*", "AND", "OR", "NOT", "NOT fox", "OR OR", "()", "-", "!!! ???", "\u0000"]
      for (const query of queries) Check.equals(yield* searchSessions(query), [], query)
    })
  ),
  Conformance.makeTimedRule(
    "search",
    "a query with loose ends asks for the rest of it",
    Effect.gen(function* () {
      yield* filled
      const queries = [
        '"brown fox',
        'fox"',
        "fox AND",
        "AND fox",
        "fox OR",
        "OR fox",
        "fox NOT",
        "(fox",
        "fox)",
        "fox -",
        "^fox",
        "{fox}",
        "fox;--",
        "+fox",
        "fox:",
        "fox AND NOT",
        "fox'"
      ]
      for (const query of queries) Check.equals(yield* listPlaces(query), ["one:2"], query)
    })
  ),
  Conformance.makeTimedRule(
    "search",
    "a hit shows where it fits, and what stands around it",
    Effect.gen(function* () {
      const store = yield* SessionStore
      yield* store.create(makeNewSession(a))
      yield* store.append(a, [
        makeUserMessage("😀".repeat(300)),
        makeAssistantMessage("one needle in the hay"),
        makeUserMessage("short")
      ])
      Check.equals(yield* searchSessions("needle"), [
        {
          sessionId: a,
          messageId: 1,
          role: "assistant",
          snippet: "one >>>needle<<< in the hay",
          before: { role: "user", text: "😀".repeat(200) },
          after: { role: "user", text: "short" }
        }
      ])
    })
  ),
  Conformance.makeTimedRule(
    "search",
    "a long message is shown around the fit",
    Effect.gen(function* () {
      const store = yield* SessionStore
      yield* store.create(makeNewSession(a))
      yield* store.append(a, [makeUserMessage(`${"before ".repeat(500)}the needle ${"after ".repeat(500)}`)])
      const [hit] = yield* searchSessions('"the needle"')
      Check.includes(hit?.snippet, ">>>the needle<<<")
      Check.holds((hit?.snippet.length ?? Infinity) < 400)
      Check.equals([hit?.before, hit?.after], [undefined, undefined])
    })
  ),
  Conformance.makeTimedRule(
    "search",
    "hits are chosen by session, role, order and number",
    Effect.gen(function* () {
      const store = yield* SessionStore
      yield* store.create(makeNewSession(a))
      yield* store.create(makeNewSession(b))
      yield* store.append(a, [makeUserMessage("same 1"), makeAssistantMessage("same 2")])
      yield* TestClock.adjust(1)
      yield* store.append(b, [makeUserMessage("same 3")])
      yield* TestClock.adjust(1)
      yield* store.append(a, [makeUserMessage("same 4")])
      const listNumbers = (options: Parameters<SessionSearch["Service"]["search"]>[1]) =>
        Effect.map(searchSessions("same", options), (hits) => hits.map((hit) => hit.snippet.replace(/\D/gu, "")))
      Check.equals(yield* listNumbers({ sort: "newest" }), ["4", "3", "2", "1"])
      Check.equals(yield* listNumbers({ sort: "oldest" }), ["1", "2", "3", "4"])
      Check.equals(yield* listNumbers({ sort: "oldest", limit: 2 }), ["1", "2"])
      Check.equals(yield* listNumbers({ sort: "oldest", sessionId: b }), ["3"])
      Check.equals(yield* listNumbers({ sort: "oldest", except: [a] }), ["3"])
      Check.equals(yield* listNumbers({ sort: "oldest", except: [] }), ["1", "2", "3", "4"])
      Check.equals(yield* listNumbers({ roles: ["assistant"] }), ["2"])
      Check.equals(yield* listNumbers({ roles: [] }), [])
      Check.equals((yield* searchSessions("same", { limit: 0 })).length, 0)
    })
  )
]
