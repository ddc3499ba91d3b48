// Conversations that reach the trigger of compaction, through a runtime with routes and a server that counts tokens.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../src/agent/Agent.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import type { RunEvent } from "../../src/base/domain/RunEvent.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import * as Compaction from "../../src/tools/prompt/Compaction.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as RunRecord from "../../src/store/RunRecord.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"
import * as Todo from "../../src/tools/builtin/Todo.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import * as HttpServer from "../models/provider/HttpServer.ts"
import { protocols, type WireTurn } from "../support/wireModel.ts"
import * as RetryPolicy from "../../src/models/routing/RetryPolicy.ts"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"

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
  readonly body: string
  readonly isSummary: boolean
  readonly texts: string
}

/** A model with a window of 64,000 tokens that counts a quarter of the characters; it refuses what is longer. */
const model = (
  turnOf: (step: number) => WireTurn,
  summary: () => WireTurn | number = () => ({ text: "## Active Task\nlook at everything" }),
  usageOf: (tokens: number) => object = (tokens) => ({ usage: { prompt_tokens: tokens, completion_tokens: 10 } })
) =>
  Effect.gen(function* () {
    const asked: Array<Asked> = []
    const refused: Array<number> = []
    let step = 0
    const server = yield* HttpServer.make(({ body, url }, response) => {
      const json = (status: number, value: unknown) =>
        response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value))
      if (!url.includes("chat/completions")) return json(200, { data: [{ id: "m", context_length: 64_000 }] })
      const { messages } = JSON.parse(body)
      const isSummary = JSON.stringify(messages[0]).includes("handoff note of a conversation")
      asked.push({ body, isSummary, texts: JSON.stringify(messages) })
      const tokens = Math.ceil(body.length / 4)
      if (tokens > 64_000 && !isSummary) {
        refused.push(tokens)
        return json(400, {
          error: {
            message: `This model's maximum context length is 64000 tokens, you asked for ${tokens}`,
            code: "context_length_exceeded"
          }
        })
      }
      const turn = isSummary ? summary() : turnOf(step++)
      if (typeof turn === "number") return json(turn, { error: { message: "no" } })
      // The protocol's stream has no usage.
      if (JSON.parse(body).stream === true) return protocols.chat_completions.stream(turn, response)
      // The protocol's whole answer is an object.
      const { usage: _, ...whole } = protocols.chat_completions.whole(turn) as Readonly<Record<string, unknown>>
      json(200, { ...whole, ...usageOf(tokens) })
    })
    return { asked, refused, url: `${server.url}/v1` }
  })

const loops =
  (
    steps: number,
    made = (at: number): WireTurn => ({ calls: [{ id: `c${at}`, name: "look", args: JSON.stringify({ at }) }] })
  ) =>
  (step: number): WireTurn =>
    step < steps ? made(step) : { text: "all seen" }

const runtime = (url: string, settings: Compaction.Settings | "off" = { protectLast: 4 }) =>
  Runtime.layer({
    routes: [{ provider: "custom", model: "m", baseUrl: url, apiKey: Redacted.make("k") }],
    retry: RetryPolicy.make({ base: 1, cap: 1 }),
    tools: [looks, Todo.toolset]
  }).pipe(Layer.provide(Layer.succeed(Compaction.CompactionSettings, settings)))

const events = (prompt: string, sessionId?: string, streaming = false) =>
  Effect.flatMap(Agent.Agent, (agent) =>
    Stream.runCollect(agent.stream({ prompt, sessionId, streaming, maxIterations: 200 }))
  )
const notices = (told: ReadonlyArray<RunEvent>) =>
  told.flatMap((event) => (event._tag === "Notice" ? [event.message] : []))

/** The notices of compactions: messages that a note replaces, or messages that were shortened. */
const listCompactions = (told: ReadonlyArray<RunEvent>) =>
  notices(told).filter((text) => {
    const [, from, to] = /^the conversation was compacted from (\d+) to (\d+) messages$/.exec(text) ?? []
    return from === undefined ? /^\d+ old messages were shortened: /.test(text) : from !== to
  })

describe("a conversation that grows beyond the window", () => {
  it.live("goes on for sixty steps: no request is refused, and the question stays in all of them", () =>
    Effect.gen(function* () {
      const { asked, refused, url } = yield* model(loops(60))
      const told = yield* Effect.provide(events("Look at everything, and mind the gap."), runtime(url))
      assert.deepInclude(told.at(-1), { _tag: "RunFinished", text: "all seen", exit: "text_response" })
      assert.deepStrictEqual(refused, [])
      const own = asked.filter(({ isSummary }) => !isSummary)
      assert.strictEqual(own.length, 61)
      assert.deepStrictEqual(
        own.filter(({ texts }) => !texts.includes("mind the gap")),
        []
      )
      assert.isAtLeast(listCompactions(told).length, 2)
    })
  )

  const usages: Readonly<Record<string, (tokens: number) => object>> = {
    "no usage": () => ({}),
    "usage of zeros": () => ({ usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 } }),
    "three tokens for each that the estimate has": (tokens) => ({ usage: { prompt_tokens: tokens * 3 } })
  }
  for (const [what, usageOf] of Object.entries(usages)) {
    it.live(`is compacted within a turn of a server that reports ${what}`, () =>
      Effect.gen(function* () {
        const { refused, url } = yield* model(loops(60), undefined, usageOf)
        const told = yield* Effect.provide(events("Look at everything, and mind the gap."), runtime(url))
        assert.deepInclude(told.at(-1), { _tag: "RunFinished", text: "all seen", exit: "text_response" })
        assert.deepStrictEqual(refused, [])
        assert.isAtLeast(listCompactions(told).length, 1)
      })
    )
  }

  it.live("is not compacted because images in a result have more tokens than its text", () =>
    Effect.gen(function* () {
      let extra = 0
      const images = Middleware.wrapToolCall({
        name: "images",
        wrap: (next) => (args) =>
          JSON.stringify(args).includes('"at":3')
            ? Effect.sync(() => {
                extra = 16_000
                const text = Prompt.textPart({ text: "shown" })
                const image = Prompt.filePart({ mediaType: "image/png", data: new Uint8Array([1]) })
                return { output: "word ".repeat(520), isFailure: false, modelOutput: [text, image] }
              })
            : next(args)
      })
      const reads = (step: number): WireTurn => ({
        calls: (step === 4 ? [4, 5, 6] : [step]).map((at) => ({
          id: `c${at}`,
          name: "look",
          args: JSON.stringify({ at })
        }))
      })
      const { refused, url } = yield* model(loops(5, reads), undefined, (tokens) => ({
        usage: { prompt_tokens: tokens + extra }
      }))
      const layer = Runtime.layer({
        routes: [{ provider: "custom", model: "m", baseUrl: url, apiKey: Redacted.make("k") }],
        tools: [looks],
        middleware: [images]
      }).pipe(Layer.provide(Layer.succeed(Compaction.CompactionSettings, { threshold: 0.95, protectLast: 4 })))
      const told = yield* Effect.provide(events("Look at everything."), layer)
      assert.deepInclude(told.at(-1), { _tag: "RunFinished", text: "all seen" })
      assert.isAbove(extra, 0)
      assert.deepStrictEqual([listCompactions(told), refused], [[], []])
    })
  )

  it.live("is compacted within a turn of a server whose streams have no usage", () =>
    Effect.gen(function* () {
      const { refused, url } = yield* model(loops(60))
      const told = yield* Effect.provide(events("Look at everything.", undefined, true), runtime(url))
      assert.deepInclude(told.at(-1), { _tag: "RunFinished", text: "all seen" })
      assert.deepStrictEqual(refused, [])
    })
  )

  it.live("asks for a shorter answer where the prompt leaves less room than its output limit", () =>
    Effect.gen(function* () {
      const { asked, refused, url } = yield* model(loops(16))
      const layer = Runtime.layer({
        routes: [{ provider: "custom", model: "m", baseUrl: url, apiKey: Redacted.make("k") }],
        retry: RetryPolicy.make({ base: 1, cap: 1 }),
        tools: [looks],
        maxOutputTokens: 32_000
      }).pipe(Layer.provide(Layer.succeed(Compaction.CompactionSettings, { threshold: 0.9, protectLast: 4 })))
      yield* Effect.provide(events("Look at everything."), layer)
      assert.deepStrictEqual(refused, [])
      const limits = asked.flatMap(({ body, isSummary }) => {
        const { max_tokens } = JSON.parse(body)
        return isSummary ? [] : [{ max_tokens, tokens: Math.ceil(body.length / 4) }]
      })
      assert.isTrue(limits.some(({ max_tokens }) => max_tokens === 32_000))
      assert.isTrue(limits.some(({ max_tokens }) => max_tokens < 32_000))
      for (const { max_tokens, tokens } of limits) assert.isAtMost(max_tokens + tokens, 64_000)
    })
  )

  it.live("a server that shortens prompts is reported once, with the setting that mends it", () =>
    Effect.gen(function* () {
      const { url } = yield* model(loops(12), undefined, () => ({ usage: { prompt_tokens: 4_096 } }))
      const told = yield* Effect.provide(events("Look at everything."), runtime(url))
      const shortened = notices(told).filter((text) => text.includes("has read 4096 of about"))
      assert.strictEqual(shortened.length, 1, notices(told).join("\n"))
      assert.include(shortened[0], "raise the context length of the server")
    })
  )

  it.live("is told in the record, and stays whole in the store", () =>
    Effect.gen(function* () {
      const { url } = yield* model(loops(30))
      yield* Effect.gen(function* () {
        yield* events("Look at everything.", "s1")
        const store = yield* SessionStore
        const stored = yield* store.messages(SessionId.make("s1"))
        assert.strictEqual(stored.filter(({ role }) => role === "tool").length, 30)
        const record = yield* RunRecord.RunRecord
        const rewritten = yield* Stream.runCollect(
          record.read({ sessionId: SessionId.make("s1"), kinds: ["ContextRewritten"] })
        )
        assert.isAtLeast(rewritten.length, 1)
        for (const { event } of rewritten) assert.deepInclude(event, { reason: "compaction" })
      }).pipe(Effect.provide(runtime(url)))
    })
  )

  it.live("keeps the open items of the todo list", () =>
    Effect.gen(function* () {
      const todos = [
        { id: "1", content: "look everywhere", status: "in_progress" },
        { id: "2", content: "done already", status: "completed" }
      ]
      const { asked, url } = yield* model(
        loops(40, (at) =>
          at === 2
            ? { calls: [{ id: "t", name: "todo", args: JSON.stringify({ todos }) }] }
            : { calls: [{ id: `c${at}`, name: "look", args: JSON.stringify({ at }) }] }
        )
      )
      yield* Effect.provide(events("Look at everything."), runtime(url))
      const last = asked.findLast(({ isSummary }) => !isSummary)?.texts ?? ""
      assert.include(last, "look everywhere")
    })
  )

  it.live("where the model of the note is down, the run says so and goes on as long as it fits", () =>
    Effect.gen(function* () {
      const { url } = yield* model(
        (step) => (step === 0 ? { text: "ok" } : { text: "still here" }),
        () => 401
      )
      const told = yield* Effect.gen(function* () {
        const store = yield* SessionStore
        const id = SessionId.make("s1")
        yield* store.create({
          id,
          source: "library",
          systemPrompt: "sys",
          cwd: "/",
          provider: "custom",
          model: "m",
          parentId: undefined
        })
        yield* store.append(
          id,
          Array.from({ length: 36 }, (_, at) => [
            Prompt.userMessage({ content: [Prompt.textPart({ text: `question ${at} ${"q".repeat(2_000)}` })] }),
            Prompt.assistantMessage({ content: [Prompt.textPart({ text: `answer ${at} ${"a".repeat(2_000)}` })] })
          ]).flat()
        )
        return yield* events("and now?", "s1")
      }).pipe(Effect.provide(runtime(url)))
      assert.deepInclude(told.at(-1), { _tag: "RunFinished", text: "ok" })
      assert.match(notices(told)[0] ?? "", /^the conversation could not be summarised, so it stays as it is: /)
    })
  )

  it.live("before the first call of a run a long session is compacted once", () =>
    Effect.gen(function* () {
      const { asked, url } = yield* model(() => ({ text: "ok" }))
      yield* Effect.gen(function* () {
        const store = yield* SessionStore
        const id = SessionId.make("s1")
        yield* store.create({
          id,
          source: "library",
          systemPrompt: "sys",
          cwd: "/",
          provider: "custom",
          model: "m",
          parentId: undefined
        })
        yield* store.append(
          id,
          Array.from({ length: 60 }, (_, at) => [
            Prompt.userMessage({ content: [Prompt.textPart({ text: `question ${at} ${"q".repeat(2_000)}` })] }),
            Prompt.assistantMessage({ content: [Prompt.textPart({ text: `answer ${at} ${"a".repeat(2_000)}` })] })
          ]).flat()
        )
        yield* events("and now?", "s1")
      }).pipe(Effect.provide(runtime(url)))
      assert.deepStrictEqual(
        asked.map(({ isSummary }) => isSummary),
        [true, false]
      )
      const texts = asked[1]?.texts ?? ""
      assert.include(texts, "## Active Task")
      assert.include(texts, "question 0 ")
      assert.include(texts, "and now?")
      assert.notInclude(texts, "question 20 ")
    })
  )

  it.live("turned off, it is refused as before, and says so", () =>
    Effect.gen(function* () {
      const { refused, url } = yield* model(loops(60))
      const failure = yield* Effect.flip(Effect.provide(events("Look at everything."), runtime(url, "off")))
      assert.deepInclude(failure, { _tag: "CompressionExhausted" })
      assert.strictEqual(refused.length, 1)
    })
  )
})
