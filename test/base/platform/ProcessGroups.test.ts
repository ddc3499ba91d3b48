// A group of which only zombies are left has ended, although the system still lists it.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { spawn } from "node:child_process"
import * as ProcessGroups from "../../../src/base/platform/ProcessGroups.ts"
import { eventually } from "../../support/terminalTools.ts"

describe("a member of a group", () => {
  it("runs, whatever its name contains, unless it is a zombie or belongs to another group", () => {
    for (const [stat, runs] of [
      ["12 (sleep) S 1 77 77 0 -1", true],
      ["12 (a) Z 9 (b) R 1 77 77 0 -1", true],
      ["12 (sleep) Z 1 77 77 0 -1", false],
      ["12 (sleep) X 1 77 77 0 -1", false],
      ["12 (sleep) S 77 78 77 0 -1", false]
    ] as const)
      assert.strictEqual(ProcessGroups.isRunningMember(stat, 77), runs, stat)
  })
})

/** A process whose child, the leader of another group, has ended and is never waited for. */
const zombieGroup = Effect.gen(function* () {
  const parent = yield* Effect.acquireRelease(
    Effect.sync(() =>
      spawn("bash", ["-c", "set -m; true & echo $!; exec sleep 300"], { stdio: ["ignore", "pipe", "ignore"] })
    ),
    (child) => Effect.sync(() => child.kill("SIGKILL"))
  )
  const group = yield* Effect.callback<number>((resume) => {
    parent.stdout.once("data", (text: Buffer) => resume(Effect.succeed(Number(text.toString("utf8")))))
  })
  return { parent: parent.pid ?? 0, group }
})

describe.skipIf(process.platform !== "linux")("the end of a group", () => {
  it.live("is that only zombies are left", () =>
    Effect.gen(function* () {
      const { group, parent } = yield* zombieGroup
      yield* eventually(
        "the child is a zombie",
        Effect.sync(() => ProcessGroups.hasOnlyZombies(group))
      )
      assert.isFalse(ProcessGroups.hasOnlyZombies(parent))
      assert.isFalse(ProcessGroups.hasOnlyZombies(2 ** 22 + 1))
    })
  )

  it.live("ends a kill that waits for the group, and a release that cannot be interrupted", () =>
    Effect.gen(function* () {
      const { group } = yield* zombieGroup
      yield* eventually(
        "the child is a zombie",
        Effect.sync(() => ProcessGroups.hasOnlyZombies(group))
      )
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
