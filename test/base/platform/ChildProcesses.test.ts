// What a program started is killed before it ends, also where no watchdog is left to do so after its end.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { readFileSync } from "node:fs"
import { runScript } from "../../support/runScript.ts"
import { longestWaitMillis } from "../../support/waiting.ts"

const isAlive = (pid: number): boolean => {
  try {
    // What nobody waited for yet is dead, too.
    return !/^\d+ \(.*\) [ZX]/u.test(readFileSync(`/proc/${pid}/stat`, "latin1"))
  } catch {
    return false
  }
}

describe.skipIf(process.platform !== "linux")("a program", () => {
  it.live("kills what it started before it ends", () =>
    Effect.gen(function* () {
      const { code, errors, lines } = yield* runScript("exitingParent.ts", [])
      assert.strictEqual(code, 0, errors)
      const pid = Number(lines[0])
      assert.isAbove(pid, 0)
      const deadline = Date.now() + longestWaitMillis
      while (isAlive(pid) && Date.now() < deadline) yield* Effect.sleep(20)
      const survived = isAlive(pid)
      if (survived) process.kill(-pid, "SIGKILL")
      assert.isFalse(survived)
    })
  )
})
