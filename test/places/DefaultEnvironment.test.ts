// The place where commands run when nobody chose one: the sandbox where it can be built, else this machine, told once.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import { spawnSync } from "node:child_process"
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Config from "../../src/base/config/Config.ts"
import * as Environment from "../../src/base/config/Environment.ts"
import { Home } from "../../src/base/config/Environment.ts"
import { Settings } from "../../src/base/config/Settings.ts"
import * as SandboxProbe from "../../src/places/SandboxProbe.ts"
import * as ConfiguredEnvironment from "../../src/tools/ConfiguredEnvironment.ts"
import { hermes } from "../support/hermesInProcess.ts"
import { makeLastingDirectory, temporaryDirectory } from "../support/temporaryDirectory.ts"

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

/** A home directory outside of those for temporary files, with a project in it. */
const user = Effect.acquireRelease(
  Effect.sync(() => {
    const root = makeLastingDirectory("sandbox-")
    mkdirSync(join(root, ".hermes"))
    mkdirSync(join(root, "project"))
    const cwd = join(root, "project")
    const run = (args: ReadonlyArray<string>) =>
      hermes(args, { home: join(root, ".hermes"), cwd, env: { HERMES_TERMINAL__BACKEND: "" } })
    return { root, cwd, run }
  }),
  ({ root }) => Effect.sync(() => rmSync(root, { recursive: true, force: true }))
)

const touching = (path: string) =>
  `turns:\n  - { text: a, tool_calls: [{ name: terminal, arguments: { command: "touch inside; printf x > ${path}" } }] }\n  - { text: done }\n`

const withoutBwrap = Layer.effect(
  FileSystem.FileSystem,
  Effect.map(FileSystem.FileSystem, (fs) =>
    FileSystem.FileSystem.of({
      ...fs,
      exists: (path) => (path.endsWith("/bwrap") ? Effect.succeed(false) : fs.exists(path))
    })
  )
).pipe(Layer.provideMerge(NodeServices.layer))

/** The choice on a machine without bubblewrap, and what was said. */
const chosen = (home: string, terminal: Readonly<Record<string, unknown>>) => {
  const said: Array<string> = []
  const host = Layer.mergeAll(Home.layerAt(home), Environment.Environment.layerIn({ HOME: home })).pipe(
    Layer.provide(NodeServices.layer)
  )
  return Effect.gen(function* () {
    const at = { environment: yield* Environment.Environment, home: yield* Home }
    const settings = yield* Settings
    const status = yield* ConfiguredEnvironment.checkStatus(settings, at)
    const choice = yield* Effect.result(ConfiguredEnvironment.choose(settings, at))
    return {
      said,
      status,
      choice:
        choice._tag === "Failure"
          ? choice.failure.message
          : choice.success.layer === undefined
            ? "this machine"
            : "the sandbox"
    }
  }).pipe(
    Effect.provide([host, Config.layerFromFile({ terminal }), withoutBwrap]),
    Effect.provide(Logger.layer([Logger.make<unknown, void>(({ message }) => void said.push(String(message)))]))
  )
}

describe("terminal.backend that is not set", () => {
  it.live.skipIf(!stands)("is the sandbox where it can be built, which doctor says too", () =>
    Effect.gen(function* () {
      const { cwd, root, run } = yield* user
      writeFileSync(join(cwd, "turns.yaml"), touching(join(root, "outside")))
      assert.deepInclude(yield* run(["-Q", "-q", "go", "--script", "turns.yaml"]), { code: 0, stdout: "done\n" })
      assert.deepStrictEqual([existsSync(join(cwd, "inside")), existsSync(join(root, "outside"))], [true, false])
      assert.notInclude(readFileSync(join(root, ".hermes/sandbox.json"), "utf8"), "reason")
      assert.match((yield* run(["doctor"])).stdout, /^✓ sandbox {3}bubblewrap, workspace-write, /m)
    })
  )

  it.effect("is this machine where it cannot, which is said once with the remedy", () =>
    Effect.gen(function* () {
      const home = yield* temporaryDirectory
      const first = yield* chosen(home, {})
      const remedy =
        "Remedy: install the package bubblewrap and allow user namespaces, or set terminal.backend to local to run commands without a sandbox"
      assert.deepStrictEqual(first, {
        choice: "this machine",
        said: [`commands run without a sandbox: bwrap is not installed. ${remedy} and end this notice`],
        status: { level: "warning", text: `commands run without one: bwrap is not installed. ${remedy}` }
      })
      assert.deepInclude(yield* chosen(home, {}), { choice: "this machine", said: [] })
    })
  )

  it.effect("stops the run where the sandbox is required", () =>
    Effect.gen(function* () {
      const home = yield* temporaryDirectory
      const { choice, said, status } = yield* chosen(home, { sandbox: { required: true } })
      assert.match(
        choice,
        /^terminal\.sandbox\.required: the sandbox cannot start: bwrap is not installed\. Remedy: install the package bubblewrap [^\n]+$/
      )
      assert.deepStrictEqual([said, status], [[], { level: "problem", text: choice }])
      assert.match((yield* chosen(home, { backend: "sandbox" })).choice, /^terminal\.backend: the sandbox cannot start/)
      assert.strictEqual(
        (yield* chosen(home, { backend: "local", sandbox: { required: true } })).choice,
        "terminal.sandbox.required: terminal.backend is local, so commands would run without a sandbox. Remove one of the two."
      )
      assert.match(
        (yield* chosen(home, { sandbox: { required: true, policy: "full" } })).choice,
        /terminal\.sandbox\.policy is full/
      )
      assert.deepInclude(yield* chosen(home, { backend: "local" }), {
        choice: "this machine",
        said: [],
        status: { level: "ok", text: "off: terminal.backend is local" }
      })
    })
  )
})

describe("the trial of a machine", () => {
  it.effect("is made once where it succeeds, and each time where it fails", () =>
    Effect.gen(function* () {
      const file = join(yield* temporaryDirectory, "sandbox.json")
      let trials = 0
      const find = (obstacle: string | undefined) =>
        SandboxProbe.find(
          file,
          Effect.sync(() => {
            trials++
            return obstacle
          })
        )
      assert.deepStrictEqual(yield* find("no bwrap"), { _tag: "Fails", reason: "no bwrap", isNews: true })
      assert.deepStrictEqual(yield* find("no bwrap"), { _tag: "Fails", reason: "no bwrap", isNews: false })
      assert.deepStrictEqual(yield* find("no user namespaces"), {
        _tag: "Fails",
        reason: "no user namespaces",
        isNews: true
      })
      assert.deepStrictEqual(yield* find(undefined), { _tag: "Works" })
      assert.deepStrictEqual([yield* find("not asked"), trials], [{ _tag: "Works" }, 4])
      writeFileSync(file, "{")
      assert.deepStrictEqual([yield* find(undefined), trials], [{ _tag: "Works" }, 5])
      writeFileSync(file, readFileSync(file, "utf8").replace(/"machine":"/, '"machine":"another '))
      assert.deepStrictEqual(
        [yield* find("not here"), trials],
        [{ _tag: "Fails", reason: "not here", isNews: true }, 6]
      )
    }).pipe(Effect.provide(NodeServices.layer))
  )
})
