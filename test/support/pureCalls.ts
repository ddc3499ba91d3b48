// Marks the calls with which modules make their constants as free of side effects, so that a bundler leaves out what an
// application does not use. Statements that are calls by themselves are left alone.
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

/** The plugin for the modules below a folder. It needs `experimental.nativeMagicString`. */
export const pureCalls = (folder: string): Plugin => ({
  name: "pure-calls",
  transform: (code, id, { magicString }) => {
    if (magicString === undefined || !id.startsWith(folder) || !id.endsWith(".ts")) return null
    const places: Array<number> = []
    calls(
      parseSync(id, code).program.body.filter(({ type }) => naming.has(type)),
      places
    )
    for (const place of new Set(places)) magicString.appendLeft(place, "/* @__PURE__ */ ")
    return { code: magicString }
  }
})
