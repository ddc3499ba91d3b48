import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Prompt from "effect/ai/Prompt"
import * as TestClock from "effect/testing/TestClock"
import * as Conversation from "../../src/domain/Conversation.ts"
import { SessionId } from "../../src/domain/Ids.ts"
import * as Secrets from "../../src/domain/Secrets.ts"
import type * as Cost from "../../src/domain/Cost.ts"
import * as Usage from "../../src/domain/Usage.ts"
import { SessionSearch } from "../../src/session/SessionSearch.ts"
import { type NewSession, SessionStore } from "../../src/session/SessionStore.ts"
import { encoded, plantedKeys } from "./plantedKeys.ts"
import * as PromptMessages from "./promptMessages.ts"
import { effectProp } from "./property.ts"

/** A session with nothing particular about it. */
export const newSession = (id: string, more: Partial<NewSession> = {}): NewSession => ({
  id: SessionId.make(id),
  source: "cli",
  provider: "test",
  model: "model-a",
  systemPrompt: "You are terse.",
  ...more
})

export const user = (text: string) => Prompt.userMessage({ content: [Prompt.textPart({ text })] })
export const assistant = (text: string) => Prompt.assistantMessage({ content: [Prompt.textPart({ text })] })
export const calling = (...ids: ReadonlyArray<string>) =>
  Prompt.assistantMessage({
    content: ids.map((id) =>
      Prompt.toolCallPart({ id, name: "read_file", params: { path: `docs/${id}.md` }, providerExecuted: false })
    )
  })
export const result = (id: string, output: string) =>
  Conversation.toolResult({ id, name: "read_file" }, { output, isFailure: false })

/** The URLs of files, which a deep comparison takes for equal whatever they are. */
const addresses = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<string> => {
  const parts = messages.flatMap((message): ReadonlyArray<Prompt.Part> =>
    message.role === "system" ? [] : message.content)
  return parts.flatMap((part) => part.type === "file" && part.data instanceof URL ? [part.data.href] : [])
}

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
const nobody = SessionId.make("nobody")

const free: Cost.Spent = { usd: 0, status: "included", source: "none" }

/** What every session store does, whatever it keeps sessions in. */
export const suite = (name: string, layer: Layer.Layer<SessionStore | SessionSearch>): void => {
  const test = <E>(title: string, body: Effect.Effect<void, E, SessionStore | SessionSearch>): void =>
    it.effect(title, () => Effect.provide(body, layer, { local: true }))

  describe(`${name}: sessions`, () => {
    test("a new session is what it was made of, with nothing in it", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* TestClock.setTime(1_700_000_000_000)
      const made = yield* store.create(newSession(a, { parentId: b, title: "First", cwd: "/tmp/x" }))
      assert.deepStrictEqual(made, {
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
      assert.deepStrictEqual(yield* store.get(a), Option.some(made))
      assert.deepStrictEqual(yield* store.messages(a), [])
      assert.deepStrictEqual(yield* store.usageByModel(a), [])
    }))

    test("a compacted session goes on in one other, which has its messages; whoever asks for the newest gets the end of the chain", Effect.gen(function*() {
      const store = yield* SessionStore
      const [second, third, fork] = [SessionId.make("second"), SessionId.make("third"), SessionId.make("fork")]
      yield* store.create(newSession(a, { title: "Harbour", cwd: "/tmp/x", hasOwnPrompt: true }))
      yield* store.append(a, [user("one"), user("two")])
      const next = (id: SessionId) => ({ id, provider: "test", model: "model-b", systemPrompt: "Anew.", messages: [user("note")], endReason: "text_response" })
      const made = yield* store.continueIn(a, next(second))
      assert.deepInclude(made, {
        id: second, parentId: a, continues: a, title: "Harbour #2", cwd: "/tmp/x", hasOwnPrompt: true, source: "cli", model: "model-b",
        systemPrompt: "Anew.", endReason: "text_response", messageCount: 1
      })
      assert.deepStrictEqual(yield* store.messages(second), [user("note")])
      assert.deepInclude(Option.getOrThrow(yield* store.get(a)), { endReason: "compression", messageCount: 2, title: "Harbour" })
      assert.strictEqual((yield* store.continueIn(second, next(third))).title, "Harbour #3")
      // A child and a fork are no continuations.
      yield* store.create(newSession(fork, { parentId: third }))
      for (const id of [a, second, third]) assert.strictEqual(yield* store.newest(id), third)
      assert.strictEqual(yield* store.newest(fork), fork)
      assert.strictEqual(yield* store.newest(SessionId.make("nobody")), "nobody")
      assert.strictEqual((yield* store.resolve("Harbour")).id, third)
      yield* store.remove(third)
      assert.strictEqual(yield* store.newest(a), second)
    }))

    test("a continuation that cannot be made leaves nothing behind, and the session as it is", Effect.gen(function*() {
      const store = yield* SessionStore
      const second = SessionId.make("second")
      const next = { id: second, provider: "test", model: "m", systemPrompt: "", messages: [user("note")], endReason: "failed" }
      yield* store.create(newSession(a))
      yield* store.end(a, "text_response")
      assert.include((yield* Effect.flip(store.continueIn(a, { ...next, id: a }))).message, a)
      assert.deepInclude(Option.getOrThrow(yield* store.get(a)), { endReason: "text_response" })
      assert.strictEqual(yield* store.newest(a), a)
      assert.include((yield* Effect.flip(store.continueIn(b, next))).message, b)
      yield* store.continueIn(a, next)
      const again = yield* Effect.flip(store.continueIn(a, { ...next, id: SessionId.make("third") }))
      assert.strictEqual(again.message, `session ${a} goes on in second already: resume that one`)
    }))

    test("an id can be used once", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* store.create(newSession(a))
      const error = yield* Effect.flip(store.create(newSession(a)))
      assert.strictEqual(error._tag, "SessionStoreError")
      assert.include(error.message, a)
    }))

    test("what is not there reads as nothing, and can not be written to", Effect.gen(function*() {
      const store = yield* SessionStore
      assert.deepStrictEqual(yield* store.get(nobody), Option.none())
      assert.deepStrictEqual(yield* store.messages(nobody), [])
      assert.deepStrictEqual(yield* store.usageByModel(nobody), [])
      assert.deepStrictEqual(yield* store.begun(nobody), new Set())
      assert.deepStrictEqual(yield* store.list(), [])
      const record = { provider: "p", model: "m", usage: Usage.zero, cost: free }
      const writes = [
        store.append(nobody, [user("x")]),
        store.append(nobody, []),
        store.begin(nobody, ["c1"]),
        store.begin(nobody, []),
        store.recordUsage(nobody, record),
        store.end(nobody, "done"),
        store.rename(nobody, "Title"),
        store.remove(nobody)
      ]
      for (const write of writes) {
        const error = yield* Effect.flip(write)
        assert.strictEqual(error._tag, "SessionStoreError")
        assert.match(error.message, /^no session "nobody": /u)
      }
    }))

    test("the end of a run is marked, and the next message reopens the session", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* store.create(newSession(a))
      yield* TestClock.adjust(5)
      yield* store.end(a, "text_response")
      const ended = Option.getOrThrow(yield* store.get(a))
      assert.deepStrictEqual([ended.endedAt, ended.endReason], [5, "text_response"])
      yield* store.append(a, [user("again")])
      const reopened = Option.getOrThrow(yield* store.get(a))
      assert.deepStrictEqual([reopened.endedAt, reopened.endReason], [undefined, undefined])
    }))

    test("a session that is removed is gone with all that belongs to it, and its id is free again", Effect.gen(function*() {
      const store = yield* SessionStore
      const search = yield* SessionSearch
      yield* store.create(newSession(a, { title: "Mine" }))
      yield* store.create(newSession(b, { parentId: a }))
      yield* store.append(a, [user("needle")])
      yield* store.recordUsage(a, { provider: "p", model: "m", usage: Usage.zero, cost: free })
      yield* store.remove(a)
      assert.isTrue(Option.isNone(yield* store.get(a)))
      assert.deepStrictEqual([yield* store.messages(a), yield* store.usageByModel(a)], [[], []])
      assert.deepStrictEqual(yield* search.search("needle"), [])
      assert.deepStrictEqual((yield* store.list()).map(({ id }) => id), [b])
      yield* store.create(newSession(a, { title: "Mine" }))
      assert.deepStrictEqual(yield* store.messages(a), [])
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
      assert.deepStrictEqual(yield* ids(), ["one", "three", "two"])
      assert.deepStrictEqual(yield* ids({ source: "cli" }), ["one", "three"])
      assert.deepStrictEqual(yield* ids({ source: "cli", limit: 1 }), ["one"])
      assert.deepStrictEqual(yield* ids({ limit: 0 }), [])
      assert.deepStrictEqual(yield* ids({ source: "acp" }), [])
    }))

    test("twenty sessions are listed when nobody says how many", Effect.gen(function*() {
      const store = yield* SessionStore
      for (let index = 0; index < 22; index++) yield* store.create(newSession(`s${index}`))
      assert.strictEqual((yield* store.list()).length, 20)
      assert.strictEqual((yield* store.list({ limit: 100 })).length, 22)
    }))

    test("the system prompt comes back byte for byte", Effect.gen(function*() {
      const store = yield* SessionStore
      const systemPrompt = "# Identity\r\n\ttabs, \u0000 nul, “quotes”, 😀, trailing blanks   \n\n"
      yield* store.create(newSession(a, { systemPrompt }))
      assert.strictEqual(Option.getOrThrow(yield* store.get(a)).systemPrompt, systemPrompt)
    }))
  })

  describe(`${name}: messages`, () => {
    test("come back in order, over several appends, and are counted", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* store.create(newSession(a))
      yield* store.create(newSession(b))
      const messages = [user("hi"), calling("c1", "c2"), result("c1", "one"), result("c2", "two"), assistant("done")]
      yield* store.append(a, messages.slice(0, 2))
      yield* store.append(b, [user("elsewhere")])
      yield* store.append(a, [])
      yield* store.append(a, messages.slice(2))
      assert.deepStrictEqual(yield* store.messages(a), messages)
      assert.deepStrictEqual(yield* store.messages(a, { from: 1, to: 3 }), messages.slice(1, 3))
      assert.deepStrictEqual(yield* store.messages(a, { from: 4, to: 9 }), messages.slice(4))
      const session = Option.getOrThrow(yield* store.get(a))
      assert.deepStrictEqual([session.messageCount, session.toolCallCount], [5, 2])
    }))

    test("what was read does not grow with the session", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* store.create(newSession(a))
      yield* store.append(a, [user("hi")])
      const read = yield* store.messages(a)
      yield* store.append(a, [assistant("hello")])
      assert.strictEqual(read.length, 1)
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
      assert.strictEqual(messages.length, 40)
      assert.deepStrictEqual(Conversation.closeOpenCalls(messages), messages)
    }))

    effectProp(
      "of any kind come back equal",
      { messages: PromptMessages.messages },
      ({ messages }) =>
        Effect.gen(function*() {
          const store = yield* SessionStore
          yield* store.create(newSession(a))
          yield* store.append(a, messages)
          const read = yield* store.messages(a)
          assert.deepStrictEqual(read, messages)
          assert.deepStrictEqual(addresses(read), addresses(messages))
        }).pipe(Effect.provide(layer, { local: true })),
      { arbitrary: { runs: 60 } }
    )
  })

  describe(`${name}: secrets`, () => {
    test("what a runtime holds is in nothing that is kept or found, nor are keys that a model or a tool says", Secrets.provided(Effect.gen(function*() {
      const store = yield* SessionStore
      const held = "Kq7vWn2pXr9-nobody-knows-tB4mZc6y"
      const [, foreign = ""] = plantedKeys[0] ?? []
      yield* Secrets.registered({ key: Redacted.make(held) })
      const text = Object.values(encoded).map((encode) => encode(held)).join(" and ")
      const plain = user("no secret in it")
      const options = { test: { signed: text } }
      const messages = [
        user(text),
        Prompt.systemMessage({ content: text }),
        Prompt.assistantMessage({
          content: [
            Prompt.reasoningPart({ text, options }),
            Prompt.textPart({ text: `${text} ${foreign}` }),
            Prompt.toolCallPart({ id: "c1", name: "read_file", params: { deep: [{ path: text }] }, providerExecuted: false })
          ]
        }),
        Conversation.toolResult({ id: "c1", name: "read_file" }, { output: { list: [text, foreign] }, isFailure: false, modelOutput: [Prompt.textPart({ text })] }),
        plain
      ]
      yield* store.create(newSession(a, { title: `about ${held}`, systemPrompt: text }))
      yield* store.append(a, messages)
      const session = Option.getOrThrow(yield* store.get(a))
      const kept = yield* store.messages(a)
      const search = yield* SessionSearch
      const found = yield* search.search("and", {})
      assert.isAbove(found.length, 0)
      const seen = JSON.stringify([session, kept, found])
      for (const [form, encode] of Object.entries(encoded)) assert.notInclude(seen, form.includes("JSON") ? held : encode(held).slice(4, -6), form)
      assert.notInclude(seen, foreign.slice(4, -6))
      yield* store.rename(a, `now ${held}`)
      assert.notInclude(Option.getOrThrow(yield* store.get(a)).title ?? "", held)
      // They are messages still, in the same places.
      assert.deepStrictEqual(kept.map(({ role }) => role), messages.map(({ role }) => role))
      assert.isTrue(kept.every(Prompt.isMessage))
      assert.deepStrictEqual(kept.at(-1), plain)
    })))
  })

  describe(`${name}: calls that began`, () => {
    test("are known until their result is stored, whatever else is", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* store.create(newSession(a))
      yield* store.create(newSession(b))
      yield* store.append(a, [calling("c1", "c2", "c3")])
      yield* store.begin(a, ["c1", "c2"])
      yield* store.begin(a, ["c2"])
      yield* store.begin(b, ["c1"])
      assert.deepStrictEqual(yield* store.begun(a), new Set(["c1", "c2"]))
      yield* store.append(a, [result("c1", "done")])
      assert.deepStrictEqual(yield* store.begun(a), new Set(["c2"]))
      yield* store.append(a, [result("c2", "done"), result("c3", "done")])
      assert.deepStrictEqual(yield* store.begun(a), new Set())
      assert.deepStrictEqual(yield* store.begun(b), new Set(["c1"]))
    }))

    test("of an id that was used before begin anew", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* store.create(newSession(a))
      yield* store.begin(a, ["c1"])
      yield* store.append(a, [result("c1", "once")])
      assert.deepStrictEqual(yield* store.begun(a), new Set())
      yield* store.begin(a, ["c1"])
      assert.deepStrictEqual(yield* store.begun(a), new Set(["c1"]))
    }))

    test("go with their session", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* store.create(newSession(a))
      yield* store.begin(a, ["c1"])
      yield* store.remove(a)
      yield* store.create(newSession(a))
      assert.deepStrictEqual(yield* store.begun(a), new Set())
    }))
  })

  describe(`${name}: ownership`, () => {
    test("belongs to one scope at a time, and can be had again when that is closed", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* Effect.scoped(Effect.gen(function*() {
        yield* store.acquire(a)
        yield* Effect.scoped(store.acquire(b))
        const busy = yield* Effect.flip(Effect.scoped(store.acquire(a)))
        assert.deepStrictEqual([busy._tag, busy.message], [
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
      assert.strictEqual(exits.filter((exit) => exit._tag === "Success").length, 1)
    }))

    test("is kept however long it takes", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* store.create(newSession(a))
      yield* Effect.scoped(Effect.gen(function*() {
        yield* store.acquire(a)
        yield* TestClock.adjust("1 hour")
        assert.strictEqual((yield* Effect.flip(Effect.scoped(store.acquire(a))))._tag, "SessionBusy")
        yield* store.append(a, [user("late")])
      }))
    }))
  })

  describe(`${name}: titles`, () => {
    test("are one line without control characters", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* store.create(newSession(a, { title: "  Fix\u0007 the\n\tparser \u001b[1m " }))
      assert.strictEqual(Option.getOrThrow(yield* store.get(a)).title, "Fix the parser [1m")
      yield* store.rename(a, "New\u0000 name")
      assert.strictEqual(Option.getOrThrow(yield* store.get(a)).title, "New name")
    }))

    test("have 1 to 100 characters", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* store.create(newSession(a))
      yield* store.rename(a, "😀".repeat(100))
      const long = yield* Effect.flip(store.rename(a, "x".repeat(101)))
      assert.include(long.message, "101 characters")
      const empty = yield* Effect.flip(store.rename(a, " \n\u0000"))
      assert.include(empty.message, "empty")
      const created = yield* Effect.flip(store.create(newSession(b, { title: "x".repeat(101) })))
      assert.strictEqual(created.operation, "create")
      assert.deepStrictEqual(yield* store.get(b), Option.none())
    }))

    test("belong to one session", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* store.create(newSession(a, { title: "Mine" }))
      const created = yield* Effect.flip(store.create(newSession(b, { title: "Mine" })))
      assert.include(created.message, a)
      yield* store.create(newSession(b))
      const renamed = yield* Effect.flip(store.rename(b, " Mine "))
      assert.include(renamed.message, a)
      yield* store.rename(a, "Mine")
      yield* store.rename(a, "Other")
      yield* store.rename(b, "Mine")
    }))
  })

  describe(`${name}: references`, () => {
    const resolved = (reference: string) =>
      SessionStore.use((store) => Effect.map(store.resolve(reference), (session) => String(session.id)))

    test("an exact id wins over everything else", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* store.create(newSession("abc"))
      yield* store.create(newSession("abcdef", { title: "abc" }))
      assert.strictEqual(yield* resolved("abc"), "abc")
      assert.strictEqual(yield* resolved(" abcd "), "abcdef")
    }))

    test("a beginning that several ids share opens none of them and names them all", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* store.create(newSession(a))
      yield* TestClock.adjust(1)
      yield* store.create(newSession(b))
      const error = yield* Effect.flip(store.resolve("20250102"))
      assert.strictEqual(error._tag, "SessionNotFound")
      assert.deepStrictEqual(error._tag === "SessionNotFound" ? error.candidates : [], [b, a])
      assert.strictEqual(yield* resolved("20250102_030405_b"), b)
      yield* store.rename(a, "20250102")
      assert.strictEqual(yield* resolved("20250102"), a)
    }))

    test("signs that mean something to SQL are only signs", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* store.create(newSession("plain", { title: "100% of it's_done" }))
      for (const reference of ["%", "_lain", "pl%", "' OR 1=1 --", "*", "", "  "]) {
        const error = yield* Effect.flip(store.resolve(reference))
        assert.strictEqual(error._tag, "SessionNotFound")
      }
      assert.strictEqual(yield* resolved("100% of it's_done"), "plain")
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
      assert.strictEqual(yield* resolved("Work"), "third")
      assert.strictEqual(yield* resolved("Work #2"), "second")
    }))

    test("latest is the newest activity of a session that is somebody's", Effect.gen(function*() {
      const store = yield* SessionStore
      const none = yield* Effect.flip(store.resolve("latest"))
      assert.strictEqual(none._tag, "SessionNotFound")
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
      assert.strictEqual(yield* resolved("latest"), "first")
    }))
  })

  describe(`${name}: usage`, () => {
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
      assert.deepStrictEqual(
        records.map(({ provider, model, usage }) => [provider, model, usage.inputTokens, usage.requestCount]),
        [["openai", "m1", 15, 2], ["openai", "m2", 100, 1], ["azure", "m1", 1000, 1]]
      )
      const session = Option.getOrThrow(yield* store.get(a))
      assert.deepStrictEqual(records.map((record) => record.usage).reduce(Usage.add), session.usage)
      assert.strictEqual(session.usage.requestCount, 4)
    }))
  })

  describe(`${name}: search`, () => {
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
        assert.deepStrictEqual(yield* places(query), expected)
      }))
    }

    test("a query that asks for nothing finds nothing", Effect.gen(function*() {
      yield* filled
      const queries = ["", "  ", "\"", "\"\"", "*", "AND", "OR", "NOT", "NOT fox", "OR OR", "()", "-", "!!! ???", "\u0000"]
      for (const query of queries) assert.deepStrictEqual(yield* find(query), [], query)
    }))

    test("a query with loose ends asks for the rest of it", Effect.gen(function*() {
      yield* filled
      const queries = [
        "\"brown fox", "fox\"", "fox AND", "AND fox", "fox OR", "OR fox", "fox NOT", "(fox", "fox)", "fox -", "^fox", "{fox}",
        "fox;--", "+fox", "fox:", "fox AND NOT", "fox'"
      ]
      for (const query of queries) assert.deepStrictEqual(yield* places(query), ["one:2"], query)
    }))

    test("a hit shows where it fits, and what stands around it", Effect.gen(function*() {
      const store = yield* SessionStore
      yield* store.create(newSession(a))
      yield* store.append(a, [user("😀".repeat(300)), assistant("one needle in the hay"), user("short")])
      assert.deepStrictEqual(yield* find("needle"), [{
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
      assert.include(hit?.snippet, ">>>the needle<<<")
      assert.isBelow(hit?.snippet.length ?? Infinity, 400)
      assert.deepStrictEqual([hit?.before, hit?.after], [undefined, undefined])
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
      assert.deepStrictEqual(yield* numbers({ sort: "newest" }), ["4", "3", "2", "1"])
      assert.deepStrictEqual(yield* numbers({ sort: "oldest" }), ["1", "2", "3", "4"])
      assert.deepStrictEqual(yield* numbers({ sort: "oldest", limit: 2 }), ["1", "2"])
      assert.deepStrictEqual(yield* numbers({ sort: "oldest", sessionId: b }), ["3"])
      assert.deepStrictEqual(yield* numbers({ sort: "oldest", except: [a] }), ["3"])
      assert.deepStrictEqual(yield* numbers({ sort: "oldest", except: [] }), ["1", "2", "3", "4"])
      assert.deepStrictEqual(yield* numbers({ roles: ["assistant"] }), ["2"])
      assert.deepStrictEqual(yield* numbers({ roles: [] }), [])
      assert.strictEqual((yield* find("same", { limit: 0 })).length, 0)
    }))
  })
}
