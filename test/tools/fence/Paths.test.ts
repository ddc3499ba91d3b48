// The fence of file tools against a corpus of paths.
import { assert, describe, it } from "@effect/vitest"
import * as Fence from "../../../src/tools/builtin/file/Fence.ts"
import * as Danger from "../../../src/tools/danger/Danger.ts"
import { ordinary, reads, writes } from "./paths.ts"

const places = { home: "/home/u", homes: ["/home/u"], agentHomes: ["/home/u/.hermes"], safeRoots: [] }

describe("Fence", () => {
  it("refuses every path of the corpus, and nothing that a developer works with", () => {
    assert.isAtLeast(writes.length + reads.length, 100)
    assert.deepStrictEqual(
      writes.filter(([path]) => Fence.judgeWrite(path, places) === undefined),
      []
    )
    assert.deepStrictEqual(
      reads.filter(([path]) => Fence.judgeRead(path, places) === undefined),
      []
    )
    assert.deepStrictEqual(
      ordinary.filter((path) => (Fence.judgeWrite(path, places) ?? Fence.judgeRead(path, places)) !== undefined),
      []
    )
  })

  it("agrees with the judge of commands: a file that is not read for its credentials is one whose reading asks", () => {
    const secret = [...reads, ...writes]
      .map(([path]) => path)
      .filter((path) => Fence.judgeRead(path, places)?.reason === "it holds credentials")
    assert.isAtLeast(secret.length, 40)
    const silent = secret.filter((path) => Danger.judge(`cat ${path}`).findings.length === 0)
    assert.deepStrictEqual(silent, [])
  })

  it("confines writes to the workspace root, when there is one", () => {
    const rooted = { ...places, safeRoots: ["/code/project"] }
    assert.isUndefined(Fence.judgeWrite("/code/project/a.ts", rooted))
    assert.isUndefined(Fence.judgeWrite("/code/project", rooted))
    for (const path of ["/code/projects/a.ts", "/code/a.ts", "/tmp/x", "/home/u/x"])
      assert.isDefined(Fence.judgeWrite(path, rooted), path)
  })
})
