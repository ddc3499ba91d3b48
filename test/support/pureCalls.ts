// Marks the calls with which modules make their constants as free of side effects, so that a bundler leaves out what an
// application does not use. A constant that is made in another way, by a spread or a field of a value, is made in such a
// call. Statements that are calls by themselves are left alone.
import type { Plugin } from "rolldown"
import { parseSync } from "rolldown/utils"

interface Node {
  readonly type: string
  readonly start: number
}

const isNode = (value: unknown): value is Node =>
  typeof value === "object" && value !== null && "type" in value && typeof value.type === "string"

/** Nodes whose code does not run while the module is loaded. */
const later = new Set(["FunctionExpression", "FunctionDeclaration", "ArrowFunctionExpression", "MethodDefinition"])

/** Statements that only name values. */
const naming = new Set([
  "VariableDeclaration",
  "ClassDeclaration",
  "ExportNamedDeclaration",
  "ExportDefaultDeclaration"
])

const calls = (node: unknown, found: Array<number>): void => {
  if (Array.isArray(node)) {
    for (const one of node) calls(one, found)
    return
  }
  if (!isNode(node) || later.has(node.type)) return
  if (node.type === "CallExpression" || node.type === "NewExpression") found.push(node.start)
  for (const value of Object.values(node)) calls(value, found)
}

const isPureList = (values: unknown): boolean => Array.isArray(values) && values.every(isPure)

/** Tests for expressions of which bundlers know that they have no side effects, if their calls are marked. */
const isPure = (node: unknown): boolean => {
  if (node === null || node === undefined) return true
  if (!isNode(node)) return false
  const fields: Readonly<Record<string, unknown>> = { ...node }
  const { argument, arguments: args, elements, expression, expressions, properties, value } = fields
  switch (node.type) {
    case "Literal":
    case "Identifier":
    case "ArrowFunctionExpression":
    case "FunctionExpression":
      return true
    case "TemplateLiteral":
      return Array.isArray(expressions) && expressions.length === 0
    case "ArrayExpression":
      return isPureList(elements)
    case "ObjectExpression":
      return isPureList(properties)
    case "Property":
      return !("computed" in node && node.computed === true) && isPure(value)
    case "BinaryExpression":
      return [fields["left"], fields["right"]].every((side) => isNode(side) && side.type === "Literal")
    case "UnaryExpression":
      return isNode(argument) && argument.type === "Literal"
    case "CallExpression":
    case "NewExpression":
      return isPureList(args)
    case "TSAsExpression":
    case "TSSatisfiesExpression":
    case "TSNonNullExpression":
      return isPure(expression)
    case "MemberExpression":
      return "object" in node && isNode(node.object) && node.object.type === "Identifier" && isNamespace(node.object)
    default:
      return false
  }
}

/** Modules are imported under names that begin with a capital letter. */
const isNamespace = (node: Node): boolean => "name" in node && /^[A-Z]/u.test(String(node.name))

interface Range {
  readonly start: number
  readonly end: number
}

const hasRange = (node: unknown): node is Node & Range => isNode(node) && "end" in node

/** Initial values of constants that have to be made in a marked call. */
const listImpureValues = (statement: unknown): ReadonlyArray<Range> => {
  if (!isNode(statement)) return []
  if (statement.type === "ExportNamedDeclaration" && "declaration" in statement)
    return listImpureValues(statement.declaration)
  if (statement.type !== "VariableDeclaration" || !("kind" in statement) || statement.kind !== "const") return []
  const declarations: ReadonlyArray<unknown> =
    "declarations" in statement && Array.isArray(statement.declarations) ? statement.declarations : []
  return declarations.flatMap((one) => {
    if (!isNode(one) || !("id" in one) || !isNode(one.id) || one.id.type !== "Identifier") return []
    return "init" in one && hasRange(one.init) && !isPure(one.init) ? [one.init] : []
  })
}

/** The plugin for the modules below a folder. It needs `experimental.nativeMagicString`. */
export const pureCalls = (folder: string): Plugin => ({
  name: "pure-calls",
  transform: (code, id, { magicString }) => {
    if (magicString === undefined || !id.startsWith(folder) || !id.endsWith(".ts")) return null
    const places: Array<number> = []
    const statements = parseSync(id, code).program.body
    calls(
      statements.filter(({ type }) => naming.has(type)),
      places
    )
    for (const { end, start } of statements.flatMap(listImpureValues)) {
      magicString.appendLeft(start, "/* @__PURE__ */ (() => (")
      magicString.appendRight(end, "))()")
    }
    for (const place of new Set(places)) magicString.appendLeft(place, "/* @__PURE__ */ ")
    return { code: magicString }
  }
})
