// Tokens and cost as users see them: `--usage-file`, `/usage` and `/context`.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync, readFileSync, statSync } from "node:fs"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { machine, onceSaid, program, sessionIdOf } from "../../support/hermes.ts"
import { launcher, open } from "../../support/pseudoTerminal.ts"

/** A model with a cache, that says one thing; with `status` it refuses, and without an answer it hangs. */
const model = (how: { readonly status?: number; readonly hangs?: boolean } = {}) =>
  HttpServer.make(({ url }, response) => {
    if (!url.endsWith("/chat/completions"))
      return void HttpServer.json(response, 404, { error: { message: "not here" } })
    if (how.status !== undefined) return void HttpServer.json(response, how.status, { error: { message: "no" } })
    if (how.hangs === true) return
    response
      .writeHead(200, { "content-type": "text/event-stream" })
      .end(
        HttpServer.sse(
          {
            id: "x",
            model: "m",
            choices: [{ index: 0, delta: { role: "assistant", content: "hello" }, finish_reason: "stop" }]
          },
          {
            id: "x",
            model: "m",
            choices: [],
            usage: { prompt_tokens: 1000, completion_tokens: 20, prompt_tokens_details: { cached_tokens: 750 } }
          },
          "[DONE]"
        )
      )
  })

const config = (url: string) =>
  `model:\n  provider: custom\n  default: m\n  base_url: ${url}/v1\n  api_key: key-of-this-test-only\n  context_length: 100000\n`

describe("--usage-file", () => {
  it.live("has the tokens and the cost of a run, readable by its owner alone", () =>
    Effect.gen(function* () {
      const { at, hermes, keep } = yield* machine
      keep("config.yaml", config((yield* model()).url))
      const { code, stderr, stdout } = yield* hermes(["-Q", "-q", "hi", "--usage-file", "usage.json"])
      assert.deepStrictEqual([code, stdout], [0, "hello\n"], stderr)
      const counts = {
        input_tokens: 250,
        output_tokens: 20,
        cache_read_tokens: 750,
        cache_write_tokens: 0,
        reasoning_tokens: 0,
        total_tokens: 1020,
        estimated_cost_usd: null,
        cost_status: "unknown",
        cost_source: "none",
        api_calls: 1
      }
      assert.deepStrictEqual(JSON.parse(readFileSync(at("usage.json"), "utf8")), {
        ...counts,
        model: "m",
        provider: "custom",
        session_id: sessionIdOf(stderr),
        completed: true,
        partial: false,
        interrupted: false,
        turn_exit_reason: "text_response",
        failed: false,
        failure: null,
        service_tier: null,
        auxiliary: {},
        total_including_auxiliary: counts
      })
      assert.strictEqual(statSync(at("usage.json")).mode & 0o777, 0o600)
    })
  )

  it.live("is written when the run fails and when it is interrupted, with the reason", () =>
    Effect.gen(function* () {
      const { at, hermes, keep } = yield* machine
      keep("config.yaml", config((yield* model({ status: 401 })).url))
      const failed = yield* hermes(["-Q", "-q", "hi", "--usage-file", "failed.json"])
      assert.strictEqual(failed.code, 1)
      const report = JSON.parse(readFileSync(at("failed.json"), "utf8"))
      assert.deepInclude(report, {
        completed: false,
        failed: true,
        interrupted: false,
        turn_exit_reason: "failed",
        session_id: sessionIdOf(failed.stderr)
      })
      assert.include(failed.stderr, report.failure)

      keep("config.yaml", config((yield* model({ hangs: true })).url))
      const stopped = yield* hermes(["-Q", "-q", "hi", "--usage-file", "stopped.json"], {
        onError: onceSaid("session_id:", (child) => child.kill("SIGINT"))
      })
      assert.strictEqual(stopped.code, 130)
      assert.deepInclude(JSON.parse(readFileSync(at("stopped.json"), "utf8")), {
        completed: false,
        failed: false,
        interrupted: true
      })
    })
  )

  it.live("that cannot be written is a warning and leaves the exit code", () =>
    Effect.gen(function* () {
      const { at, hermes, keep } = yield* machine
      keep("config.yaml", config((yield* model()).url))
      const { code, stderr, stdout } = yield* hermes(["-Q", "-q", "hi", "--usage-file", "/nowhere/at/all.json"])
      assert.deepStrictEqual([code, stdout], [0, "hello\n"])
      assert.match(stderr, /\nWarning: --usage-file \/nowhere\/at\/all\.json cannot be written: [^\n]+\n$/)
      const without = yield* hermes(["--usage-file", "x.json"])
      assert.deepInclude(without, {
        code: 2,
        stderr: "Error: --usage-file needs a prompt: add -q TEXT or --query-file PATH\n"
      })
      assert.isFalse(existsSync(at("x.json")))
    })
  )
})

describe("/context and /usage", () => {
  if (launcher === undefined) return
  const launch = launcher

  it.live("say what fills the window and how much of the prompts came from the cache", () =>
    Effect.gen(function* () {
      const { cwd, home, keep } = yield* machine
      keep("config.yaml", config((yield* model()).url))
      const terminal = yield* open(launch, `cd ${cwd} && exec ${process.execPath} ${program} -t file`, {
        HERMES_HOME: home,
        NO_COLOR: "1"
      })
      yield* terminal.until("›")
      yield* terminal.type(`tell me about ${"zebras ".repeat(9)}\r`)
      yield* terminal.until("hello")
      yield* terminal.type("/context\r")
      yield* terminal.until("· Free")
      const screen = terminal.screen()
      assert.match(screen, /Context: about [\d.]+k of 100\.0k tokens \(\d\.\d%\)/)
      assert.match(screen, /\n(?:[STUA·] ){19}[STUA·] *\n/)
      assert.match(screen, /\nS System prompt: identity +\d+ +0\.\d%/)
      assert.match(screen, /\nT Tools \(\d+\) +\S+ +\d\.\d%/)
      assert.match(screen, /\nU Your messages +19 +0\.0%/)
      assert.match(screen, /\nA Answers and tool calls +2 +0\.0%/)
      assert.notInclude(screen, "R Tool results")
      yield* terminal.type("/usage\r")
      yield* terminal.until("Duration")
      assert.match(terminal.screen(), /\nCache read +750 tokens \(75% of the prompts\)/)
      assert.match(terminal.screen(), /\nContext +about [\d.]+k of 100\.0k tokens \(\d\.\d%\)\nDuration/)
      yield* terminal.type("/quit\r")
      assert.strictEqual(yield* terminal.exited, 0)
    }).pipe(Effect.scoped)
  )
})
