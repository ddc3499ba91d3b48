// `hermes batch run` before a model over HTTP: rate limits under parallel load, a key that is refused, limits of rows
// and cost, an agent file.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as RowSeed from "../../../src/research/batch/RowSeed.ts"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { machine } from "../../support/hermesInProcess.ts"

type Answer = (body: string, respond: (status: number, body: unknown, headers?: Record<string, string>) => void) => void

const said = (text: string) => ({
  id: "x",
  model: "m",
  choices: [
    { index: 0, message: { role: "assistant", content: text, reasoning_content: "thought" }, finish_reason: "stop" }
  ],
  usage: { prompt_tokens: 100, completion_tokens: 10 }
})

/** A dataset, and a batch of it before a model that answers as it is told. */
const world = (rows: number, answer: Answer) =>
  Effect.gen(function* () {
    const given = yield* machine
    const server = yield* HttpServer.make(({ body, url }, response) =>
      url.endsWith("/chat/completions")
        ? answer(typeof body === "string" ? body : JSON.stringify(body), (status, body, headers) =>
            HttpServer.json(response, status, body, headers)
          )
        : HttpServer.json(response, 404, { error: { message: "not here" } })
    )
    writeFileSync(
      join(given.cwd, "data.jsonl"),
      Array.from(
        { length: rows },
        (_, index) => `${JSON.stringify({ id: `r${index}`, prompt: `question ${index}` })}\n`
      ).join("")
    )
    mkdirSync(given.home, { recursive: true })
    writeFileSync(
      join(given.home, "config.yaml"),
      `model:\n  provider: custom\n  default: m\n  base_url: ${server.url}/v1\n  api_key: k\n  context_length: 100000\n`
    )
    return {
      ...given,
      run: (...flags: ReadonlyArray<string>) =>
        given.hermes([
          "batch",
          "run",
          "--dataset_file=data.jsonl",
          "--batch_size=1",
          "--run_name=run",
          "--distribution=terminal_only",
          ...flags
        ]),
      rows: () =>
        Array.from({ length: rows }, (_, index) => index).flatMap((index) => {
          try {
            return [
              JSON.parse(readFileSync(join(given.cwd, `data/run/batch_${index}.jsonl`), "utf8").trim()) as Record<
                string,
                unknown
              >
            ]
          } catch {
            // The row has no file: it was not finished.
            return []
          }
        })
    }
  })

describe("hermes batch before a model", () => {
  it.live("a model that refuses most of a parallel load costs no row", () =>
    Effect.gen(function* () {
      let refused = 0
      const { run, rows } = yield* world(9, (_, respond) => {
        if (refused === 6) return respond(200, said("fine"))
        refused++
        respond(429, { error: { message: "slow down" } }, { "retry-after": "1" })
      })
      const { code, stderr, stdout } = yield* run("--num_workers=9")
      assert.strictEqual(code, 0, stderr + stdout)
      assert.match(stdout, /9 of 9 rows done/)
      assert.strictEqual(refused, 6)
      assert.strictEqual(rows().length, 9)
    })
  )

  it.live("a key that is refused stops the run after the rows in flight, with one reason", () =>
    Effect.gen(function* () {
      let asked = 0
      const { run } = yield* world(50, (_, respond) => {
        asked++
        respond(401, { error: { message: "bad key" } })
      })
      const { code, stdout } = yield* run("--num_workers=2")
      assert.strictEqual(code, 1)
      assert.match(stdout, /not begun +4\d\n/)
      assert.match(stdout, /Stopped: .*key/i)
      assert.isAtMost(asked, 8)
    })
  )

  it.live("a row that takes longer than its limit fails", () =>
    Effect.gen(function* () {
      const { run } = yield* world(1, () => {})
      const { code, stdout } = yield* run("--row-timeout=1", "--retries=0")
      assert.strictEqual(code, 1)
      assert.match(stdout, /Failed: row r0 after 1 attempt: the row took longer than its limit of 1 s/)
    })
  )

  it.live("a row has so many model calls; what was spent is in its row", () =>
    Effect.gen(function* () {
      const { run, rows } = yield* world(1, (body, respond) => {
        const call = {
          id: `c${body.length}`,
          type: "function",
          function: { name: "terminal", arguments: JSON.stringify({ command: `echo ${body.length}` }) }
        }
        respond(
          200,
          body.includes('"tools"')
            ? {
                ...said(""),
                choices: [
                  {
                    index: 0,
                    message: { role: "assistant", content: null, reasoning_content: "t", tool_calls: [call] },
                    finish_reason: "tool_calls"
                  }
                ]
              }
            : said("a summary")
        )
      })
      assert.strictEqual((yield* run("--max_turns=2")).code, 0)
      const [row] = rows()
      assert.deepInclude(row, { row_id: "r0", completed: false, partial: true, api_calls: 3 })
      assert.deepInclude(row?.["run"], { exit: "max_iterations_reached" })
    })
  )

  it.live(
    "a limit of tokens ends the run; what was answered is not asked again, and a seed of the run is one of each row",
    () =>
      Effect.gen(function* () {
        const seeds: Array<unknown> = []
        const { run, rows } = yield* world(3, (body, respond) => {
          seeds.push(JSON.parse(body).seed)
          respond(200, said("fine"))
        })
        const first = yield* run("--num_workers=1", "--max-total-tokens=150", "--seed=7")
        assert.strictEqual(first.code, 1, first.stderr)
        assert.match(first.stdout, /Stopped: the limit of 150 tokens is reached/)
        assert.match(first.stdout, /not begun +\d/)
        assert.deepStrictEqual([seeds.length, rows().length], [2, 1])
        const second = yield* run("--resume")
        assert.deepStrictEqual([second.code, seeds.length, rows().length], [0, 3, 3], second.stderr)
        assert.deepStrictEqual(
          rows().map(({ completed }) => completed),
          [true, true, true]
        )
        assert.deepStrictEqual(
          seeds,
          ["r0", "r1", "r2"].map((id) => RowSeed.computeSeed("7", id))
        )
        assert.isTrue(seeds.every(Number.isInteger) && new Set(seeds).size === 3)
      })
  )

  it.live("an agent file brings its prompt and its tools", () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const { cwd, hermes, run, rows } = yield* world(1, (body, respond) => {
        seen.push(body)
        respond(200, said("fine"))
      })
      writeFileSync(
        join(cwd, "agent.yaml"),
        "type: agent\nname: researcher\nsystem_prompt: You answer in verse.\ntools: [read_file]\n"
      )
      yield* hermes(["trust", "add", "."])
      const { code, stderr } = yield* hermes([
        "batch",
        "run",
        "--dataset_file=data.jsonl",
        "--batch_size=1",
        "--run_name=run",
        "--agent=agent.yaml"
      ])
      assert.strictEqual(code, 0, stderr)
      assert.match(seen[0] ?? "", /You answer in verse/)
      assert.notProperty(JSON.parse(seen[0] ?? "{}"), "seed")
      const tools = (
        JSON.parse(seen[0] ?? "{}") as {
          readonly tools: ReadonlyArray<{ readonly function: { readonly name: string } }>
        }
      ).tools
      assert.deepStrictEqual(
        tools.map(({ function: { name } }) => name),
        ["read_file"]
      )
      assert.deepStrictEqual(rows()[0]?.["toolsets_used"], ["read_file"])
      assert.match((yield* run()).stderr, /run "run" exists/)
      assert.match(
        (yield* run("--toolsets=terminl", "--resume")).stderr,
        /there is no toolset or tool "terminl": did you mean "terminal"\?/
      )
    })
  )
})
