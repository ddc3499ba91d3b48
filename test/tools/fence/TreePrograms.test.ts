// Programs of the working tree that have the name of one of the system.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import { mkdirSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as StartedProcess from "../../../src/tools/builtin/terminal/StartedProcess.ts"
import * as TreePrograms from "../../../src/tools/fence/TreePrograms.ts"
import { makeLastingDirectory } from "../../support/temporaryDirectory.ts"

const tree = Effect.acquireRelease(
  Effect.sync(() => {
    const root = makeLastingDirectory("programs-")
    mkdirSync(join(root, "node_modules", ".bin"), { recursive: true })
    writeFileSync(join(root, "node_modules", ".bin", "ls"), "#!/bin/sh\n", { mode: 0o755 })
    return root
  }),
  (root) => Effect.sync(() => rmSync(root, { recursive: true, force: true }))
)

const find = (command: string, root: string, searchPath: string | undefined) =>
  TreePrograms.findConcerns(command, { cwd: root, trees: [root], home: "/nowhere", searchPath })

describe("programs of the working tree", () => {
  it.live("are found where a directory of the tree comes before the one that has the program", () =>
    Effect.gen(function* () {
      const root = yield* tree
      const bin = join(root, "node_modules", ".bin")
      const keys = (command: string, searchPath: string | undefined) =>
        Effect.map(find(command, root, searchPath), (concerns) => concerns.map(({ key }) => key))
      assert.deepStrictEqual(yield* keys("cat x | ls", `${bin}:/usr/bin:/bin`), [
        `program of the working tree: ${join(bin, "ls")}`
      ])
      assert.deepStrictEqual(yield* keys("ls", "node_modules/.bin:/usr/bin"), [
        `program of the working tree: ${join(bin, "ls")}`
      ])
      assert.deepStrictEqual(yield* keys("ls", `/usr/bin:/bin:${bin}`), [])
      assert.deepStrictEqual(yield* keys("cat x; /bin/ls", `${bin}:/usr/bin:/bin`), [])
      assert.deepStrictEqual(yield* keys("ls", "/usr/bin:/bin"), [])
      assert.deepStrictEqual(yield* keys("ls", undefined), [])
      mkdirSync(join(root, ".local", "bin"), { recursive: true })
      writeFileSync(join(root, ".local", "bin", "rg"), "")
      const atHome = { cwd: root, trees: [root], home: root, searchPath: `${root}/.local/bin:/usr/bin` }
      assert.deepStrictEqual(yield* TreePrograms.findConcerns("rg x", atHome), [])
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )

  it("are not found through entries of PATH that depend on the directory of a command", () => {
    const { PATH } = StartedProcess.scrub({ PATH: "bin::.:/usr/bin:../x:/opt/a" }, { passThrough: [], reserved: [] })
    assert.strictEqual(PATH, "/usr/bin:/opt/a")
  })
})
