// Without a model every entry that asks one ends with 2 and one line, whatever keys are set; the stand-in answers where
// it is asked for.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync } from "node:fs"
import { machine } from "../../support/hermesInProcess.ts"

/** Nothing is configured, which the tests' own helper would make up for. */
const unset = { HERMES_MODEL__PROVIDER: "auto" }

const line =
  /^Error: no model is configured: run `hermes model`, or set model\.provider and model\.default \(--provider and --model\)(?:; .*)?; --provider offline asks for the built-in stand-in$/m

const entries: ReadonlyArray<readonly [name: string, ...args: ReadonlyArray<string>]> = [
  ["-z", "-z", "What is 2+2?"],
  ["-q", "-q", "What is 2+2?"],
  ["-Q -q", "-Q", "-q", "What is 2+2?"],
  ["stream-json", "chat", "-q", "What is 2+2?", "--format", "stream-json"],
  ["batch run", "batch", "run", "--dataset_file", "rows.jsonl", "--batch_size", "1", "--run_name", "r"],
  ["eval run", "eval", "run", "rows.jsonl", "--scorer", "number"],
  ["swe run", "swe", "run", "--task", "Do it"],
  ["rl rollout", "rl", "rollout", "arithmetic", "--groups", "1", "-o", "out"],
  ["serve", "serve", "--port", "0"],
  ["serve --rollouts", "serve", "--port", "0", "--rollouts", "episodes"],
  ["mcp serve", "mcp", "serve"]
]

describe("a program without a model", () => {
  for (const [name, ...args] of entries) {
    it.live(`${name} ends with 2 and one line`, () =>
      Effect.gen(function* () {
        const { at, hermes, put } = yield* machine
        put("rows.jsonl", `${JSON.stringify({ id: "a", prompt: "What is 2+2?", answer: "4" })}\n`)
        const { code, stderr, stdout } = yield* hermes(args, { env: unset })
        assert.strictEqual(code, 2, stderr)
        assert.match(stderr, line)
        assert.lengthOf(
          stderr.split("\n").filter((text) => text.startsWith("Error:")),
          1,
          stderr
        )
        assert.notMatch(stdout + stderr, /I cannot answer/)
        for (const made of ["data/r", "eval-results", "swe-results", "out"]) assert.isFalse(existsSync(at(made)), made)
      })
    )
  }

  it.live(
    "a key that usually serves another purpose is named with the flags that use it, and is not used without them",
    () =>
      Effect.gen(function* () {
        const { hermes } = yield* machine
        const { code, stderr } = yield* hermes(["-Q", "-q", "What is 2+2?"], {
          env: { ...unset, GITHUB_TOKEN: "ghp_0123456789", HF_TOKEN: "hf_0123456789" }
        })
        assert.strictEqual(code, 2)
        assert.include(stderr, "; GITHUB_TOKEN is set: --provider copilot --model NAME; ")
        assert.include(stderr, "; HF_TOKEN is set: --provider huggingface --model NAME; ")
        assert.notInclude(stderr, "0123456789")
      })
  )

  it.live("a provider's key in the environment is enough: its default model is the main model", () =>
    Effect.gen(function* () {
      const { hermes, keep } = yield* machine
      const shown = (env: Readonly<Record<string, string>>, ...args: ReadonlyArray<string>) =>
        Effect.map(hermes(["model", "--json", ...args], { env: { ...unset, ...env } }), ({ stderr, stdout }) => {
          assert.match(stdout, /^\{/, stderr)
          return JSON.parse(stdout) as unknown
        })
      const both = { ANTHROPIC_API_KEY: "sk-ant-0123456789", OPENAI_API_KEY: "sk-0123456789" }
      assert.deepInclude(yield* shown(both), { provider: "anthropic", model: "claude-sonnet-4-6", key: "set" })
      assert.deepInclude(yield* shown(both, "--model", "gpt-5"), { provider: "openai", model: "gpt-5" })
      keep(".env", "DEEPSEEK_API_KEY=sk-0123456789\n")
      assert.deepInclude(yield* shown({}), { provider: "deepseek", model: "deepseek-chat" })
      keep("config.yaml", "model: { provider: offline }\n")
      assert.deepInclude(yield* hermes(["model", "--json"], { env: both }), { code: 0 })
      const configured = yield* hermes(["model", "--json"], { env: both })
      assert.include(configured.stdout, '"provider": "offline"')
    })
  )

  it.live("fallbacks do not make the stand-in the first model", () =>
    Effect.gen(function* () {
      const { hermes, keep } = yield* machine
      keep("config.yaml", "fallback_providers:\n  - { provider: custom, model: m, base_url: http://127.0.0.1:9/v1 }\n")
      const { code, stderr } = yield* hermes(["-Q", "-q", "What is 2+2?"], { env: unset })
      assert.strictEqual(code, 2)
      assert.match(stderr, line)
    })
  )

  it.live("the stand-in answers where it is asked for, by a flag, a setting or a script", () =>
    Effect.gen(function* () {
      const { hermes, keep, put } = yield* machine
      const asked = (args: ReadonlyArray<string>) => hermes(args, { env: unset })
      const byFlag = yield* asked(["-z", "Reply exactly hello", "--provider", "offline"])
      assert.deepStrictEqual([byFlag.code, byFlag.stdout], [0, "hello\n"], byFlag.stderr)
      put("scenario.json", JSON.stringify({ turns: [{ text: "played" }] }))
      const byScript = yield* asked(["-Q", "-q", "x", "--script", "scenario.json"])
      assert.deepStrictEqual([byScript.code, byScript.stdout], [0, "played\n"], byScript.stderr)
      keep("config.yaml", "model: { provider: offline }\n")
      const bySetting = yield* hermes(["-Q", "-q", "Reply exactly hello"])
      assert.deepStrictEqual([bySetting.code, bySetting.stdout], [0, "hello\n"], bySetting.stderr)
    })
  )

  it.live("a scheduled job fails with the line", () =>
    Effect.gen(function* () {
      const { hermes } = yield* machine
      yield* hermes(["cron", "create", "every 1h", "Say hello", "--name", "greeting"], { env: unset })
      const { code, stderr, stdout } = yield* hermes(["cron", "run", "greeting"], { env: unset })
      assert.strictEqual(code, 1, stdout)
      assert.include(stderr + stdout, "no model is configured")
    })
  )

  it.live("what asks no model works: the prompt, the tools, doctor", () =>
    Effect.gen(function* () {
      const { hermes } = yield* machine
      for (const args of [["prompt", "show"], ["tools"]]) {
        const { code, stderr } = yield* hermes(args, { env: unset })
        assert.strictEqual(code, 0, stderr)
      }
      assert.include((yield* hermes(["doctor"], { env: unset })).stdout, "no model is configured: run `hermes model`")
    })
  )
})
