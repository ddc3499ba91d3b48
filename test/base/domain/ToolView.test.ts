// The result of a call as a user reads it: what a command printed, its exit code, matches, and reasons without
// instructions to the model.
import { assert, describe, it } from "@effect/vitest"
import * as ToolView from "../../../src/base/domain/ToolView.ts"
import * as RefusalTexts from "../../../src/tools/approval/RefusalTexts.ts"

const command = (exit_code: number, output: string, more: object = {}): string =>
  JSON.stringify({ output, exit_code, error: null, ...more })

describe("ToolView", () => {
  it("shows the last lines of a command, and more of them after a failure", () => {
    const output = Array.from({ length: 30 }, (_, index) => `line ${index + 1}`).join("\n")
    assert.deepInclude(ToolView.presentResult("terminal", "ok", command(0, `${output}\n`)), {
      kind: "command",
      outcome: "done",
      note: "",
      exitCode: 0,
      lines: ["line 26", "line 27", "line 28", "line 29", "line 30"],
      omitted: 25
    })
    const failed = ToolView.presentResult("terminal", "ok", command(3, output))
    assert.deepInclude(failed, { outcome: "failed", note: "exit 3", exitCode: 3, omitted: 18 })
    assert.lengthOf(failed.lines, 12)
    const long = ToolView.presentResult("terminal", "ok", command(0, `${"x\n".repeat(60_000)}end`))
    assert.deepInclude(long, { lines: ["x", "x", "x", "x", "end"], omitted: 59_996 })
  })

  it("an exit code that is no error is no failure", () => {
    const result = command(1, "", { exit_code_meaning: "No line matched; this is not an error." })
    assert.deepInclude(ToolView.presentResult("terminal", "ok", result), { outcome: "done", note: "exit 1", lines: [] })
  })

  it("counts matches, and shows the whole reason of an error", () => {
    const matches = JSON.stringify({ total_count: 3, matches_text: "a.ts\n  1: x\n  2: x\nb.ts\n  9: x" })
    assert.strictEqual(ToolView.presentResult("search_files", "ok", matches).note, "3 matches in 2 files")
    assert.deepInclude(ToolView.presentResult("read_file", "error", JSON.stringify({ error: "no\nfile" })), {
      outcome: "failed",
      lines: ["no", "file"]
    })
  })

  it("a refusal has no instructions to the model", () => {
    const show = (text: string): string => ToolView.presentResult("terminal", "blocked", text).note
    assert.strictEqual(
      show(RefusalTexts.renderRuleDenial("terminal(rm)", "config.yaml")),
      "the rule `terminal(rm)` (config.yaml) denies this"
    )
    assert.strictEqual(show(RefusalTexts.renderHardlineBlock("deletion of /")), "hardline: deletion of /")
    assert.strictEqual(
      show(RefusalTexts.renderPlanBlock("terminal", [])),
      "plan mode: terminal may change something, and only reading is allowed while you plan"
    )
    assert.strictEqual(
      show("BLOCKED: the user denied this (push to a remote). Reason: not now Do not retry it, rephrase it."),
      "you denied this (push to a remote)"
    )
  })
})
