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

/** The folder of a package and the path in it that a specifier names; `undefined` for files and parts of Node. */
const splitSpecifier = (specifier: string): { readonly name: string; readonly path: string } | undefined => {
  const [, name, path = ""] = /^((?:@[^/]+\/)?[^/@.:#][^/:]*)(?:\/(.+))?$/u.exec(specifier) ?? []
  return name === undefined ? undefined : { name, path }
}

/** Tells if a package exports a path. Without `exports`, its only public path is the name of the package. */
const isPublic = (specifier: string): boolean => {
  const split = splitSpecifier(specifier)
  if (split === undefined || split.name === "hermes-effect") return true
  if (split.path.split("/").includes("internal")) return false
  const { exports }: { readonly exports?: unknown } = JSON.parse(
    readFileSync(join(root, "node_modules", split.name, "package.json"), "utf8")
  )
  if (exports === undefined) return split.path === ""
  return isResolved(specifier)
}

const isResolved = (specifier: string): boolean => {
  try {
    import.meta.resolve(specifier)
    return true
  } catch {
    return false
  }
}

describe("Imports", () => {
  it("no module imports a private file of a package", () => {
    const found = sources().flatMap(({ imports, path }) =>
      imports.filter(({ specifier }) => !isPublic(specifier)).map(({ specifier }) => `${path}: ${specifier}`)
    )
    assert.deepStrictEqual(found, [])
    const planted = ["undici", "undici/lib/dispatcher/pool.js", "effect/Effect", "effect/internal/effect", "./Own.ts"]
    assert.deepStrictEqual(
      planted.filter((specifier) => !isPublic(specifier)),
      ["undici/lib/dispatcher/pool.js", "effect/internal/effect"]
    )
  })

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

  it("statements have no numbered parameters, which Node 22 does not bind", () => {
    const numbered = /\b(?:INSERT|UPDATE|DELETE|SELECT|VALUES)\b[^`"]*[(\s,=]\?\d/u
    const found = sources().filter(({ text }) => numbered.test(withoutComments(text)))
    assert.deepStrictEqual(
      found.map(({ path }) => path),
      []
    )
    assert.match('"INSERT INTO parts VALUES (?1, ?2), (?1, ?3)"', numbered)
  })
})
