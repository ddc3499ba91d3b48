import { assert, it, layer } from "@effect/vitest"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Schema from "effect/Schema"
import * as Fence from "../../src/tools/builtin/file/Fence.ts"
import * as PathRoots from "../../src/tools/builtin/file/PathRoots.ts"
import { nodeLayer, workspace } from "../support/fileTools.ts"
import { effectProp, seeded } from "../support/property.ts"

const places: PathRoots.Service = {
  home: "/home/ann",
  homes: ["/home/ann"],
  agentHomes: ["/home/ann/.hermes"],
  safeRoots: []
}

const Name = Schema.String.check(Schema.isPattern(/^[a-z]{1,6}$/))
const Names = Schema.Array(Name).check(Schema.isMaxLength(4))

it("ordinary files of a project are read and written", () => {
  for (const path of [
    "/home/ann/project/src/main.ts",
    "/home/ann/project/.github/workflows/ci.yml",
    "/home/ann/.config/app/settings.json",
    "/home/ann/etc/hosts",
    "/usr/src/app/index.js",
    "/etcetera/x",
    "/tmp/x",
    "/dev/shm/x"
  ]) {
    assert.isUndefined(Fence.judgeRead(path, places), path)
    assert.isUndefined(Fence.judgeWrite(path, places), path)
  }
})

it("a home directory at the root does not open or close everything", () => {
  const root: PathRoots.Service = { ...places, home: "/", homes: ["/"] }
  assert.isDefined(Fence.judgeRead("/.ssh/id_rsa", root))
  assert.isDefined(Fence.judgeWrite("/.bashrc", root))
  assert.isUndefined(Fence.judgeWrite("/work/a.txt", root))
})

it("writes are confined to the safe roots when there are any", () => {
  const confined: PathRoots.Service = { ...places, safeRoots: ["/work"] }
  assert.isUndefined(Fence.judgeWrite("/work/a", confined))
  assert.isDefined(Fence.judgeWrite("/workshop/a", confined))
  assert.isUndefined(Fence.judgeRead("/workshop/a", confined))
})

effectProp(
  "nothing below a system tree or a credential directory is written, whatever its name and case",
  [
    Names,
    Schema.Literals(["/etc", "/usr", "/bin", "/sys", "/proc", "/boot", "/home/ann/.ssh", "/home/ann/.aws"]),
    Schema.Boolean
  ],
  ([names, root, upper]) =>
    Effect.sync(() => {
      const path = [root, ...names].join("/")
      if (path.startsWith("/usr/src")) return
      assert.isDefined(Fence.judgeWrite(upper ? path.toUpperCase() : path, places))
    })
)

layer(nodeLayer)("the fence and the file system", (it) => {
  it.effect("the places come from HOME, HERMES_HOME and HERMES_WRITE_SAFE_ROOT, links followed", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      const fs = yield* FileSystem.FileSystem
      yield* fs.symlink(w.home, w.at("me"))
      const from = (env: Record<string, string>) =>
        PathRoots.PathRoots.pipe(
          Effect.provide(PathRoots.layerConfig),
          Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromUnknown(env))
        )
      assert.deepStrictEqual(
        yield* from({ HOME: w.at("me"), HERMES_WRITE_SAFE_ROOT: `/work:${w.at("me", "later")}` }),
        {
          home: w.at("me"),
          homes: [w.at("me"), w.home],
          agentHomes: [w.at("me", ".hermes"), `${w.home}/.hermes`],
          safeRoots: ["/work", w.at("me", "later"), `${w.home}/later`]
        }
      )
      assert.deepStrictEqual((yield* from({ HOME: w.home, HERMES_HOME: "/agent" })).agentHomes, ["/agent"])
      assert.deepStrictEqual(yield* from({}), { home: undefined, homes: [], agentHomes: [], safeRoots: [] })
    })
  )

  it.effect.prop(
    "no chain of links and .. leads a write out of the workspace into a forbidden tree",
    [Names, Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 3 })), Name],
    ([names, hops, last]) =>
      Effect.gen(function* () {
        const w = yield* workspace()
        const fs = yield* FileSystem.FileSystem
        yield* fs.makeDirectory(w.at("home", ".ssh"))
        let target = w.at("home", ".ssh")
        for (let hop = 0; hop < hops; hop++) {
          yield* fs.symlink(target, w.at(`hop${hop}`))
          target = w.at(`hop${hop}`)
        }
        const detour = names.map((name) => `${name}/..`).join("/")
        for (const name of names) yield* fs.makeDirectory(w.at(name), { recursive: true })
        const path = [w.dir, detour, hops === 0 ? "home/.ssh" : `hop${hops - 1}`, last]
          .filter((p) => p !== "")
          .join("/")
        const { isFailure } = yield* w.call("write_file", { path, content: "x" })
        assert.isTrue(isFailure, path)
        assert.deepStrictEqual(yield* fs.readDirectory(w.at("home", ".ssh")), [])
      }).pipe(Effect.scoped),
    seeded({ arbitrary: { runs: 25 } })
  )
})
