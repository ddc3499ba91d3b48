// What the runtime holds of a session that waits for its next prompt: its messages, and the record of its run.
import { assert, describe, it } from "@effect/vitest"
import { execFile } from "node:child_process"
import { join } from "node:path"
import { promisify } from "node:util"

describe("an idle session", () => {
  it("of ten turns in memory takes less than 26 KB", { timeout: 120_000 }, async () => {
    const script = join(import.meta.dirname, "idleSessionRun.ts")
    const { stdout } = await promisify(execFile)(process.execPath, ["--expose-gc", script])
    const bytes = Number(stdout)
    assert.isBelow(bytes, 26_000)
    // The messages alone take more.
    assert.isAbove(bytes, 5_000)
  })
})
