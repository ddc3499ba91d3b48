// `hermes batch` through the program in this process: what it refuses, what it says, the files that it leaves, its
// reports.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { hermes as start } from "../../support/hermes.ts"
import { machine } from "../../support/hermesInProcess.ts"

const dataset = (rows: ReadonlyArray<unknown>): string => rows.map((row) => `${JSON.stringify(row)}\n`).join("")
const json = (path: string): Record<string, unknown> => JSON.parse(readFileSync(path, "utf8"))
const rowsOf = (path: string): ReadonlyArray<Record<string, unknown>> =>
  readFileSync(path, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line): Record<string, unknown> => JSON.parse(line))

const base = [
  "batch",
  "run",
  "--dataset_file=data.jsonl",
  "--run_name=run",
  "--distribution=terminal_only",
  "--keep-without-reasoning"
]

/** A machine with a dataset, and a run of it. */
const world = (rows: ReadonlyArray<unknown>) =>
  Effect.map(machine, (given) => {
    writeFileSync(join(given.cwd, "data.jsonl"), dataset(rows))
    return {
      ...given,
      directory: join(given.cwd, "data/run"),
      run: (...flags: ReadonlyArray<string>) => given.hermes([...base, ...flags])
    }
  })

const hello = (count: number) =>
  Array.from({ length: count }, (_, index) => ({ id: `r${index}`, prompt: `Reply exactly hello ${index}` }))

describe("hermes batch", () => {
  it.live("many small batches at a time: every row once, checkpoint and statistics of all of them", () =>
    Effect.gen(function* () {
      const { directory, hermes, run } = yield* world(hello(24))
      const { code, stderr, stdout } = yield* run("--batch_size=1", "--num_workers=12", "--format=both")
      assert.strictEqual(code, 0, stderr)
      assert.match(stdout, /^run: 24 of 24 rows done in \d+ s\n {2}finished +24\n/)
      assert.strictEqual(rowsOf(join(directory, "trajectories.jsonl")).length, 24)
      assert.strictEqual(rowsOf(join(directory, "trajectories.atif.jsonl")).length, 24)
      const checkpoint = json(join(directory, "checkpoint.json"))
      assert.deepStrictEqual(
        checkpoint["completed_prompts"],
        hello(24).map((_, index) => index)
      )
      assert.strictEqual(Object.keys(checkpoint["batch_stats"] ?? {}).length, 24)
      assert.deepInclude(json(join(directory, "statistics.json")), {
        run_name: "run",
        distribution: "terminal_only",
        total_prompts: 24,
        total_batches: 24,
        batch_size: 1
      })
      assert.deepStrictEqual(readdirSync(join(directory, "workspaces")), [])
      writeFileSync(
        join(directory, "one.json"),
        `${JSON.stringify(rowsOf(join(directory, "trajectories.atif.jsonl"))[0])}\n`
      )
      assert.match((yield* hermes(["trace", "validate", join(directory, "one.json")])).stdout, /valid ATIF/)
    })
  )

  it.live("a row with output_schema ends in a value, and one whose schema or answer does not fit fails alone", () =>
    Effect.gen(function* () {
      const output_schema = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] }
      const { directory, run } = yield* world([
        { id: "a", prompt: 'Reply exactly {"n":1}', output_schema },
        { id: "b", prompt: "Reply exactly hello" },
        { id: "c", prompt: "Reply exactly [2]", output_schema: { type: "array", items: { type: "integer" } } },
        { id: "d", prompt: "Reply exactly hello", output_schema: { type: "nothing" } },
        { id: "e", prompt: 'Reply exactly {"value":[2]}', output_schema: { type: "array", items: { type: "integer" } } }
      ])
      yield* run("--batch_size=1", "--num_workers=1")
      const rows = rowsOf(join(directory, "trajectories.jsonl"))
      assert.deepStrictEqual(
        rows.map((row) => [row["prompt_index"], row["value"], "value" in row]),
        [
          [0, { n: 1 }, true],
          [1, undefined, false],
          [4, [2], true]
        ]
      )
    })
  )

  it.live(
    "each row holds the real system prompt, its calls with usage, times and finish reasons; the ephemeral prompt is saved nowhere in it",
    () =>
      Effect.gen(function* () {
        const { directory, home, run } = yield* world([{ id: "a", prompt: "Run the command `echo out`" }])
        yield* run("--batch_size=1", "--format=both", "--ephemeral-system-prompt=only for now")
        // No state of a workspace is kept, which is gone anyway.
        assert.isFalse(existsSync(join(home, "changes")))
        const [row] = rowsOf(join(directory, "trajectories.jsonl"))
        const text = readFileSync(join(directory, "batch_0.jsonl"), "utf8")
        assert.notInclude(text, "only for now")
        const about = row?.["run"] as Record<string, unknown>
        assert.match(String(about["system_prompt"]), /You are Hermes/)
        assert.deepInclude(about, {
          session_id: "batch-a-1",
          attempt: 1,
          exit: "text_response",
          error: null,
          prompt: "Run the command `echo out`"
        })
        const calls = about["model_calls"] as ReadonlyArray<Record<string, unknown>>
        assert.deepStrictEqual(
          calls.map(({ finish_reason, status }) => [status, finish_reason]),
          [
            ["answered", "tool-calls"],
            ["answered", "stop"]
          ]
        )
        for (const { duration_ms, started_at, usage } of calls) {
          assert.isNumber(duration_ms)
          assert.isAbove(Date.parse(String(started_at)), 0)
          assert.isAbove((usage as Record<string, number>)["total_tokens"] ?? 0, 0)
        }
        assert.deepInclude((about["tool_calls"] as ReadonlyArray<Record<string, unknown>>)[0], {
          name: "terminal",
          status: "ok",
          ran: true
        })
        assert.deepStrictEqual(row?.["toolsets_used"], ["terminal", "file"])
      })
  )

  it.live(
    "malformed rows and ids used twice are told with their lines; the dataset's changes on resume; a run is not begun twice",
    () =>
      Effect.gen(function* () {
        const { cwd, directory, hermes, run } = yield* world(hello(2))
        writeFileSync(
          join(cwd, "data.jsonl"),
          `${dataset(hello(2))}{broken\n${dataset([{ id: "r0", prompt: "again" }, { prompt: "" }])}`
        )
        const first = yield* run("--batch_size=1")
        assert.strictEqual(first.code, 0, first.stderr)
        assert.match(
          first.stderr,
          /Warning: data\.jsonl line 3: not valid JSON; left out\n.*line 4: id "r0" was used already in line 1; left out\n.*line 5: "prompt" is empty; left out/
        )
        const twice = yield* run("--batch_size=1")
        assert.deepInclude(twice, { code: 2, stdout: "" })
        assert.match(
          twice.stderr,
          /Error: run "run" exists, 2 of 2 rows done: add --resume to go on, or choose another --run-name\n$/
        )
        writeFileSync(
          join(cwd, "data.jsonl"),
          dataset([
            { id: "r1", prompt: "Reply exactly changed" },
            { id: "r9", prompt: "Reply exactly new" }
          ])
        )
        const resumed = yield* run("--batch_size=1", "--resume")
        assert.strictEqual(resumed.code, 0, resumed.stderr)
        assert.match(resumed.stderr, /The dataset changed since this run began: 1 new, 1 changed, 1 gone\./)
        assert.deepStrictEqual(
          rowsOf(join(directory, "trajectories.jsonl"))
            .map(({ row_id }) => row_id)
            .toSorted(),
          ["r0", "r1", "r9"]
        )
        const prompted = (id: string) =>
          JSON.stringify(
            rowsOf(join(directory, "trajectories.jsonl")).find(({ row_id }) => row_id === id)?.["conversations"]
          )
        assert.include(prompted("r1"), '{"from":"human","value":"Reply exactly changed"}')
        // Rows of the dataset are counted, and those that it has no more beside them.
        assert.match(
          resumed.stdout,
          /^run: 2 of 2 rows done .*\n +finished +3, including 1 of rows that changed or are no longer in the dataset$/m
        )
        const stats = (yield* hermes(["batch", "stats", "run"])).stdout
        assert.match(stats, /^run: 2 of 2 rows done, .*$/m)
        assert.match(stats, /^gone +1 rows that changed or are no longer in the dataset$/m)
        assert.match((yield* run("--batch_size=1")).stderr, /Error: run "run" exists, 2 of 2 rows done: /)
        // The changed row came into an earlier batch: its last result counts, and it is not run a third time.
        assert.match(
          (yield* run("--batch_size=1", "--resume")).stdout,
          /^run: 2 of 2 rows done in \d+ s, 2 of them before$/m
        )
        assert.include(prompted("r1"), "Reply exactly changed")
      })
  )

  it.live("a directory that is none fails its row before a token is spent; so does an image that cannot be had", () =>
    Effect.gen(function* () {
      const { cwd, directory, run } = yield* world([{ id: "lost", prompt: "x", cwd: "nowhere" }, ...hello(1)])
      const { code, stdout } = yield* run("--batch_size=1")
      assert.strictEqual(code, 1)
      assert.match(stdout, /Failed: row lost after 1 attempt: cwd .*\/nowhere is not a directory/)
      // A rate is over all rows, not over those that did not fail.
      const stats = yield* start(["batch", "stats", "run"], { cwd, home: join(cwd, "../.hermes") })
      assert.match(stats.stdout, /completed +1 of 2 \(50 %\)/)
      assert.match(stats.stdout, /failed +1: infrastructure/)
      assert.match(stdout, /failed +1 \(1 infrastructure\)/)
      const checked = yield* start(["batch", "check", "run", "--for", "llama-factory"], {
        cwd,
        home: join(cwd, "../.hermes")
      })
      assert.strictEqual(checked.code, 0, checked.stderr)
      assert.match(checked.stdout, /^1 row: llama-factory accepts 1, drops 0\n.*"observation_tag":"tool"/)
      const twice = { conversations: ["human", "gpt", "gpt"].map((from) => ({ from, value: "x" })) }
      writeFileSync(join(cwd, "bad.jsonl"), `${JSON.stringify(twice)}\n`)
      const dropped = yield* start(["batch", "check", "bad.jsonl", "--for", "trl"], {
        cwd,
        home: join(cwd, "../.hermes")
      })
      assert.strictEqual(dropped.code, 1)
      assert.match(dropped.stdout, /drops 1\nline 1, row line 1: turns 2 and 3 are both gpt/)
      const statistics = JSON.parse(readFileSync(join(directory, "statistics.json"), "utf8"))
      assert.deepInclude(statistics, { completion_rate: 0.5, failures: { infrastructure: 1 } })
      assert.deepStrictEqual(
        rowsOf(join(directory, "trajectories.jsonl")).map(({ row_id }) => row_id),
        ["r0"]
      )
      // An engine that has no image and can fetch none.
      // A program below the working tree would not be taken for the engine.
      const bin = join(cwd, "../bin")
      mkdirSync(bin)
      writeFileSync(
        join(bin, "docker"),
        [
          "#!/bin/sh",
          `echo "$@" >> ${join(cwd, "engine.log")}`,
          "case \"$1\" in --version) echo 'Docker version 27';; info) echo 27;; image) exit 1;; pull) echo 'pull access denied' >&2; exit 1;; esac"
        ].join("\n"),
        { mode: 0o755 }
      )
      writeFileSync(
        join(cwd, "data.jsonl"),
        dataset([{ id: "boxed", prompt: "Reply exactly hi", image: "nobody/nothing:1" }])
      )
      const boxed = yield* start([...base.map((flag) => flag.replace("name=run", "name=boxed")), "--batch_size=1"], {
        cwd,
        home: join(cwd, "../.hermes"),
        env: { PATH: `${bin}:${process.env["PATH"] ?? ""}` }
      })
      assert.strictEqual(boxed.code, 1, boxed.stderr)
      assert.match(
        boxed.stdout,
        /Failed: row boxed after 1 attempt: the image nobody\/nothing:1 cannot be had: pull access denied/
      )
      assert.match(
        readFileSync(join(cwd, "engine.log"), "utf8"),
        /image inspect --format ok nobody\/nothing:1\n(.*\n)*pull nobody\/nothing:1/
      )
      assert.isFalse(existsSync(join(cwd, "data/boxed/batch_0.jsonl")))
    })
  )

  it.live("reports: stats, show, diff, merge", () =>
    Effect.gen(function* () {
      const { cwd, directory, hermes, run } = yield* world([
        { id: "a", prompt: "Run the command `echo out`" },
        ...hello(1)
      ])
      yield* run("--batch_size=1")
      const stats = yield* hermes(["batch", "stats", "run"])
      assert.match(stats.stdout, /run: 2 of 2 rows done/)
      assert.match(stats.stdout, /completed +2 of 2 \(100 %\)/)
      assert.match(stats.stdout, /terminal +1 +0 +100 %/)
      assert.deepInclude(JSON.parse((yield* hermes(["batch", "stats", directory, "--json"])).stdout), {
        total_prompts: 2
      })
      const show = yield* hermes(["batch", "show", "run", "a"])
      assert.match(show.stdout, /^a \(index 0\): text_response\nsession +batch-a-1\n/)
      assert.match(show.stdout, /── human\nRun the command/)
      assert.match((yield* hermes(["batch", "show", "run", "zz"])).stderr, /row "zz" has no result/)
      writeFileSync(join(cwd, "data.jsonl"), dataset([{ id: "a", prompt: "Reply exactly other" }, ...hello(1)]))
      yield* hermes([...base.map((flag) => flag.replace("name=run", "name=other")), "--batch_size=1"])
      const diff = yield* hermes(["batch", "diff", "run", "other"])
      assert.match(
        diff.stdout,
        /^run and other: 2 rows, 1 identical\n {2}a +model calls 2 → 1, another answer, tokens \d+ → \d+\n$/
      )
      writeFileSync(join(directory, "trajectories.jsonl"), "")
      assert.match(
        (yield* hermes(["batch", "merge", "run"])).stdout,
        /trajectories\.jsonl: 2 rows; left out: 0 discarded, 0 with unknown tools/
      )
      assert.strictEqual(rowsOf(join(directory, "trajectories.jsonl")).length, 2)
      assert.match((yield* hermes(["batch", "stats", "rum"])).stderr, /did you mean "run"\?/)
    })
  )

  it.live("lists distributions without any other flag", () =>
    Effect.gen(function* () {
      const { hermes } = yield* machine
      const { code, stdout } = yield* hermes(["batch", "run", "--list_distributions"])
      assert.strictEqual(code, 0)
      assert.match(stdout, /^mixed_tasks +Browser, terminal and files in most rows: browser 92, terminal 92/m)
    })
  )
})
