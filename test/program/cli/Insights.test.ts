// `hermes insights`: the figures of the run record, and charts that fit.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import * as TextCharts from "../../../src/program/cli/render/TextCharts.ts"
import { abbreviateCount } from "../../../src/program/cli/render/UsageText.ts"
import * as Paint from "../../../src/program/cli/render/Paint.ts"
import * as Width from "../../../src/program/cli/render/Width.ts"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { program, sessionIdOf } from "../../support/hermes.ts"
import { machine } from "../../support/hermesInProcess.ts"
import { launcher, open } from "../../support/pseudoTerminal.ts"

interface Asked {
  readonly model: string
  readonly messages: ReadonlyArray<{ readonly role: string }>
}

/** A model that reads two files, one of which is missing, and is done; the first model has a cache. */
const server = HttpServer.make(({ body, url }, response) => {
  if (!url.endsWith("/chat/completions")) return void HttpServer.json(response, 404, { error: { message: "not here" } })
  const { messages, model }: Asked = JSON.parse(body)
  const calls =
    messages.at(-1)?.role === "tool"
      ? []
      : ["a.txt", "missing.txt"].map((path, index) => ({
          index,
          id: `c${messages.length}-${index}`,
          type: "function",
          function: { name: "read_file", arguments: JSON.stringify({ path }) }
        }))
  const delta = {
    role: "assistant",
    content: calls.length === 0 ? "done" : "",
    ...(calls.length === 0 ? {} : { tool_calls: calls })
  }
  const cached = model === "model-one" ? 300 : 0
  const usage = {
    prompt_tokens: cached === 0 ? 50 : 400,
    completion_tokens: calls.length === 0 ? 5 : 10,
    prompt_tokens_details: { cached_tokens: cached }
  }
  response
    .writeHead(200, { "content-type": "text/event-stream" })
    .end(
      HttpServer.sse(
        { id: "x", model, choices: [{ index: 0, delta, finish_reason: calls.length === 0 ? "stop" : "tool_calls" }] },
        { id: "x", model, choices: [], usage },
        "[DONE]"
      )
    )
})

/** Two sessions, the first of which used two models. */
const used = Effect.gen(function* () {
  const at = yield* machine
  const { url } = yield* server
  at.keep(
    "config.yaml",
    `model:\n  provider: custom\n  default: model-one\n  base_url: ${url}/v1\n  api_key: key-of-this-test-only\n  context_length: 128000\n`
  )
  at.put("a.txt", "a")
  const run = (model: string, more: ReadonlyArray<string> = []) =>
    at.hermes(["-Q", "-q", "go", "-t", "file", "--model", model, ...more])
  const first = yield* run("model-one")
  const id = sessionIdOf(first.stderr)
  yield* run("model-two", ["--resume", id])
  yield* run("model-two", ["--source", "other"])
  return { ...at, id }
})

interface Figures {
  readonly sessions: number
  readonly tokens: Readonly<Record<string, number>>
  readonly models: ReadonlyArray<{
    readonly name: string
    readonly calls: number
    readonly tokens: Readonly<Record<string, number>>
  }>
  readonly tools: ReadonlyArray<{ readonly name: string; readonly calls: number; readonly errors: number }>
  readonly skills: ReadonlyArray<{
    readonly name: string
    readonly loads: number
    readonly edits: number
    readonly lastUsed: number
  }>
  readonly [name: string]: unknown
}

const figuresOf = (text: string): Figures => JSON.parse(text)

describe("hermes insights", () => {
  it.live("splits a session that switched its model, and the models add up to the whole", () =>
    Effect.gen(function* () {
      const { hermes, id } = yield* used
      const { code, stderr, stdout } = yield* hermes(["insights", "--json"])
      assert.strictEqual(code, 0, stderr)
      const figures = figuresOf(stdout)
      assert.deepInclude(figures, { sessions: 2, runs: 3, modelCalls: 6, toolCalls: 6, errors: 3 })
      assert.deepStrictEqual(
        figures.models.map(({ calls, name, tokens }) => [
          name,
          calls,
          tokens["input"],
          tokens["cacheRead"],
          tokens["output"]
        ]),
        [
          ["model-two", 4, 200, 0, 30],
          ["model-one", 2, 200, 600, 15]
        ]
      )
      assert.deepInclude(figures.tokens, { input: 400, cacheRead: 600, output: 45 })
      assert.strictEqual(figures["cacheHit"], 0.6)
      assert.deepStrictEqual(
        figures.tools.map(({ calls, errors, name }) => [name, calls, errors]),
        [["read_file", 6, 3]]
      )
      assert.deepInclude(figures["notable"], { name: "Most tokens", id })

      // One set of figures: the session's own sums are the same.
      const shown = yield* hermes(["sessions", "show", id])
      assert.include(shown.stdout, "930 tokens")
      const other = figuresOf((yield* hermes(["insights", "--json", "--source", "other"])).stdout)
      assert.deepInclude(other, { sessions: 1, modelCalls: 2 })
    })
  )

  it.live("shows the period's days, models, tools, cache hits, cost and errors as text", () =>
    Effect.gen(function* () {
      const { hermes } = yield* used
      const { stdout } = yield* hermes(["insights", "--days", "7"])
      for (const line of [
        "Insights: the last 7 days",
        "Sessions     2 sessions",
        "Model calls  6 calls",
        "Tokens       1.0k in, 45 out, 1.0k in all",
        "Cache hits   60% of the prompt tokens",
        "Errors       3 errors",
        "Active       1 day, best streak 1 day"
      ])
        assert.include(stdout, `${line}\n`)
      assert.match(stdout, /\nmodel-one +█+ +815 · 2 calls · 1 session · /)
      assert.match(stdout, /\nread_file +█+ +6 · 100% · 3 failed\n/)
      assert.match(stdout, /\nread_file: \S+ +█+ +3\n/)
      assert.match(stdout, /\nCost\nUnknown price {2}not counted, 6 calls\n/)
      assert.match(stdout, /\nPlatforms\ncli +█+ +4 calls · \S+\nother +█+ +2 calls · /)
      assert.match(stdout, /\nBusiest hours\n\d\d:00 +█+ +\d\n/)
      assert.match(stdout, /\nMost messages +\S+ .+, \d+ messages, /)
      assert.isTrue(stdout.split("\n").every((line) => Width.measure(line) <= 80))
    })
  )

  it.live("counts messages of users, and uses of skills by the model and by the user", () =>
    Effect.gen(function* () {
      const { hermes, keep, put } = yield* machine
      keep("skills/tidy/SKILL.md", "---\nname: tidy\ndescription: Tidies up\n---\n\nTidy the room.\n")
      put(
        "turns.yaml",
        [
          "turns:",
          "  - { tool_calls: [{ name: skill_view, arguments: { name: tidy } }] }",
          "  - { tool_calls: [{ name: skill_manage, arguments: { action: patch, name: tidy, old_string: the room, new_string: all rooms } }] }",
          "  - { tool_calls: [{ name: skill_manage, arguments: { action: patch, name: tidy, old_string: not there, new_string: x } }] }",
          "  - { text: done }"
        ].join("\n")
      )
      const run = yield* hermes(["-Q", "-q", "go", "-t", "skills", "--yolo", "--script", "turns.yaml"])
      assert.strictEqual(run.code, 0, run.stderr)
      put("short.yaml", "turns: [{ text: yes }]")
      const chosen = yield* hermes(["chat", "-Q", "-q", "go", "--skills", "tidy", "--script", "short.yaml"])
      assert.strictEqual(chosen.code, 0, chosen.stderr)
      const figures = figuresOf((yield* hermes(["insights", "--json"])).stdout)
      assert.deepInclude(figures, { sessions: 2, messages: 10, userMessages: 2 })
      const [skill, ...others] = figures.skills
      assert.deepStrictEqual([skill?.name, skill?.loads, skill?.edits, others], ["tidy", 2, 1, []])
      assert.isBelow(Math.abs((skill?.lastUsed ?? 0) - Date.now()), 600_000)
      const { stdout } = yield* hermes(["insights"])
      assert.include(stdout, "\nMessages     10 messages, 2 from users, 5 in a session\n")
      assert.match(stdout, /\nSkills\ntidy {2}2 loads · 1 edit · last used \d{4}-\d\d-\d\d\n/)
    })
  )

  it.live("counts sessions that the record does not have for their models", () =>
    Effect.gen(function* () {
      const { hermes, id } = yield* used
      const before = figuresOf((yield* hermes(["insights", "--json"])).stdout)
      yield* hermes(["sessions", "export", "--session-id", id, "-o", "one.jsonl"])
      yield* hermes(["sessions", "import", "one.jsonl", "--new-ids"])
      const after = figuresOf((yield* hermes(["insights", "--json"])).stdout)
      assert.deepInclude(after, { sessions: 3, modelCalls: 10 })
      const sum = (of: (one: Figures["models"][number]) => number) =>
        after.models.reduce((total, one) => total + of(one), 0)
      assert.strictEqual(
        sum(({ calls }) => calls),
        10
      )
      assert.strictEqual(
        sum(({ tokens }) => tokens["input"] ?? 0),
        after.tokens["input"]
      )
      assert.isAbove(after.tokens["input"] ?? 0, before.tokens["input"] ?? 0)
    })
  )

  it.live("leaves out what was before the period", () =>
    Effect.gen(function* () {
      const { hermes, home, id } = yield* used
      const rows = new DatabaseSync(join(home, "state.db"))
      rows.exec(`UPDATE run_record SET at = at - 10 * 86400000 WHERE session_id = '${id}'`)
      rows.exec(
        `UPDATE sessions SET started_at = started_at - 10 * 86400000, ended_at = ended_at - 10 * 86400000, updated_at = updated_at - 10 * 86400000 WHERE id = '${id}'`
      )
      rows.close()
      assert.deepInclude(figuresOf((yield* hermes(["insights", "--days", "5", "--json"])).stdout), {
        sessions: 1,
        modelCalls: 2
      })
      assert.deepInclude(figuresOf((yield* hermes(["insights", "--days", "11", "--json"])).stdout), {
        sessions: 2,
        modelCalls: 6
      })
    })
  )

  it.live("without sessions is one sentence, and makes no database", () =>
    Effect.gen(function* () {
      const { hermes } = yield* machine
      assert.deepInclude(yield* hermes(["insights"]), {
        code: 0,
        stdout: "There are no sessions in the last 30 days.\n",
        stderr: ""
      })
      assert.deepInclude(yield* hermes(["insights", "--days", "1"]), {
        stdout: "There are no sessions in the last 1 day.\n"
      })
      assert.deepInclude(figuresOf((yield* hermes(["insights", "--json"])).stdout), {
        sessions: 0,
        models: [],
        days: []
      })
    })
  )

  if (launcher !== undefined) {
    const launch = launcher
    it.live("fits terminals of 40 to 140 columns, and is plain with NO_COLOR", () =>
      Effect.gen(function* () {
        const { cwd, hermes, home } = yield* used
        for (const [columns, env] of [
          [40, {}],
          [80, { NO_COLOR: "1" }],
          [140, {}]
        ] as const) {
          const terminal = yield* open(
            launch,
            `cd ${cwd} && ${process.execPath} ${program} insights`,
            { HERMES_HOME: home, ...env },
            columns
          )
          assert.strictEqual(yield* terminal.exited, 0)
          const written = terminal.written()
          assert.strictEqual(written.includes("\u001b["), !("NO_COLOR" in env), `${columns}`)
          const lines = Paint.strip(written).split(/\r?\n/u)
          assert.include(lines, "Insights: the last 30 days")
          assert.deepStrictEqual(
            lines.filter((line) => Width.measure(line) > columns),
            []
          )
        }
        assert.notInclude((yield* hermes(["insights"])).stdout, "\u001b")
      }).pipe(Effect.scoped)
    )
  }
})

describe("charts", () => {
  const values = [0, 1, 3, 1000, 123_456, 0.5]
  const names = [
    "a",
    "anthropic/claude-with-a-very-long-name-and-version-20260101",
    "模型名称很长很长很长很长很长很长",
    "b c"
  ]

  it("are never wider than their room, and show what is more than nothing", () => {
    for (let columns = 40; columns <= 160; columns++) {
      for (const count of [1, 3, 7, 31, 400]) {
        const points = Array.from({ length: count }, (_, index) => ({
          name: `2026-01-${index}`,
          value: values[index % values.length] ?? 0
        }))
        for (const line of TextCharts.renderTimeline(points, { columns, paint: Paint.plain }, abbreviateCount))
          assert.isAtMost(Width.measure(line), columns)
      }
      const rows = values.map((value, index) => ({
        name: names[index % names.length] ?? "",
        value,
        note: `${value} · 3 calls · $0.12`
      }))
      const lines = TextCharts.renderBars(rows, { columns, paint: Paint.plain })
      assert.strictEqual(lines.length, rows.length)
      for (const line of lines) assert.isAtMost(Width.measure(line), columns)
    }
    const [none, some] = TextCharts.renderBars(
      [
        { name: "x", value: 0, note: "" },
        { name: "y", value: 1, note: "" },
        { name: "z", value: 1e6, note: "" }
      ],
      { columns: 60, paint: Paint.plain }
    )
    assert.deepStrictEqual([none, some], ["x", "y  ▏"])
  })
})
