// The public surface of the package is the one that was reviewed.
import { assert, describe, it } from "@effect/vitest"
import { readdirSync, readFileSync } from "node:fs"
import { basename, join } from "node:path"
import { surface, undocumented } from "./support/api.ts"
import { entries } from "./support/entries.ts"
import { root } from "./support/sources.ts"

/** Modules of each entry: the public name and the file. */
const modules = entries().flatMap(({ source, specifier }) =>
  Array.from(
    readFileSync(source, "utf8").matchAll(/^export (?:type )?\* as (\w+) from "(.+)\.ts"$/gm),
    ([, name = "", file = ""]) => ({ entry: specifier.slice("hermes-effect".length), name, file })
  )
)

/** Names of Effect's modules that are public here, each with the reason. */
const shared: Readonly<Record<string, string>> = {
  Runtime: "the architecture names it; `effect/Runtime` only runs main programs"
}

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

  it("names a module as its file, once in each entry", () => {
    assert.isAbove(modules.length, 150)
    assert.deepStrictEqual(
      modules.filter(({ file, name }) => basename(file) !== name),
      []
    )
    const exported = modules.map(({ entry, name }) => `${entry}: ${name}`)
    assert.deepStrictEqual(
      exported.filter((one, index) => exported.indexOf(one) !== index),
      []
    )
    const files = new Map(modules.map(({ file, name }) => [name, file.replace(/^(?:\.\.?\/)+/, "")]))
    assert.deepStrictEqual(
      modules.filter(({ file, name }) => file.replace(/^(?:\.\.?\/)+/, "") !== files.get(name)),
      []
    )
  })

  it("has no name of a module of Effect", () => {
    const effect = new Set(
      readdirSync(join(root, "node_modules/effect/dist"), { recursive: true, encoding: "utf8" })
        .filter((path) => path.endsWith(".d.ts") && !path.includes("internal"))
        .map((path) => basename(path, ".d.ts"))
    )
    assert.isTrue(effect.has("Schedule"))
    const taken = new Set(modules.map(({ name }) => name).filter((name) => effect.has(name)))
    assert.deepStrictEqual(Array.from(taken), Object.keys(shared))
  })

  it("has at most 45 modules at the root, of about 40", () => {
    const count = modules.filter(({ entry }) => entry === "").length
    assert.isAtMost(count, 45)
    assert.isAtLeast(count, 35)
  })

  it("is the table of names in src/kit/entry/README.md", () => {
    const rows = Array.from(
      readFileSync(join(root, "src/kit/entry/README.md"), "utf8").matchAll(/^\| `(\w+)` \| (.+?) \| (.+) \|$/gm),
      ([, name = "", at = "", purpose = ""]) => ({ name, at, purpose })
    )
    const named = rows.flatMap(({ at, name }) =>
      at.split(", ").map((entry) => `${name}: ${entry === "root" ? "" : entry.slice(1, -1)}`)
    )
    assert.deepStrictEqual(named.toSorted(), modules.map(({ entry, name }) => `${name}: ${entry}`).toSorted())
    assert.deepStrictEqual(
      rows.map(({ name }) => name),
      rows.map(({ name }) => name).toSorted()
    )
    assert.deepStrictEqual(
      rows.filter(({ purpose }) => purpose.length > 100),
      []
    )
  })

  it("has a doc comment on each module and each export", () => {
    assert.deepStrictEqual(undocumented(), [])
  })
})
