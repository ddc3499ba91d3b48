// Doc comments of the fields of Schemas, read from the sources: descriptions of the published JSON Schemas.
import { readFileSync } from "node:fs"
import { parseAst } from "rolldown/parseAst"
import { toSnakeCase } from "../../src/base/config/Fields.ts"

type Program = ReturnType<typeof parseAst>
type Node = Program["body"][number] | object

/** A field or a declaration with the fields inside of it. */
export interface FieldDoc {
  readonly text: string | undefined
  readonly fields: ReadonlyMap<string, FieldDoc>
}

const nothing: FieldDoc = { text: undefined, fields: new Map() }

const member = (node: Node, name: string): unknown => Reflect.get(node, name)
const isNode = (value: unknown): value is Node => typeof value === "object" && value !== null && "type" in value
const nodes = (value: unknown): ReadonlyArray<Node> => (Array.isArray(value) ? value.filter(isNode) : [])
const inside = (node: Node, name: string): Node | undefined => {
  const value = member(node, name)
  return isNode(value) ? value : undefined
}
const typeOf = (node: Node): unknown => member(node, "type")
const nameOf = (node: Node | undefined): string =>
  String(node === undefined ? "" : (member(node, "name") ?? member(node, "value") ?? ""))

/** The comment that ends where a node begins, as one paragraph. References stay as the names that they show. */
const commentBefore = (text: string, start: number): string | undefined => {
  const found = /\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\s*(?:export\s+)?$/.exec(text.slice(0, start))?.[1]
  return found
    ?.replaceAll(/^\s*\* ?/gm, "")
    .trim()
    .split("\n\n")[0]
    ?.replaceAll("\n", " ")
    .replaceAll(/\{@link (?:\w+\.)*(\w+)\}/g, "$1")
}

/**
 * Declarations of modules, by name, with the doc comments of their fields by their keys: as they are written, and in
 * snake_case. A name stands for its declaration in any of the modules.
 */
export const fieldDocs = (files: ReadonlyArray<string>): ((name: string) => FieldDoc) => {
  const declared = new Map<
    string,
    { readonly text: string; readonly comment: string | undefined; readonly value: Node | undefined }
  >()
  for (const file of files) {
    const text = readFileSync(file, "utf8")
    for (const statement of parseAst(text, { lang: "ts" }, file).body) {
      const declaration = inside(statement, "declaration") ?? statement
      if (typeOf(declaration) !== "VariableDeclaration") continue
      for (const one of nodes(member(declaration, "declarations"))) {
        declared.set(nameOf(inside(one, "id")), {
          text,
          comment: commentBefore(text, Number(member(statement, "start"))),
          value: inside(one, "init")
        })
      }
    }
  }

  const fieldsOf = (text: string, node: Node | undefined): FieldDoc["fields"] => {
    if (node === undefined) return nothing.fields
    switch (typeOf(node)) {
      case "ObjectExpression":
        return new Map(
          nodes(member(node, "properties")).flatMap((property): ReadonlyArray<readonly [string, FieldDoc]> => {
            if (typeOf(property) === "SpreadElement") return [...fieldsOf(text, inside(property, "argument"))]
            const name = nameOf(inside(property, "key"))
            const value = inside(property, "value")
            const own = commentBefore(text, Number(member(property, "start"))) ?? docOf(value).text
            const doc = { text: own, fields: fieldsOf(text, value) }
            return [
              [name, doc],
              [toSnakeCase(name), doc]
            ]
          })
        )
      case "CallExpression": {
        // A method (`.pipe`, `.check`, `.annotate`) adds nothing to the fields of its object.
        const callee = inside(node, "callee")
        const object = callee === undefined ? undefined : inside(callee, "object")
        const given = nodes(member(node, "arguments")).map((argument) => fieldsOf(text, argument))
        const own = object !== undefined && typeOf(object) === "CallExpression" ? [fieldsOf(text, object)] : []
        return [...own, ...given].find((fields) => fields.size > 0) ?? nothing.fields
      }
      case "TSAsExpression":
      case "TSSatisfiesExpression":
        return fieldsOf(text, inside(node, "expression"))
      case "ArrayExpression":
        return new Map(nodes(member(node, "elements")).flatMap((element) => [...fieldsOf(text, element)]))
      default:
        return docOf(node).fields
    }
  }

  const docOf = (node: Node | undefined): FieldDoc => {
    if (node === undefined) return nothing
    if (typeOf(node) === "Identifier") return named(nameOf(node))
    if (typeOf(node) === "MemberExpression") return named(nameOf(inside(node, "property")))
    return nothing
  }

  const known = new Map<string, FieldDoc>()
  const named = (name: string): FieldDoc => {
    const found = declared.get(name)
    if (found === undefined) return nothing
    const before = known.get(name)
    if (before !== undefined) return before
    const doc: FieldDoc = { text: found.comment, fields: fieldsOf(found.text, found.value) }
    known.set(name, doc)
    return doc
  }
  return named
}
