// The public surface of the package is the one that was reviewed.
import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { surface, undocumented } from "./support/api.ts"
import { root } from "./support/sources.ts"

describe("the public surface", () => {
  it("is that of test/api.md, which `npm run api` writes", () => {
    const [reviewed, found] = [readFileSync(join(root, "test/api.md"), "utf8"), surface()].map(
      (text) => new Set(text.split("\n"))
    )
    const gone = Array.from(reviewed ?? [])
      .filter((line) => found?.has(line) === false)
      .map((line) => `- ${line}`)
    const added = Array.from(found ?? [])
      .filter((line) => reviewed?.has(line) === false)
      .map((line) => `+ ${line}`)
    assert.deepStrictEqual([...gone, ...added], [], "run `npm run api`, and look at what changed for applications")
  })

  it("has a doc comment on each module and each export", () => {
    assert.deepStrictEqual(undocumented(), [])
  })
})
