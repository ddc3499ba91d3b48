import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import { SessionId } from "../../src/base/domain/Ids.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import * as SessionSearchTool from "../../src/tools/builtin/SessionSearchTool.ts"
import { type Ask, SideModel, SideModelError } from "../../src/tools/builtin/SideModel.ts"
import { callTool } from "../support/callTool.ts"

const said = (role: "user" | "assistant", text: string): Prompt.Message =>
  Prompt.makeMessage(role, { content: [Prompt.textPart({ text })] })

const store = Effect.fnUntraced(function* (
  id: string,
  texts: ReadonlyArray<string>,
  more: { readonly source?: string; readonly parentId?: SessionId } = {}
) {
  const sessions = yield* SessionStore.SessionStore
  const made = { id: SessionId.make(id), source: "cli", provider: "p", model: "m", systemPrompt: "", ...more }
  yield* sessions.create(made)
  yield* sessions.append(
    made.id,
    texts.map((text, index) => said(index % 2 === 0 ? "user" : "assistant", text))
  )
})

const search = (params: unknown, session = "now") =>
  callTool(SessionSearchTool.toolset, "session_search", params, { session })

interface Row {
  readonly session_id: string
  readonly message_id: number
  readonly content: string
}

const rows = (value: unknown): ReadonlyArray<Row> => value as ReadonlyArray<Row> // the shape that the tool promises

const ids = (value: unknown): ReadonlyArray<string> => rows(value).map(({ session_id }) => session_id)

describe("session_search", () => {
  it.effect("discovery: the best hit of each other session, jobs last, background work never", () =>
    Effect.gen(function* () {
      yield* store("job", ["the zebra job"], { source: "cron" })
      yield* store("old", ["a zebra crossed", "which zebra?"])
      yield* store("child", ["zebra work"], { source: "subagent" })
      yield* store("parent", ["zebra, before"])
      yield* store("now", ["the zebra now"], { parentId: SessionId.make("parent") })
      const { body } = yield* search({ query: "zebra" })
      assert.strictEqual(body["mode"], "discovery")
      assert.deepStrictEqual(ids(body["results"]), ["old", "job"])
      const none = yield* search({ query: "unicorn" })
      assert.deepStrictEqual(none.body["results"], [])
      assert.include(String(none.body["hint"]), "other words")
    }).pipe(Effect.provide(SessionStore.layerMemory))
  )

  it.effect(
    "discovery with summaries: the auxiliary model sees the messages around the hit, and a failure is a note",
    () => {
      const asked: Array<readonly [task: string, text: string]> = []
      const side: Ask = (task, [message], { sessionId }) => {
        const text =
          message?.role === "user"
            ? message.content.map((part) => (part.type === "text" ? part.text : "")).join("")
            : ""
        asked.push([task, text])
        return text.includes("broken")
          ? Effect.fail(new SideModelError({ message: "no key" }))
          : Effect.succeed(`about ${sessionId}`)
      }
      return Effect.gen(function* () {
        yield* store("old", [
          ...Array.from({ length: 40 }, (_, index) => `filler ${index} ${"x".repeat(1_900)}`),
          "the zebra crossed with api_key sk-ant-REDACTED",
          "noted"
        ])
        yield* store("other", ["a zebra, broken"])
        const plain = yield* search({ query: "zebra" })
        assert.deepStrictEqual([asked.length, rows(plain.body["results"]).some((row) => "summary" in row)], [0, false])
        const { body } = yield* search({ query: "zebra", summarize: true })
        const results = body["results"] as ReadonlyArray<Record<string, unknown>> // the shape that the tool promises
        const of = (id: string) => results.find((row) => row["session_id"] === id)
        assert.deepStrictEqual([of("old")?.["summary"], of("other")?.["summary_error"]], ["about now", "no key"])
        const [task = "", text = ""] = asked.find(([, text]) => text.includes("crossed")) ?? []
        assert.strictEqual(task, "session_search")
        assert.include(text, "QUERY: zebra")
        assert.include(text, "ASSISTANT: noted")
        assert.notInclude(text, "filler 0 ")
        assert.notInclude(text, "api03-abcdefghij")
        assert.isBelow(text.length, 45_000)
      }).pipe(Effect.provide(SessionStore.layerMemory), Effect.provideService(SideModel, side))
    }
  )

  it.effect("sessions of a named key of a server are there for no other, by any road, and take nobody's place", () =>
    Effect.gen(function* () {
      yield* store("mine", ["a zebra crossed"])
      yield* store("served", ["a zebra served"], { source: "api-server" })
      for (let count = 0; count < 70; count++)
        yield* store(`alice-${count}`, ["zebra zebra"], { source: count % 2 === 0 ? "api-server:alice" : "mcp:alice" })
      yield* store("bob-1", ["a zebra of Bob's"], { source: "api-server:bob" })
      yield* store("work", ["zebra work"], { source: "subagent", parentId: SessionId.make("alice-0") })
      yield* store("own-work", ["zebra work"], { source: "subagent", parentId: SessionId.make("mine") })
      yield* store("b-own", ["none"])
      const seen = (session: string) =>
        Effect.gen(function* () {
          const found = yield* search({ query: "zebra" }, session)
          const listed = yield* search({}, session)
          const read = yield* Effect.forEach(
            ["mine", "alice-0", "alice-6", "bob", "work", "own-work", "bob-1", "b"],
            (session_id) =>
              Effect.map(search({ session_id }, session), ({ body }) =>
                body["success"] === true ? [`${body["session_id"]}`] : []
              )
          )
          assert.notInclude(JSON.stringify(yield* search({ session_id: "alice-" }, session)), "alice-1")
          return [ids(found.body["results"]).toSorted(), ids(listed.body["results"]).toSorted(), read.flat()]
        })
      const everybody = [
        ["mine", "served"],
        ["b-own", "mine", "served"],
        ["mine", "own-work", "b-own"]
      ]
      assert.deepStrictEqual(yield* seen("nobody"), everybody)
      assert.deepStrictEqual(yield* seen("own-work"), [["served"], ["b-own", "served"], ["mine", "own-work", "b-own"]])
      assert.deepStrictEqual(yield* seen("bob-1"), [[], [], ["bob-1", "bob-1", "bob-1"]])
    }).pipe(Effect.provide(SessionStore.layerMemory))
  )

  it.effect("scroll: the messages around one", () =>
    Effect.gen(function* () {
      yield* store(
        "long",
        Array.from({ length: 60 }, (_, index) => `message ${index}`)
      )
      const { body } = yield* search({ session_id: "long", around_message_id: 30, window: 2 })
      assert.deepStrictEqual(
        rows(body["messages"]).map(({ message_id }) => message_id),
        [28, 29, 30, 31, 32]
      )
      const wide = yield* search({ session_id: "long", around_message_id: 30, window: 500 })
      assert.lengthOf(rows(wide.body["messages"]), 41)
      assert.isTrue((yield* search({ session_id: "long", around_message_id: 60 })).isFailure)
    }).pipe(Effect.provide(SessionStore.layerMemory))
  )

  it.effect("read: the first 20 and the last 10", () =>
    Effect.gen(function* () {
      yield* store(
        "long",
        Array.from({ length: 60 }, (_, index) => `message ${index}`)
      )
      const { body } = yield* search({ session_id: "lon" })
      const messages = rows(body["messages"])
      assert.deepStrictEqual(
        [body["mode"], messages.length, messages[19]?.content, messages[20]?.content, body["omitted"]],
        ["read", 30, "message 19", "message 50", 30]
      )
      const users = yield* search({ session_id: "long", role_filter: ["user"] })
      assert.strictEqual(rows(users.body["messages"])[1]?.message_id, 2)
    }).pipe(Effect.provide(SessionStore.layerMemory))
  )

  it.effect("browse: the latest sessions but one's own", () =>
    Effect.gen(function* () {
      for (const id of ["a", "b", "c", "d", "now"]) yield* store(id, ["hello"])
      assert.lengthOf(ids((yield* search({})).body["results"]), 3)
      const all = ids((yield* search({ limit: 100 })).body["results"])
      assert.deepStrictEqual([...all].toSorted(), ["a", "b", "c", "d"])
    }).pipe(Effect.provide(SessionStore.layerMemory))
  )

  it.effect("what is not there is an error", () =>
    Effect.gen(function* () {
      assert.include((yield* search({ session_id: "nope" })).text, "no session")
      assert.isTrue((yield* search({ around_message_id: 3 })).isFailure)
    }).pipe(Effect.provide(SessionStore.layerMemory))
  )
})
