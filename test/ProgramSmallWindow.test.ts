// Conversations that outgrow the window of their server, in each protocol: through the arguments of the program, with a
// server that refuses what is too long and counts what it has cached.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as HttpServer from "./models/provider/HttpServer.ts"
import { machine } from "./support/hermesInProcess.ts"
import * as PromptCache from "./support/promptCache.ts"
import { protocols, type WireTurn } from "./support/wireModel.ts"

/** Tokens that the servers take, a quarter of the characters of a body. */
const window = 60_000

/** Files that the model reads, one in each step. */
const steps = 30

interface Dialect {
  /** The model section of the settings for the server at an address. */
  readonly model: (url: string) => object
  readonly path: RegExp
  /** Makes the prompt cache of a server. */
  readonly cache: () => (body: string) => PromptCache.Counted
  readonly usage: (counted: PromptCache.Counted) => object
  /** Refusal of a request that is too long, in the words of the provider. */
  readonly refusal: (tokens: number) => object
}

const markedBy =
  <Body>(blocksOf: (body: Body) => ReadonlyArray<PromptCache.Block>) =>
  () => {
    const count = PromptCache.marked()
    return (body: string) => count(blocksOf(JSON.parse(body)))
  }

const dialects: Readonly<Record<keyof typeof protocols, Dialect>> = {
  chat_completions: {
    model: (url) => ({ provider: "custom", default: "m", base_url: `${url}/v1` }),
    path: /\/chat\/completions$/u,
    cache: () => {
      const count = PromptCache.automatic()
      return (body) => {
        const { messages, tools } = JSON.parse(body)
        return count(PromptCache.unmarkedBlocks([tools, ...messages]), "")
      }
    },
    usage: ({ fresh, read }) => ({
      prompt_tokens: read + fresh,
      completion_tokens: 10,
      total_tokens: read + fresh + 10,
      prompt_tokens_details: { cached_tokens: read }
    }),
    refusal: (tokens) => ({
      error: {
        message: `This model's maximum context length is ${window} tokens. However, your messages resulted in ${tokens} tokens.`,
        code: "context_length_exceeded"
      }
    })
  },
  anthropic_messages: {
    model: (url) => ({ provider: "custom", default: "claude-opus-4-6", base_url: url, api_mode: "anthropic_messages" }),
    path: /\/v1\/messages$/u,
    cache: markedBy(PromptCache.anthropicBlocks),
    usage: ({ fresh, read, written }) => ({
      input_tokens: fresh,
      cache_read_input_tokens: read,
      cache_creation_input_tokens: written,
      output_tokens: 10
    }),
    refusal: (tokens) => ({
      type: "error",
      error: { type: "invalid_request_error", message: `prompt is too long: ${tokens} tokens > ${window} maximum` }
    })
  },
  codex_responses: {
    model: (url) => ({ provider: "custom", default: "gpt-5.1", base_url: `${url}/v1`, api_mode: "codex_responses" }),
    path: /\/responses$/u,
    cache: () => {
      const count = PromptCache.automatic()
      return (body) => {
        const { input, instructions, prompt_cache_key, tools } = JSON.parse(body)
        return count(PromptCache.unmarkedBlocks([tools, instructions, ...input]), prompt_cache_key)
      }
    },
    usage: ({ fresh, read }) => ({
      input_tokens: read + fresh,
      output_tokens: 10,
      total_tokens: read + fresh + 10,
      input_tokens_details: { cached_tokens: read }
    }),
    refusal: () => ({
      error: {
        message: "Your input exceeds the context window of this model. Please adjust your input and try again.",
        type: "invalid_request_error",
        code: "context_length_exceeded",
        param: "input"
      }
    })
  },
  bedrock_converse: {
    model: (url) => ({ provider: "bedrock", default: "us.anthropic.claude-opus-4-6-v1:0", base_url: url }),
    path: /\/converse$/u,
    cache: markedBy(PromptCache.bedrockBlocks),
    usage: ({ fresh, read, written }) => ({
      inputTokens: fresh,
      cacheReadInputTokens: read,
      cacheWriteInputTokens: written,
      outputTokens: 10,
      totalTokens: read + written + fresh + 10
    }),
    refusal: () => ({ message: "Input is too long for requested model." })
  }
}

/** A server with a small window that speaks a protocol. */
const served = (mode: keyof typeof dialects) =>
  Effect.gen(function* () {
    const { cache, path, refusal, usage } = dialects[mode]
    const count = cache()
    const asked: Array<{
      readonly body: string
      readonly tokens: number
      readonly isSummary: boolean
      readonly counted?: PromptCache.Counted
    }> = []
    let step = 0
    const server = yield* HttpServer.make(({ body, url }, response) => {
      if (!path.test(url)) return HttpServer.json(response, 404, {})
      const tokens = Math.ceil(body.length / 4)
      const isSummary = body.includes("handoff note of a conversation")
      if (tokens > window) {
        asked.push({ body, tokens, isSummary })
        return HttpServer.json(response, 400, refusal(tokens), { "x-amzn-errortype": "ValidationException" })
      }
      const counted = count(body)
      asked.push({ body, tokens, isSummary, counted })
      const turn: WireTurn = isSummary
        ? { text: "## Active Task\nread every file, and mind the gap" }
        : step < steps
          ? {
              text: `Reading file ${step}. ${`I wonder about ${step}. `.repeat(150)}`,
              calls: [{ id: `c${step}`, name: "read_file", args: JSON.stringify({ path: `file${step++}.txt` }) }]
            }
          : { text: `answer ${step++ - steps}` }
      // The protocol's whole answer is an object.
      const whole = protocols[mode].whole(turn) as object
      HttpServer.json(response, 200, { ...whole, usage: usage(counted) })
    })
    return { asked, url: server.url }
  })

describe("a conversation that is longer than the window of its server", () => {
  for (const mode of ["chat_completions", "anthropic_messages", "codex_responses", "bedrock_converse"] as const) {
    it.live(`is compacted and goes on to its answer, most of it read from the cache, in ${mode}`, () =>
      Effect.gen(function* () {
        const { at, cwd, hermes, keep } = yield* machine
        for (let at = 0; at < steps; at++) writeFileSync(join(cwd, `file${at}.txt`), `line of file ${at}\n`.repeat(400))
        const { asked, url } = yield* served(mode)
        // JSON is YAML.
        keep(
          "config.yaml",
          JSON.stringify({
            model: { ...dialects[mode].model(url), api_key: "k", context_length: 2 * window + 8_000 },
            memory: { nudge_interval: 0 },
            skills: { creation_nudge_interval: 0 },
            display: { streaming: false }
          })
        )
        /** In a runtime of its own; gives the report, and the sessions that were told, the last one the newest. */
        const run = Effect.fnUntraced(function* (...args: ReadonlyArray<string>) {
          const { code, stderr, stdout } = yield* hermes([...args, "-Q", "--usage-file", "usage.json"])
          assert.strictEqual(code, 0, stderr)
          const sessions = Array.from(stderr.matchAll(/^session_id: (\S+)$/gmu), ([, id]) => id ?? "")
          return {
            stdout,
            sessions,
            report: JSON.parse(readFileSync(at("usage.json"), "utf8")).total_including_auxiliary
          }
        })
        const first = yield* run("-q", "Read every file, and mind the gap.")
        assert.strictEqual(first.stdout, "answer 0\n")
        const [origin = "", compacted = "", ...more] = first.sessions
        assert.deepStrictEqual([more, origin === compacted], [[], false], "compaction makes another session of it")
        const second = yield* run("--resume", origin, "-q", "And now?")
        assert.strictEqual(second.stdout, "answer 1\n")
        assert.include(second.sessions, compacted)
        // One refusal was enough to learn the window.
        const [answered, refused] = [
          asked.filter(({ counted }) => counted !== undefined),
          asked.filter(({ counted }) => counted === undefined)
        ]
        assert.strictEqual(refused.length, 1)
        assert.isAtLeast(asked.filter(({ isSummary }) => isSummary).length, 2)
        const own = asked.filter(({ isSummary }) => !isSummary)
        assert.strictEqual(own.length, steps + 3)
        assert.deepStrictEqual(
          own.filter(({ body }) => !body.includes("mind the gap")),
          []
        )
        // For the cache of the provider it is one conversation, in the next process too.
        if (mode === "codex_responses")
          assert.deepStrictEqual(Array.from(new Set(own.map(({ body }) => JSON.parse(body).prompt_cache_key))), [
            origin
          ])
        // The sums of the runs are those of the server, and most of what was sent had been sent before.
        const sum = (name: keyof PromptCache.Counted) =>
          answered.reduce((sum, { counted }) => sum + (counted?.[name] ?? 0), 0)
        const reported = (name: string): number => first.report[name] + second.report[name]
        assert.deepStrictEqual(
          [
            reported("api_calls"),
            reported("cache_read_tokens"),
            reported("cache_write_tokens"),
            reported("input_tokens")
          ],
          [answered.length, sum("read"), sum("written"), sum("fresh")]
        )
        // Three notes are written over other prefixes, and what follows each of them is new.
        assert.isAtLeast(sum("read") / (sum("read") + sum("written") + sum("fresh")), 0.78)
      })
    )
  }
})
