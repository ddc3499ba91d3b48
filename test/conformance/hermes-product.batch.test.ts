// Cases 70 to 77 of `contract/cases-hermes-product.md`, through the program; case 74 with kill -9:
// `test/research/batch/KilledBatch.test.ts`.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Distributions from "../../src/research/batch/Distributions.ts"
import { machine } from "../support/hermesInProcess.ts"

interface Row {
  readonly row_id: string
  readonly discarded?: string
  readonly conversations: ReadonlyArray<{ readonly from: string; readonly value: string }>
  readonly tool_stats: Readonly<
    Record<string, { readonly count: number; readonly success: number; readonly failure: number }>
  >
  readonly completed: boolean
}

/** A batch of rows over a scenario, with a reader of the files that it writes. */
const batch = Effect.gen(function* () {
  const { cwd, hermes } = yield* machine
  const read = (name: string): ReadonlyArray<Row> =>
    readFileSync(join(cwd, "data/run", name), "utf8")
      .split("\n")
      .filter((line) => line !== "")
      .map((line): Row => JSON.parse(line))
  return {
    read,
    cwd,
    run: (rows: ReadonlyArray<unknown>, turns: ReadonlyArray<unknown>, ...flags: ReadonlyArray<string>) => {
      writeFileSync(join(cwd, "data.jsonl"), rows.map((row) => `${JSON.stringify(row)}\n`).join(""))
      writeFileSync(join(cwd, "turns.yaml"), JSON.stringify({ turns }))
      return hermes([
        "batch",
        "run",
        "--dataset_file=data.jsonl",
        "--batch_size=1",
        "--run_name=run",
        "--distribution=terminal_only",
        "--script=turns.yaml",
        ...flags
      ])
    }
  }
})

describe("hermes-product.md, batch and training data", () => {
  it.live(
    "70, 76: a row without reasoning is not merged and not run again; a turn without reasoning begins with an empty think block",
    () =>
      Effect.gen(function* () {
        const { read, run } = yield* batch
        const rows = [
          { id: "thinks", prompt: "with thought" },
          { id: "blurts", prompt: "at once" }
        ]
        const turns = [
          {
            match: "with thought",
            reasoning: "let me look",
            tool_calls: [{ name: "terminal", arguments: { command: "true" } }]
          },
          { match: "with thought", text: "It is done." },
          { match: "at once", text: "No thought." }
        ]
        const first = yield* run(rows, turns)
        assert.strictEqual(first.code, 0, first.stderr)
        const merged = read("trajectories.jsonl")
        assert.deepStrictEqual(
          merged.map(({ row_id }) => row_id),
          ["thinks"]
        )
        assert.deepStrictEqual(
          merged[0]?.conversations
            .filter(({ from }) => from === "gpt")
            .map(({ value }) => value.split("\n<tool_call>")[0]),
          ["<think>\nlet me look\n</think>", "<think>\n</think>\nIt is done."]
        )
        const tombstones = [...read("batch_0.jsonl"), ...read("batch_1.jsonl")].filter(
          ({ discarded }) => discarded !== undefined
        )
        assert.deepStrictEqual(
          tombstones.map(({ row_id }) => row_id),
          ["blurts"]
        )
        // With no turn left, a row that was run again would fail.
        const second = yield* run(rows, [{ match: "never", text: "" }], "--resume")
        assert.deepInclude(second, { code: 0 }, second.stderr)
        assert.match(second.stdout, /2 of 2 rows done in .*, 2 of them before/)
      }).pipe(Effect.scoped)
  )

  it.live("71: a row that names a tool that there is not is dropped in the merge and counted", () =>
    Effect.gen(function* () {
      const { cwd, read, run } = yield* batch
      const { code, stdout } = yield* run(
        [
          { id: "ghost", prompt: "one" },
          { id: "real", prompt: "two" }
        ],
        [
          { match: "one", reasoning: "r", tool_calls: [{ name: "teleport_everything_now", arguments: {} }] },
          { match: "one", text: "I could not." },
          { match: "two", reasoning: "r", text: "fine" }
        ]
      )
      assert.strictEqual(code, 0)
      assert.deepStrictEqual(
        read("trajectories.jsonl").map(({ row_id }) => row_id),
        ["real"]
      )
      assert.match(stdout, /1 row with unknown tools left out/)
      assert.include(readFileSync(join(cwd, "data/run/statistics.json"), "utf8"), '"with_unknown_tools": 1')
    }).pipe(Effect.scoped)
  )

  it.live("73: a terminal result with exit code 2 is a success of the tool; every known tool has its counts", () =>
    Effect.gen(function* () {
      const { read, run } = yield* batch
      yield* run(
        [{ id: "a", prompt: "go" }],
        [
          {
            reasoning: "r",
            tool_calls: [
              { name: "terminal", arguments: { command: "exit 2" } },
              { name: "read_file", arguments: { path: "nowhere.txt" } }
            ]
          },
          { text: "done" }
        ]
      )
      const [row] = read("trajectories.jsonl")
      assert.deepStrictEqual(row?.tool_stats["terminal"], { count: 1, success: 1, failure: 0 })
      assert.deepStrictEqual(row?.tool_stats["read_file"], { count: 1, success: 0, failure: 1 })
      assert.deepStrictEqual(row?.tool_stats["patch"], { count: 0, success: 0, failure: 0 })
    }).pipe(Effect.scoped)
  )

  it.live("74: on resume only missing and failed rows are run, and there are no duplicate rows", () =>
    Effect.gen(function* () {
      const { read, run } = yield* batch
      const rows = [
        { id: "good", prompt: "one" },
        { id: "bad", prompt: "two" }
      ]
      const refused = { match: "two", error: { status: 400, message: "this cannot be asked" } }
      const first = yield* run(rows, [{ match: "one", reasoning: "r", text: "fine" }, refused])
      assert.strictEqual(first.code, 1)
      assert.match(first.stdout, /1 of 2 rows done/)
      assert.match(first.stdout, /Failed: row bad after 1 attempt: .*this cannot be asked/)
      assert.match(first.stdout, /Run the same command with --resume/)
      // Reordered, and with a row more; the first answer is used up.
      const second = yield* run(
        [{ id: "new", prompt: "three" }, ...rows.toReversed()],
        [
          { match: "two", reasoning: "r", text: "now it works" },
          { match: "three", reasoning: "r", text: "new" }
        ],
        "--resume"
      )
      assert.strictEqual(second.code, 0, second.stderr)
      assert.match(second.stderr, /The dataset changed since this run began: 1 new\./)
      assert.deepStrictEqual(
        read("trajectories.jsonl")
          .map(({ row_id }) => row_id)
          .toSorted(),
        ["bad", "good", "new"]
      )
    }).pipe(Effect.scoped)
  )

  it("77: a distribution that draws nothing gives the most probable toolset", () => {
    const rare = { web: 0.000001, terminal: 0.000002, file: 0.000001 }
    for (let row = 0; row < 50; row++)
      assert.deepStrictEqual(Distributions.draw(rare, "seed", `row${row}`), ["terminal"])
  })
})
