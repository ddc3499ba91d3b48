// Marks functions of a bundled file that a start calls, so that V8 compiles them with the file instead of at their first
// call, and stores them with its compiled code. Node stores the compiled code of a file before the file runs: other
// functions are compiled again in each start, which takes a quarter of its time.
import { RolldownMagicString } from "rolldown"
import { parseSync } from "rolldown/utils"

/** Where the text of a function begins and ends. */
export type FunctionRange = readonly [start: number, end: number]

type Node = Readonly<Record<string, unknown>> & { readonly type: string; readonly start: number; readonly end: number }

const isNode = (value: unknown): value is Node =>
  typeof value === "object" && value !== null && "type" in value && typeof value.type === "string"

interface FunctionNode {
  readonly node: Node
  readonly parent: Node
}

const functionTypes = new Set(["ArrowFunctionExpression", "FunctionExpression", "FunctionDeclaration"])

const collectFunctions = (value: unknown, parent: Node, found: Array<FunctionNode>): void => {
  if (Array.isArray(value)) return value.forEach((each) => collectFunctions(each, parent, found))
  if (!isNode(value)) return
  if (functionTypes.has(value.type)) found.push({ node: value, parent })
  for (const each of Object.values(value)) collectFunctions(each, value, found)
}

/** Returns the functions that ran. V8 lets a method begin at its name, and the syntax tree at its parameters. */
const findCalled = (
  functions: ReadonlyArray<FunctionNode>,
  ranges: ReadonlyArray<FunctionRange>
): ReadonlySet<FunctionNode> => {
  const byEnd = Map.groupBy(functions, ({ node }) => node.end)
  const called = new Set<FunctionNode>()
  for (const [start, end] of ranges) {
    const distance = ({ node }: FunctionNode): number => Math.abs(node.start - start)
    const [nearest] = (byEnd.get(end) ?? []).toSorted((one, other) => distance(one) - distance(other))
    if (nearest !== undefined) called.add(nearest)
  }
  return called
}

const readKeyword = ({ async, generator }: Node): string =>
  `${async === true ? "async " : ""}function${generator === true ? "*" : ""}`

/** Methods that a function is the same as: it has no `super`, and its key is not the one that sets a prototype. */
const isPlainMethod = (code: string, { end, start }: Node, key: string): boolean =>
  !/\bsuper\b/.test(code.slice(start, end)) && !key.includes("__proto__")

/**
 * Returns a file whose called functions are in parentheses, by which V8 knows them. Top-level functions become variables
 * at the beginning of the file. Methods of classes and asynchronous arrow functions stay as they are.
 */
export const markEager = (fileName: string, code: string, ranges: ReadonlyArray<FunctionRange>): string => {
  const program: unknown = parseSync(fileName, code).program
  if (!isNode(program)) throw new Error(`${fileName} cannot be parsed`)
  const functions: Array<FunctionNode> = []
  collectFunctions(program["body"], program, functions)
  const text = new RolldownMagicString(code)
  for (const { node, parent } of findCalled(functions, ranges)) {
    const { end, id, start } = node
    const { key } = parent
    if (node.type === "FunctionDeclaration") {
      if (parent !== program || !isNode(id)) continue
      text.overwrite(start, id.end, `var ${code.slice(id.start, id.end)}=(${readKeyword(node)}`)
      text.appendLeft(end, ");")
      if (start > 0) text.move(start, end, 0)
    } else if (parent.type === "Property" && (parent["method"] === true || parent["kind"] !== "init")) {
      if (parent["method"] !== true || !isNode(key)) continue
      const name = code.slice(key.start, key.end)
      if (!isPlainMethod(code, node, name)) continue
      text.overwrite(parent.start, start, `${parent["computed"] === true ? `[${name}]` : name}:(${readKeyword(node)}`)
      text.appendLeft(end, ")")
    } else if (
      parent.type !== "MethodDefinition" &&
      !(node.type === "ArrowFunctionExpression" && node["async"] === true)
    ) {
      text.prependRight(start, "(")
      text.appendLeft(end, ")")
    }
  }
  return text.toString()
}
