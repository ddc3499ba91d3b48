// The loaders of public forms, on the committed samples: questions of several turns, and task folders.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { cpSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { machine } from "../support/hermesInProcess.ts"

const samples = fileURLToPath(new URL("samples", import.meta.url))

const lines = (path: string) =>
  readFileSync(path, "utf8")
    .replace(/^\uFEFF/, "")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line))

describe("samples of public forms", () => {
  it.live("turns of a question are sent in one session, and each answer is compared with its own reference", () =>
    Effect.gen(function* () {
      const here = yield* machine
      cpSync(`${samples}/turns.jsonl`, here.at("turns.jsonl"))
      const say = (match: string, text: string) => ({ match, text, usage: { input_tokens: 10, output_tokens: 5 } })
      here.put(
        "model.json",
        JSON.stringify({
          turns: [
            say("How many legs", "A spider has 8 legs."),
            say("three of them", "Three have 24."),
            say("Name a colour", "It is blue."),
            say("capital letters", "It is Blue."),
            say("6 times 7", "42")
          ]
        })
      )
      const run = yield* here.hermes([
        "eval",
        "run",
        "turns.jsonl",
        "--scorer",
        "regex",
        "--reference-field",
        "reference",
        "--workers",
        "1",
        "--name",
        "turns",
        "--script",
        "model.json",
        "--json"
      ])
      assert.strictEqual(run.code, 0, run.stderr)
      const report = JSON.parse(run.stdout)
      assert.deepInclude(report, { items: 3, attempts: 3, input_tokens: 50, without_result: 0 })
      assert.approximately(report.pass_rate, 2 / 3, 1e-9)
      const rows = new Map(lines(here.at("eval-results/turns/results.jsonl")).map((row) => [row.item, row]))
      assert.deepStrictEqual(Array.from(rows.keys()).toSorted(), ["1", "2", "3"])
      assert.deepInclude(rows.get("1"), {
        passed: true,
        prompt: "[1] How many legs has a spider?\n\n[2] And three of them?",
        answer: "[1] A spider has 8 legs.\n\n[2] Three have 24."
      })
      assert.deepInclude(rows.get("2").scores.regex, { passed: false, score: 0.5 })
      assert.include(rows.get("2").scores.regex.detail, "turn 2: not passed")
      assert.deepInclude(rows.get("3"), { answer: "42", prompt: "What is 6 times 7?" })
      const session = yield* here.hermes(["eval", "show", "turns", "--json"])
      assert.deepStrictEqual(JSON.parse(session.stdout).pass_rate, report.pass_rate)
    })
  )

  it.live("recorded answers to turns are scored, and a judge sees the conversation before a turn", () =>
    Effect.gen(function* () {
      const here = yield* machine
      const [first] = lines(`${samples}/turns.jsonl`).slice(1)
      here.put("recorded.jsonl", JSON.stringify({ ...first, response: ["blue", "BLUE"] }))
      const verdict = (match: string) => ({ match, text: '{"reason": "fine", "verdict": "pass"}' })
      here.put("judge.json", JSON.stringify({ turns: [verdict("Name a colour"), verdict("Answer 1: blue")] }))
      const run = yield* here.hermes(
        "eval run recorded.jsonl --scorer judge --judge main --workers 1 --script judge.json --json".split(" ")
      )
      assert.strictEqual(run.code, 0, run.stderr)
      assert.deepInclude(JSON.parse(run.stdout), { pass_rate: 1 })
    })
  )

  it.live("task folders of Harbor and of Terminal-Bench are solved and scored, with /app in the workspace", () =>
    Effect.gen(function* () {
      const here = yield* machine
      cpSync(`${samples}/folders`, here.at("folders"), { recursive: true })
      const solve = (match: string, command: string) => [
        { match, tool_calls: [{ name: "terminal", arguments: { command } }] },
        { match, text: "Done." }
      ]
      here.put(
        "model.json",
        JSON.stringify({
          turns: [
            ...solve("Write the note", "mkdir out && sort -u in/note.txt > out/note.txt"),
            ...solve("Count the lines", "wc -l < note.txt > count.txt")
          ]
        })
      )
      const run = yield* here.hermes("swe run --prompts-file folders --script model.json --workers 1 --json".split(" "))
      assert.strictEqual(run.code, 0, run.stderr)
      assert.deepInclude(JSON.parse(run.stdout), { tasks: 2, evaluated: 2, resolved: 2 })
      const [row] = lines(here.at("swe-results/results.jsonl"))
      // The instruction names the workspace instead of the container's directory.
      assert.notInclude(row.conversations[1].value, "/app")
    })
  )
})
