// The bound of the temporary files of a sandbox: a command that is over it is ended, and what it wrote is removed.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import { spawnSync } from "node:child_process"
import { existsSync, linkSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { CommandEnvironment, layerLocal } from "../../src/places/CommandEnvironment.ts"
import { CallDirectory } from "../../src/base/domain/CallContext.ts"
import * as ResourceLimits from "../../src/places/ResourceLimits.ts"
import * as Sandbox from "../../src/places/Sandbox.ts"
import { measureTree, readFreeBytes, removeFilesSince } from "../../src/base/platform/DiskUsage.ts"
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

const directory = Effect.acquireRelease(
  Effect.sync(() => makeLastingDirectory("sandbox-")),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

/**
 * A sandbox whose temporary files have a bound: runs commands, and names the directories of the machine that hold the
 * files.
 */
const open = Effect.fnUntraced(function* (temporaryMb: number) {
  const home = yield* directory
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
  const { spawner, temporaryDirectories } = yield* Effect.provideContext(
    CommandEnvironment,
    yield* Layer.build(ResourceLimits.layer(sandbox, { temporaryMb }))
  )
  const run = (script: string) =>
    Effect.gen(function* () {
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
    }).pipe(Effect.scoped)
  return { run, sources: yield* temporaryDirectories ?? Effect.succeed([]), tree }
})

const ended = (mb: number) =>
  `\n[The command was ended: it had more than ${mb} MB in /tmp and /var/tmp (terminal.limits.temporary_mb), and what it wrote there was removed]\n`

/** Writes files of 8 MB, 30 at most, and waits. */
const fill = (place: string) =>
  `i=0; while [ $i -lt 30 ]; do head -c 8000000 /dev/zero > ${place}/f$i; i=$((i+1)); sleep 0.05; done; sleep 60`

const live = (name: string, body: Effect.Effect<void, unknown, Scope.Scope | NodeServices.NodeServices>) =>
  it.live.skipIf(!stands)(name, () => body.pipe(Effect.scoped, Effect.provide(NodeServices.layer)))

describe("terminal.limits.temporary_mb", () => {
  live(
    "ends a command that fills /tmp, removes what it wrote, and leaves what was there before",
    Effect.gen(function* () {
      const { run, sources } = yield* open(50)
      const [tmp = "", varTmp = ""] = sources
      assert.strictEqual((yield* run("mkdir /tmp/notes /tmp/empty; echo mine > /tmp/notes/first")).code, 0)
      const over = yield* run(`mkdir -p /tmp/new/deep; chmod 700 /tmp/new; ${fill("/tmp/new/deep")}`)
      assert.deepStrictEqual(over, { out: ended(50), code: "killed" })
      assert.deepStrictEqual(readdirSync(tmp).sort(), ["empty", "notes"])
      assert.strictEqual(readFileSync(join(tmp, "notes/first"), "utf8"), "mine\n")
      assert.deepStrictEqual(yield* run(fill("/var/tmp")), { out: ended(50), code: "killed" })
      assert.deepStrictEqual(readdirSync(varTmp), [])
      assert.deepStrictEqual(yield* run("cat /tmp/notes/first"), { out: "mine\n", code: 0 })
    })
  )

  live(
    "counts files that have no name any more",
    Effect.gen(function* () {
      const { run, sources } = yield* open(50)
      const over = yield* run(
        "exec 3>/tmp/gone; rm /tmp/gone; i=0; while [ $i -lt 30 ]; do head -c 8000000 /dev/zero >&3; i=$((i+1)); sleep 0.05; done; sleep 60"
      )
      assert.deepStrictEqual(over, { out: ended(50), code: "killed" })
      assert.deepStrictEqual(readdirSync(sources[0] ?? ""), [])
    })
  )

  live(
    "ends the command that writes, and not one beside it",
    Effect.gen(function* () {
      const { run, sources } = yield* open(50)
      const waiting = "until [ -e /tmp/done ]; do sleep 0.05; done; echo fine"
      const filling = Effect.tap(run(fill("/tmp")), () =>
        Effect.sync(() => writeFileSync(join(sources[0] ?? "", "done"), ""))
      )
      const [quiet, over] = yield* Effect.all([run(waiting), filling], { concurrency: 2 })
      assert.deepStrictEqual(
        [quiet, over],
        [
          { out: "fine\n", code: 0 },
          { out: ended(50), code: "killed" }
        ]
      )
    })
  )

  live(
    "leaves a command below it alone, and files of the working tree out of account",
    Effect.gen(function* () {
      const { run, sources, tree } = yield* open(50)
      const below = yield* run(
        `head -c 8000000 /dev/zero > /tmp/some; head -c 80000000 /dev/zero > ${tree}/big; sleep 0.5; echo fine; exit 3`
      )
      assert.deepStrictEqual(below, { out: "fine\n", code: 3 })
      assert.deepStrictEqual(readdirSync(sources[0] ?? ""), ["some"])
    })
  )

  live(
    "lets no command fill memory by files in /dev",
    Effect.gen(function* () {
      const { run } = yield* open(50)
      const { out } = yield* run(
        "echo x > /dev/shm/some && cat /dev/shm/some; echo x > /dev/null; (: > /dev/other) 2>/dev/null || echo refused; df -k /dev/shm /dev | awk 'NR > 1 { print $2 }'"
      )
      const [read, refused, shared, whole] = out.trim().split("\n")
      assert.deepStrictEqual([read, refused], ["x", "refused"])
      assert.isBelow(Number(shared), Number(whole))
    })
  )

  it.live("is refused where commands have no temporary files of their own", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(Layer.build(ResourceLimits.layer(layerLocal, { temporaryMb: 50 })))
      assert.include(String(error.message), "terminal.limits.temporary_mb: it holds in a sandbox only")
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )

  it("is a tenth of the free space by default, at least 4 GB, at most half", () => {
    const giga = 1024 ** 3
    const bounds = [100, 20, 6, 0].map((free) => ResourceLimits.chooseTemporaryBound(free * giga))
    assert.deepStrictEqual(bounds, [10_240, 4096, 3072, 64])
    assert.strictEqual(ResourceLimits.chooseTemporaryBound(undefined), 4096)
  })
})

describe("space of directories", () => {
  it.live.skipIf(process.platform !== "linux")(
    "counts each file once, follows no link, and removes nothing outside",
    () =>
      Effect.gen(function* () {
        const root = yield* directory
        const [inside, outside] = [join(root, "inside"), join(root, "outside")]
        mkdirSync(join(inside, "below"), { recursive: true })
        mkdirSync(outside)
        writeFileSync(join(outside, "kept"), Buffer.alloc(500_000, 1))
        symlinkSync(outside, join(inside, "link"))
        const before = yield* measureTree(inside)
        assert.isTrue(before.isComplete)
        assert.isBelow(before.bytes, 100_000)
        writeFileSync(join(inside, "below/file"), Buffer.alloc(300_000, 1))
        linkSync(join(inside, "below/file"), join(inside, "second"))
        const { bytes } = yield* measureTree(inside)
        assert.isTrue(bytes >= before.bytes + 300_000 && bytes < before.bytes + 400_000, String(bytes))
        yield* removeFilesSince(inside, Date.now() + 60_000)
        assert.isTrue(existsSync(join(inside, "second")))
        yield* removeFilesSince(inside, 0)
        assert.deepStrictEqual([readdirSync(inside), readdirSync(outside)], [[], ["kept"]])
        assert.isFalse((yield* measureTree(join(root, "absent"))).isComplete)
        assert.isAbove(yield* readFreeBytes(root), 0)
      }).pipe(Effect.scoped)
  )
})
