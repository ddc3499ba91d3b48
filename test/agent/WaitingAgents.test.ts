// What the runtime holds of a run that waits for the model, without the socket of its request.
import { assert, describe, it } from "@effect/vitest"
import { execFile } from "node:child_process"
import { join } from "node:path"
import { promisify } from "node:util"

describe("a run that waits for the model", () => {
  it("takes less than 48 KB", { timeout: 120_000 }, async () => {
    const script = join(import.meta.dirname, "waitingAgentsRun.ts")
    const { stdout } = await promisify(execFile)(process.execPath, ["--expose-gc", script])
    const bytes = Number(stdout)
    assert.isBelow(bytes, 48_000)
    // A fiber with its run takes more.
    assert.isAbove(bytes, 5_000)
  })
})
