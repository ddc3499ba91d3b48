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

  it("shows the first matches of a search in each of its forms", () => {
    const show = (result: object) => {
      const { kind, lines, note, omitted } = ToolView.presentResult("search_files", "ok", JSON.stringify(result))
      return { kind, note, lines, omitted }
    }
    const matches = Array.from({ length: 4 }, (_, index) => ({ path: "a.ts", line: index + 1, content: `  x${index}` }))
    assert.deepStrictEqual(show({ total_count: 4, matches, truncated: false }), {
      kind: "matches",
      note: "4 matches in 1 file",
      lines: ["a.ts:1: x0", "a.ts:2: x1", "a.ts:3: x2"],
      omitted: 1
    })
    const grouped = "a.ts\n  1: x\n  2: x\nb.ts\n  9: x\n  10: x"
    assert.deepStrictEqual(show({ total_count: 4, matches_text: grouped }), {
      kind: "matches",
      note: "4 matches in 2 files",
      lines: ["a.ts:1: x", "a.ts:2: x", "b.ts:9: x"],
      omitted: 1
    })
    assert.deepInclude(show({ total_count: 0, matches: [] }), { kind: "matches", note: "no match", lines: [] })
    assert.deepInclude(show({ total_count: 2, files: ["a", "b"] }), { note: "2 files", lines: ["a", "b"] })
  })

  it("shows rows, differences, plans and pictures in their own form", () => {
    const show = (name: string, result: unknown) =>
      ToolView.toWire(ToolView.presentResult(name, "ok", JSON.stringify(result)))
    const web = [
      { title: "One", url: "https://a", more: { x: 1 } },
      { title: "Second one", url: "https://b", more: null }
    ]
    assert.deepStrictEqual(show("web_search", { success: true, data: { web } }), {
      kind: "table",
      outcome: "done",
      note: "2 rows",
      lines: ["title       url        more", "One         https://a", "Second one  https://b"],
      omitted_lines: 0,
      table: {
        columns: ["title", "url", "more"],
        rows: [
          ["One", "https://a", ""],
          ["Second one", "https://b", ""]
        ]
      }
    })
    const long = show(
      "list",
      Array.from({ length: 50 }, (_, index) => ({ id: index, text: "x".repeat(1000) }))
    )
    assert.deepInclude(long, { note: "50 rows", omitted_lines: 45 })
    assert.isAtMost(Math.max(...(long.lines ?? []).map(({ length }) => length)), 70)
    const diff = "--- a/x\n+++ b/x\n@@ -1 +1,2 @@\n-a\n+b\n+c\n"
    assert.deepStrictEqual(show("patch", { diff }), { kind: "diff", outcome: "done", note: "+2 -1", diff })
    const todos = [
      { id: "1", content: "Read", status: "completed" },
      { id: "2", content: "Write", status: "pending" }
    ]
    assert.deepInclude(show("todo", { todos }), { kind: "plan", lines: ["☑ Read", "☐ Write"] })
    const picture = ToolView.presentResult("screenshot", "ok", "{}", [{ mediaType: "image/png", name: "a.png" }])
    assert.deepStrictEqual(ToolView.toWire(picture), {
      kind: "image",
      outcome: "done",
      note: "1 picture",
      images: [{ media_type: "image/png", name: "a.png" }]
    })
    const described = ToolView.presentResult("screenshot", "ok", "The page:\n[image/png page.png]")
    assert.deepInclude(described, { kind: "image", images: [{ mediaType: "image/png", name: "page.png" }] })
    // Parts of a message and other text are not rows.
    for (const other of [{ content: [{ type: "text", text: "hello" }] }, [1, 2], "text", { a: [] }, null])
      assert.deepStrictEqual(show("mcp_tool", other), { kind: "text", outcome: "done" })
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
