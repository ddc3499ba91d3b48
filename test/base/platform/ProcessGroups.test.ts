// A group of which only zombies are left has ended, although the system still lists it.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { spawn } from "node:child_process"
import * as ProcessGroups from "../../../src/base/platform/ProcessGroups.ts"

/**
 * A process whose child, the leader of another group, has ended and is never waited for. The child ends after its parent
 * became `sleep`, because a shell would read its exit code.
 */
const zombieGroup = Effect.gen(function* () {
  const parent = yield* Effect.acquireRelease(
    Effect.sync(() =>
      spawn("bash", ["-c", "set -m; (until grep -q sleep /proc/$$/comm; do :; done) & echo $!; exec sleep 300"], {
        stdio: ["ignore", "pipe", "ignore"]
      })
    ),
    (child) => Effect.sync(() => child.kill("SIGKILL"))
  )
  return yield* Effect.callback<number>((resume) => {
    parent.stdout.once("data", (text: Buffer) => resume(Effect.succeed(Number(text.toString("utf8")))))
  })
})

describe.skipIf(process.platform !== "linux")("a group of which only zombies are left", () => {
  it.live("ends a kill that waits for it, and a release that cannot be interrupted", () =>
    Effect.gen(function* () {
      const group = yield* zombieGroup
      yield* ProcessGroups.killGroup(group, Effect.never)
      let isUnreferenced = false
      const handle = {
        pid: group,
        unref: Effect.sync(() => {
          isUnreferenced = true
          return Effect.void
        })
      }
      // Closing a scope runs uninterruptibly.
      const released = yield* Effect.forkChild(
        Effect.uninterruptible(ProcessGroups.releaseGroup(handle as never, Effect.uninterruptible(Effect.never)))
      )
      yield* Fiber.join(released)
      assert.isTrue(isUnreferenced)
    })
  )
})
