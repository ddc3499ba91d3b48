// Splits modules of packages for the bundle of the program. Plugins get the copy of `effect` that the program runs on,
// so the bundle has every export of it; but a start runs only what the program uses. Each module becomes two: one with
// the statements that the program uses, one with all others, which imports from it. The module itself only names the
// exports of both, so that there is one copy of each.
import { readFileSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import { type InputOptions, type Plugin, rolldown } from "rolldown"
import { parseSync } from "rolldown/utils"

const used = "?used"
const rest = "?rest"

/** The module that a part belongs to. */
export const withoutPart = (id: string): string => id.replace(/\?(?:used|rest)$/, "")

/** A top-level binding that a module imports; `*` is the namespace of the other module. */
interface Imported {
  readonly source: string
  readonly name: string
}

/** A top-level statement of a module. */
interface Statement {
  /** Its source text, with the comments before it. */
  readonly text: string
  /** Names that it declares. */
  readonly declares: ReadonlyArray<string>
  /** Names of top-level bindings that it may refer to. */
  readonly refers: ReadonlySet<string>
  /** Members of namespaces that it refers to, by name of the namespace; `*` if it uses the namespace as a value. */
  readonly members: ReadonlyMap<string, ReadonlySet<string>>
  /** Names of top-level bindings that it assigns to. */
  readonly assigns: ReadonlySet<string>
  /** An effect of the import, rather than a declaration. */
  readonly isBare: boolean
}

interface Parsed {
  readonly statements: ReadonlyArray<Statement>
  readonly imports: ReadonlyMap<string, Imported>
  /** Local names by the name of the export. */
  readonly exports: ReadonlyMap<string, string>
  /** Exports of other modules that it names. */
  readonly reexports: ReadonlyMap<string, Imported>
}

type Node = Readonly<Record<string, unknown>> & { readonly type: string; readonly start: number; readonly end: number }

const isNode = (value: unknown): value is Node =>
  typeof value === "object" && value !== null && "type" in value && typeof value.type === "string"

const toNodes = (value: unknown): ReadonlyArray<Node> => (Array.isArray(value) ? value : [value]).filter(isNode)

const nameOf = (value: unknown): string => {
  if (!isNode(value)) throw new Error("a name is missing")
  return String(value["name"] ?? value["value"])
}

/** Names that a pattern declares. */
const listNames = (pattern: unknown): ReadonlyArray<string> =>
  toNodes(pattern).flatMap((node): ReadonlyArray<string> => {
    switch (node.type) {
      case "Identifier":
        return [nameOf(node)]
      case "ObjectPattern":
        return toNodes(node["properties"]).flatMap((part) => listNames(part["value"] ?? part["argument"]))
      case "ArrayPattern":
        return toNodes(node["elements"]).flatMap(listNames)
      case "AssignmentPattern":
        return listNames(node["left"])
      case "RestElement":
        return listNames(node["argument"])
      default:
        return []
    }
  })

const listDeclared = (node: Node): ReadonlyArray<string> =>
  node.type === "VariableDeclaration"
    ? toNodes(node["declarations"]).flatMap(({ id }) => listNames(id))
    : listNames(node["id"])

/** Keys of nodes that are names and not references. */
const isLabel = (node: Node, key: string): boolean =>
  node["computed"] !== true &&
  ((node.type === "MemberExpression" && key === "property") ||
    ((node.type === "MethodDefinition" || node.type === "PropertyDefinition") && key === "key") ||
    (node.type === "Property" && key === "key" && node["shorthand"] !== true))

interface References {
  readonly refers: Set<string>
  readonly members: Map<string, Set<string>>
  readonly assigns: Set<string>
}

const collectReferences = (node: Node, isNamespace: (name: string) => boolean, found: References): void => {
  const addMember = (namespace: string, member: string): void => {
    found.members.set(namespace, (found.members.get(namespace) ?? new Set()).add(member))
  }
  if (node.type === "Identifier") {
    const name = nameOf(node)
    found.refers.add(name)
    if (isNamespace(name)) addMember(name, "*")
    return
  }
  const { computed, left, argument, object, property } = node
  if (node.type === "MemberExpression" && computed !== true && isNode(object) && object.type === "Identifier") {
    const name = nameOf(object)
    if (isNamespace(name)) {
      found.refers.add(name)
      addMember(name, nameOf(property))
      return
    }
  }
  if (node.type === "AssignmentExpression") for (const name of listNames(left)) found.assigns.add(name)
  if (node.type === "UpdateExpression") for (const name of listNames(argument)) found.assigns.add(name)
  for (const [key, value] of Object.entries(node))
    if (!isLabel(node, key)) for (const child of toNodes(value)) collectReferences(child, isNamespace, found)
}

const readSpecifiers = (node: Node, source: string): ReadonlyArray<readonly [string, Imported]> =>
  toNodes(node["specifiers"]).map(({ imported, local, type }) => [
    nameOf(local),
    { source, name: type === "ImportNamespaceSpecifier" ? "*" : imported === undefined ? "default" : nameOf(imported) }
  ])

/** Parses a module. Returns `undefined` if it has a form that cannot be split. */
const parseModule = (file: string, code: string): Parsed | undefined => {
  const body = toNodes(parseSync(file, code).program.body)
  const imports = new Map<string, Imported>()
  const exports = new Map<string, string>()
  const reexports = new Map<string, Imported>()
  const statements: Array<Statement> = []
  for (const node of body)
    if (node.type === "ImportDeclaration")
      for (const [name, imported] of readSpecifiers(node, nameOf(node["source"]))) imports.set(name, imported)
  const isNamespace = (name: string): boolean => imports.get(name)?.name === "*"
  let at = 0
  for (const node of body) {
    const before = code.slice(at, node.start)
    at = node.end
    if (node.type === "ImportDeclaration") {
      if (toNodes(node["specifiers"]).length === 0) return undefined
      continue
    }
    if (node.type === "ExportAllDeclaration") {
      if (node["exported"] === null || node["exported"] === undefined) return undefined
      reexports.set(nameOf(node["exported"]), { source: nameOf(node["source"]), name: "*" })
      continue
    }
    if (node.type === "ExportDefaultDeclaration") return undefined
    const { declaration } = node
    if (node.type === "ExportNamedDeclaration" && !isNode(declaration)) {
      for (const { exported, local } of toNodes(node["specifiers"])) {
        if (isNode(node["source"]))
          reexports.set(nameOf(exported), { source: nameOf(node["source"]), name: nameOf(local) })
        else exports.set(nameOf(exported), nameOf(local))
      }
      continue
    }
    const inner = node.type === "ExportNamedDeclaration" && isNode(declaration) ? declaration : node
    const isBare = !/^(?:Variable|Function|Class)Declaration$/.test(inner.type)
    const declares = isBare ? [] : listDeclared(inner)
    if (inner !== node) for (const name of declares) exports.set(name, name)
    const found: References = { refers: new Set(), members: new Map(), assigns: new Set() }
    collectReferences(inner, isNamespace, found)
    statements.push({ ...found, text: before + code.slice(inner.start, inner.end), declares, isBare })
  }
  return { statements, imports, exports, reexports }
}

/** A package whose modules are split. */
interface Splitting {
  /** Folders of the modules. */
  readonly folders: ReadonlyArray<string>
  /** Exports that the program uses, by module. */
  readonly roots: ReadonlyMap<string, Iterable<string>>
}

/** Exports of modules that a bundle of the program alone has; `*` is all exports, of a module that is loaded late. */
export const findUsedExports = async (options: InputOptions): Promise<ReadonlyMap<string, ReadonlyArray<string>>> => {
  const late = new Set<string>()
  const bundle = await rolldown({
    ...options,
    plugins: [
      options.plugins,
      {
        name: "late",
        moduleParsed: ({ dynamicallyImportedIds }) => dynamicallyImportedIds.forEach((id) => late.add(id))
      }
    ]
  })
  const { output } = await bundle.generate({ format: "esm" })
  await bundle.close()
  return new Map(
    output.flatMap((part) =>
      part.type === "chunk"
        ? Object.entries(part.modules).map(
            ([id, { renderedExports }]) => [id, late.has(id) ? ["*"] : renderedExports] as const
          )
        : []
    )
  )
}

/** Statements of each module that the exports in use need, and the exports themselves. */
class UsedStatements {
  readonly statements = new Map<string, Set<Statement>>()
  readonly exports = new Map<string, Set<string>>()
  readonly #modules = new Map<string, Parsed | undefined>()
  readonly #folders: ReadonlyArray<string>

  constructor({ folders, roots }: Splitting) {
    this.#folders = folders
    for (const [file, names] of roots) if (this.isSplit(file)) for (const name of names) this.#useExport(file, name)
  }

  isSplit(file: string): boolean {
    return this.#folders.some((folder) => file.startsWith(`${folder}/`)) && file.endsWith(".js")
  }

  parse(file: string): Parsed | undefined {
    if (!this.#modules.has(file)) this.#modules.set(file, parseModule(file, readFileSync(file, "utf8")))
    return this.#modules.get(file)
  }

  resolve(source: string, from: string): string {
    return source.startsWith(".") ? join(dirname(from), source) : createRequire(from).resolve(source)
  }

  #useImport(file: string, { name, source }: Imported, members: Iterable<string>): void {
    if (source.startsWith("node:")) return
    const target = this.resolve(source, file)
    if (!this.isSplit(target)) return
    for (const member of name === "*" ? members : [name]) this.#useExport(target, member)
  }

  #useExport(file: string, name: string): void {
    const isFirst = !this.exports.has(file)
    const known = this.exports.get(file) ?? new Set()
    this.exports.set(file, known)
    if (known.has(name)) return
    known.add(name)
    const parsed = this.parse(file)
    if (isFirst) this.#useEffects(file, parsed)
    if (parsed === undefined) return
    if (name === "*") {
      for (const each of [...parsed.exports.keys(), ...parsed.reexports.keys()]) this.#useExport(file, each)
      return
    }
    const reexport = parsed.reexports.get(name)
    if (reexport !== undefined) return this.#useImport(file, reexport, ["*"])
    const local = parsed.exports.get(name)
    if (local !== undefined) this.#useBinding(file, parsed, local, ["*"])
  }

  /** What runs as soon as a module is loaded; all that a module imports if it cannot be split. */
  #useEffects(file: string, parsed: Parsed | undefined): void {
    for (const statement of parsed?.statements ?? []) if (statement.isBare) this.#useStatement(file, statement)
    if (parsed !== undefined) return
    for (const [, source = ""] of readFileSync(file, "utf8").matchAll(/\bfrom "([^"]+)"/g))
      this.#useImport(file, { source, name: "*" }, ["*"])
  }

  #useBinding(file: string, parsed: Parsed, name: string, members: Iterable<string>): void {
    const imported = parsed.imports.get(name)
    if (imported !== undefined) this.#useImport(file, imported, members)
    for (const statement of parsed.statements)
      if (statement.declares.includes(name) || statement.assigns.has(name)) this.#useStatement(file, statement)
  }

  #useStatement(file: string, statement: Statement): void {
    const known = this.statements.get(file) ?? new Set()
    this.statements.set(file, known)
    if (known.has(statement)) return
    known.add(statement)
    const parsed = this.parse(file)
    if (parsed === undefined) return
    for (const name of statement.refers) this.#useBinding(file, parsed, name, statement.members.get(name) ?? [])
  }
}

const quote = (text: string): string => JSON.stringify(text)

/** Writes one of the two parts of a module. */
const writePart = (
  file: string,
  parsed: Parsed,
  part: ReadonlyArray<Statement>,
  other: ReadonlySet<string>,
  resolve: (source: string) => string
): string => {
  const refers = new Set(part.flatMap(({ refers }) => Array.from(refers)))
  const lines: Array<string> = []
  for (const [local, { name, source }] of parsed.imports) {
    if (!refers.has(local)) continue
    const clause = name === "*" ? `* as ${local}` : name === local ? `{ ${local} }` : `{ ${name} as ${local} }`
    lines.push(`import ${clause} from ${quote(resolve(source))}`)
  }
  const own = new Set(part.flatMap(({ declares }) => declares))
  const needed = Array.from(refers).filter((name) => other.has(name) && !own.has(name))
  if (needed.length > 0) lines.push(`import { ${needed.join(", ")} } from ${quote(`${file}${used}`)}`)
  lines.push(...part.map(({ text }) => text))
  if (own.size > 0) lines.push(`export { ${Array.from(own).join(", ")} }`)
  return lines.join("\n")
}

/** The plugin that splits modules, and tests for those that the program does not run. */
interface SplitModules {
  readonly plugin: Plugin
  /** The part of a split module that is for plugins, and the module that names all exports. */
  readonly isRest: (id: string) => boolean
  /** A module that is for plugins, in whole or in part. */
  readonly isLate: (id: string) => boolean
}

/** Splits the modules of packages. */
export const splitModules = (splitting: Splitting): SplitModules => {
  const found = new UsedStatements(splitting)
  const sources = new Map<string, string>()
  const splitModule = (file: string): void => {
    const parsed = found.parse(file)
    const known = found.statements.get(file)
    if (parsed === undefined || known === undefined || known.size === 0) return
    const first = parsed.statements.filter((statement) => known.has(statement))
    const second = parsed.statements.filter((statement) => !known.has(statement))
    if (second.length === 0) return
    const declared = new Set(first.flatMap(({ declares }) => declares))
    const resolve = (source: string): string => (source.startsWith(".") ? found.resolve(source, file) : source)
    sources.set(`${file}${used}`, writePart(file, parsed, first, new Set(), resolve))
    sources.set(`${file}${rest}`, writePart(file, parsed, second, declared, resolve))
    const lines: Array<string> = []
    for (const [name, local] of parsed.exports) {
      const imported = parsed.imports.get(local)
      const clause = local === name ? name : `${local} as ${name}`
      if (imported === undefined)
        lines.push(`export { ${clause} } from ${quote(`${file}${declared.has(local) ? used : rest}`)}`)
      else if (imported.name === "*") lines.push(`export * as ${name} from ${quote(resolve(imported.source))}`)
      else lines.push(`export { ${imported.name} as ${name} } from ${quote(resolve(imported.source))}`)
    }
    for (const [name, { name: from, source }] of parsed.reexports)
      lines.push(`export ${from === "*" ? `* as ${name}` : `{ ${from} as ${name} }`} from ${quote(resolve(source))}`)
    sources.set(file, lines.join("\n"))
  }
  for (const file of found.exports.keys()) splitModule(file)
  const isRest = (id: string): boolean => sources.has(id) && !id.endsWith(used)
  return {
    isRest,
    isLate: (id) => isRest(id) || (found.isSplit(id) && !found.exports.has(id)),
    plugin: {
      name: "split-modules",
      resolveId: (id) => (sources.has(id) ? { id, moduleSideEffects: false } : undefined),
      load: (id) => sources.get(id)
    }
  }
}
