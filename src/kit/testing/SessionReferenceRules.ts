/** Rules for started calls, ownership, titles, references and usage of stored sessions. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as TestClock from "effect/testing/TestClock"
import type * as Cost from "../../base/domain/Cost.ts"
import { SessionId } from "../../base/domain/Ids.ts"
import * as Usage from "../../base/domain/Usage.ts"
import type { SessionSearch } from "../../store/SessionSearch.ts"
import { SessionStore } from "../../store/SessionStore.ts"
import * as Check from "./Check.ts"
import * as Conformance from "./Conformance.ts"
import { buildToolResult, makeNewSession, makeToolCalls, makeUserMessage } from "./SessionSamples.ts"

const makeUsage = (inputTokens: number, outputTokens: number): Usage.Usage => ({
  inputTokens,
  outputTokens,
  cacheReadTokens: 3,
  cacheWriteTokens: 2,
  reasoningTokens: 1,
  requestCount: 1
})

const a = SessionId.make("20250102_030405_aaaaaa")
const b = SessionId.make("20250102_030405_bbbbbb")

const free: Cost.Spent = { usd: 0, status: "included", source: "none" }

/** Rules for calls that have started and have no result yet. */
const callRules: ReadonlyArray<Conformance.Rule<SessionStore | SessionSearch>> = [
  Conformance.makeTimedRule(
    "calls that began",
    "are known until their result is stored, whatever else is",
    Effect.gen(function* () {
      const store = yield* SessionStore
      yield* store.create(makeNewSession(a))
      yield* store.create(makeNewSession(b))
      yield* store.append(a, [makeToolCalls("c1", "c2", "c3")])
      yield* store.begin(a, ["c1", "c2"])
      yield* store.begin(a, ["c2"])
      yield* store.begin(b, ["c1"])
      Check.equals(yield* store.begun(a), new Set(["c1", "c2"]))
      yield* store.append(a, [buildToolResult("c1", "done")])
      Check.equals(yield* store.begun(a), new Set(["c2"]))
      yield* store.append(a, [buildToolResult("c2", "done"), buildToolResult("c3", "done")])
      Check.equals(yield* store.begun(a), new Set())
      Check.equals(yield* store.begun(b), new Set(["c1"]))
    })
  ),
  Conformance.makeTimedRule(
    "calls that began",
    "of an id that was used before begin anew",
    Effect.gen(function* () {
      const store = yield* SessionStore
      yield* store.create(makeNewSession(a))
      yield* store.begin(a, ["c1"])
      yield* store.append(a, [buildToolResult("c1", "once")])
      Check.equals(yield* store.begun(a), new Set())
      yield* store.begin(a, ["c1"])
      Check.equals(yield* store.begun(a), new Set(["c1"]))
    })
  ),
  Conformance.makeTimedRule(
    "calls that began",
    "go with their session",
    Effect.gen(function* () {
      const store = yield* SessionStore
      yield* store.create(makeNewSession(a))
      yield* store.begin(a, ["c1"])
      yield* store.remove(a)
      yield* store.create(makeNewSession(a))
      Check.equals(yield* store.begun(a), new Set())
    })
  )
]

/** Rules for the ownership of a session by one run at a time. */
const ownershipRules: ReadonlyArray<Conformance.Rule<SessionStore | SessionSearch>> = [
  Conformance.makeTimedRule(
    "ownership",
    "belongs to one scope at a time, and can be had again when that is closed",
    Effect.gen(function* () {
      const store = yield* SessionStore
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* store.acquire(a)
          yield* Effect.scoped(store.acquire(b))
          const busy = yield* Effect.flip(Effect.scoped(store.acquire(a)))
          Check.equals(
            [busy._tag, busy.message],
            ["SessionBusy", `session ${a} is busy: wait for its run to end, or stop it`]
          )
          yield* Effect.flip(Effect.scoped(store.acquire(a)))
        })
      )
      yield* Effect.scoped(store.acquire(a))
    })
  ),
  Conformance.makeTimedRule(
    "ownership",
    "is given to one of many who ask at once",
    Effect.gen(function* () {
      const store = yield* SessionStore
      const asked = Array.from({ length: 20 }, () => Effect.exit(store.acquire(a)))
      const exits = yield* Effect.scoped(Effect.all(asked, { concurrency: "unbounded" }))
      Check.equals(exits.filter((exit) => exit._tag === "Success").length, 1)
    })
  ),
  Conformance.makeTimedRule(
    "ownership",
    "is kept however long it takes",
    Effect.gen(function* () {
      const store = yield* SessionStore
      yield* store.create(makeNewSession(a))
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* store.acquire(a)
          yield* TestClock.adjust("1 hour")
          Check.equals((yield* Effect.flip(Effect.scoped(store.acquire(a))))._tag, "SessionBusy")
          yield* store.append(a, [makeUserMessage("late")])
        })
      )
    })
  )
]

/** Rules for the titles of sessions. */
const titleRules: ReadonlyArray<Conformance.Rule<SessionStore | SessionSearch>> = [
  Conformance.makeTimedRule(
    "titles",
    "are one line without control characters",
    Effect.gen(function* () {
      const store = yield* SessionStore
      yield* store.create(makeNewSession(a, { title: "  Fix\u0007 the\n\tparser \u001b[1m " }))
      Check.equals(Option.getOrThrow(yield* store.get(a)).title, "Fix the parser [1m")
      yield* store.rename(a, "New\u0000 name")
      Check.equals(Option.getOrThrow(yield* store.get(a)).title, "New name")
    })
  ),
  Conformance.makeTimedRule(
    "titles",
    "have 1 to 100 characters",
    Effect.gen(function* () {
      const store = yield* SessionStore
      yield* store.create(makeNewSession(a))
      yield* store.rename(a, "😀".repeat(100))
      const long = yield* Effect.flip(store.rename(a, "x".repeat(101)))
      Check.includes(long.message, "101 characters")
      const empty = yield* Effect.flip(store.rename(a, " \n\u0000"))
      Check.includes(empty.message, "empty")
      const created = yield* Effect.flip(store.create(makeNewSession(b, { title: "x".repeat(101) })))
      Check.equals(created.operation, "create")
      Check.equals(yield* store.get(b), Option.none())
    })
  ),
  Conformance.makeTimedRule(
    "titles",
    "belong to one session",
    Effect.gen(function* () {
      const store = yield* SessionStore
      yield* store.create(makeNewSession(a, { title: "Mine" }))
      const created = yield* Effect.flip(store.create(makeNewSession(b, { title: "Mine" })))
      Check.includes(created.message, a)
      yield* store.create(makeNewSession(b))
      const renamed = yield* Effect.flip(store.rename(b, " Mine "))
      Check.includes(renamed.message, a)
      yield* store.rename(a, "Mine")
      yield* store.rename(a, "Other")
      yield* store.rename(b, "Mine")
    })
  )
]

const resolveId = (reference: string) =>
  SessionStore.use((store) => Effect.map(store.resolve(reference), (session) => String(session.id)))

/** Rules for references to sessions: ids, prefixes of ids, titles and `latest`. */
const referenceRules: ReadonlyArray<Conformance.Rule<SessionStore | SessionSearch>> = [
  Conformance.makeTimedRule(
    "references",
    "an exact id wins over everything else",
    Effect.gen(function* () {
      const store = yield* SessionStore
      yield* store.create(makeNewSession("abc"))
      yield* store.create(makeNewSession("abcdef", { title: "abc" }))
      Check.equals(yield* resolveId("abc"), "abc")
      Check.equals(yield* resolveId(" abcd "), "abcdef")
    })
  ),
  Conformance.makeTimedRule(
    "references",
    "a beginning that several ids share opens none of them and names them all",
    Effect.gen(function* () {
      const store = yield* SessionStore
      yield* store.create(makeNewSession(a))
      yield* TestClock.adjust(1)
      yield* store.create(makeNewSession(b))
      const error = yield* Effect.flip(store.resolve("20250102"))
      Check.equals(error._tag, "SessionNotFound")
      Check.equals(error._tag === "SessionNotFound" ? error.candidates : [], [b, a])
      Check.equals(yield* resolveId("20250102_030405_b"), b)
      yield* store.rename(a, "20250102")
      Check.equals(yield* resolveId("20250102"), a)
    })
  ),
  Conformance.makeTimedRule(
    "references",
    "signs that mean something to SQL are only signs",
    Effect.gen(function* () {
      const store = yield* SessionStore
      yield* store.create(makeNewSession("plain", { title: "100% of it's_done" }))
      for (const reference of ["%", "_lain", "pl%", "' OR 1=1 --", "*", "", "  "]) {
        const error = yield* Effect.flip(store.resolve(reference))
        Check.equals(error._tag, "SessionNotFound")
      }
      Check.equals(yield* resolveId("100% of it's_done"), "plain")
    })
  ),
  Conformance.makeTimedRule(
    "references",
    "a title means the last of its continuations",
    Effect.gen(function* () {
      const store = yield* SessionStore
      const createChild = (id: string, parent: string, title: string) =>
        store.create(makeNewSession(id, { parentId: SessionId.make(parent), title }))
      yield* store.create(makeNewSession("root", { title: "Work" }))
      yield* createChild("second", "root", "Work #2")
      yield* createChild("third", "second", "Work #10")
      yield* createChild("stranger", "elsewhere", "Work #11")
      yield* createChild("other", "third", "Work #12 done")
      Check.equals(yield* resolveId("Work"), "third")
      Check.equals(yield* resolveId("Work #2"), "second")
    })
  ),
  Conformance.makeTimedRule(
    "references",
    "latest is the newest activity of a session that is somebody's",
    Effect.gen(function* () {
      const store = yield* SessionStore
      const none = yield* Effect.flip(store.resolve("latest"))
      Check.equals(none._tag, "SessionNotFound")
      yield* store.create(makeNewSession("latest-news"))
      yield* TestClock.adjust(1)
      yield* store.create(makeNewSession("first"))
      yield* TestClock.adjust(1)
      yield* store.create(makeNewSession("second"))
      yield* TestClock.adjust(1)
      yield* store.append(SessionId.make("first"), [makeUserMessage("hello")])
      yield* TestClock.adjust(1)
      yield* store.create(makeNewSession("child", { source: "subagent" }))
      yield* store.create(makeNewSession("helper", { source: "tool" }))
      yield* store.create(makeNewSession("workflow_ticket-7", { source: "workflow" }))
      Check.equals(yield* resolveId("latest"), "first")
    })
  ),
  Conformance.makeTimedRule(
    "references",
    "latest of a folder is the newest session whose directory belongs to it, and no session of another one",
    Effect.gen(function* () {
      const store = yield* SessionStore
      const createSession = (id: string, more: Parameters<typeof makeNewSession>[1] = {}) =>
        Effect.andThen(TestClock.adjust(1), store.create(makeNewSession(id, more)))
      const project = {
        path: "/project",
        holds: (directory: string) => Effect.succeed(directory === "/project" || directory === "/project/src")
      }
      yield* createSession("old", { cwd: "/project" })
      yield* createSession("mine", { cwd: "/project/src" })
      yield* createSession("beside", { cwd: "/project-b" })
      yield* createSession("nowhere")
      yield* createSession("child", { cwd: "/project", source: "subagent" })
      Check.equals(String((yield* store.resolve("latest", project)).id), "mine")
      yield* TestClock.adjust(1)
      yield* store.append(SessionId.make("old"), [makeUserMessage("hello")])
      Check.equals(String((yield* store.resolve("latest", project)).id), "old")
      // A title refers to its session, regardless of the folder.
      Check.equals(String((yield* store.resolve("beside", project)).id), "beside")
      const none = yield* Effect.flip(store.resolve("latest", { path: "/other", holds: () => Effect.succeed(false) }))
      Check.equals(none._tag === "SessionNotFound" ? none.folder : none._tag, "/other")
    })
  )
]

/** Rules for usage by provider and model. */
const usageRules: ReadonlyArray<Conformance.Rule<SessionStore | SessionSearch>> = [
  Conformance.makeTimedRule(
    "usage",
    "is summed by provider and model, and over all of them",
    Effect.gen(function* () {
      const store = yield* SessionStore
      yield* store.create(makeNewSession(a))
      const recordModelUsage = (provider: string, model: string, input: number) =>
        store.recordUsage(a, { provider, model, usage: makeUsage(input, 1), cost: free })
      yield* recordModelUsage("openai", "m1", 10)
      yield* recordModelUsage("openai", "m2", 100)
      yield* recordModelUsage("azure", "m1", 1000)
      yield* recordModelUsage("openai", "m1", 5)
      const records = yield* store.usageByModel(a)
      Check.equals(
        records.map(({ provider, model, usage }) => [provider, model, usage.inputTokens, usage.requestCount]),
        [
          ["openai", "m1", 15, 2],
          ["openai", "m2", 100, 1],
          ["azure", "m1", 1000, 1]
        ]
      )
      const session = Option.getOrThrow(yield* store.get(a))
      Check.equals(records.map((record) => record.usage).reduce(Usage.add), session.usage)
      Check.equals(session.usage.requestCount, 4)
    })
  )
]

/** All rules of this module. */
export const rules: ReadonlyArray<Conformance.Rule<SessionStore | SessionSearch>> = [
  ...callRules,
  ...ownershipRules,
  ...titleRules,
  ...referenceRules,
  ...usageRules
]
