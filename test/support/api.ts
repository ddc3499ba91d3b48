// The public surface of the package as text, from the sources: for each entry its modules, for each module its exports
// with their parameters, members and stated types. Types that are inferred do not show.
import { readFileSync } from "node:fs"
import { dirname, relative, resolve } from "node:path"
import { parseSync } from "rolldown/utils"
import { entries } from "./entries.ts"
import { src } from "./sources.ts"

type Fields = Readonly<Record<string, unknown>>

const isFields = (value: unknown): value is Fields => typeof value === "object" && value !== null

const fields = (value: unknown): Fields => (isFields(value) ? value : {})
const list = (value: unknown): ReadonlyArray<Fields> => (Array.isArray(value) ? value.filter(isFields) : [])
const text = (value: unknown): string => (typeof value === "string" ? value : "")

/** Form of a declaration: on one line, or as its source has it, with the comments of members. */
type Layout = "line" | "source"

interface Module {
  readonly path: string
  readonly code: string
  readonly body: ReadonlyArray<Fields>
  readonly layout: Layout
}

const parsed = { line: new Map<string, Module>(), source: new Map<string, Module>() }
const parse = (path: string, layout: Layout = "line"): Module => {
  const known = parsed[layout].get(path)
  if (known !== undefined) return known
  const code = readFileSync(path, "utf8")
  const { program } = parseSync(path, code)
  // The syntax tree is looked at by the names of its members.
  const made: Module = { path, code, layout, body: list(program.body as unknown) }
  parsed[layout].set(path, made)
  return made
}

const without = (code: string): string =>
  code
    .replaceAll(
      /("(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`)|\/\/[^\n]*|\/\*[\s\S]*?\*\//g,
      (_, string: string | undefined) => string ?? ""
    )
    .replaceAll(/\s+/g, " ")
    .trim()

const within = ({ code, layout }: Module, from: unknown, to: unknown): string => {
  if (typeof from !== "number" || typeof to !== "number") return ""
  return layout === "line" ? without(code.slice(from, to)) : code.slice(from, to).trim()
}

const sliceOf = (module: Module, node: unknown): string => {
  const { end, start } = fields(node)
  return within(module, start, end)
}

const functions = new Set(["ArrowFunctionExpression", "FunctionExpression", "FunctionDeclaration", "TSDeclareFunction"])

/** Parameters and the stated result of a function, also of one that is given to `Effect.fn`. */
const signature = (module: Module, node: unknown): string => {
  const own = fields(node)
  if (functions.has(text(own["type"])))
    return within(module, own["start"], fields(own["body"])["start"] ?? own["end"]).replace(/ ?=>$/, "")
  if (own["type"] === "CallExpression") {
    const given = list(own["arguments"]).find(({ type }) => functions.has(text(type)))
    if (given !== undefined && /\bfn(Untraced)?\b/.test(sliceOf(module, own["callee"]))) return signature(module, given)
  }
  return ""
}

/** The public members of a class: on one line, or one after another with their comments. */
const membersOf = (module: Module, body: unknown): string => {
  const members = memberLines(module, body)
  if (module.layout === "line") return `{ ${members.join("; ")} }`
  return members.length === 0 ? "{}" : `{\n${members.map((line) => `  ${line}`).join("\n")}\n}`
}

const memberLines = (module: Module, body: unknown): ReadonlyArray<string> =>
  list(fields(body)["body"]).flatMap((member) => {
    const key = fields(member["key"])
    if (member["accessibility"] === "private" || key["type"] === "PrivateIdentifier") return []
    const value = fields(member["value"])
    const isMethod = functions.has(text(value["type"]))
    const doc = module.layout === "source" ? docBefore(module, member).trim() : ""
    return [
      (doc === "" ? "" : `/** ${doc.replaceAll(/\s*\n\s*\* ?/g, " ")} */\n  `) +
        within(
          module,
          member["start"],
          isMethod
            ? fields(value["body"])["start"]
            : member["typeAnnotation"]
              ? fields(member["typeAnnotation"])["end"]
              : key["end"]
        )
    ]
  })

const declared = (module: Module, declaration: Fields): ReadonlyArray<readonly [name: string, line: string]> => {
  const name = text(fields(declaration["id"])["name"])
  switch (declaration["type"]) {
    case "VariableDeclaration":
      return list(declaration["declarations"]).map((one) => {
        const id = fields(one["id"])
        const stated =
          id["typeAnnotation"] === undefined || id["typeAnnotation"] === null
            ? ""
            : sliceOf(module, id["typeAnnotation"])
        const shape = stated === "" ? signature(module, one["init"]) : stated
        return [text(id["name"]), `const ${text(id["name"])}${stated === "" && shape !== "" ? ` = ${shape}` : shape}`]
      })
    case "ClassDeclaration":
      return [
        [
          name,
          `${within(module, declaration["start"], fields(declaration["body"])["start"])} ${membersOf(module, declaration["body"])}`
        ]
      ]
    case "FunctionDeclaration":
    case "TSDeclareFunction":
      return [[name, signature(module, declaration)]]
    default:
      return [[name, sliceOf(module, declaration)]]
  }
}

const isVariables = (node: Fields): boolean => node["type"] === "VariableDeclaration"

/** The exports of a module, with those that it passes on from others. */
const exportsOf = (path: string, layout: Layout = "line"): ReadonlyArray<readonly [name: string, line: string]> => {
  const module = parse(path, layout)
  const at = (specifier: unknown) => resolve(dirname(path), text(specifier))
  return module.body.flatMap((node): ReadonlyArray<readonly [name: string, line: string]> => {
    const source = text(fields(node["source"])["value"])
    if (node["type"] === "ExportAllDeclaration" && node["exported"] === null)
      return source.startsWith(".") ? exportsOf(at(source), layout) : [[source, `export * from "${source}"`]]
    if (node["type"] !== "ExportNamedDeclaration") return []
    if (isFields(node["declaration"])) return declared(module, node["declaration"])
    return list(node["specifiers"]).map((one) => {
      const local = text(fields(one["local"])["name"])
      const name = text(fields(one["exported"])["name"])
      const own = module.body.flatMap((other) => (isVariables(other) ? declared(module, other) : []))
      const candidates = source === "" ? own : source.startsWith(".") ? exportsOf(at(source), layout) : []
      const found = candidates.find(([own]) => own === local)?.[1]
      return [
        name,
        found === undefined
          ? `export ${name}${source === "" ? "" : ` from "${source.startsWith(".") ? relative(src, at(source)) : source}"`}`
          : name === local
            ? found
            : `${name}: ${found}`
      ]
    })
  })
}

const lines = (exports: ReadonlyArray<readonly [name: string, line: string]>): string =>
  exports
    .toSorted(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
    .map(([, line]) => line)
    .join("\n")

/** The surface of all entries: which modules each has, then each module once. */
export const surface = (): string => {
  const modules = new Map<string, Set<string>>()
  const parts = entries().map(({ source, specifier }) => {
    const { body } = parse(source)
    const namespaces = body.flatMap((node) => {
      const name = text(fields(node["exported"])["name"])
      if (node["type"] !== "ExportAllDeclaration" || name === "") return []
      const path = resolve(dirname(source), text(fields(node["source"])["value"]))
      modules.set(path, (modules.get(path) ?? new Set()).add(name))
      return [name]
    })
    const others = lines(exportsOf(source))
    return `## ${specifier}\n\n${namespaces.toSorted().join(", ")}${namespaces.length > 0 ? "\n" : ""}${others === "" ? "" : `${namespaces.length > 0 ? "\n" : ""}\`\`\`ts\n${others}\n\`\`\`\n`}`
  })
  const each = Array.from(modules)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(
      ([path, names]) =>
        `### ${Array.from(names).join(", ")}\n\n${relative(src, path)}\n\n\`\`\`ts\n${lines(exportsOf(path))}\n\`\`\`\n`
    )
  return `# Public surface\n\nWritten by \`npm run api\` from the sources, and compared by the tests: a change here is a change for applications.\n\n${parts.join("\n")}\n# Modules\n\n${each.join("\n")}`
}

/** An export of a module as a reference shows it. */
export interface Export {
  readonly name: string
  /** Its declarations as the sources have them, without bodies of functions. */
  readonly declaration: string
}

/** The exports of a module by name. A value and a type with one name are one export. */
export const readExports = (path: string): ReadonlyArray<Export> => {
  const found = new Map<string, string>()
  for (const [name, declaration] of exportsOf(path, "source"))
    found.set(name, found.has(name) ? `${found.get(name)}\n\n${declaration}` : declaration)
  return Array.from(found, ([name, declaration]) => ({ name, declaration })).toSorted((a, b) =>
    a.name < b.name ? -1 : a.name > b.name ? 1 : 0
  )
}

/** The doc comment before a node; empty where there is none. */
const docBefore = ({ code }: Module, { start }: Fields): string =>
  typeof start === "number" ? (/\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\s*$/.exec(code.slice(0, start))?.[1] ?? "") : ""

/**
 * Doc comments of the exports of a module, also of those that it passes on from others; empty where nothing is said.
 */
export const docsOf = (path: string): ReadonlyMap<string, string> => {
  const module = parse(path)
  const at = (specifier: unknown) => resolve(dirname(path), text(specifier))
  const found = module.body.flatMap((node): ReadonlyArray<readonly [name: string, doc: string]> => {
    const source = text(fields(node["source"])["value"])
    const isOwn = source.startsWith(".")
    if (node["type"] === "ExportAllDeclaration" && node["exported"] === null)
      return isOwn ? Array.from(docsOf(at(source))) : []
    if (node["type"] !== "ExportNamedDeclaration") return []
    const doc = docBefore(module, node)
    if (isFields(node["declaration"]))
      return declared(module, node["declaration"]).map(([name]) => [name, doc] as const)
    return list(node["specifiers"]).map((one) => {
      const local = text(fields(one["local"])["name"])
      const elsewhere = source === "" ? "" : isOwn ? (docsOf(at(source)).get(local) ?? "") : `See \`${source}\`.`
      return [text(fields(one["exported"])["name"]), docBefore(module, one) || elsewhere || doc] as const
    })
  })
  // A value and a type of one name are told of once.
  return found.reduce((docs, [name, doc]) => docs.set(name, docs.get(name) || doc), new Map<string, string>())
}

/** Public exports that nothing is said about, and modules of the public surface without a first comment. */
export const undocumented = (): ReadonlyArray<string> => {
  const modules = new Set(
    entries().flatMap(({ source }) => [
      source,
      ...parse(source).body.flatMap((node) =>
        node["type"] === "ExportAllDeclaration" && node["exported"] !== null
          ? [resolve(dirname(source), text(fields(node["source"])["value"]))]
          : []
      )
    ])
  )
  return Array.from(modules)
    .flatMap((path) => {
      const missing = Array.from(docsOf(path))
        .filter(([, doc]) => doc === "")
        .map(([name]) => `${relative(src, path)}: ${name}`)
      return parse(path).code.startsWith("/**")
        ? missing
        : [`${relative(src, path)} begins without a comment`, ...missing]
    })
    .toSorted()
}
