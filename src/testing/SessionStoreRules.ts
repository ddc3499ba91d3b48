/**
 * Rules of every session store, whatever it keeps sessions in: sessions, messages, calls that began, ownership, titles, references,
 * usage and search.
 *
 * **Gotchas**
 *
 * Time stands still in each rule until it moves it by `TestClock`: a store takes its times from the `Clock`.
 *
 * **Example** (A test of each rule)
 *
 * ```ts
 * import { SessionStore } from "hermes-effect"
 * import { Conformance, SessionStoreRules } from "hermes-effect/testing"
 *
 * // In the place of this: `test` of node:test, or of Vitest.
 * const tests = new Map<string, () => Promise<void>>()
 * const test = (name: string, run: () => Promise<void>) => tests.set(name, run)
 *
 * Conformance.register({ test }, SessionStoreRules.rules, SessionStore.layerMemory)
 * await tests.get("sessions: an id can be used once")?.()
 * ```
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as TestClock from "effect/testing/TestClock"
import type * as Cost from "../domain/Cost.ts"
import * as Conversation from "../domain/Conversation.ts"
import { SessionId } from "../domain/Ids.ts"
import * as Usage from "../domain/Usage.ts"
import { SessionSearch } from "../session/SessionSearch.ts"
import { SessionStore } from "../session/SessionStore.ts"
import * as Check from "./Check.ts"
import * as Conformance from "./Conformance.ts"
import { assistant, calling, newSession, result, user } from "./SessionSamples.ts"
import * as SessionSearchRules from "./SessionSearchRules.ts"

const usage = (inputTokens: number, outputTokens: number): Usage.Usage => ({
  inputTokens,
  outputTokens,
  cacheReadTokens: 3,
  cacheWriteTokens: 2,
  reasoningTokens: 1,
  requestCount: 1
})

const a = SessionId.make("20250102_030405_aaaaaa")
const b = SessionId.make("20250102_030405_bbbbbb")
const missing = SessionId.make("missing")

const free: Cost.Spent = { usd: 0, status: "included", source: "none" }

const made = (): ReadonlyArray<Conformance.Rule<SessionStore | SessionSearch>> => {
  const rules: Array<Conformance.Rule<SessionStore | SessionSearch>> = []
  const about = (part: string) => <E>(name: string, body: Effect.Effect<void, E, SessionStore | SessionSearch>): void =>
    void rules.push(Conformance.timedRule(part, name, body))

  {
    const test = about("sessions")

    test("a new session is what it was made of, with nothing in it", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* TestClock.setTime(1_700_000_000_000)
      const made = yield* store.create(newSession(a, { parentId: b, title: "First", cwd: "/tmp/x" }))
      Check.same(made, {
        id: a,
        source: "cli",
        provider: "test",
        model: "model-a",
        systemPrompt: "You are terse.",
        parentId: b,
        continues: undefined,
        hasOwnPrompt: false,
        title: "First",
        cwd: "/tmp/x",
        startedAt: 1_700_000_000_000,
        endedAt: undefined,
        endReason: undefined,
        usage: Usage.zero,
        cost: { usd: 0, status: "unknown", source: "none" },
        messageCount: 0,
        toolCallCount: 0
      })
      Check.same(yield* store.get(a), Option.some(made))
      Check.same(yield* store.messages(a), [])
      Check.same(yield* store.usageByModel(a), [])
    }))

    test("a compacted session goes on in one other, which has its messages; the newest of a chain is its end", Effect.gen(function*() {
      const store = yield* SessionStore
      const [second, third, fork] = [SessionId.make("second"), SessionId.make("third"), SessionId.make("fork")]
      yield* store.create(newSession(a, { title: "Harbour", cwd: "/tmp/x", hasOwnPrompt: true }))
      yield* store.append(a, [user("one"), user("two")])
      const next = (id: SessionId) => ({ id, provider: "test", model: "model-b", systemPrompt: "Anew.", messages: [user("note")], endReason: "text_response" })
      const made = yield* store.continueIn(a, next(second))
      Check.has(made, {
        id: second, parentId: a, continues: a, title: "Harbour #2", cwd: "/tmp/x", hasOwnPrompt: true, source: "cli", model: "model-b",
        systemPrompt: "Anew.", endReason: "text_response", messageCount: 1
      })
      Check.same(yield* store.messages(second), [user("note")])
      Check.has(Option.getOrThrow(yield* store.get(a)), { endReason: "compression", messageCount: 2, title: "Harbour" })
      Check.same((yield* store.continueIn(second, next(third))).title, "Harbour #3")
      // A child and a fork are no continuations.
      yield* store.create(newSession(fork, { parentId: third }))
      for (const id of [a, second, third]) Check.same(yield* store.newest(id), third)
      Check.same(yield* store.newest(fork), fork)
      Check.same(yield* store.newest(SessionId.make("missing")), "missing")
      Check.same((yield* store.resolve("Harbour")).id, third)
      yield* store.remove(third)
      Check.same(yield* store.newest(a), second)
    }))

    test("a continuation that cannot be made leaves nothing behind, and the session as it is", Effect.gen(function*() {
      const store = yield* SessionStore
      const second = SessionId.make("second")
      const next = { id: second, provider: "test", model: "m", systemPrompt: "", messages: [user("note")], endReason: "failed" }
      yield* store.create(newSession(a))
      yield* store.end(a, "text_response")
      Check.includes((yield* Effect.flip(store.continueIn(a, { ...next, id: a }))).message, a)
      Check.has(Option.getOrThrow(yield* store.get(a)), { endReason: "text_response" })
      Check.same(yield* store.newest(a), a)
      Check.includes((yield* Effect.flip(store.continueIn(b, next))).message, b)
      yield* store.continueIn(a, next)
      const again = yield* Effect.flip(store.continueIn(a, { ...next, id: SessionId.make("third") }))
      Check.same(again.message, `session ${a} goes on in second already: resume that one`)
    }))

    test("an id can be used once", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* store.create(newSession(a))
      const error = yield* Effect.flip(store.create(newSession(a)))
      Check.same(error._tag, "SessionStoreError")
      Check.includes(error.message, a)
    }))

    test("a session that is not there reads as nothing, and cannot be written to", Effect.gen(function*() {
      const store = yield* SessionStore
      Check.same(yield* store.get(missing), Option.none())
      Check.same(yield* store.messages(missing), [])
      Check.same(yield* store.usageByModel(missing), [])
      Check.same(yield* store.begun(missing), new Set())
      Check.same(yield* store.list(), [])
      const record = { provider: "p", model: "m", usage: Usage.zero, cost: free }
      const writes = [
        store.append(missing, [user("x")]),
        store.append(missing, []),
        store.begin(missing, ["c1"]),
        store.begin(missing, []),
        store.recordUsage(missing, record),
        store.end(missing, "done"),
        store.rename(missing, "Title"),
        store.remove(missing)
      ]
      for (const write of writes) {
        const error = yield* Effect.flip(write)
        Check.same(error._tag, "SessionStoreError")
        Check.matches(error.message, /^no session "missing": /u)
      }
    }))

    test("the end of a run is marked, and the next message reopens the session", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* store.create(newSession(a))
      yield* TestClock.adjust(5)
      yield* store.end(a, "text_response")
      const ended = Option.getOrThrow(yield* store.get(a))
      Check.same([ended.endedAt, ended.endReason], [5, "text_response"])
      yield* store.append(a, [user("again")])
      const reopened = Option.getOrThrow(yield* store.get(a))
      Check.same([reopened.endedAt, reopened.endReason], [undefined, undefined])
    }))

    test("a session that is removed is gone with all that belongs to it, and its id is free again", Effect.gen(function*() {
      const store = yield* SessionStore
      const search = yield* SessionSearch
      yield* store.create(newSession(a, { title: "Mine" }))
      yield* store.create(newSession(b, { parentId: a }))
      yield* store.append(a, [user("needle")])
      yield* store.recordUsage(a, { provider: "p", model: "m", usage: Usage.zero, cost: free })
      yield* store.remove(a)
      Check.holds(Option.isNone(yield* store.get(a)))
      Check.same([yield* store.messages(a), yield* store.usageByModel(a)], [[], []])
      Check.same(yield* search.search("needle"), [])
      Check.same((yield* store.list()).map(({ id }) => id), [b])
      yield* store.create(newSession(a, { title: "Mine" }))
      Check.same(yield* store.messages(a), [])
    }))

    test("lists the newest activity first, by source, within a limit", Effect.gen(function*() {
      const store = yield* SessionStore
      for (const [id, source] of [["one", "cli"], ["two", "batch"], ["three", "cli"]] as const) {
        yield* store.create(newSession(id, { source }))
        yield* TestClock.adjust(10)
      }
      yield* store.append(SessionId.make("one"), [user("newest")])
      const ids = (options?: { readonly source?: string; readonly limit?: number }) =>
        Effect.map(store.list(options), (sessions) => sessions.map((session) => String(session.id)))
      Check.same(yield* ids(), ["one", "three", "two"])
      Check.same(yield* ids({ source: "cli" }), ["one", "three"])
      Check.same(yield* ids({ source: "cli", limit: 1 }), ["one"])
      Check.same(yield* ids({ limit: 0 }), [])
      Check.same(yield* ids({ source: "acp" }), [])
    }))

    test("twenty sessions are listed when no number is given", Effect.gen(function*() {
      const store = yield* SessionStore
      for (let index = 0; index < 22; index++) yield* store.create(newSession(`s${index}`))
      Check.same((yield* store.list()).length, 20)
      Check.same((yield* store.list({ limit: 100 })).length, 22)
    }))

    test("the system prompt comes back byte for byte", Effect.gen(function*() {
      const store = yield* SessionStore
      const systemPrompt = "# Identity\r\n\ttabs, \u0000 nul, “quotes”, 😀, trailing blanks   \n\n"
      yield* store.create(newSession(a, { systemPrompt }))
      Check.same(Option.getOrThrow(yield* store.get(a)).systemPrompt, systemPrompt)
    }))
  }

  {
    const test = about("messages")

    test("come back in order, over several appends, and are counted", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* store.create(newSession(a))
      yield* store.create(newSession(b))
      const messages = [user("hi"), calling("c1", "c2"), result("c1", "one"), result("c2", "two"), assistant("done")]
      yield* store.append(a, messages.slice(0, 2))
      yield* store.append(b, [user("elsewhere")])
      yield* store.append(a, [])
      yield* store.append(a, messages.slice(2))
      Check.same(yield* store.messages(a), messages)
      Check.same(yield* store.messages(a, { from: 1, to: 3 }), messages.slice(1, 3))
      Check.same(yield* store.messages(a, { from: 4, to: 9 }), messages.slice(4))
      const session = Option.getOrThrow(yield* store.get(a))
      Check.same([session.messageCount, session.toolCallCount], [5, 2])
    }))

    test("what was read does not grow with the session", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* store.create(newSession(a))
      yield* store.append(a, [user("hi")])
      const read = yield* store.messages(a)
      yield* store.append(a, [assistant("hello")])
      Check.same(read.length, 1)
    }))

    test("that can be read have their places", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* store.create(newSession(a))
      const messages = [user("hi"), calling("c1"), result("c1", "one")]
      yield* store.append(a, messages)
      Check.same(yield* store.readable(a), { messages: messages.map((message, position) => ({ position, message })), faults: [] })
      Check.same(yield* store.readable(missing), { messages: [], faults: [] })
    }))

    test("appended by many fibers at once are all there, each batch together", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* store.create(newSession(a))
      yield* Effect.forEach(
        Array.from({ length: 20 }, (_, index) => index),
        (index) => store.append(a, [calling(`c${index}`), result(`c${index}`, String(index))]),
        { concurrency: "unbounded" }
      )
      const messages = yield* store.messages(a)
      Check.same(messages.length, 40)
      Check.same(Conversation.closeOpenCalls(messages), messages)
    }))
  }

  {
    const test = about("calls that began")

    test("are known until their result is stored, whatever else is", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* store.create(newSession(a))
      yield* store.create(newSession(b))
      yield* store.append(a, [calling("c1", "c2", "c3")])
      yield* store.begin(a, ["c1", "c2"])
      yield* store.begin(a, ["c2"])
      yield* store.begin(b, ["c1"])
      Check.same(yield* store.begun(a), new Set(["c1", "c2"]))
      yield* store.append(a, [result("c1", "done")])
      Check.same(yield* store.begun(a), new Set(["c2"]))
      yield* store.append(a, [result("c2", "done"), result("c3", "done")])
      Check.same(yield* store.begun(a), new Set())
      Check.same(yield* store.begun(b), new Set(["c1"]))
    }))

    test("of an id that was used before begin anew", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* store.create(newSession(a))
      yield* store.begin(a, ["c1"])
      yield* store.append(a, [result("c1", "once")])
      Check.same(yield* store.begun(a), new Set())
      yield* store.begin(a, ["c1"])
      Check.same(yield* store.begun(a), new Set(["c1"]))
    }))

    test("go with their session", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* store.create(newSession(a))
      yield* store.begin(a, ["c1"])
      yield* store.remove(a)
      yield* store.create(newSession(a))
      Check.same(yield* store.begun(a), new Set())
    }))
  }

  {
    const test = about("ownership")

    test("belongs to one scope at a time, and can be had again when that is closed", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* Effect.scoped(Effect.gen(function*() {
        yield* store.acquire(a)
        yield* Effect.scoped(store.acquire(b))
        const busy = yield* Effect.flip(Effect.scoped(store.acquire(a)))
        Check.same([busy._tag, busy.message], [
          "SessionBusy",
          `session ${a} is busy: wait for its run to end, or stop it`
        ])
        yield* Effect.flip(Effect.scoped(store.acquire(a)))
      }))
      yield* Effect.scoped(store.acquire(a))
    }))

    test("is given to one of many who ask at once", Effect.gen(function*() {
      const store = yield* SessionStore
      const asked = Array.from({ length: 20 }, () => Effect.exit(store.acquire(a)))
      const exits = yield* Effect.scoped(Effect.all(asked, { concurrency: "unbounded" }))
      Check.same(exits.filter((exit) => exit._tag === "Success").length, 1)
    }))

    test("is kept however long it takes", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* store.create(newSession(a))
      yield* Effect.scoped(Effect.gen(function*() {
        yield* store.acquire(a)
        yield* TestClock.adjust("1 hour")
        Check.same((yield* Effect.flip(Effect.scoped(store.acquire(a))))._tag, "SessionBusy")
        yield* store.append(a, [user("late")])
      }))
    }))
  }

  {
    const test = about("titles")

    test("are one line without control characters", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* store.create(newSession(a, { title: "  Fix\u0007 the\n\tparser \u001b[1m " }))
      Check.same(Option.getOrThrow(yield* store.get(a)).title, "Fix the parser [1m")
      yield* store.rename(a, "New\u0000 name")
      Check.same(Option.getOrThrow(yield* store.get(a)).title, "New name")
    }))

    test("have 1 to 100 characters", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* store.create(newSession(a))
      yield* store.rename(a, "😀".repeat(100))
      const long = yield* Effect.flip(store.rename(a, "x".repeat(101)))
      Check.includes(long.message, "101 characters")
      const empty = yield* Effect.flip(store.rename(a, " \n\u0000"))
      Check.includes(empty.message, "empty")
      const created = yield* Effect.flip(store.create(newSession(b, { title: "x".repeat(101) })))
      Check.same(created.operation, "create")
      Check.same(yield* store.get(b), Option.none())
    }))

    test("belong to one session", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* store.create(newSession(a, { title: "Mine" }))
      const created = yield* Effect.flip(store.create(newSession(b, { title: "Mine" })))
      Check.includes(created.message, a)
      yield* store.create(newSession(b))
      const renamed = yield* Effect.flip(store.rename(b, " Mine "))
      Check.includes(renamed.message, a)
      yield* store.rename(a, "Mine")
      yield* store.rename(a, "Other")
      yield* store.rename(b, "Mine")
    }))
  }

  {
    const test = about("references")

    const resolved = (reference: string) =>
      SessionStore.use((store) => Effect.map(store.resolve(reference), (session) => String(session.id)))

    test("an exact id wins over everything else", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* store.create(newSession("abc"))
      yield* store.create(newSession("abcdef", { title: "abc" }))
      Check.same(yield* resolved("abc"), "abc")
      Check.same(yield* resolved(" abcd "), "abcdef")
    }))

    test("a beginning that several ids share opens none of them and names them all", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* store.create(newSession(a))
      yield* TestClock.adjust(1)
      yield* store.create(newSession(b))
      const error = yield* Effect.flip(store.resolve("20250102"))
      Check.same(error._tag, "SessionNotFound")
      Check.same(error._tag === "SessionNotFound" ? error.candidates : [], [b, a])
      Check.same(yield* resolved("20250102_030405_b"), b)
      yield* store.rename(a, "20250102")
      Check.same(yield* resolved("20250102"), a)
    }))

    test("signs that mean something to SQL are only signs", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* store.create(newSession("plain", { title: "100% of it's_done" }))
      for (const reference of ["%", "_lain", "pl%", "' OR 1=1 --", "*", "", "  "]) {
        const error = yield* Effect.flip(store.resolve(reference))
        Check.same(error._tag, "SessionNotFound")
      }
      Check.same(yield* resolved("100% of it's_done"), "plain")
    }))

    test("a title means the last of its continuations", Effect.gen(function*() {
      const store = yield* SessionStore
      const child = (id: string, parent: string, title: string) =>
        store.create(newSession(id, { parentId: SessionId.make(parent), title }))
      yield* store.create(newSession("root", { title: "Work" }))
      yield* child("second", "root", "Work #2")
      yield* child("third", "second", "Work #10")
      yield* child("stranger", "elsewhere", "Work #11")
      yield* child("other", "third", "Work #12 done")
      Check.same(yield* resolved("Work"), "third")
      Check.same(yield* resolved("Work #2"), "second")
    }))

    test("latest is the newest activity of a session that is somebody's", Effect.gen(function*() {
      const store = yield* SessionStore
      const none = yield* Effect.flip(store.resolve("latest"))
      Check.same(none._tag, "SessionNotFound")
      yield* store.create(newSession("latest-news"))
      yield* TestClock.adjust(1)
      yield* store.create(newSession("first"))
      yield* TestClock.adjust(1)
      yield* store.create(newSession("second"))
      yield* TestClock.adjust(1)
      yield* store.append(SessionId.make("first"), [user("hello")])
      yield* TestClock.adjust(1)
      yield* store.create(newSession("child", { source: "subagent" }))
      yield* store.create(newSession("helper", { source: "tool" }))
      Check.same(yield* resolved("latest"), "first")
    }))

    test("latest of a folder is the newest session whose directory belongs to it, and no session of another one", Effect.gen(function*() {
      const store = yield* SessionStore
      const made = (id: string, more: Parameters<typeof newSession>[1] = {}) => Effect.andThen(TestClock.adjust(1), store.create(newSession(id, more)))
      const project = { path: "/project", holds: (directory: string) => Effect.succeed(directory === "/project" || directory === "/project/src") }
      yield* made("old", { cwd: "/project" })
      yield* made("mine", { cwd: "/project/src" })
      yield* made("beside", { cwd: "/project-b" })
      yield* made("nowhere")
      yield* made("child", { cwd: "/project", source: "subagent" })
      Check.same(String((yield* store.resolve("latest", project)).id), "mine")
      yield* TestClock.adjust(1)
      yield* store.append(SessionId.make("old"), [user("hello")])
      Check.same(String((yield* store.resolve("latest", project)).id), "old")
      // A name means its session, whatever its folder.
      Check.same(String((yield* store.resolve("beside", project)).id), "beside")
      const none = yield* Effect.flip(store.resolve("latest", { path: "/other", holds: () => Effect.succeed(false) }))
      Check.same(none._tag === "SessionNotFound" ? none.folder : none._tag, "/other")
    }))
  }

  {
    const test = about("usage")

    test("is summed by provider and model, and over all of them", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* store.create(newSession(a))
      const record = (provider: string, model: string, input: number) =>
        store.recordUsage(a, { provider, model, usage: usage(input, 1), cost: free })
      yield* record("openai", "m1", 10)
      yield* record("openai", "m2", 100)
      yield* record("azure", "m1", 1000)
      yield* record("openai", "m1", 5)
      const records = yield* store.usageByModel(a)
      Check.same(
        records.map(({ provider, model, usage }) => [provider, model, usage.inputTokens, usage.requestCount]),
        [["openai", "m1", 15, 2], ["openai", "m2", 100, 1], ["azure", "m1", 1000, 1]]
      )
      const session = Option.getOrThrow(yield* store.get(a))
      Check.same(records.map((record) => record.usage).reduce(Usage.add), session.usage)
      Check.same(session.usage.requestCount, 4)
    }))
  }

  return rules
}

/** The rules. */
export const rules: ReadonlyArray<Conformance.Rule<SessionStore | SessionSearch>> = [...made(), ...SessionSearchRules.rules]
