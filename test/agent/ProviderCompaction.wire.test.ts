// Engines that compact at the provider, over the wire: context editing of Anthropic's API, the compacted item of
// OpenAI's Responses API, and the note in their place where the route has neither.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../src/agent/Agent.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import * as Route from "../../src/base/domain/Route.ts"
import * as Compaction from "../../src/tools/prompt/Compaction.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import * as HttpServer from "../models/provider/HttpServer.ts"
import { protocols, type WireTurn } from "../support/wireModel.ts"
import * as RetryPolicy from "../../src/models/routing/RetryPolicy.ts"

type Mode = "anthropic_messages" | "codex_responses" | "chat_completions"

const Look = Tool.make("look", {
  description: "Looks.",
  parameters: Schema.Struct({ at: Schema.Number }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Look)
const looks = Toolset.make("look", toolkit, toolkit.toLayer({ look: ({ at }) => Effect.succeed(`seen ${at}`) }))

const steps = 6

interface Asked {
  readonly path: string
  readonly body: {
    readonly [name: string]: unknown
    readonly input?: ReadonlyArray<{ readonly [name: string]: unknown }>
  }
  readonly beta: string
  readonly text: string
}

/** A model with a window of 64,000 tokens that counts a quarter of the characters, and compacts when it is asked to. */
const served = (mode: Mode, compactStatus = 200) =>
  Effect.gen(function* () {
    const asked: Array<Asked> = []
    let step = 0
    const server = yield* HttpServer.make(({ body, headers, url }, response) => {
      // Endpoints are asked about their models too.
      if (!/\/(messages|responses|compact|completions)$/u.test(url))
        return HttpServer.json(response, 200, { data: [{ id: "m", context_length: 64_000, max_input_tokens: 64_000 }] })
      asked.push({ path: url, body: JSON.parse(body), beta: String(headers["anthropic-beta"] ?? ""), text: body })
      const tokens = Math.ceil(body.length / 4)
      if (url.endsWith("/responses/compact")) {
        return HttpServer.json(
          response,
          compactStatus,
          compactStatus !== 200
            ? { error: { message: "no such path" } }
            : {
                id: "rc",
                object: "response.compaction",
                created_at: 1,
                output: [
                  { type: "message", role: "user", content: [{ type: "input_text", text: "Look at everything." }] },
                  { id: "cmp_1", type: "compaction", encrypted_content: `sealed${asked.length}` }
                ],
                usage: { input_tokens: tokens, output_tokens: 7, total_tokens: tokens + 7 }
              }
        )
      }
      const turn: WireTurn = body.includes("handoff note of a conversation")
        ? { text: "## Active Task\nlook at everything" }
        : step < steps
          ? {
              text: `Looking at ${step}. ${"I wonder. ".repeat(4_000)}`,
              calls: [{ id: `c${step}`, name: "look", args: JSON.stringify({ at: step++ }) }]
            }
          : { text: `answer ${step++}` }
      // The protocol's whole answer is an object.
      const whole = protocols[mode].whole(turn) as object
      HttpServer.json(response, 200, {
        ...whole,
        usage: { prompt_tokens: tokens, completion_tokens: 10, input_tokens: tokens, output_tokens: 10 }
      })
    })
    return { asked, url: server.url }
  })

const run = (mode: Mode, url: string, engine: Compaction.Settings["engine"], abilities: Route.Route["abilities"]) =>
  Effect.gen(function* () {
    const notices: Array<string> = []
    const agent = yield* Agent.Agent
    const onEvent: NonNullable<Parameters<typeof agent.run>[0]["onEvent"]> = (events) =>
      Effect.sync(() => {
        for (const event of events) if (event._tag === "Notice") notices.push(event.message)
      })
    const first = yield* agent.run({ prompt: "Look at everything.", sessionId: "s", onEvent })
    const second = yield* agent.run({ prompt: "And now?", sessionId: first.sessionId, onEvent })
    const messages = yield* SessionStore.use((store) => store.messages(SessionId.make("s")))
    return { first, second, notices, messages }
  }).pipe(
    Effect.provide(
      Runtime.layer({
        routes: [
          {
            provider: "custom",
            model: "m",
            apiMode: mode,
            baseUrl: mode === "anthropic_messages" ? url : `${url}/v1`,
            apiKey: Redacted.make("k"),
            abilities
          }
        ],
        retry: RetryPolicy.make({ base: 1, cap: 1 }),
        tools: [looks]
      }).pipe(Layer.provide(Layer.succeed(Compaction.CompactionSettings, { engine, protectLast: 4 })))
    )
  )

describe("the ability to compact", () => {
  it("is that of Anthropic's and OpenAI's own endpoints, and of routes that state it", () => {
    const of = (apiMode: Route.Route["apiMode"], baseUrl: string | undefined, abilities?: Route.Route["abilities"]) =>
      Route.abilities({ provider: "p", model: "m", apiMode, baseUrl, abilities }).compaction
    assert.deepStrictEqual(
      [
        of("anthropic_messages", undefined),
        of("anthropic_messages", "https://api.anthropic.com"),
        of("anthropic_messages", "https://gateway.example"),
        of("codex_responses", "https://api.openai.com/v1"),
        of("codex_responses", "https://chatgpt.com/backend-api/codex"),
        of("codex_responses", "https://api.x.ai/v1"),
        of("chat_completions", "https://api.openai.com/v1"),
        of("chat_completions", "http://127.0.0.1:1", { compaction: "item" })
      ],
      ["edits", "edits", "none", "item", "item", "none", "none", "item"]
    )
  })
})

describe("context.engine", () => {
  it.live("context_editing has Anthropic leave old results out, with its beta, in each request that offers tools", () =>
    Effect.gen(function* () {
      const { asked, url } = yield* served("anthropic_messages")
      const { first, notices } = yield* run("anthropic_messages", url, "context_editing", { compaction: "edits" })
      assert.strictEqual(first.exit, "text_response")
      const questions = asked.filter(({ text }) => !text.includes("handoff note of a conversation"))
      assert.isAbove(questions.length, steps)
      for (const { beta, body } of questions) {
        assert.include(beta, "context-management-2025-06-27")
        assert.deepStrictEqual(body["context_management"], {
          edits: [
            {
              type: "clear_tool_uses_20250919",
              trigger: { type: "input_tokens", value: 32_000 },
              keep: { type: "tool_uses", value: 3 },
              clear_at_least: { type: "input_tokens", value: 3_200 }
            }
          ]
        })
      }
      // What the provider cannot leave out is compacted as ever.
      assert.isTrue(
        notices.some((message) => message.startsWith("the conversation was compacted")),
        notices.join()
      )
      assert.isFalse(notices.some((message) => message.includes("context.engine")))
    })
  )

  it.live(
    "responses_compact puts the provider's item in place of a note; what the user said and the store stay whole",
    () =>
      Effect.gen(function* () {
        const { asked, url } = yield* served("codex_responses")
        const { first, messages, notices, second } = yield* run("codex_responses", url, "responses_compact", {
          compaction: "item"
        })
        assert.deepStrictEqual([first.exit, second.exit], ["text_response", "text_response"], notices.join())
        const compacts = asked.filter(({ path }) => path === "/v1/responses/compact")
        assert.isAbove(compacts.length, 0)
        // The compaction is in the sums of the run that it was made for.
        assert.strictEqual(first.usage.requestCount + second.usage.requestCount, asked.length)
        assert.deepStrictEqual(
          Object.keys(compacts[0]?.body ?? {}).filter(
            (name) => !["model", "instructions", "input", "prompt_cache_key"].includes(name)
          ),
          []
        )
        assert.isFalse(asked.some(({ text }) => text.includes("handoff note of a conversation")))
        const items = asked.at(-1)?.body.input ?? []
        const [item, ...more] = items.filter(({ type }) => type === "compaction")
        assert.deepStrictEqual(
          [item, more],
          [{ type: "compaction", encrypted_content: item?.["encrypted_content"] }, []]
        )
        assert.match(String(item?.["encrypted_content"]), /^sealed\d+$/)
        const text = JSON.stringify(items)
        assert.include(text, "Look at everything.")
        assert.include(text, "And now?")
        assert.notInclude(text, "cannot be read here")
        // Question, six calls with results, answer.
        assert.strictEqual(messages.length, 2 * steps + 2)
        const calls = items.flatMap(({ call_id, type }) => (type === "function_call" ? [call_id] : []))
        assert.deepStrictEqual(
          items.flatMap(({ call_id, type }) => (type === "function_call_output" ? [call_id] : [])),
          calls
        )
        assert.isBelow(calls.length, steps)
      })
  )

  it.live("a route without the ability is told once, and so is a refusal: a note is written", () =>
    Effect.gen(function* () {
      for (const [mode, abilities, status, said] of [
        [
          "chat_completions",
          undefined,
          200,
          "context.engine responses_compact is not available on this route: compressor is used"
        ],
        [
          "codex_responses",
          { compaction: "item" },
          404,
          "the provider did not compact the conversation, so a note is written: "
        ]
      ] as const) {
        const { asked, url } = yield* served(mode, status)
        const { first, notices } = yield* run(mode, url, "responses_compact", abilities)
        assert.strictEqual(first.exit, "text_response")
        assert.isTrue(
          asked.some(({ text }) => text.includes("handoff note of a conversation")),
          mode
        )
        const told = notices.filter((message) => message.startsWith(said))
        if (status === 200) assert.strictEqual(told.length, 1)
        else assert.isAbove(told.length, 0, notices.join())
      }
    })
  )
})
