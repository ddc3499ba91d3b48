// The program with two model servers that record every request: a key given for one of them never reaches the other.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { machine } from "../../support/hermes.ts"
import { protocols } from "../../support/wireModel.ts"

const guard = fileURLToPath(new URL("../../support/loopbackOnly.ts", import.meta.url))

/** A model in both protocols that the program may speak here; anything else that it asks for is not there. */
const model = (name: string) =>
  HttpServer.make(({ method, url }, response) => {
    const protocol = url.endsWith("/messages")
      ? protocols.anthropic_messages
      : url.endsWith("/chat/completions")
        ? protocols.chat_completions
        : undefined
    if (method !== "POST" || protocol === undefined) return HttpServer.json(response, 404, {})
    protocol.stream({ text: `from ${name}` }, response)
  })

const setup = Effect.gen(function* () {
  const made = yield* machine
  const a = yield* model("A")
  const b = yield* model("B")
  const left = join(made.cwd, "left.txt")
  const env = { NODE_OPTIONS: `--import=${guard}`, LOOPBACK_ONLY_LOG: left }
  return {
    ...made,
    a,
    b,
    /** Runs the program, which can reach nothing but this machine. */
    run: (args: ReadonlyArray<string>, more: Readonly<Record<string, string>> = {}) =>
      made.hermes(args, { env: { ...env, ...more } }),
    /** The hosts elsewhere that it tried to reach. */
    left: () => (existsSync(left) ? [...new Set(readFileSync(left, "utf8").trim().split("\n"))] : [])
  }
})

const textOf = (requests: ReadonlyArray<HttpServer.Received>): string =>
  requests.map(({ body, headers, url }) => JSON.stringify([url, headers, body])).join("\n")

const query = ["-q", "hi", "-Q"]

describe("a key and its address", () => {
  it.live("an address of the environment takes the key of the file nowhere", () =>
    Effect.gen(function* () {
      const { a, b, keep, run } = yield* setup
      keep(
        "config.yaml",
        `model: { provider: custom, default: m, base_url: "${a.url}/v1", api_key: planted-file-key }\n`
      )
      assert.deepInclude(yield* run(query), { code: 0, stdout: "from A\n" })
      assert.include(textOf(a.requests), "planted-file-key")
      const before = a.requests.length
      const ended = yield* run(query, { OPENAI_BASE_URL: `${b.url}/v1`, OPENAI_API_KEY: "planted-shell-key" })
      assert.deepInclude(ended, { code: 0, stdout: "from B\n" })
      assert.strictEqual(a.requests.length, before)
      assert.notInclude(textOf(b.requests), "planted-file-key")
      assert.include(textOf(b.requests), "planted-shell-key")
    })
  )

  it.live("another provider of a flag leaves the file's local server, with and without a key in the file", () =>
    Effect.gen(function* () {
      for (const line of ["\n  api_key: ollama", ""]) {
        const { a, keep, left, run } = yield* setup
        keep(
          "config.yaml",
          `agent: { api_max_retries: 1 }\nmodel:\n  provider: custom\n  default: qwen3.6:35b\n  base_url: ${a.url}/v1${line}\n`
        )
        const ended = yield* run([...query, "--provider", "anthropic", "--model", "claude-sonnet-4-6"], {
          ANTHROPIC_API_KEY: "planted-anthropic-key"
        })
        assert.strictEqual(ended.code, 1, ended.stdout)
        assert.deepStrictEqual(a.requests, [])
        assert.deepStrictEqual(left(), ["api.anthropic.com"])
      }
    })
  )

  it.live("the file's key of a provider does not go to an address of the flags", () =>
    Effect.gen(function* () {
      const { b, keep, run } = yield* setup
      keep("config.yaml", "model: { provider: openrouter, default: m, api_key: planted-file-key }\n")
      const ended = yield* run([...query, "--provider", "custom", "--base-url", `${b.url}/v1`], {
        OPENAI_API_KEY: "planted-openai",
        OPENROUTER_API_KEY: "planted-openrouter"
      })
      assert.deepInclude(ended, { code: 0, stdout: "from B\n" })
      assert.notInclude(textOf(b.requests), "planted")
    })
  )

  it.live("a vendor's key of the environment does not go to a local server of the file", () =>
    Effect.gen(function* () {
      const { a, keep, run } = yield* setup
      keep("config.yaml", `model: { provider: anthropic, default: claude-opus-4-6, base_url: "${a.url}" }\n`)
      const ended = yield* run(query, { ANTHROPIC_API_KEY: "planted-anthropic-key" })
      assert.strictEqual(ended.code, 1)
      assert.strictEqual(
        ended.stderr.trim().split("\n").at(-1),
        "Error: no API key for 127.0.0.1: set model.api_key (ANTHROPIC_API_KEY, ANTHROPIC_TOKEN or CLAUDE_CODE_OAUTH_TOKEN goes to api.anthropic.com only)"
      )
      assert.deepStrictEqual(a.requests, [])
      keep(
        "config.yaml",
        `model: { provider: anthropic, default: claude-opus-4-6, base_url: "${a.url}", api_key: "\${ANTHROPIC_API_KEY}" }\n`
      )
      assert.deepInclude(yield* run(query, { ANTHROPIC_API_KEY: "planted-anthropic-key" }), {
        code: 0,
        stdout: "from A\n"
      })
      assert.include(textOf(a.requests), "planted-anthropic-key")
    })
  )

  it.live("`model set` removes what belonged to the old provider, keeps comments, and says so", () =>
    Effect.gen(function* () {
      const { a, home, keep, left, run } = yield* setup
      keep(
        "config.yaml",
        `# mine\nagent: { api_max_retries: 1 }\nmodel:\n  # the local one\n  provider: custom # here\n  default: m\n  base_url: ${a.url}/v1\n  api_key: planted-file-key\n  context_length: 8192\n  streaming: true\n`
      )
      const env = { ANTHROPIC_API_KEY: "planted-anthropic-key" }
      const set = yield* run(["model", "set", "claude-opus-4-6", "--provider", "anthropic"], env)
      assert.deepInclude(set, {
        code: 0,
        stdout:
          "claude-opus-4-6 of anthropic is now the main model; test it with `hermes model test`\n" +
          "Removed from config.yaml, because it belonged to the old provider or address: model.base_url, model.api_key, model.context_length\n"
      })
      assert.strictEqual(
        readFileSync(join(home, "config.yaml"), "utf8"),
        "# mine\nagent: { api_max_retries: 1 }\nmodel:\n  # the local one\n  provider: anthropic # here\n  default: claude-opus-4-6\n  streaming: true\n"
      )
      yield* run(query, env)
      assert.deepStrictEqual(a.requests, [])
      assert.deepStrictEqual(left(), ["api.anthropic.com"])
    })
  )

  it.live("`doctor` and -v show where address and key come from, and what is not used, by name", () =>
    Effect.gen(function* () {
      const { a, b, keep, run } = yield* setup
      keep(
        "config.yaml",
        `model: { provider: custom, default: m, base_url: "${a.url}/v1", api_key: planted-file-key }\n`
      )
      keep(".env", "OPENAI_API_KEY=planted-dotenv-key\n")
      const env = { OPENAI_BASE_URL: `${b.url}/v1` }
      const doctor = yield* run(["doctor"], env)
      const lines = doctor.stdout.split("\n").filter((line) => line.slice(2).startsWith("source"))
      assert.deepStrictEqual(lines, [
        "✓ source    model: address from OPENAI_BASE_URL; key from none",
        "! source    config.yaml: model.api_key is not used: it is for another route than OPENAI_BASE_URL names"
      ])
      const run1 = yield* run([...query, "-v"], env)
      assert.include(run1.stderr, "address from OPENAI_BASE_URL; key from none")
      assert.include(run1.stderr, "config.yaml: model.api_key is not used")
      assert.notInclude(textOf(b.requests), "planted")
      keep(".env", `OPENAI_API_KEY=planted-dotenv-key\nOPENAI_BASE_URL=${b.url}/v1\n`)
      const beside = yield* run(["doctor"])
      assert.include(beside.stdout, "model: address from .env: OPENAI_BASE_URL; key from .env: OPENAI_API_KEY")
      for (const { stderr, stdout } of [doctor, run1, beside]) assert.notInclude(stdout + stderr, "planted")
    })
  )

  it.live("a child on the parent's address speaks its protocol; elsewhere it has nothing of the parent's", () =>
    Effect.gen(function* () {
      const { a, b, keep, run } = yield* setup
      const main = `model: { provider: custom, default: m, base_url: "${a.url}", api_key: planted-main-key, api_mode: anthropic_messages }\n`
      const delegation = (rest: string) =>
        `${main}delegation: { max_spawn_depth: 2, model: child, provider: custom, ${rest} }\n`
      const children = Effect.fnUntraced(function* (rest: string) {
        keep("config.yaml", delegation(rest))
        return (yield* run(["doctor"])).stdout.split("\n").filter((line) => line.includes("children"))
      })
      assert.deepStrictEqual(yield* children(`base_url: "${a.url}", api_key: planted-main-key`), [
        "✓ children  child of custom by anthropic_messages",
        "✓ source    children: address from config.yaml: delegation.base_url; key from config.yaml: delegation.api_key"
      ])
      assert.deepStrictEqual(yield* children(`base_url: "${b.url}/v1"`), [
        "✓ children  child of custom by chat_completions",
        "✓ source    children: address from config.yaml: delegation.base_url; key from none"
      ])
      assert.deepStrictEqual(
        (yield* children(`base_url: "${b.url}", api_mode: anthropic_messages`))[0],
        "✓ children  child of custom by anthropic_messages"
      )
      assert.deepStrictEqual(
        [...a.requests, ...b.requests].map(({ url }) => url).filter((url) => url.includes("completions")),
        []
      )
    })
  )
})
