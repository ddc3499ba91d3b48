// Limits of commands, behind the wall only: a command that is over one is ended, and the result says which.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import { spawnSync } from "node:child_process"
import { mkdirSync, rmSync } from "node:fs"
import { join } from "node:path"
import { CommandEnvironment } from "../../src/places/CommandEnvironment.ts"
import { CallDirectory } from "../../src/base/domain/CallContext.ts"
import * as ResourceLimits from "../../src/places/ResourceLimits.ts"
import * as Sandbox from "../../src/places/Sandbox.ts"
import { makeLastingDirectory } from "../support/temporaryDirectory.ts"

const stands =
  spawnSync("bwrap", [
    "--unshare-user",
    "--unshare-net",
    "--unshare-pid",
    "--ro-bind",
    "/",
    "/",
    "--proc",
    "/proc",
    "true"
  ]).status === 0

const project = Effect.acquireRelease(
  Effect.sync(() => {
    return makeLastingDirectory("sandbox-")
  }),
  (home) => Effect.sync(() => rmSync(home, { recursive: true, force: true }))
)

/** Output and end of a command in a sandbox with these limits. */
const run = (limits: ResourceLimits.Limits, script: string) =>
  Effect.gen(function* () {
    const home = yield* project
    const tree = join(home, "tree")
    mkdirSync(tree)
    const sandbox = Sandbox.layer({
      policy: "workspace-write",
      network: "none",
      home,
      writable: [],
      hidden: [],
      shown: [],
      hidesEnvFiles: true
    })
    const { spawner } = yield* Effect.provideContext(
      CommandEnvironment,
      yield* Layer.build(ResourceLimits.layer(sandbox, limits))
    )
    const handle = yield* spawner
      .spawn(
        ChildProcess.make("/bin/sh", ["-c", `exec 2>&1; ${script}`], { cwd: tree, env: { PATH: "/usr/bin:/bin" } })
      )
      .pipe(Effect.provideService(CallDirectory, tree))
    const [out, code] = yield* Effect.all(
      [
        Stream.mkString(Stream.decodeText(handle.stdout)),
        Effect.orElseSucceed(handle.exitCode, () => "killed" as const)
      ],
      { concurrency: 2 }
    )
    return { out, code: typeof code === "string" ? code : Number(code) }
  }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))

const ended = (what: string) => `\n[The command was ended: it had ${what}]\n`

describe("terminal.limits", () => {
  it.live.skipIf(!stands)("end processes that make processes without end, with all of them", () =>
    Effect.gen(function* () {
      // Bounded by itself too: at most 400 processes, and nothing of it after a minute.
      const bomb =
        "timeout 60 sh -c 'i=0; while [ $i -lt 400 ]; do sleep 60 & i=$((i+1)); [ $((i % 50)) = 0 ] && sleep 0.3; done; wait'"
      const { code, out } = yield* run({ processes: 40 }, bomb)
      assert.deepStrictEqual([out, code], [ended("more than 40 processes (terminal.limits.processes)"), "killed"])
    })
  )

  it.live.skipIf(!stands)("end a command that takes more and more memory, over all its processes", () =>
    Effect.gen(function* () {
      const hog = `"${process.execPath}" -e 'const kept = []; const more = () => { if (kept.length < 40) kept.push(Buffer.alloc(8e6, 1)); setTimeout(more, 20) }; more()'`
      const { code, out } = yield* run({ memoryMb: 200 }, `${hog} & ${hog} & wait`)
      assert.deepStrictEqual([out, code], [ended("more than 200 MB of memory (terminal.limits.memory_mb)"), "killed"])
    })
  )

  it.live.skipIf(!stands)("end a command that only computes, and one that only writes", () =>
    Effect.gen(function* () {
      const busy = yield* run({ cpuSeconds: 0.5 }, "timeout 60 sh -c 'while :; do :; done'")
      assert.deepStrictEqual(
        [busy.out, busy.code],
        [ended("more than 0.5 s of processor time (terminal.limits.cpu_seconds)"), "killed"]
      )
      const loud = yield* run({ outputMb: 1 }, "timeout 60 yes")
      assert.include(loud.out.slice(-200), ended("more than 1 MB of output (terminal.limits.output_mb)"))
      assert.strictEqual(loud.code, "killed")
    })
  )

  it.live.skipIf(!stands)("leave a command below them alone", () =>
    Effect.gen(function* () {
      const { code, out } = yield* run(
        { cpuSeconds: 60, memoryMb: 2000, processes: 50, outputMb: 10 },
        "sleep 0.5; echo fine; exit 3"
      )
      assert.deepStrictEqual([out, code], ["fine\n", 3])
    })
  )
})
