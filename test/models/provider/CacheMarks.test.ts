// Marks for prompt caches: where they stand in each form, on which routes, and what a session costs with them.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../../src/agent/Agent.ts"
import type { ModelCall } from "../../../src/base/domain/ModelCall.ts"
import { abilities, type Route } from "../../../src/base/domain/Route.ts"
import * as Anthropic from "../../../src/models/provider/anthropic/Request.ts"
import * as Bedrock from "../../../src/models/provider/bedrock/Request.ts"
import * as Chat from "../../../src/models/provider/chat/Request.ts"
import * as Responses from "../../../src/models/provider/responses/Request.ts"
import * as Runtime from "../../../src/program/Runtime.ts"
import * as Toolset from "../../../src/tools/Toolset.ts"
import * as PromptCache from "../../support/promptCache.ts"
import { protocols } from "../../support/wireModel.ts"
import * as HttpServer from "./HttpServer.ts"

const native: Route = { provider: "anthropic", model: "claude-opus-4-6", apiMode: "anthropic_messages" }
const openrouter: Route = {
  provider: "openrouter",
  model: "anthropic/claude-sonnet-4.5",
  apiMode: "chat_completions",
  baseUrl: "https://openrouter.ai/api/v1"
}
const bedrock: Route = { provider: "bedrock", model: "us.anthropic.claude-opus-4-6-v1:0", apiMode: "bedrock_converse" }

const system = Prompt.systemMessage({ content: "You are it." })
const user = (text: string) => Prompt.userMessage({ content: [Prompt.textPart({ text })] })
const assistant = (text: string) => Prompt.assistantMessage({ content: [Prompt.textPart({ text })] })
const six = [user("1"), assistant("2"), user("3"), assistant("4"), user("5"), assistant("6")]
const terminal = { name: "terminal", description: "Runs a command.", parameters: { type: "object", properties: {} } }

const call = (messages: ReadonlyArray<Prompt.Message>, more: Partial<ModelCall> = {}): ModelCall => ({
  messages,
  tools: [],
  toolChoice: "auto",
  responseFormat: { type: "text" },
  stream: false,
  cache: { ttl: "5m" },
  ...more
})

/** Places of marks in a request, as paths; `texts` is what stands before each. */
const marks = (value: unknown, at = ""): ReadonlyArray<string> => {
  if (typeof value !== "object" || value === null) return []
  const own = "cache_control" in value || "cachePoint" in value ? [at] : []
  return [
    ...own,
    ...Object.entries(value).flatMap(([key, item]) =>
      key === "cache_control" || key === "cachePoint" ? [] : marks(item, at === "" ? key : `${at}.${key}`)
    )
  ]
}

describe("places of cache marks", () => {
  it("system prompt and the last three messages; the last four without one; no more than there is room for (case 34)", () => {
    const places = (messages: ReadonlyArray<Prompt.Message>) => marks(Anthropic.prepare(call(messages), native))
    assert.deepStrictEqual(places([system, ...six]), [
      "system.0",
      "messages.3.content.0",
      "messages.4.content.0",
      "messages.5.content.0"
    ])
    assert.deepStrictEqual(places(six), [
      "messages.2.content.0",
      "messages.3.content.0",
      "messages.4.content.0",
      "messages.5.content.0"
    ])
    assert.deepStrictEqual(places([system, user("1")]), ["system.0", "messages.0.content.0"])
  })

  it("with tools: the last definition, the system prompt, and the ends of this request and of the one before", () => {
    const request = Anthropic.prepare(
      call([system, ...six, user("7")], { tools: [terminal, { ...terminal, name: "process" }] }),
      native
    )
    assert.deepStrictEqual(marks(request), ["system.0", "messages.4.content.0", "messages.6.content.0", "tools.1"])
  })

  it("a model that removes the thinking of earlier turns keeps one where its turn began, instead of that of the tools", () => {
    const older = { ...native, model: "claude-sonnet-4-5" }
    const loop = (name: string) => [
      Prompt.assistantMessage({
        content: [Prompt.toolCallPart({ id: name, name: "terminal", params: {}, providerExecuted: false })]
      }),
      Prompt.toolMessage({
        content: [
          Prompt.toolResultPart({ id: name, name: "terminal", isFailure: false, result: "ok", providerExecuted: false })
        ]
      })
    ]
    const places = (...messages: ReadonlyArray<Prompt.Message>) =>
      marks(Anthropic.prepare(call([system, ...messages], { tools: [terminal] }), older))
    const turn = [user("1"), ...loop("a"), ...loop("b"), ...loop("c")]
    assert.deepStrictEqual(places(...turn), [
      "system.0",
      "messages.0.content.0",
      "messages.4.content.0",
      "messages.6.content.0"
    ])
    // The next turn finds the prefix where the turn before was opened.
    assert.deepStrictEqual(places(...turn, assistant("2"), user("3")), [
      "system.0",
      "messages.0.content.0",
      "messages.8.content.0"
    ])
  })

  it("chat messages and results of tools carry them in a part; cache points are blocks of their own", () => {
    const talk = [
      system,
      user("1"),
      Prompt.assistantMessage({
        content: [Prompt.toolCallPart({ id: "c", name: "terminal", params: {}, providerExecuted: false })]
      }),
      Prompt.toolMessage({
        content: [
          Prompt.toolResultPart({ id: "c", name: "terminal", isFailure: false, result: "ok", providerExecuted: false })
        ]
      }),
      assistant("2"),
      user("3")
    ]
    assert.deepStrictEqual(marks(Chat.prepare(call(talk, { tools: [terminal] }), openrouter)), [
      "messages.0.content.0",
      "messages.1.content.0",
      "messages.3.content.0",
      "messages.5.content.0"
    ])
    assert.deepStrictEqual(
      marks(Bedrock.prepare(call([...talk, assistant("4"), user("5")], { tools: [terminal] }), bedrock)),
      ["messages.4.content.1", "messages.6.content.1", "system.1", "toolConfig.tools.1"]
    )
  })

  it("an hour is named, five minutes are not; Qwen has no hour (case 35)", () => {
    const first = (value: unknown): unknown =>
      typeof value !== "object" || value === null
        ? undefined
        : "cache_control" in value
          ? value.cache_control
          : "cachePoint" in value
            ? value.cachePoint
            : Object.values(value)
                .map(first)
                .find((found) => found !== undefined)
    const hour = { cache: { ttl: "1h" } } as const
    assert.deepStrictEqual(first(Anthropic.prepare(call(six), native)), { type: "ephemeral" })
    assert.deepStrictEqual(first(Anthropic.prepare(call(six, hour), native)), { type: "ephemeral", ttl: "1h" })
    assert.deepStrictEqual(first(Bedrock.prepare(call(six, hour), bedrock)), { type: "default", ttl: "1h" })
    assert.deepStrictEqual(
      first(
        Chat.prepare(call(six, hour), {
          ...openrouter,
          provider: "alibaba",
          model: "qwen3-max",
          baseUrl: "https://x.example"
        })
      ),
      { type: "ephemeral" }
    )
  })

  it("messages are never changed, and marks of the caller are the only ones (case 37)", () => {
    const messages = [system, ...six]
    const before = JSON.stringify(messages)
    const prepare = Anthropic.make(native)
    const request = JSON.stringify(prepare(call(messages)))
    assert.strictEqual(JSON.stringify(prepare(call(messages))), request)
    assert.strictEqual(JSON.stringify(messages), before)
    const own = Prompt.userMessage({
      content: [Prompt.textPart({ text: "mine" })],
      options: { anthropic_messages: { cache_control: { type: "ephemeral" } } }
    })
    assert.deepStrictEqual(marks(Anthropic.prepare(call([system, own, ...six.slice(1)]), native)), [
      "messages.0.content.0"
    ])
  })

  it("a message has the same bytes with and without one, on a route that takes them; else its text is a string", () => {
    const talk = [system, user("1"), assistant("2"), user("3"), assistant("4"), user("5"), assistant("6"), user("7")]
    const bodies = [4, 6, 8].map((length) =>
      JSON.stringify(
        Chat.prepare(call(talk.slice(0, length), { tools: [terminal] }), openrouter)["messages"]
      ).replaceAll(/,"cache_control":\{[^}]*\}/gu, "")
    )
    for (const [at, body] of bodies.entries())
      assert.isTrue((bodies[at + 1] ?? body).startsWith(body.slice(0, -1)), body)
    assert.deepStrictEqual(Chat.prepare(call(talk.slice(0, 2), { cache: undefined }), openrouter)["messages"], [
      { role: "system", content: "You are it." },
      { role: "user", content: "1" }
    ])
  })

  it("on every route whose protocol can express them, if they are always wanted", () => {
    const always = { cache: { ttl: "5m", routes: "always" } } as const
    const glm = { provider: "custom", model: "glm-5" }
    assert.deepStrictEqual(
      [
        marks(Chat.prepare(call([user("1")], always), { ...glm, apiMode: "chat_completions" })),
        marks(Chat.prepare(call([user("1")]), { ...glm, apiMode: "chat_completions" })),
        marks(Anthropic.prepare(call([user("1")], always), { ...glm, apiMode: "anthropic_messages" })),
        marks(Bedrock.prepare(call([user("1")], always), { ...glm, apiMode: "bedrock_converse" }))
      ],
      [["messages.0.content.0"], [], ["messages.0.content.0"], ["messages.0.content.1"]]
    )
  })

  it("OpenAI is asked to keep the prefix for a day where others keep it for an hour, of models that can", () => {
    const ask = (model: string, ttl: "5m" | "1h", baseUrl?: string, routes?: "always") => {
      const route: Route = { provider: "openai", model, apiMode: "codex_responses", baseUrl }
      const asked = call([user("1")], { conversationId: "c", cache: { ttl, routes } })
      return [
        Responses.prepare(asked, route)["prompt_cache_retention"],
        Chat.prepare(asked, { ...route, apiMode: "chat_completions" })["prompt_cache_retention"]
      ]
    }
    assert.deepStrictEqual(ask("gpt-5.1", "1h"), ["24h", "24h"])
    assert.deepStrictEqual(ask("gpt-5.1", "5m"), [undefined, undefined])
    assert.deepStrictEqual(ask("o3", "1h"), [undefined, undefined])
    assert.deepStrictEqual(ask("gpt-5.5-pro", "1h"), ["24h", "24h"])
    for (const newer of ["gpt-5.6", "gpt-5.6-sol", "gpt-5.10"])
      assert.deepStrictEqual(ask(newer, "1h"), [undefined, undefined])
    const gateway = "https://gateway.example/v1"
    assert.deepStrictEqual(ask("gpt-5.1", "1h", gateway), [undefined, undefined])
    assert.deepStrictEqual(ask("gpt-5.1", "1h", gateway, "always"), ["24h", "24h"])
    assert.deepStrictEqual(ask("gpt-5.1", "5m", gateway, "always"), [undefined, undefined])
    assert.deepStrictEqual(ask("glm-5", "1h", gateway, "always"), [undefined, undefined])
  })

  it("only calls that others of the conversation follow have marks", () => {
    assert.deepStrictEqual(marks(Anthropic.prepare(call([system, ...six], { cache: undefined }), native)), [])
  })
})

describe("routes that take marks (case 38)", () => {
  it("are those whose endpoint knows them", () => {
    const of = (provider: string, model: string, apiMode: Route["apiMode"], baseUrl?: string) =>
      abilities({ provider, model, apiMode, baseUrl }).cacheMarks
    assert.deepStrictEqual(
      [
        of("anthropic", "claude-opus-4-6", "anthropic_messages"),
        of("custom", "claude-opus-4-6", "anthropic_messages", "https://proxy.example/anthropic"),
        of("custom", "glm-5", "anthropic_messages", "https://proxy.example/anthropic"),
        of("minimax", "MiniMax-M3", "anthropic_messages", "https://api.minimax.io/anthropic"),
        of("openrouter", "anthropic/claude-sonnet-4.5", "chat_completions", "https://openrouter.ai/api/v1"),
        of("openrouter", "openai/gpt-5", "chat_completions", "https://openrouter.ai/api/v1"),
        of("custom", "claude", "chat_completions", "https://proxy.example/openrouter.ai/v1"),
        of("copilot", "claude-sonnet-4.6", "chat_completions", "https://api.githubcopilot.com"),
        of("nous", "qwen3", "chat_completions", "https://inference-api.nousresearch.com/v1"),
        of("alibaba", "qwen3-max", "chat_completions", "https://dashscope.aliyuncs.com/v1"),
        of("openai", "gpt-5", "codex_responses"),
        of("bedrock", "us.anthropic.claude-opus-4-6-v1:0", "bedrock_converse"),
        of("bedrock", "anthropic.claude-3-haiku-20240307-v1:0", "bedrock_converse"),
        of("bedrock", "amazon.nova-pro-v1:0", "bedrock_converse"),
        of("bedrock", "meta.llama4", "bedrock_converse")
      ],
      [
        "native",
        "native",
        "none",
        "native",
        "envelope",
        "none",
        "envelope",
        "none",
        "envelope",
        "envelope",
        "none",
        "cache_points",
        "none",
        "cache_points",
        "none"
      ]
    )
  })
})

/**
 * The price of a request at Anthropic, in tokens that are not cached: reading costs a tenth, writing a quarter more.
 */
const price = ({ fresh, read, written }: PromptCache.Counted): number => read * 0.1 + written * 1.25 + fresh

/** The least that these requests can cost: everything of a request before is read, everything else is written. */
const least = (requests: ReadonlyArray<ReadonlyArray<PromptCache.Block>>): number =>
  requests.reduce((sum, blocks, at) => {
    const before = at === 0 ? 0 : (requests[at - 1]?.length ?? 0)
    return sum + PromptCache.tokensOf(blocks.slice(0, before)) * 0.1 + PromptCache.tokensOf(blocks.slice(before)) * 1.25
  }, 0)

const Look = Tool.make("look", {
  description: "Looks.",
  parameters: Schema.Struct({ at: Schema.Number }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Look)
const looks = Toolset.make(
  "look",
  toolkit,
  toolkit.toLayer({ look: ({ at }) => Effect.succeed(`seen ${at}: ${"words of a file ".repeat(125)}`) })
)

describe("what a session costs at a provider that bills as Anthropic does", () => {
  for (const calls of [1, 30]) {
    it.effect(`20 steps with ${calls} ${calls === 1 ? "call" : "calls"} each cost at most 1.15 of the least`, () =>
      Effect.gen(function* () {
        const requests: Array<ReadonlyArray<PromptCache.Block>> = []
        const count = PromptCache.marked()
        let paid = 0
        let step = 0
        const server = yield* HttpServer.make(({ body }, response) => {
          const blocks = PromptCache.anthropicBlocks(JSON.parse(body))
          requests.push(blocks)
          paid += price(count(blocks))
          step++
          const turn =
            step === 20
              ? { text: "done" }
              : {
                  text: `step ${step}`,
                  calls: Array.from({ length: calls }, (_, at) => ({
                    id: `c${step}_${at}`,
                    name: "look",
                    args: JSON.stringify({ at: step * 100 + at })
                  }))
                }
          response
            .writeHead(200, { "content-type": "application/json" })
            .end(JSON.stringify(protocols.anthropic_messages.whole(turn)))
        })
        yield* Effect.provide(
          Agent.run({ prompt: "Look around. ".repeat(600) }),
          Runtime.layer({
            provider: protocols.anthropic_messages.layer(server.url),
            tools: [looks],
            instructions: "Rules. ".repeat(2_800)
          })
        )
        assert.strictEqual(requests.length, 20)
        const best = least(requests)
        assert.isAtMost(paid / best, 1.15)
      })
    )
  }
})

it("a converted conversation is shared between requests, with and without marks", () => {
  const prepare = Anthropic.make(native)
  const long = Array.from({ length: 50 }, (_, at) => (at % 2 === 0 ? user(`${at}`) : assistant(`${at}`)))
  const first = prepare(call(long))
  const second = prepare(call([...long, user("next")]))
  const contents = (request: { readonly [key: string]: unknown }) =>
    (request["messages"] as ReadonlyArray<{ readonly content: unknown }>).map(({ content }) => content)
  const shared = contents(first).filter((content, at) => content === contents(second)[at])
  assert.isAtLeast(shared.length, 45)
})
