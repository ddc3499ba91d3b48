// Exported functions and constants that no other module of `src` imports. Exports of public modules do not count: they
// are the surface of the package (`test/api.md`). Types and classes do not count either: they name the shapes and the
// errors of exported functions. The bounds only fall. A figure that fell well below its bound fails, too: lower the
// bound.
import { assert, describe, it } from "@effect/vitest"
import { readdirSync, readFileSync } from "node:fs"
import { dirname, join, resolve } from "node:path"
import { parseAst } from "rolldown/parseAst"
import { entries } from "./support/entries.ts"
import { root, src } from "./support/sources.ts"

/** A node of the syntax tree; its fields depend on its type. */
interface Node {
  readonly type: string
  readonly start: number
  readonly [field: string]: unknown
}

const isNode = (value: unknown): value is Node =>
  typeof value === "object" && value !== null && "type" in value && typeof value.type === "string"

const listNodes = (value: unknown): ReadonlyArray<Node> => (Array.isArray(value) ? value.filter(isNode) : [])

const listChildren = (node: Node): ReadonlyArray<Node> =>
  Object.values(node).flatMap((value) => (Array.isArray(value) ? value.filter(isNode) : isNode(value) ? [value] : []))

/** The name of an identifier, or the text of a string. */
const readName = (value: unknown): string => {
  if (!isNode(value)) return ""
  const name = value["name"] ?? value["value"]
  return typeof name === "string" ? name : ""
}

/** Names of the functions and constants that a declaration declares. */
const listDeclaredValues = (declaration: unknown): ReadonlyArray<string> => {
  if (!isNode(declaration)) return []
  if (declaration.type === "FunctionDeclaration") return [readName(declaration["id"])]
  return declaration.type === "VariableDeclaration"
    ? listNodes(declaration["declarations"]).flatMap(({ id }) => readName(id) || [])
    : []
}

/** An import of one member of a module; the member `*` is all of them. */
interface MemberUse {
  readonly module: string
  readonly member: string
}

interface ReadFile {
  readonly path: string
  /** Exported functions and constants. */
  readonly values: ReadonlyArray<string>
  readonly uses: ReadonlyArray<MemberUse>
  /** Modules that are exported as a namespace. */
  readonly namespaces: ReadonlyArray<string>
}

const readFile = (path: string): ReadFile => {
  const values: Array<string> = []
  const uses: Array<MemberUse> = []
  const namespaces: Array<string> = []
  /** The module of each namespace that the file imports. */
  const imported = new Map<string, string>()
  const addUse = (module: string, member: string): void => void uses.push({ module, member })
  const resolveModule = (specifier: unknown): string | undefined =>
    readName(specifier).startsWith(".") ? resolve(dirname(path), readName(specifier)) : undefined

  const readImport = (node: Node, module: string): void => {
    for (const specifier of listNodes(node["specifiers"])) {
      if (specifier.type === "ImportNamespaceSpecifier") imported.set(readName(specifier["local"]), module)
      else addUse(module, specifier.type === "ImportSpecifier" ? readName(specifier["imported"]) : "default")
    }
  }
  const readExport = (node: Node, module: string | undefined): void => {
    values.push(...listDeclaredValues(node["declaration"]))
    if (module === undefined) return
    for (const specifier of listNodes(node["specifiers"])) addUse(module, readName(specifier["local"]))
  }
  const readStatement = (node: Node): void => {
    const module = resolveModule(node["source"])
    if (node.type === "ExportNamedDeclaration") readExport(node, module)
    if (module === undefined) return
    if (node.type === "ImportDeclaration") readImport(node, module)
    if (node.type !== "ExportAllDeclaration") return
    addUse(module, "*")
    if (node["exported"] !== null) namespaces.push(module)
  }
  /** Finds members of namespaces and modules that are imported when they are used. */
  const visit = (node: Node): void => {
    if (node.type === "ImportExpression" || node.type === "TSImportType") {
      const module = resolveModule(node["source"])
      if (module !== undefined) addUse(module, "*")
    }
    const [object, property] = [node["object"] ?? node["left"], node["property"] ?? node["right"]]
    const module = isNode(object) && object.type === "Identifier" ? imported.get(readName(object)) : undefined
    if (module !== undefined && (node.type === "MemberExpression" || node.type === "TSQualifiedName"))
      return addUse(module, node["computed"] === true ? "*" : readName(property))
    const key = node.type === "Property" && node["shorthand"] !== true ? node["key"] : undefined
    for (const child of listChildren(node)) {
      const whole = child.type === "Identifier" && child !== key ? imported.get(readName(child)) : undefined
      if (whole !== undefined && !node.type.startsWith("Import")) addUse(whole, "*")
      visit(child)
    }
  }

  const program: unknown = parseAst(readFileSync(path, "utf8"), { lang: "ts" })
  if (isNode(program)) {
    listNodes(program["body"]).forEach(readStatement)
    visit(program)
  }
  return { path, values, uses, namespaces }
}

const readFiles = (folder: string): ReadonlyArray<ReadFile> =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((path) => /(?<!\.d)\.ts$/.test(path) && !/node_modules|swe\/tasks/.test(path))
    .map((path) => readFile(join(folder, path)))

const modules = readFiles(src)
const isEntry = new Set([...entries().map(({ source }) => source), join(src, "main.ts")])
const isPublic = new Set([
  ...isEntry,
  ...modules.filter(({ path }) => isEntry.has(path)).flatMap(({ namespaces }) => namespaces)
])

/** Members that files import from other files, as `path member`. */
const listUsedMembers = (files: ReadonlyArray<ReadFile>): ReadonlySet<string> =>
  new Set(
    files.flatMap(({ path, uses }) => uses.flatMap((use) => (use.module === path ? [] : `${use.module} ${use.member}`)))
  )

const usedBySource = listUsedMembers(modules)
const usedByTests = listUsedMembers([...readFiles(join(root, "test")), ...readFiles(join(root, "scratchpad"))])

const isUsed = (used: ReadonlySet<string>, path: string, name: string): boolean =>
  used.has(`${path} ${name}`) || used.has(`${path} *`)

const unused = modules
  .filter(({ path }) => !isPublic.has(path))
  // The build puts files of this folder in the place of modules of Node.
  .filter(({ path }) => !path.includes("base/platform/web/"))
  .flatMap(({ path, values }) =>
    values.filter((name) => !isUsed(usedBySource, path, name)).map((name) => ({ path, name }))
  )

const figures: ReadonlyArray<{
  readonly title: string
  readonly bound: number
  readonly found: ReadonlyArray<{ readonly path: string; readonly name: string }>
}> = [
  {
    title: "exported functions and constants that nothing imports",
    bound: 0,
    found: unused.filter(({ path, name }) => !isUsed(usedByTests, path, name))
  },
  {
    title: "exported functions and constants that only tests import",
    bound: 111,
    found: unused.filter(({ path, name }) => isUsed(usedByTests, path, name))
  }
]

describe("modules have a bound of", () => {
  for (const { bound, found, title } of figures) {
    it(`${bound} ${title}`, () => {
      const places = found.map(({ path, name }) => `${path.slice(src.length + 1)}: ${name}`)
      assert.isAtMost(places.length, bound, places.join("\n"))
      assert.isAtLeast(places.length, Math.floor(bound * 0.9), `there are ${places.length} left: lower the bound`)
    })
  }
})

describe("the build", () => {
  it("writes the bundle of the program beside the modules of the library, not over them", () => {
    const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
      readonly scripts: { readonly build: string }
    }
    const [, folder = ""] = /test\/program\.ts dist\/(\w+)/u.exec(scripts.build) ?? []
    assert.isNotEmpty(folder)
    assert.notInclude(readdirSync(src), folder)
    assert.include(readFileSync(join(src, "bin.js"), "utf8"), `./${folder}/main.js`)
  })
})
