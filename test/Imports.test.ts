// An import of the package does nothing but define: in Workers, timers, requests and random values fail outside of a
// request. Optional packages are imported so that a bundler continues without them.
import { assert, describe, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { entries } from "./support/entries.ts"
import { root, sources, withoutComments } from "./support/sources.ts"

const { peerDependenciesMeta }: { readonly peerDependenciesMeta: Readonly<Record<string, object>> } = JSON.parse(
  readFileSync(join(root, "package.json"), "utf8")
)
const optional = Object.keys(peerDependenciesMeta)
const isOptional = (specifier: string): boolean =>
  optional.some((name) => specifier === name || specifier.startsWith(`${name}/`))

/** The form that the build writes into a `try`; see `support/optionalImports.ts`. */
const rewritable = /^\s*\.catch\(\s*(?:OptionalPackage\.)?rethrowImport\s*\)/u

/** Imports of optional packages in another form. */
const listOtherImports = (text: string): ReadonlyArray<string> => {
  const code = withoutComments(text)
  const dynamic = Array.from(code.matchAll(/(?<!typeof\s)\bimport\(\s*"(?<specifier>[^"]+)"\s*\)(?!\.\w+[^(\w])/gu))
  return dynamic.flatMap(({ 0: found, groups, index }) =>
    isOptional(groups?.["specifier"] ?? "") && !rewritable.test(code.slice(index + found.length)) ? [found] : []
  )
}

const probe = join(root, "test/support/importProbe.ts")

const listCallsAtImport = (modules: ReadonlyArray<string>): ReadonlyArray<string> => {
  const env = { ...process.env, NODE_OPTIONS: "" }
  return JSON.parse(execFileSync(process.execPath, [probe, ...modules], { encoding: "utf8", env }))
}

describe("Imports", () => {
  it("no entry starts a timer, a request, a listener or a source of random values", () => {
    assert.deepStrictEqual(listCallsAtImport(entries().map(({ source }) => source)), [])
    const planted = "setTimeout(() => {}, 0); Math.random(); process.on('exit', () => {})"
    assert.deepStrictEqual(
      listCallsAtImport([`data:text/javascript,${planted}`]).map((call) => call.split(" ")[0]),
      ["setTimeout", "random", "on"]
    )
  })

  it("imports of optional packages have the form that the build rewrites", () => {
    const found = sources().flatMap(({ path, text }) => listOtherImports(text).map((one) => `${path}: ${one}`))
    assert.deepStrictEqual(found, [])
    assert.deepStrictEqual(listOtherImports('const a = import("openai").catch(() => undefined)'), ['import("openai")'])
    assert.deepStrictEqual(listOtherImports('const a = import("openai").catch(rethrowImport)'), [])
  })
})
