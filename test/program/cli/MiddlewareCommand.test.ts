// Middleware of config.yaml: it is made, it runs in the program, and its order is explained.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { machine } from "../../support/hermesInProcess.ts"

const seed = (backup: string) => `
middlewares:
- import: nexau.archs.main_sub.execution.hooks:LoggingMiddleware
- import: nexau.archs.main_sub.execution.middleware.llm_failover:LLMFailoverMiddleware
  params:
    trigger:
      status_codes: [500, 502, 503, 529]
      exception_types: ["RateLimitError", "InternalServerError"]
    fallback_providers:
    - name: "backup-gateway"
      llm_config:
        base_url: "${backup}/v1"
        api_key: "sk-backup-xxx-0123456789abcdef"
    circuit_breaker:
      failure_threshold: 3
      recovery_timeout_seconds: 60
- import: nexau.archs.main_sub.execution.middleware.long_tool_output:LongToolOutputMiddleware
  params:
    max_output_chars: 10000
    head_lines: 50
    tail_lines: 30
    temp_dir: /tmp/nexau_tool_outputs
    bypass_tool_names:
    - execute_bash
`

const nowhere = "http://127.0.0.1:1"

describe("hermes middleware", () => {
  it.live("T125 LlmFailover of config.yaml: the primary answers 503, the fallback finishes the run", () =>
    Effect.gen(function* () {
      const primary = yield* HttpServer.make((_, response) =>
        HttpServer.json(response, 503, { error: { message: "down" } })
      )
      const backup = yield* HttpServer.make((_, response) =>
        HttpServer.json(response, 200, {
          id: "c-1",
          model: "m",
          choices: [{ index: 0, message: { role: "assistant", content: "from the backup" }, finish_reason: "stop" }],
          usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 }
        })
      )
      const { hermes, keep } = yield* machine
      keep(
        "config.yaml",
        `model:\n  provider: custom\n  default: m\n  base_url: ${primary.url}/v1\n  api_key: sk-primary\n  context_length: 128000\nagent:\n  api_max_retries: 1\ndisplay:\n  streaming: false\n${seed(backup.url)}`
      )
      const { code, stderr, stdout } = yield* hermes(["chat", "-q", "hello", "--quiet"])
      assert.strictEqual(stdout.trim(), "from the backup", stderr)
      assert.strictEqual(code, 0)
      assert.strictEqual(backup.requests[0]?.headers.authorization, "Bearer sk-backup-xxx-0123456789abcdef")
    })
  )

  it.live("T121 logging of config.yaml says its lines on stderr, also without --verbose; stdout is the answer", () =>
    Effect.gen(function* () {
      const { hermes, keep } = yield* machine
      keep("config.yaml", "middlewares:\n- import: logging\n- import: timing\n")
      const { stderr, stdout } = yield* hermes(["chat", "-q", "Reply exactly hello", "--quiet"])
      assert.strictEqual(stdout.trim(), "hello")
      assert.include(stderr, "model call with 2 messages")
      assert.match(stderr, /ended \(SUCCESS\) after \d+ ms/)
    })
  )

  it.live("an entry may be its import alone, as in agent files", () =>
    Effect.gen(function* () {
      const { hermes, keep } = yield* machine
      keep("own.mjs", "export const own = { name: 'own', before_model() {} }")
      keep(
        "config.yaml",
        "middlewares:\n- logging\n- own:own\n- ./own.mjs#own\n- import: retry\n  params: { times: 1 }\n"
      )
      const text = yield* hermes(["middleware", "explain"])
      assert.strictEqual(text.code, 0, text.stderr)
      assert.match(text.stdout, /1\. Logging .*\n {2}2\. own .*\n {2}3\. own .*\n {2}4\. Retry /)
      const shown = yield* hermes(["config", "get", "middlewares"])
      assert.include(shown.stdout, "logging", shown.stderr)
      keep("config.yaml", "middlewares:\n- loging\n")
      assert.match(
        (yield* hermes(["middleware", "explain"])).stderr,
        /^Error: config\.yaml: line 2: middlewares\[0\](?:\.import)?: there is no middleware "loging"; did you mean logging\?/
      )
      keep("config.yaml", "middlewares:\n- 7\n- {}\n- logging\n")
      const wrong = yield* hermes(["middleware", "explain"])
      assert.deepStrictEqual(
        [wrong.code, wrong.stderr],
        [2, "Error: config.yaml: middlewares[0]: expected a mapping, got 7 (and 1 more: run `hermes config check`)\n"]
      )
      assert.include(
        (yield* hermes(["config", "check"])).stderr,
        "middlewares[1].import: expected a string, got nothing"
      )
    })
  )

  it.live("audit writes beside config.yaml, and approve denies where no one is asked", () =>
    Effect.gen(function* () {
      const { hermes, home, keep, put } = yield* machine
      put("notes.txt", "secret plan\n")
      keep(
        "config.yaml",
        "middlewares:\n- import: audit\n  params: { file_path: logs/audit.jsonl }\n- import: approve\n  params: { tools: [read_*] }\n"
      )
      const { code, stderr } = yield* hermes(["chat", "-q", "Read the file notes.txt", "--quiet"])
      assert.strictEqual(code, 0, stderr)
      const lines = readFileSync(join(home, "logs", "audit.jsonl"), "utf8")
        .trimEnd()
        .split("\n")
        .map((line): Record<string, unknown> => JSON.parse(line))
      const ends = lines.filter(({ kind, phase }) => kind === "tool_call" && phase === "end")
      assert.deepStrictEqual(
        ends.map(({ name, status }) => [name, status]),
        [["read_file", "failed"]]
      )
      assert.match(String(ends[0]?.["error"]), /read_file needs an approval/)
    })
  )

  it.live("explain, plugins list and plugins info: the health of middleware in recent runs", () =>
    Effect.gen(function* () {
      const { hermes, keep } = yield* machine
      keep("config.yaml", "middlewares:\n- logging\nplugins:\n  enabled: [watch, idle]\n")
      keep("plugins/watch/plugin.yaml", "name: watch\n")
      keep(
        "plugins/watch/index.js",
        `export const register = (ctx) => {
          ctx.registerMiddleware("llm_execution", async function broken({ next_call }) { await next_call(); throw new Error("no") })
        }`
      )
      keep("plugins/idle/plugin.yaml", "name: idle\n")
      keep("plugins/idle/index.js", "export const register = () => {}")
      const before = yield* hermes(["middleware", "explain"])
      assert.notInclude(before.stdout, "Health", before.stderr)
      for (let run = 0; run < 2; run++)
        assert.strictEqual((yield* hermes(["chat", "-q", "Reply exactly hello", "--quiet"])).code, 0)
      const text = yield* hermes(["middleware", "explain"])
      assert.match(
        text.stdout,
        /Health in the last 30 days:\n {2}watch:broken: 2 calls, 2 faults, \d+ ms\n {2}Logging: \d+ calls, 0 faults, \d+ ms\n/
      )
      const json: { readonly stack: ReadonlyArray<{ readonly health?: unknown }> } = JSON.parse(
        (yield* hermes(["middleware", "explain", "--json"])).stdout
      )
      assert.deepInclude(json.stack[0]?.health, { calls: 2, faults: 2 })
      assert.match((yield* hermes(["plugins", "info", "watch"])).stdout, /health +2 calls, 2 faults, \d+ ms/)
      const listed: ReadonlyArray<{ readonly name: string; readonly health?: unknown }> = JSON.parse(
        (yield* hermes(["plugins", "list", "--user", "--json"])).stdout
      )
      assert.deepInclude(listed.find(({ name }) => name === "watch")?.health, { calls: 2, faults: 2 })
      assert.notProperty(
        listed.find(({ name }) => name === "idle"),
        "health"
      )
      assert.match((yield* hermes(["plugins", "list", "--user"])).stdout, /watch .* 2 calls, 2 faults, \d+ ms/)
    })
  )

  it.live("explain: text, JSON and picture", () =>
    Effect.gen(function* () {
      const { hermes, keep } = yield* machine
      keep("config.yaml", `${seed(nowhere)}- import: tool-filter\n  params: { deny: [terminal] }\n`)
      const text = yield* hermes(["middleware", "explain"])
      assert.strictEqual(text.code, 0, text.stderr)
      assert.strictEqual(
        text.stdout,
        `Stack, outermost first:
  1. Logging         middlewares[0]  fails open    before_model, after_model, before_tool, after_tool, wrap_model_call
  2. LlmFailover     middlewares[1]  fails open    wrap_model_call
  3. LongToolOutput  middlewares[2]  fails open    after_tool
  4. ToolFilter      middlewares[3]  fails closed  after_model, before_tool

Order by phase:
  before_model: Logging
  wrap_model_call: Logging ( LlmFailover ( … ))
  after_model: ToolFilter → Logging
  before_tool: Logging → ToolFilter
  after_tool: LongToolOutput → Logging

A failed model call on each route (agent.api_max_retries): 3 attempts, waits of 5-7.5, 10-15 s.
`
      )
      const json = yield* hermes(["middleware", "explain", "--json"])
      const outline: unknown = JSON.parse(json.stdout)
      assert.deepInclude(outline, {
        phases: [
          { phase: "before_model", entries: ["Logging"] },
          { phase: "wrap_model_call", entries: ["Logging", "LlmFailover"] },
          { phase: "after_model", entries: ["ToolFilter", "Logging"] },
          { phase: "before_tool", entries: ["Logging", "ToolFilter"] },
          { phase: "after_tool", entries: ["LongToolOutput", "Logging"] }
        ]
      })
      const { stdout } = yield* hermes(["middleware", "explain", "--picture"])
      assert.strictEqual(
        stdout,
        `┌─ run ─────────────────────────────────────┐
│ ┌─ step ────────────────────────────────┐ │
│ │ before_model  Logging                 │ │
│ │ ┌─ wrap_model_call Logging ─────────┐ │ │
│ │ │ ┌─ wrap_model_call LlmFailover ─┐ │ │ │
│ │ │ │ model call                    │ │ │ │
│ │ │ └───────────────────────────────┘ │ │ │
│ │ └───────────────────────────────────┘ │ │
│ │ after_model  ToolFilter               │ │
│ │ after_model  Logging                  │ │
│ │ ┌─ each tool call ───────────┐        │ │
│ │ │ before_tool  Logging       │        │ │
│ │ │ before_tool  ToolFilter    │        │ │
│ │ │ tool                       │        │ │
│ │ │ after_tool  LongToolOutput │        │ │
│ │ │ after_tool  Logging        │        │ │
│ │ └────────────────────────────┘        │ │
│ └───────────────────────────────────────┘ │
└───────────────────────────────────────────┘
`
      )
    })
  )

  it.live("T127 a wrong name or parameter is one line with its place, and exit 2; keys are not shown", () =>
    Effect.gen(function* () {
      const { hermes, keep } = yield* machine
      keep("config.yaml", "middlewares:\n- import: logging\n- import: long-tool-outptu\n")
      const name = yield* hermes(["chat", "-q", "hello"])
      assert.strictEqual(name.code, 2, name.stderr)
      assert.match(
        name.stderr,
        /^Error: config\.yaml: line 3: middlewares\[1\]\.import: there is no middleware "long-tool-outptu"; did you mean long-tool-output\?/
      )
      keep("config.yaml", "middlewares:\n- import: long-tool-output\n  params: { head_lines: many }\n")
      const parameter = yield* hermes(["chat", "-q", "hello"])
      assert.strictEqual(parameter.code, 2, parameter.stderr)
      assert.match(
        parameter.stderr,
        /^Error: config\.yaml: line 3: middlewares\[0\]\.params\.head_lines: Expected number$/m
      )
      keep("config.yaml", seed(nowhere))
      const shown = yield* hermes(["config", "show"])
      assert.notInclude(shown.stdout, "sk-backup-xxx")
    })
  )
})
