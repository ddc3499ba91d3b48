// Limits and seeds of `hermes batch run`, `swe run` and `eval run` before a model over HTTP: one meaning for all three.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync, readFileSync } from "node:fs"
import * as RowSeed from "../../src/research/batch/RowSeed.ts"
import * as HttpServer from "../models/provider/HttpServer.ts"
import { machine } from "../support/hermesInProcess.ts"

const usage = { prompt_tokens: 100, completion_tokens: 10 }
const said = {
  id: "x",
  model: "m",
  choices: [
    { index: 0, message: { role: "assistant", content: "4", reasoning_content: "thought" }, finish_reason: "stop" }
  ],
  usage
}
const messages = {
  id: "x",
  type: "message",
  role: "assistant",
  model: "m",
  content: [{ type: "text", text: "4" }],
  stop_reason: "end_turn",
  usage: { input_tokens: 100, output_tokens: 10 }
}
const call = (number: number) => ({
  ...said,
  choices: [
    {
      index: 0,
      finish_reason: "tool_calls",
      message: {
        role: "assistant",
        content: null,
        reasoning_content: "t",
        tool_calls: [
          {
            id: `c${number}`,
            type: "function",
            function: { name: "terminal", arguments: JSON.stringify({ command: `echo ${number}` }) }
          }
        ]
      }
    }
  ]
})

/** Commands that run rows, with the ids that their seeds are made of. */
const commands = [
  {
    name: "batch",
    args: [
      "batch",
      "run",
      "--dataset_file=rows.jsonl",
      "--batch_size=1",
      "--run_name=run",
      "--distribution=terminal_only",
      "--num_workers=1"
    ],
    ids: ["a", "b", "c"],
    stopped: /Stopped: the limit of 150 tokens is reached/,
    goesOn: ["--resume"]
  },
  {
    name: "swe",
    args: ["swe", "run", "--prompts-file=rows.jsonl", "--workers=1"],
    ids: ["a", "b", "c"],
    stopped:
      /Error: stopped before the last task: the limit of 150 tokens is reached; run the same command to continue/,
    goesOn: []
  },
  {
    name: "eval",
    args: ["eval", "run", "rows.jsonl", "--scorer=number", "--workers=1", "--name=e"],
    ids: ["a#1", "b#1", "c#1"],
    stopped: /Error: stopped: the limit of 150 tokens is reached; run the same command to continue/,
    goesOn: []
  }
] as const

/** A dataset for all commands, and a model. */
const world = Effect.fnUntraced(function* ({
  answer = () => said,
  apiMode = "chat_completions"
}: { readonly answer?: (number: number) => unknown; readonly apiMode?: string } = {}) {
  const here = yield* machine
  const seeds: Array<unknown> = []
  const server = yield* HttpServer.make(({ body, url }, response) => {
    if (!/\/(chat\/completions|messages)$/.test(url))
      return HttpServer.json(response, 404, { error: { message: "not here" } })
    seeds.push(JSON.parse(body).seed)
    const answered = url.endsWith("/messages") ? messages : answer(seeds.length)
    if (answered !== undefined) HttpServer.json(response, 200, answered)
  })
  here.put(
    "rows.jsonl",
    ["a", "b", "c"].map((id) => `${JSON.stringify({ id, prompt: `What is 2+2? (${id})`, answer: "4" })}\n`).join("")
  )
  here.keep(
    "config.yaml",
    `model:\n  provider: custom\n  default: m\n  base_url: ${server.url}${apiMode === "chat_completions" ? "/v1" : ""}\n  api_key: k\n  api_mode: ${apiMode}\n  context_length: 100000\n`
  )
  const rows = () =>
    ["data/run/batch_0.jsonl", "swe-results/results.jsonl", "eval-results/e/results.jsonl"].flatMap((path) =>
      existsSync(here.at(path))
        ? readFileSync(here.at(path), "utf8")
            .trim()
            .split("\n")
            .map((line) => JSON.parse(line))
        : []
    )
  return { ...here, seeds, rows }
})

describe.each(commands)("limits and seeds: hermes $name", ({ args, goesOn, ids, name, stopped }) => {
  it.live(
    "a limit of tokens ends the run behind the answer that reached it; what is left goes on, each row with a seed of its own",
    () =>
      Effect.gen(function* () {
        const { hermes, seeds } = yield* world()
        const first = yield* hermes([...args, "--seed=7", "--max-total-tokens=150"])
        assert.strictEqual(first.code, 1, first.stderr)
        assert.match(first.stderr + first.stdout, stopped)
        assert.strictEqual(seeds.length, 2)
        const second = yield* hermes([...args, "--seed=7", ...goesOn])
        assert.strictEqual(second.code, 0, second.stderr)
        assert.notInclude(second.stderr, "seed")
        assert.sameMembers(
          [...new Set(seeds)],
          ids.map((id) => RowSeed.computeSeed("7", id))
        )
        assert.isTrue(seeds.every(Number.isInteger))
      })
  )

  it.live("a protocol without a seed: one line for the run, and no field in a request", () =>
    Effect.gen(function* () {
      const { hermes, seeds } = yield* world({ apiMode: "anthropic_messages" })
      const { code, stderr } = yield* hermes([...args, "--seed=7"])
      assert.strictEqual(code, 0, stderr)
      assert.deepStrictEqual(seeds, [undefined, undefined, undefined])
      const told = stderr.split("\n").filter((line) => line.includes("seed"))
      assert.deepStrictEqual(told, [
        `Note: The seed is not told to custom/m, whose protocol (anthropic_messages) has none: ${name === "batch" ? "only the draws of toolsets follow it" : "it changes nothing"}.`
      ])
    })
  )

  it.live("a row that used its tokens makes no further model call, and is written", () =>
    Effect.gen(function* () {
      const { hermes, rows } = yield* world({ answer: call })
      const { code, stderr } = yield* hermes([...args, "--row-tokens=200", "--toolsets=terminal", "--yolo"])
      assert.strictEqual(code, 0, stderr)
      const exits = rows().map((row) => [row.row_id, row.exit ?? row.run.exit])
      assert.deepStrictEqual(
        exits,
        ids.slice(0, name === "batch" ? 1 : 3).map((id) => [id, "budget_exhausted"])
      )
    })
  )

  it.live("a row that takes too long fails, and a limit of money without a price is told once", () =>
    Effect.gen(function* () {
      const { hermes } = yield* world({ answer: (number) => (number === 1 ? undefined : said) })
      const { code, stderr, stdout } = yield* hermes([
        ...args,
        "--row-timeout=5",
        "--max-cost=1",
        ...(name === "batch" ? ["--retries=0"] : [])
      ])
      assert.strictEqual(code, 1, stderr)
      assert.match(stderr + stdout, /: the row took longer than its limit of 5 s/)
      assert.strictEqual(
        (
          stderr.match(
            /Warning: the price of the model is unknown, so --max-cost has no effect: pass --max-total-tokens/g
          ) ?? []
        ).length,
        1,
        stderr
      )
    })
  )

  it.live("a limit that is none is one line and exit code 2, before a model is asked", () =>
    Effect.gen(function* () {
      const { hermes, seeds } = yield* world()
      for (const [flag, remedy] of [
        ["--row-timeout", "more than 0"],
        ["--row-tokens", "1 or more"],
        ["--row-cost", "more than 0"],
        ["--max-cost", "more than 0"],
        ["--max-total-tokens", "1 or more"],
        ["--max-time", "more than 0"]
      ] as const) {
        const { code, stderr } = yield* hermes([...args, `${flag}=0`])
        assert.deepStrictEqual([code, stderr], [2, `Error: ${flag} 0 is too small: pass ${remedy}\n`])
      }
      assert.deepStrictEqual(seeds, [])
    })
  )
})
