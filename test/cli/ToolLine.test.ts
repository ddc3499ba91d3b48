import { assert, describe, it } from "@effect/vitest"
import * as ToolLine from "../../src/cli/ToolLine.ts"

const call: ToolLine.Call = {
  name: "terminal",
  params: { timeout: 5, command: "printf 'a\nb'" },
  status: "ok",
  output: "{}",
  durationMillis: 12
}

describe("ToolLine", () => {
  it("says what was called with what, and how long it took", () => {
    assert.strictEqual(ToolLine.render(call, 0), "┊ terminal printf 'a b' (12 ms)")
    assert.strictEqual(ToolLine.render({ ...call, params: {}, durationMillis: 1234 }, 0), "┊ terminal (1.2 s)")
    assert.strictEqual(ToolLine.render({ ...call, params: "{broken", durationMillis: 125_000 }, 0), "┊ terminal (2 min 5 s)")
  })

  it("says what went wrong", () => {
    const output = JSON.stringify({ error: "no such\nfile" })
    assert.strictEqual(ToolLine.render({ ...call, status: "error", output }, 0), "┊ terminal printf 'a b' (12 ms) failed: no such file")
    assert.strictEqual(ToolLine.render({ ...call, status: "blocked", output: "not allowed" }, 0), "┊ terminal printf 'a b' blocked: not allowed")
    assert.strictEqual(ToolLine.render({ ...call, status: "cancelled" }, 0), "┊ terminal printf 'a b' cancelled")
  })

  it("keeps arguments on one line", () => {
    const params = { command: "x".repeat(200) }
    assert.strictEqual(ToolLine.preview(params, 0).length, 80)
    assert.strictEqual(ToolLine.preview(params, 10), `${"x".repeat(9)}…`)
  })
})
