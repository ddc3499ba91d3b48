/**
 * Rules of every session store, whatever it keeps sessions in: sessions, messages, calls that began, ownership, titles,
 * references, usage and search.
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
import type * as Cost from "../../base/domain/Cost.ts"
import * as Conversation from "../../base/domain/Conversation.ts"
import { SessionId } from "../../base/domain/Ids.ts"
import * as Usage from "../../base/domain/Usage.ts"
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
import * as SessionSearchRules from "./SessionSearchRules.ts"

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
const missing = SessionId.make("missing")

const free: Cost.Spent = { usd: 0, status: "included", source: "none" }

const buildRules = (): ReadonlyArray<Conformance.Rule<SessionStore | SessionSearch>> => {
  const rules: Array<Conformance.Rule<SessionStore | SessionSearch>> = []
  const makeRuleAdder =
    (part: string) =>
    <E>(name: string, body: Effect.Effect<void, E, SessionStore | SessionSearch>): void =>
      void rules.push(Conformance.makeTimedRule(part, name, body))

  {
    const test = makeRuleAdder("sessions")

    test(
      "a new session is what it was made of, with nothing in it",
      Effect.gen(function* () {
        const store = yield* SessionStore
        yield* TestClock.setTime(1_700_000_000_000)
        const made = yield* store.create(makeNewSession(a, { parentId: b, title: "First", cwd: "/tmp/x" }))
        Check.equals(made, {
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
        Check.equals(yield* store.get(a), Option.some(made))
        Check.equals(yield* store.messages(a), [])
        Check.equals(yield* store.usageByModel(a), [])
      })
    )

    test(
      "a compacted session goes on in one other, which has its messages; the newest of a chain is its end",
      Effect.gen(function* () {
        const store = yield* SessionStore
        const [second, third, fork] = [SessionId.make("second"), SessionId.make("third"), SessionId.make("fork")]
        yield* store.create(makeNewSession(a, { title: "Harbour", cwd: "/tmp/x", hasOwnPrompt: true }))
        yield* store.append(a, [makeUserMessage("one"), makeUserMessage("two")])
        const makeContinuation = (id: SessionId) => ({
          id,
          provider: "test",
          model: "model-b",
          systemPrompt: "Anew.",
          messages: [makeUserMessage("note")],
          endReason: "text_response"
        })
        const made = yield* store.continueIn(a, makeContinuation(second))
        Check.hasFields(made, {
          id: second,
          parentId: a,
          continues: a,
          title: "Harbour #2",
          cwd: "/tmp/x",
          hasOwnPrompt: true,
          source: "cli",
          model: "model-b",
          systemPrompt: "Anew.",
          endReason: "text_response",
          messageCount: 1
        })
        Check.equals(yield* store.messages(second), [makeUserMessage("note")])
        Check.hasFields(Option.getOrThrow(yield* store.get(a)), {
          endReason: "compression",
          messageCount: 2,
          title: "Harbour"
        })
        Check.equals((yield* store.continueIn(second, makeContinuation(third))).title, "Harbour #3")
        // A child and a fork are no continuations.
        yield* store.create(makeNewSession(fork, { parentId: third }))
        for (const id of [a, second, third]) Check.equals(yield* store.newest(id), third)
        Check.equals(yield* store.newest(fork), fork)
        Check.equals(yield* store.newest(SessionId.make("missing")), "missing")
        Check.equals((yield* store.resolve("Harbour")).id, third)
        yield* store.remove(third)
        Check.equals(yield* store.newest(a), second)
      })
    )

    test(
      "a continuation that cannot be made leaves nothing behind, and the session as it is",
      Effect.gen(function* () {
        const store = yield* SessionStore
        const second = SessionId.make("second")
        const next = {
          id: second,
          provider: "test",
          model: "m",
          systemPrompt: "",
          messages: [makeUserMessage("note")],
          endReason: "failed"
        }
        yield* store.create(makeNewSession(a))
        yield* store.end(a, "text_response")
        Check.includes((yield* Effect.flip(store.continueIn(a, { ...next, id: a }))).message, a)
        Check.hasFields(Option.getOrThrow(yield* store.get(a)), { endReason: "text_response" })
        Check.equals(yield* store.newest(a), a)
        Check.includes((yield* Effect.flip(store.continueIn(b, next))).message, b)
        yield* store.continueIn(a, next)
        const again = yield* Effect.flip(store.continueIn(a, { ...next, id: SessionId.make("third") }))
        Check.equals(again.message, `session ${a} goes on in second already: resume that one`)
      })
    )

    test(
      "an id can be used once",
      Effect.gen(function* () {
        const store = yield* SessionStore
        yield* store.create(makeNewSession(a))
        const error = yield* Effect.flip(store.create(makeNewSession(a)))
        Check.equals(error._tag, "SessionStoreError")
        Check.includes(error.message, a)
      })
    )

    test(
      "a session that is not there reads as nothing, and cannot be written to",
      Effect.gen(function* () {
        const store = yield* SessionStore
        Check.equals(yield* store.get(missing), Option.none())
        Check.equals(yield* store.messages(missing), [])
        Check.equals(yield* store.usageByModel(missing), [])
        Check.equals(yield* store.begun(missing), new Set())
        Check.equals(yield* store.list(), [])
        const record = { provider: "p", model: "m", usage: Usage.zero, cost: free }
        const writes = [
          store.append(missing, [makeUserMessage("x")]),
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
          Check.equals(error._tag, "SessionStoreError")
          Check.matches(error.message, /^no session "missing": /u)
        }
      })
    )

    test(
      "the end of a run is marked, and the next message reopens the session",
      Effect.gen(function* () {
        const store = yield* SessionStore
        yield* store.create(makeNewSession(a))
        yield* TestClock.adjust(5)
        yield* store.end(a, "text_response")
        const ended = Option.getOrThrow(yield* store.get(a))
        Check.equals([ended.endedAt, ended.endReason], [5, "text_response"])
        yield* store.append(a, [makeUserMessage("again")])
        const reopened = Option.getOrThrow(yield* store.get(a))
        Check.equals([reopened.endedAt, reopened.endReason], [undefined, undefined])
      })
    )

    test(
      "a session that is removed is gone with all that belongs to it, and its id is free again",
      Effect.gen(function* () {
        const store = yield* SessionStore
        const search = yield* SessionSearch
        yield* store.create(makeNewSession(a, { title: "Mine" }))
        yield* store.create(makeNewSession(b, { parentId: a }))
        yield* store.append(a, [makeUserMessage("needle")])
        yield* store.recordUsage(a, { provider: "p", model: "m", usage: Usage.zero, cost: free })
        yield* store.remove(a)
        Check.holds(Option.isNone(yield* store.get(a)))
        Check.equals([yield* store.messages(a), yield* store.usageByModel(a)], [[], []])
        Check.equals(yield* search.search("needle"), [])
        Check.equals(
          (yield* store.list()).map(({ id }) => id),
          [b]
        )
        yield* store.create(makeNewSession(a, { title: "Mine" }))
        Check.equals(yield* store.messages(a), [])
      })
    )

    test(
      "lists the newest activity first, by source, within a limit",
      Effect.gen(function* () {
        const store = yield* SessionStore
        for (const [id, source] of [
          ["one", "cli"],
          ["two", "batch"],
          ["three", "cli"]
        ] as const) {
          yield* store.create(makeNewSession(id, { source }))
          yield* TestClock.adjust(10)
        }
        yield* store.append(SessionId.make("one"), [makeUserMessage("newest")])
        const listIds = (options?: { readonly source?: string; readonly limit?: number }) =>
          Effect.map(store.list(options), (sessions) => sessions.map((session) => String(session.id)))
        Check.equals(yield* listIds(), ["one", "three", "two"])
        Check.equals(yield* listIds({ source: "cli" }), ["one", "three"])
        Check.equals(yield* listIds({ source: "cli", limit: 1 }), ["one"])
        Check.equals(yield* listIds({ limit: 0 }), [])
        Check.equals(yield* listIds({ source: "acp" }), [])
      })
    )

    test(
      "twenty sessions are listed when no number is given",
      Effect.gen(function* () {
        const store = yield* SessionStore
        for (let index = 0; index < 22; index++) yield* store.create(makeNewSession(`s${index}`))
        Check.equals((yield* store.list()).length, 20)
        Check.equals((yield* store.list({ limit: 100 })).length, 22)
      })
    )

    test(
      "the system prompt comes back byte for byte",
      Effect.gen(function* () {
        const store = yield* SessionStore
        const systemPrompt = "# Identity\r\n\ttabs, \u0000 nul, “quotes”, 😀, trailing blanks   \n\n"
        yield* store.create(makeNewSession(a, { systemPrompt }))
        Check.equals(Option.getOrThrow(yield* store.get(a)).systemPrompt, systemPrompt)
      })
    )
  }

  {
    const test = makeRuleAdder("messages")

    test(
      "come back in order, over several appends, and are counted",
      Effect.gen(function* () {
        const store = yield* SessionStore
        yield* store.create(makeNewSession(a))
        yield* store.create(makeNewSession(b))
        const messages = [
          makeUserMessage("hi"),
          makeToolCalls("c1", "c2"),
          buildToolResult("c1", "one"),
          buildToolResult("c2", "two"),
          makeAssistantMessage("done")
        ]
        yield* store.append(a, messages.slice(0, 2))
        yield* store.append(b, [makeUserMessage("elsewhere")])
        yield* store.append(a, [])
        yield* store.append(a, messages.slice(2))
        Check.equals(yield* store.messages(a), messages)
        Check.equals(yield* store.messages(a, { from: 1, to: 3 }), messages.slice(1, 3))
        Check.equals(yield* store.messages(a, { from: 4, to: 9 }), messages.slice(4))
        const session = Option.getOrThrow(yield* store.get(a))
        Check.equals([session.messageCount, session.toolCallCount], [5, 2])
      })
    )

    test(
      "what was read does not grow with the session",
      Effect.gen(function* () {
        const store = yield* SessionStore
        yield* store.create(makeNewSession(a))
        yield* store.append(a, [makeUserMessage("hi")])
        const read = yield* store.messages(a)
        yield* store.append(a, [makeAssistantMessage("hello")])
        Check.equals(read.length, 1)
      })
    )

    test(
      "that can be read have their places",
      Effect.gen(function* () {
        const store = yield* SessionStore
        yield* store.create(makeNewSession(a))
        const messages = [makeUserMessage("hi"), makeToolCalls("c1"), buildToolResult("c1", "one")]
        yield* store.append(a, messages)
        Check.equals(yield* store.readable(a), {
          messages: messages.map((message, position) => ({ position, message })),
          faults: []
        })
        Check.equals(yield* store.readable(missing), { messages: [], faults: [] })
      })
    )

    test(
      "appended by many fibers at once are all there, each batch together",
      Effect.gen(function* () {
        const store = yield* SessionStore
        yield* store.create(makeNewSession(a))
        yield* Effect.forEach(
          Array.from({ length: 20 }, (_, index) => index),
          (index) => store.append(a, [makeToolCalls(`c${index}`), buildToolResult(`c${index}`, String(index))]),
          { concurrency: "unbounded" }
        )
        const messages = yield* store.messages(a)
        Check.equals(messages.length, 40)
        Check.equals(Conversation.closeOpenCalls(messages), messages)
      })
    )
  }

  {
    const test = makeRuleAdder("calls that began")

    test(
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
    )

    test(
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
    )

    test(
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
  }

  {
    const test = makeRuleAdder("ownership")

    test(
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
    )

    test(
      "is given to one of many who ask at once",
      Effect.gen(function* () {
        const store = yield* SessionStore
        const asked = Array.from({ length: 20 }, () => Effect.exit(store.acquire(a)))
        const exits = yield* Effect.scoped(Effect.all(asked, { concurrency: "unbounded" }))
        Check.equals(exits.filter((exit) => exit._tag === "Success").length, 1)
      })
    )

    test(
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
  }

  {
    const test = makeRuleAdder("titles")

    test(
      "are one line without control characters",
      Effect.gen(function* () {
        const store = yield* SessionStore
        yield* store.create(makeNewSession(a, { title: "  Fix\u0007 the\n\tparser \u001b[1m " }))
        Check.equals(Option.getOrThrow(yield* store.get(a)).title, "Fix the parser [1m")
        yield* store.rename(a, "New\u0000 name")
        Check.equals(Option.getOrThrow(yield* store.get(a)).title, "New name")
      })
    )

    test(
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
    )

    test(
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
  }

  {
    const test = makeRuleAdder("references")

    const resolveId = (reference: string) =>
      SessionStore.use((store) => Effect.map(store.resolve(reference), (session) => String(session.id)))

    test(
      "an exact id wins over everything else",
      Effect.gen(function* () {
        const store = yield* SessionStore
        yield* store.create(makeNewSession("abc"))
        yield* store.create(makeNewSession("abcdef", { title: "abc" }))
        Check.equals(yield* resolveId("abc"), "abc")
        Check.equals(yield* resolveId(" abcd "), "abcdef")
      })
    )

    test(
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
    )

    test(
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
    )

    test(
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
    )

    test(
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
        Check.equals(yield* resolveId("latest"), "first")
      })
    )

    test(
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
        // A name means its session, whatever its folder.
        Check.equals(String((yield* store.resolve("beside", project)).id), "beside")
        const none = yield* Effect.flip(store.resolve("latest", { path: "/other", holds: () => Effect.succeed(false) }))
        Check.equals(none._tag === "SessionNotFound" ? none.folder : none._tag, "/other")
      })
    )
  }

  {
    const test = makeRuleAdder("usage")

    test(
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
  }

  return rules
}

/** The rules. */
export const rules: ReadonlyArray<Conformance.Rule<SessionStore | SessionSearch>> = [
  ...buildRules(),
  ...SessionSearchRules.rules
]
