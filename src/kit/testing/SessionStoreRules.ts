/**
 * Rules for every session store, regardless of its storage: sessions, messages, started calls, ownership, titles,
 * references, usage, questions, tenants and search.
 *
 * **Gotchas**
 *
 * Time does not advance in a rule until the rule adjusts `TestClock`: a store reads the time from the `Clock`.
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
import * as SessionQuestionRules from "./SessionQuestionRules.ts"
import * as SessionReferenceRules from "./SessionReferenceRules.ts"
import * as SessionSearchRules from "./SessionSearchRules.ts"
import * as SessionTenantRules from "./SessionTenantRules.ts"

const a = SessionId.make("20250102_030405_aaaaaa")
const b = SessionId.make("20250102_030405_bbbbbb")
const missing = SessionId.make("missing")

const free: Cost.Spent = { usd: 0, status: "included", source: "none" }

/** Rules for sessions: their fields, continuations, ends and lists. */
const sessionRules: ReadonlyArray<Conformance.Rule<SessionStore | SessionSearch>> = [
  Conformance.makeTimedRule(
    "sessions",
    "a new session is what it was made of, with nothing in it",
    Effect.gen(function* () {
      const store = yield* SessionStore
      yield* TestClock.setTime(1_700_000_000_000)
      const made = yield* store.create(
        makeNewSession(a, { parentId: b, title: "First", cwd: "/tmp/x", branch: "main", tenant: "shop" })
      )
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
        branch: "main",
        tenant: "shop",
        startedAt: 1_700_000_000_000,
        endedAt: undefined,
        endReason: undefined,
        usage: Usage.zero,
        cost: { usd: null, status: "unknown", source: "none" },
        messageCount: 0,
        toolCallCount: 0
      })
      Check.equals(yield* store.get(a), Option.some(made))
      Check.equals(yield* store.messages(a), [])
      Check.equals(yield* store.usageByModel(a), [])
    })
  ),
  Conformance.makeTimedRule(
    "sessions",
    "a compacted session goes on in one other, which has its messages; the newest of a chain is its end",
    Effect.gen(function* () {
      const store = yield* SessionStore
      const [second, third, fork] = [SessionId.make("second"), SessionId.make("third"), SessionId.make("fork")]
      yield* store.create(makeNewSession(a, { title: "Harbour", cwd: "/tmp/x", branch: "main", hasOwnPrompt: true }))
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
        branch: "main",
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
      // A child session and a fork are not continuations.
      yield* store.create(makeNewSession(fork, { parentId: third }))
      for (const id of [a, second, third]) Check.equals(yield* store.newest(id), third)
      Check.equals(yield* store.newest(fork), fork)
      Check.equals(yield* store.newest(SessionId.make("missing")), "missing")
      Check.equals((yield* store.resolve("Harbour")).id, third)
      yield* store.remove(third)
      Check.equals(yield* store.newest(a), second)
    })
  ),
  Conformance.makeTimedRule(
    "sessions",
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
  ),
  Conformance.makeTimedRule(
    "sessions",
    "an id can be used once",
    Effect.gen(function* () {
      const store = yield* SessionStore
      yield* store.create(makeNewSession(a))
      const error = yield* Effect.flip(store.create(makeNewSession(a)))
      Check.equals(error._tag, "SessionStoreError")
      Check.includes(error.message, a)
    })
  ),
  Conformance.makeTimedRule(
    "sessions",
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
  ),
  Conformance.makeTimedRule(
    "sessions",
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
  ),
  Conformance.makeTimedRule(
    "sessions",
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
  ),
  Conformance.makeTimedRule(
    "sessions",
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
  ),
  Conformance.makeTimedRule(
    "sessions",
    "twenty sessions are listed when no number is given",
    Effect.gen(function* () {
      const store = yield* SessionStore
      for (let index = 0; index < 22; index++) yield* store.create(makeNewSession(`s${index}`))
      Check.equals((yield* store.list()).length, 20)
      Check.equals((yield* store.list({ limit: 100 })).length, 22)
    })
  ),
  Conformance.makeTimedRule(
    "sessions",
    "the system prompt comes back byte for byte",
    Effect.gen(function* () {
      const store = yield* SessionStore
      const systemPrompt = "# Identity\r\n\ttabs, \u0000 nul, “quotes”, 😀, trailing blanks   \n\n"
      yield* store.create(makeNewSession(a, { systemPrompt }))
      Check.equals(Option.getOrThrow(yield* store.get(a)).systemPrompt, systemPrompt)
    })
  )
]

/** Rules for the messages of a session. */
const messageRules: ReadonlyArray<Conformance.Rule<SessionStore | SessionSearch>> = [
  Conformance.makeTimedRule(
    "messages",
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
  ),
  Conformance.makeTimedRule(
    "messages",
    "what was read does not grow with the session",
    Effect.gen(function* () {
      const store = yield* SessionStore
      yield* store.create(makeNewSession(a))
      yield* store.append(a, [makeUserMessage("hi")])
      const read = yield* store.messages(a)
      yield* store.append(a, [makeAssistantMessage("hello")])
      Check.equals(read.length, 1)
    })
  ),
  Conformance.makeTimedRule(
    "messages",
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
  ),
  Conformance.makeTimedRule(
    "messages",
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
]

/** The rules for session stores. */
export const rules: ReadonlyArray<Conformance.Rule<SessionStore | SessionSearch>> = [
  ...sessionRules,
  ...messageRules,
  ...SessionQuestionRules.rules,
  ...SessionReferenceRules.rules,
  ...SessionTenantRules.rules,
  ...SessionSearchRules.rules
]
