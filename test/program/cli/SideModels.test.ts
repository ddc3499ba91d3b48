// What `hermes` does with models besides asking the main one: side tasks, windows that are too small, cost. Models over
// HTTP.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { machine } from "../../support/hermesInProcess.ts"

interface Message {
  readonly role: string
  readonly content: unknown
}

interface Body {
  readonly model: string
  readonly messages: ReadonlyArray<Message>
  readonly max_tokens?: number
  readonly options?: unknown
}

type Answer = Record<string, unknown> | { readonly status: number; readonly message: string }

const says = (content: string): Answer => ({ role: "assistant", content })

const calls = (name: string, args: unknown): Answer => ({
  role: "assistant",
  content: null,
  tool_calls: [{ id: "call_1", type: "function", function: { name, arguments: JSON.stringify(args) } }]
})

const refuses = (status: number, message: string): Answer => ({ status, message })

/** A server of chat completions; `answer` says what the nth request to a path gets, `other` what other addresses do. */
const serve = (
  answer: (path: string, body: Body, nth: number) => Answer,
  other: (method: string, path: string) => unknown = () => undefined
) =>
  Effect.gen(function* () {
    const asked: Array<{ readonly path: string; readonly body: Body }> = []
    const { requests, url } = yield* HttpServer.make(({ body, method, url }, response) => {
      if (!url.endsWith("/chat/completions")) {
        const found = other(method, url)
        return HttpServer.json(response, found === undefined ? 404 : 200, found ?? {})
      }
      const parsed: Body = JSON.parse(body)
      asked.push({ path: url, body: parsed })
      const message = answer(url, parsed, asked.filter(({ path }) => path === url).length)
      if (typeof message["status"] === "number") {
        return HttpServer.json(response, message["status"], { error: { message: message["message"] } })
      }
      return HttpServer.json(response, 200, {
        id: "c",
        object: "chat.completion",
        model: parsed.model,
        choices: [{ index: 0, message, finish_reason: "tool_calls" in message ? "tool_calls" : "stop" }],
        usage: { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 }
      })
    })
    return { asked, requests, url }
  })

const config = (url: string, more = ""): string =>
  `model:\n  provider: custom\n  default: big-1\n  base_url: ${url}/main/v1\n  api_key: k\n  streaming: false\n${more}`

const lists =
  (window: number) =>
  (method: string, path: string): unknown =>
    method === "GET" && path.endsWith("/models") ? { data: [{ id: "big-1", max_model_len: window }] } : undefined

const resultOf = ({ messages }: Body): string => JSON.stringify(messages.filter(({ role }) => role === "tool"))

const gif = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"

describe("hermes and side models", () => {
  it.live("auxiliary.vision looks at images, by its own model, address and key, and main does not", () =>
    Effect.gen(function* () {
      const user = yield* machine
      const { asked, requests, url } = yield* serve(
        (path, body, nth) =>
          path.startsWith("/eyes")
            ? says("a black pixel")
            : nth === 1
              ? calls("vision_analyze", { image_url: gif })
              : says(resultOf(body)),
        lists(128_000)
      )
      user.keep(
        "config.yaml",
        config(url, `auxiliary:\n  vision:\n    base_url: ${url}/eyes/v1\n    model: eyes-1\n    api_key: eyes-key\n`)
      )
      const ended = yield* user.hermes(["chat", "-Q", "-q", "what is it", "-t", "vision"])
      assert.strictEqual(ended.code, 0, ended.stderr)
      assert.include(ended.stdout, "a black pixel")
      const eyes = asked.filter(({ path }) => path.startsWith("/eyes"))
      assert.deepStrictEqual(
        eyes.map(({ body }) => body.model),
        ["eyes-1"]
      )
      assert.include(JSON.stringify(eyes[0]?.body.messages), "image_url")
      const request = requests.find(({ url }) => url.startsWith("/eyes") && url.endsWith("/chat/completions"))
      assert.strictEqual(request?.headers.authorization, "Bearer eyes-key")
    })
  )

  it.live("a side model whose account is empty is told of, not worked around, when it was named", () =>
    Effect.gen(function* () {
      const user = yield* machine
      const { asked, url } = yield* serve(
        (path, body, nth) =>
          path.startsWith("/eyes")
            ? refuses(402, "Insufficient credits")
            : nth === 1
              ? calls("vision_analyze", { image_url: gif })
              : says(resultOf(body)),
        lists(128_000)
      )
      user.keep(
        "config.yaml",
        config(url, `auxiliary:\n  vision:\n    base_url: ${url}/eyes/v1\n    model: eyes-1\n    api_key: k\n`)
      )
      const ended = yield* user.hermes(["chat", "-Q", "-q", "what is it", "-t", "vision"])
      assert.include(ended.stdout, "the image could not be examined")
      assert.strictEqual(asked.length, 3)
    })
  )

  it.live("a model that holds too little is refused in one line, unless the user names the number", () =>
    Effect.gen(function* () {
      const user = yield* machine
      const { asked, url } = yield* serve(() => says("fine"), lists(8_192))
      user.keep("config.yaml", config(url))
      const refused = yield* user.hermes(["chat", "-Q", "-q", "hi"])
      assert.strictEqual(refused.code, 2)
      assert.match(
        refused.stderr,
        /^Error: big-1 holds 8192 tokens, and an agent needs 64000: .*model\.context_length/m
      )
      assert.deepStrictEqual(asked, [])
      user.keep("config.yaml", config(url).replace("  streaming", "  context_length: 8192\n  streaming"))
      assert.deepInclude(yield* user.hermes(["chat", "-Q", "-q", "hi"]), { code: 0, stdout: "fine\n" })
    })
  )

  it.live(
    "a conversation that does not fit fails with what to do, and an output limit that is too large is lowered",
    () =>
      Effect.gen(function* () {
        const user = yield* machine
        const { asked, url } = yield* serve(({ length }, { messages }, nth) => {
          if (JSON.stringify(messages).includes("too long")) {
            return refuses(
              400,
              "This model's maximum context length is 90000 tokens. However, your messages resulted in 95000 tokens."
            )
          }
          return nth === 2
            ? refuses(
                400,
                "max_tokens: 32768 > context_window: 128000 - input_tokens: 118000 = available_tokens: 10000"
              )
            : says(`fine ${length > 0}`)
        }, lists(128_000))
        user.keep(
          "config.yaml",
          config(url, "compression:\n  enabled: false\n").replace("  streaming", "  max_tokens: 32768\n  streaming")
        )
        const over = yield* user.hermes(["chat", "-Q", "-q", "too long"])
        assert.strictEqual(over.code, 1)
        assert.match(
          over.stderr,
          /^Error: the conversation does not fit into big-1, and no compaction is configured: start a new session, or choose a model that holds more$/m
        )
        const capped = yield* user.hermes(["chat", "-Q", "-q", "hi"])
        assert.deepInclude(capped, { code: 0, stdout: "fine true\n" })
        assert.deepStrictEqual(
          asked.map(({ body }) => body.max_tokens),
          [32_768, 32_768, 9_936]
        )
      })
  )

  it.live("Ollama is told how much to hold", () =>
    Effect.gen(function* () {
      const user = yield* machine
      const { asked, url } = yield* serve(
        () => says("fine"),
        (method, path) =>
          method === "POST" && path === "/main/api/show"
            ? { model_info: { "llama.context_length": 131_072 } }
            : undefined
      )
      user.keep("config.yaml", config(url))
      yield* user.hermes(["chat", "-Q", "-q", "hi"])
      user.keep("config.yaml", config(url).replace("  streaming", "  ollama_num_ctx: 70000\n  streaming"))
      yield* user.hermes(["chat", "-Q", "-q", "hi"])
      assert.deepStrictEqual(
        asked.map(({ body }) => body.options),
        [{ num_ctx: 131_072 }, { num_ctx: 70_000 }]
      )
    })
  )

  it.live(
    "a model that nobody describes is spoken of once, on stderr; stream-json tells what is known of the cost",
    () =>
      Effect.gen(function* () {
        const user = yield* machine
        const { url } = yield* serve(() => says("fine"))
        user.keep("config.yaml", config(url))
        const told = yield* user.hermes(["chat", "-q", "hi"])
        assert.include(
          told.stderr,
          'Context size of "big-1" is unknown; assuming 128,000 tokens. Set model.context_length'
        )
        assert.strictEqual(told.stdout.trim(), "fine")
        const { stdout } = yield* user.hermes(["chat", "-q", "hi", "--format", "stream-json"])
        const result = JSON.parse(stdout.trim().split("\n").at(-1) ?? "")
        assert.deepInclude(result, {
          type: "result",
          estimated_cost_usd: null,
          cost_status: "unknown",
          cost_source: "none"
        })
      })
  )
})
