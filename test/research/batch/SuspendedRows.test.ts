// Rows of a batch whose runs wait for answers: they neither fail nor finish, and continue in a later run, once.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync, readFileSync } from "node:fs"
import { machine } from "../../support/hermesInProcess.ts"

const asking = "approvals: { unknown_commands: ask }\nquestions: { unanswered: suspend, expires_after: 86400 }\n"
const call = (args: unknown) => ({ tool_calls: [{ name: "terminal", arguments: args }] })
const batch = (script: string, ...more: ReadonlyArray<string>) =>
  "batch run --dataset_file=rows.jsonl --batch_size=1 --run_name=one --toolsets=terminal --num-workers=1"
    .split(" ")
    .concat("--keep-without-reasoning", "--keep-workspaces", `--script=${script}`, more)

const readLines = (path: string) =>
  readFileSync(path, "utf8")
    .trim()
    .split("\n")
    .filter((line) => line !== "")
    .map((line): Record<string, unknown> => JSON.parse(line))

describe("a row that waits for an answer", () => {
  it.live("is counted and listed, does not fail, and continues with --resume after its answer", () =>
    Effect.gen(function* () {
      const { at, hermes, keep, put } = yield* machine
      keep("config.yaml", asking)
      put("rows.jsonl", ["r0", "r1"].map((id) => JSON.stringify({ id, prompt: `tidy ${id}` })).join("\n"))
      put(
        "ask.yaml",
        JSON.stringify({ turns: [call({ command: "rm -rf kept; echo gone >> gone.txt" }), { text: "fine" }] })
      )
      put("rest.yaml", JSON.stringify({ turns: [{ text: "kept is gone" }] }))
      const first = yield* hermes(batch("ask.yaml"))
      assert.strictEqual(first.code, 1, first.stdout + first.stderr)
      for (const part of [
        "1 of 2 rows done",
        "suspended  1 (waiting for answers)",
        "Waiting: row r0 in session batch-r0-1"
      ])
        assert.include(first.stdout, part)
      assert.include(first.stdout, "Their questions: hermes sessions waiting --batch data/one")
      assert.notInclude(first.stdout, "failed")
      const events = () =>
        readLines(at("data/one/attempts.jsonl")).map(({ event, row_id: id }) => `${String(id)} ${String(event)}`)
      assert.deepStrictEqual(events(), ["r0 begin", "r0 suspend", "r1 begin"])
      const statistics = JSON.parse(readFileSync(at("data/one/statistics.json"), "utf8"))
      assert.deepStrictEqual([statistics.rows.suspended, statistics.rows.finished, statistics.failures], [1, 1, {}])
      const open = JSON.parse((yield* hermes(["sessions", "waiting", "--batch", "one", "--json"])).stdout)
      assert.strictEqual(open.length, 1)

      // Without an answer, it waits again, and nothing is asked of the model.
      const again = yield* hermes(batch("rest.yaml", "--resume"))
      assert.include(again.stdout, "Waiting: row r0")
      const gone = at("data/one/workspaces/r0-1/gone.txt")
      assert.isFalse(existsSync(gone))

      const answered = yield* hermes(["sessions", "answer", "--batch", "one", "batch-r0-1", open[0].id, "yes"])
      assert.strictEqual(
        answered.stdout,
        "Answered. Continue with: the command of the batch, and --resume\n",
        answered.stderr
      )
      const last = yield* hermes(batch("rest.yaml", "--resume"))
      assert.strictEqual(last.code, 0, last.stdout + last.stderr)
      assert.include(last.stdout, "2 of 2 rows done")
      assert.strictEqual(readFileSync(gone, "utf8"), "gone\n")
      assert.deepStrictEqual(
        readLines(at("data/one/batch_0.jsonl")).map(({ completed, row_id: id }) => [id, completed]),
        [["r0", true]]
      )
      assert.deepStrictEqual(
        events()
          .filter((event) => event.startsWith("r0"))
          .slice(-3),
        ["r0 begin", "r0 suspend", "r0 begin"]
      )
      assert.isTrue(readLines(at("data/one/attempts.jsonl")).every(({ attempt }) => attempt === 1))
    })
  )

  it.live("waits with a schema of its value too", () =>
    Effect.gen(function* () {
      const { at, hermes, keep, put } = yield* machine
      keep("config.yaml", asking)
      const output_schema = { type: "object", properties: { ok: { type: "boolean" } }, required: ["ok"] }
      put("rows.jsonl", JSON.stringify({ id: "r0", prompt: "tidy", output_schema }))
      put("ask.yaml", JSON.stringify({ turns: [call({ command: "rm -rf kept" })] }))
      put("rest.yaml", JSON.stringify({ turns: [{ text: '{"ok":true}' }] }))
      const first = yield* hermes(batch("ask.yaml"))
      assert.include(first.stdout, "suspended  1", first.stderr)
      const open = JSON.parse((yield* hermes(["sessions", "waiting", "--batch", "one", "--json"])).stdout)
      yield* hermes(["sessions", "answer", "--batch", "one", "batch-r0-1", open[0].id, "yes"])
      const last = yield* hermes(batch("rest.yaml", "--resume"))
      assert.strictEqual(last.code, 0, last.stdout + last.stderr)
      assert.deepStrictEqual(
        readLines(at("data/one/batch_0.jsonl")).map(({ value }) => value),
        [{ ok: true }]
      )
    })
  )
})
