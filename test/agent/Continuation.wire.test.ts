// A compacted run's session goes on in another one: through a runtime with routes, a database, and a server with a
// small window.
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Agent from "../../src/agent/Agent.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import type * as Hook from "../../src/hooks/Hook.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import * as Compaction from "../../src/tools/prompt/Compaction.ts"
import { PromptSources } from "../../src/tools/prompt/SystemPrompt.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as RunRecord from "../../src/store/RunRecord.ts"
import * as SessionStores from "../../src/store/SessionStore.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"
import * as Todo from "../../src/tools/builtin/Todo.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import * as HttpServer from "../models/provider/HttpServer.ts"
import { protocols, type WireTurn } from "../support/wireModel.ts"
import * as RetryPolicy from "../../src/models/routing/RetryPolicy.ts"

const Look = Tool.make("look", {
  description: "Looks.",
  parameters: Schema.Struct({ at: Schema.Number }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Look)
const looks = Toolset.make(
  "look",
  toolkit,
  toolkit.toLayer({ look: ({ at }) => Effect.succeed(`seen ${at}: ${"words of a file ".repeat(800)}`) })
)

interface Asked {
  readonly isSummary: boolean
  readonly messages: ReadonlyArray<{ readonly role: string; readonly content: unknown }>
  readonly texts: string
}

/** A model with a window of 64,000 tokens that counts a quarter of the characters. */
const model = (turnOf: (step: number) => WireTurn | Promise<WireTurn>) =>
  Effect.gen(function* () {
    const asked: Array<Asked> = []
    let step = 0
    const server = yield* HttpServer.make(async ({ body, url }, response) => {
      const json = (status: number, value: unknown) =>
        response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value))
      if (!url.includes("chat/completions")) return json(200, { data: [{ id: "m", context_length: 64_000 }] })
      const { messages } = JSON.parse(body)
      const isSummary = JSON.stringify(messages[0]).includes("handoff note of a conversation")
      asked.push({ isSummary, messages, texts: JSON.stringify(messages) })
      const turn = isSummary ? { text: "## Active Task\nlook at everything" } : await turnOf(step++)
      // The protocol's whole answer is an object.
      const whole = protocols.chat_completions.whole(turn) as Readonly<Record<string, unknown>>
      json(200, { ...whole, usage: { prompt_tokens: Math.ceil(body.length / 4), completion_tokens: 10 } })
    })
    return { asked, url: `${server.url}/v1` }
  })

/** Six looks with many words, which no pruning makes shorter; then answers. */
const looking = (step: number): WireTurn =>
  step < 6
    ? {
        text: `Looking at ${step}. ${"I wonder. ".repeat(2_000)}`,
        calls: [{ id: `c${step}`, name: "look", args: JSON.stringify({ at: step }) }]
      }
    : { text: `answer ${step}` }

const directory = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "hermes-continuation-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

interface Given {
  readonly database: string
  readonly hooks?: ReadonlyArray<Hook.Hook>
  readonly memory?: () => string
}

const runtime = (url: string, { database, hooks = [], memory = () => "" }: Given) =>
  Runtime.layer({
    routes: [{ provider: "custom", model: "m", baseUrl: url, apiKey: Redacted.make("k") }],
    retry: RetryPolicy.make({ base: 1, cap: 1 }),
    tools: [looks, Todo.toolset],
    hooks,
    store: SessionStores.layerSqlite({ path: database })
  }).pipe(
    Layer.provide(Layer.succeed(Compaction.CompactionSettings, { protectLast: 4 })),
    Layer.provide(Layer.succeed(PromptSources, () => Effect.sync(() => ({ memory: [memory()] }))))
  )

const run = (prompt: string, sessionId: string) =>
  Effect.flatMap(Agent.Agent, (agent) => agent.run({ prompt, sessionId, maxIterations: 200 }))
const session = (id: string) =>
  Effect.flatMap(SessionStore, (store) => Effect.map(store.get(SessionId.make(id)), Option.getOrThrow))
const messages = (id: string) => Effect.flatMap(SessionStore, (store) => store.messages(SessionId.make(id)))
const text = (message: Prompt.Message | undefined): string => JSON.stringify(message?.content)

describe("a run that was compacted", () => {
  it.live(
    "68 ends its session with reason compression and goes on in a child of it, titled by number, that has the compacted messages",
    () =>
      Effect.gen(function* () {
        const database = join(yield* directory, "state.db")
        const { url } = yield* model(looking)
        let memory = "likes tea"
        yield* Effect.gen(function* () {
          const store = yield* SessionStore
          yield* store.create({
            id: SessionId.make("s1"),
            source: "library",
            provider: "custom",
            model: "m",
            systemPrompt: "built yesterday",
            title: "Looking",
            cwd: "/"
          })
          memory = "likes coffee"
          const result = yield* run("Look at everything.", "s1")
          assert.notStrictEqual(result.sessionId, "s1")
          const [old, made] = [yield* session("s1"), yield* session(result.sessionId)]
          assert.strictEqual(old.endReason, "compression")
          assert.deepInclude(made, {
            parentId: SessionId.make("s1"),
            continues: SessionId.make("s1"),
            title: "Looking #2",
            endReason: "text_response",
            source: "library",
            cwd: "/"
          })
          assert.notInclude(made.systemPrompt, "built yesterday")
          // The session that was compacted is whole: question, six calls with results, answer.
          assert.strictEqual((yield* messages("s1")).length, 14)
          // The new one has what was sent last, and the answer.
          const kept = yield* messages(result.sessionId)
          assert.deepStrictEqual(
            kept.map(({ role }) => role),
            [
              "user",
              "assistant",
              "tool",
              "user",
              "assistant",
              "tool",
              "assistant",
              "tool",
              "assistant",
              "tool",
              "assistant"
            ]
          )
          assert.include(text(kept[0]), "Look at everything.")
          assert.include(text(kept.at(-1)), result.text)
          assert.strictEqual(kept.filter((message) => text(message).includes("## Active Task")).length, 1)
        }).pipe(Effect.provide(runtime(url, { database, memory: () => memory })))
      })
  )

  it.live("goes on by its old id and by its title, in another process too, without another summary", () =>
    Effect.gen(function* () {
      const database = join(yield* directory, "state.db")
      const { asked, url } = yield* model(looking)
      const first = yield* Effect.provide(run("Look at everything.", "s1"), runtime(url, { database }))
      const before = asked.length
      assert.deepStrictEqual(
        asked.map(({ isSummary }) => isSummary),
        [false, false, false, false, false, true, false, false]
      )
      yield* Effect.gen(function* () {
        const store = yield* SessionStore
        const again = yield* run("And now?", "s1")
        assert.strictEqual(again.sessionId, first.sessionId)
        assert.strictEqual(yield* store.newest(SessionId.make("s1")), first.sessionId)
        assert.strictEqual((yield* store.resolve("latest")).id, first.sessionId)
        const kept = yield* messages(first.sessionId)
        assert.include(text(kept.at(-2)), "And now?")
        assert.strictEqual((yield* messages("s1")).length, 14)
      }).pipe(Effect.provide(runtime(url, { database })))
      assert.deepStrictEqual(
        asked.slice(before).map(({ isSummary }) => isSummary),
        [false]
      )
      const system = yield* Effect.provide(session(first.sessionId), runtime(url, { database }))
      assert.strictEqual(asked.at(-1)?.messages[0]?.content, system.systemPrompt)
    })
  )

  it.live(
    "tells the listeners that the old identity is given up and the new one is there, once, and the record that messages are copies",
    () =>
      Effect.gen(function* () {
        const database = join(yield* directory, "state.db")
        const { url } = yield* model(looking)
        const told: Array<unknown> = []
        const tell = (name: string) => (event: object) => Effect.sync(() => void told.push([name, event]))
        const hooks = [
          Hooks.on("on_session_end", tell("end")),
          Hooks.on("on_session_finalize", tell("finalize")),
          Hooks.on("on_session_reset", tell("reset"))
        ]
        const id = yield* Effect.gen(function* () {
          const result = yield* run("Look at everything.", "s1")
          const names = told
            .map((one) => one as [string, { session_id: string; reason?: string }])
            .map(([name, { reason, session_id }]) => [name, session_id, reason])
          assert.deepStrictEqual(names, [
            ["end", "s1", "text_response"],
            ["finalize", "s1", "compression"],
            ["reset", result.sessionId, "compression"]
          ])
          const record = yield* RunRecord.RunRecord
          const entries = yield* Stream.runCollect(record.read({ sessionId: SessionId.make(result.sessionId) }))
          const [link, rewritten, ...copies] = entries.map(({ event }) => event)
          assert.deepStrictEqual(link, {
            _tag: "ReplayBegun",
            source: SessionId.make("s1"),
            position: 14,
            changed: ["compression"]
          })
          assert.deepStrictEqual(rewritten, {
            _tag: "ContextRewritten",
            reason: "compression",
            before: 14,
            after: 11,
            source: SessionId.make("s1"),
            removed: [[3, 6]]
          })
          const within = yield* Stream.runCollect(
            record.read({ sessionId: SessionId.make("s1"), kinds: ["ContextRewritten"] })
          )
          assert.deepStrictEqual(
            within.map(({ event }) => event),
            [{ _tag: "ContextRewritten", reason: "compaction", before: 12, after: 9, removed: [[3, 6]] }]
          )
          const recorded = copies.flatMap((event) => (event._tag === "MessageAppended" ? [event] : []))
          assert.deepStrictEqual(
            recorded.map(({ copyOf, origin, position }) => [position, origin, copyOf?.position]),
            [
              [0, "user", 0],
              [1, "model", 1],
              [2, "tool", 2],
              [3, "runtime", undefined],
              [4, "model", 7],
              [5, "tool", 8],
              [6, "model", 9],
              [7, "tool", 10],
              [8, "model", 11],
              [9, "tool", 12],
              [10, "model", 13]
            ]
          )
          const kept = yield* messages(result.sessionId)
          assert.deepStrictEqual(
            recorded.map(({ message }) => message),
            kept.slice()
          )
          return result.sessionId
        }).pipe(Effect.provide(runtime(url, { database, hooks })))
        // The runtime closed: what was open then is the new session alone.
        assert.deepStrictEqual(
          told
            .slice(3)
            .map((one) => one as [string, { session_id: string; reason: string }])
            .map(([name, { reason, session_id }]) => [name, session_id, reason]),
          [["finalize", id, "shutdown"]]
        )
      })
  )

  it.live("is found by what was removed: session_search looks into the old session", () =>
    Effect.gen(function* () {
      const database = join(yield* directory, "state.db")
      const { asked, url } = yield* model((step) =>
        step === 0
          ? {
              text: `The harbour is Zandvoort. ${"I wonder. ".repeat(2_000)}`,
              calls: [{ id: "z", name: "look", args: '{"at":100}' }]
            }
          : step === 7
            ? { calls: [{ id: "f", name: "session_search", args: '{"query":"harbour"}' }] }
            : looking(step)
      )
      const withSearch = Layer.provide(
        Runtime.layer({
          routes: [{ provider: "custom", model: "m", baseUrl: url, apiKey: Redacted.make("k") }],
          tools: [looks, (yield* Effect.promise(() => import("../../src/tools/builtin/SessionSearchTool.ts"))).toolset],
          store: SessionStores.layerSqlite({ path: database })
        }),
        Layer.succeed(Compaction.CompactionSettings, { protectFirst: 1, protectLast: 4 })
      )
      yield* Effect.gen(function* () {
        yield* run("Look at everything.", "s1")
        yield* run("Which harbour was it?", "s1")
      }).pipe(Effect.provide(withSearch))
      const found = asked.at(-1)?.messages.findLast(({ role }) => role === "tool")
      assert.include(String(found?.content), "Zandvoort")
    })
  )

  it.live("has no message in the new session that was only sent", () =>
    Effect.gen(function* () {
      const database = join(yield* directory, "state.db")
      const { asked, url } = yield* model((step) => (step === 6 ? { text: "" } : looking(step)))
      const hooks = [Hooks.on("pre_llm_call", () => Effect.succeed({ context: "it rains" }))]
      yield* Effect.gen(function* () {
        const result = yield* run("Look at everything.", "s1")
        assert.isTrue(asked.some(({ texts }) => texts.includes("Your last message was empty")))
        const kept = JSON.stringify(yield* messages(result.sessionId))
        assert.notInclude(kept, "Your last message was empty")
        assert.notInclude(kept, "(empty)")
        assert.notInclude(kept, "it rains")
        assert.include(kept, "Look at everything.")
      }).pipe(Effect.provide(runtime(url, { database, hooks })))
    })
  )

  it.live("owns both sessions until it is over: a second run on the old id is SessionBusy, before and after", () =>
    Effect.gen(function* () {
      const database = join(yield* directory, "state.db")
      let release: (turn: WireTurn) => void = () => {}
      let arrived: () => void = () => {}
      let there = new Promise<void>((resolve) => void (arrived = resolve))
      const { url } = yield* model((step) =>
        step === 6 || step === 7
          ? new Promise<WireTurn>((resolve) => {
              release = resolve
              arrived()
            })
          : looking(step)
      )
      const busy = Effect.flatMap(Effect.exit(run("Me too.", "s1")), (exit) =>
        Effect.sync(() =>
          assert.deepInclude(Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined, {
            _tag: "SessionBusy",
            sessionId: "s1"
          })
        )
      )
      yield* Effect.gen(function* () {
        const one = yield* Effect.forkChild(run("Look at everything.", "s1"))
        yield* Effect.promise(() => there)
        yield* busy
        there = new Promise((resolve) => void (arrived = resolve))
        release({ text: "all seen" })
        yield* Fiber.join(one)
        const two = yield* Effect.forkChild(run("Go on.", "s1"))
        yield* Effect.promise(() => there)
        yield* busy
        release({ text: "done" })
        yield* Fiber.join(two)
      }).pipe(Effect.provide(runtime(url, { database })))
    })
  )

  it.live(
    "is made on demand too, with the topic that is to stay; a short conversation and an unknown one stay as they are",
    () =>
      Effect.gen(function* () {
        const database = join(yield* directory, "state.db")
        const { asked, url } = yield* model((step) => ({ text: `answer ${step} ${"I wonder. ".repeat(400)}` }))
        yield* Effect.gen(function* () {
          const agent = yield* Agent.Agent
          for (let turn = 0; turn < 12; turn++) yield* run(`question ${turn}`, "s1")
          const made = yield* agent.compact({ sessionId: "s1", focus: "the harbour" })
          assert.notStrictEqual(made.sessionId, "s1")
          assert.strictEqual(made.before.messages, 24)
          assert.isBelow(made.after.tokens, made.before.tokens)
          const summaries = asked.filter(({ isSummary }) => isSummary)
          assert.strictEqual(summaries.length, 1)
          assert.include(summaries[0]?.texts, "the harbour")
          assert.deepInclude(yield* session("s1"), { endReason: "compression", messageCount: 24 })
          const record = yield* RunRecord.RunRecord
          const of = (id: string) =>
            Effect.map(Stream.runCollect(record.read({ sessionId: SessionId.make(id) })), (entries) =>
              entries.map(({ event }) => event)
            )
          const old = yield* of("s1")
          const since = old
            .slice(old.findLastIndex(({ _tag }) => _tag === "RunEnded") + 1)
            .filter(({ _tag }) => _tag !== "MessageAppended" && _tag !== "Notice")
          const [asking, , rewritten] = since
          assert.deepStrictEqual(
            since.map(({ _tag }) => _tag),
            ["AttemptStarted", "AttemptEnded", "ContextRewritten", "SessionEnded"]
          )
          assert.isTrue(
            asking?._tag === "AttemptStarted" && asking.task === "compression",
            "the summary is a side task of the session"
          )
          const link = (yield* of(made.sessionId)).flatMap((event) =>
            event._tag === "ContextRewritten" ? [event.removed] : []
          )
          assert.isTrue(rewritten?._tag === "ContextRewritten" && rewritten.reason === "compaction")
          assert.deepStrictEqual(rewritten?._tag === "ContextRewritten" ? [rewritten.removed] : [], link)
          assert.isAbove(link[0]?.length ?? 0, 0)
          const kept = yield* messages(made.sessionId)
          assert.strictEqual(kept.length, made.after.messages)
          assert.notInclude(JSON.stringify(kept), 'compaction"')
          const next = yield* run("and now?", "s1")
          assert.strictEqual(next.sessionId, made.sessionId)
          assert.strictEqual(asked.at(-1)?.texts.includes("## Active Task"), true)

          yield* run("hello", "s2")
          const short = yield* agent.compact({ sessionId: "s2" })
          assert.deepInclude(short, { sessionId: SessionId.make("s2"), before: short.after })
          const unknown = yield* agent.compact({ sessionId: "s3" })
          assert.deepStrictEqual(unknown, {
            sessionId: SessionId.make("s3"),
            before: { messages: 0, tokens: 0 },
            after: { messages: 0, tokens: 0 }
          })
          assert.isTrue(Option.isNone(yield* Effect.flatMap(SessionStore, (store) => store.get(SessionId.make("s3")))))
        }).pipe(Effect.provide(runtime(url, { database })))
      })
  )

  it.live("a child's session is never continued, and a session that was not compacted stays", () =>
    Effect.gen(function* () {
      const database = join(yield* directory, "state.db")
      const { url } = yield* model((step) => ({ text: `answer ${step}` }))
      yield* Effect.gen(function* () {
        const result = yield* run("Hello.", "s1")
        assert.strictEqual(result.sessionId, "s1")
        assert.deepInclude(yield* session("s1"), { endReason: "text_response", continues: undefined })
      }).pipe(Effect.provide(runtime(url, { database })))
    })
  )
})
