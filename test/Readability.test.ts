// How the sources read: figures with bounds that only fall. A figure that fell well below its bound fails, too: lower
// the bound.
import { assert, describe, it } from "@effect/vitest"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { parseAst } from "rolldown/parseAst"
import { root, type Source, sources } from "./support/sources.ts"

/** A node of the syntax tree; what it holds depends on its type. */
interface Node {
  readonly type: string
  readonly start: number
  readonly end: number
  readonly [field: string]: unknown
}

const isNode = (value: unknown): value is Node =>
  typeof value === "object" && value !== null && "type" in value && typeof value.type === "string" && "start" in value

/** The nodes right below a node. */
const listChildren = (node: Node): ReadonlyArray<Node> =>
  Object.values(node).flatMap((value) => (Array.isArray(value) ? value.filter(isNode) : isNode(value) ? [value] : []))

const readName = (value: unknown): string | undefined =>
  isNode(value) && value.type === "Identifier" && typeof value["name"] === "string" ? value["name"] : undefined

const functionTypes = new Set(["FunctionDeclaration", "FunctionExpression", "ArrowFunctionExpression"])
const branchTypes = new Set([
  "IfStatement",
  "ConditionalExpression",
  "ForStatement",
  "ForOfStatement",
  "ForInStatement",
  "WhileStatement",
  "DoWhileStatement",
  "CatchClause",
  "LogicalExpression"
])

const isFunction = (node: Node): boolean => functionTypes.has(node.type)

/** True for `Effect.fn(…)`, `Effect.fnUntraced(…)` and calls of what they return. */
const isEffectFunction = (node: Node): boolean => {
  if (node.type !== "CallExpression" || !isNode(node["callee"])) return false
  const callee = node["callee"]
  if (callee.type === "CallExpression") return isEffectFunction(callee)
  if (callee.type !== "MemberExpression") return false
  const member = readName(callee["property"])
  return readName(callee["object"]) === "Effect" && (member === "fn" || member === "fnUntraced")
}

/** Name of the function that a node declares. */
const readFunctionName = (node: Node): string | undefined => {
  if (node.type === "FunctionDeclaration") return readName(node["id"])
  if (node.type !== "VariableDeclarator" || !isNode(node["init"])) return undefined
  return isFunction(node["init"]) || isEffectFunction(node["init"]) ? readName(node["id"]) : undefined
}

/** Number of paths through a function, without the functions in it. */
const countPaths = (body: Node): number =>
  listChildren(body)
    .filter((child) => !isFunction(child))
    .reduce(
      (sum, child) =>
        sum +
        countPaths(child) +
        Number(branchTypes.has(child.type) || (child.type === "SwitchCase" && child["test"] !== null)),
      0
    )

interface Found {
  readonly names: Array<string>
  readonly longFunctions: Array<string>
  readonly complexFunctions: Array<string>
  readonly manyParameters: Array<string>
}

const readTree = ({ path, text }: Source): Found => {
  const found: Found = { names: [], longFunctions: [], complexFunctions: [], manyParameters: [] }
  const countLines = (node: Node): number => text.slice(node.start, node.end).split("\n").length
  const visit = (node: Node): void => {
    const name = readFunctionName(node)
    if (name !== undefined) found.names.push(`${path}: ${name}`)
    if (isFunction(node)) {
      const place = `${path}:${text.slice(0, node.start).split("\n").length}`
      if (countLines(node) > 80) found.longFunctions.push(`${place} ${countLines(node)} lines`)
      if (1 + countPaths(node) > 20) found.complexFunctions.push(`${place} ${1 + countPaths(node)} paths`)
      if (Array.isArray(node["params"]) && node["params"].length > 5)
        found.manyParameters.push(`${place} ${node["params"].length} parameters`)
    }
    listChildren(node).forEach(visit)
  }
  const program: unknown = parseAst(text, { lang: "ts" })
  if (isNode(program)) visit(program)
  return found
}

const all = sources()
const trees = all.map(readTree)
const names = trees.flatMap((tree) => tree.names)
const readLast = (name: string): string => name.slice(name.indexOf(": ") + 2)

const irregularParticiples = new Set(
  (
    "told shown kept made given sent held begun taken said known asked found left seen written drawn paid built chosen spoken worn lent won bound " +
    "met gone grown hidden laid lost meant shut spent stood thrown understood broken brought caught driven eaten fallen felt forgotten got"
  ).split(" ")
)
const verbsInEd = new Set(["embed", "exceed", "feed", "need", "proceed", "seed", "shed", "speed", "succeed"])
const isParticiple = (name: string): boolean =>
  /^[a-z]+$/.test(name) && ((name.endsWith("ed") && !verbsInEd.has(name)) || irregularParticiples.has(name))

/** Constructions that need a second reading. */
const constructions: ReadonlyArray<RegExp> = [
  /\b(?:nobody|somebody|whoever)\b/gi,
  /(?:^|[,;:.] |\b(?:of|for|to|in|by|with|from|and|than|as) )what (?!kind|sort|type)\w+/gim,
  /\b(?:that|those|the one|the ones) of\b/gi,
  /\bwhere (?:there|it|nothing|none|no|they)\b/gi,
  /\b(?:stands?|stood) (?:in|for|at|there|beside|above|below|behind)\b/gi,
  /\b(?:is|are|has|were|of) none\b/gi
]

/** The prose of the comments of a module, without its examples. */
const readComments = ({ text }: Source): string =>
  Array.from(text.matchAll(/\/\*\*?[\s\S]*?\*\/|(?:^[ \t]*\/\/.*\n)+/gm), ([comment]) =>
    comment
      .replaceAll(/```[\s\S]*?```/g, "")
      .replaceAll(/^\s*(?:\/\*\*?|\*\/|\*|\/\/) ?/gm, "")
      .replace(/\*\/$/, "")
  ).join("\n")

/** Constructions that Markdown pages avoid in addition to comments. */
const pageConstructions: ReadonlyArray<RegExp> = [
  ...constructions,
  /\b(?:anybody|everybody|whatever)\b/gi,
  /\bwhat (?:of|is|was|are|it|they|the|an?|you|has|have|can|may|does|to)\b/gi,
  /\bwhere one\b/gi,
  /\b(?:stands?|stood) (?:before|on)\b/gi,
  /\b(?:of|by) (?:its|their|your|our|his) own\b/gi,
  /(?<!there )\b(?:is|are) no\b/gi,
  /\b(?:gives?|gave|told|tells?|telling)\b/gi,
  /\b(?:goes|go|going|went|gone) on\b/gi,
  /\bwalls?\b/gi
]

/** Pages of the repository, except for the history of changes. */
const pages = [
  "README.md",
  ...[".github", "scratchpad", "src"].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
      .filter((path) => path.endsWith(".md") && !path.includes("node_modules") && path !== "CHANGELOG.md")
      .map((path) => join(folder, path))
  )
]

/** The prose of a page: without code and doors, each paragraph on one line. */
const readPage = (path: string): string =>
  readFileSync(join(root, path), "utf8")
    .replaceAll(/^```[\s\S]*?^```/gm, "")
    .replaceAll(/^## Door\n[\s\S]*?(?=^## |(?![\s\S]))/gm, "")
    .replaceAll(/`[^`]*`/g, "code")
    .replaceAll(/\n *(?=[^\s|#*\d-])/g, " ")

/** Places of constructions in a text, each with the words that were found. */
const findConstructions = (path: string, text: string, patterns: ReadonlyArray<RegExp>): ReadonlyArray<string> =>
  patterns.flatMap((pattern) => Array.from(text.matchAll(pattern), ([words]) => `${path}: ${words.trim()}`))

/** Names that are not those of Node, which files of this folder replace. */
const ownNames = names.filter((name) => !name.startsWith("base/platform/web/"))

/** What is counted, with the number of places that there may be. */
const figures: ReadonlyArray<{
  readonly title: string
  readonly bound: number
  readonly places: ReadonlyArray<string>
}> = [
  {
    title: "functions named by a bare participle",
    bound: 0,
    places: names.filter((name) => isParticiple(readLast(name)))
  },
  { title: "functions that end in Of", bound: 0, places: names.filter((name) => /[a-z]Of$/.test(readLast(name))) },
  {
    title: "functions named by one word",
    bound: 1000,
    places: ownNames.filter((name) => !/[A-Z]/.test(readLast(name)))
  },
  {
    title: "lines over 120 columns",
    bound: 203,
    places: all.flatMap(({ path, text }) =>
      text.split("\n").flatMap((line, index) => (line.length > 120 ? [`${path}:${index + 1}`] : []))
    )
  },
  { title: "functions over 80 lines", bound: 67, places: trees.flatMap((tree) => tree.longFunctions) },
  { title: "functions with more than 20 paths", bound: 11, places: trees.flatMap((tree) => tree.complexFunctions) },
  { title: "functions with more than five parameters", bound: 5, places: trees.flatMap((tree) => tree.manyParameters) },
  {
    title: "files over 450 lines",
    bound: 10,
    places: all.filter(({ lines }) => lines > 450).map(({ lines, path }) => `${path}: ${lines}`)
  },
  {
    title: "constructions in comments that need a second reading",
    bound: 1,
    places: all.flatMap((source) => findConstructions(source.path, readComments(source), constructions))
  },
  {
    title: "constructions in pages that need a second reading",
    bound: 0,
    places: pages.flatMap((path) => findConstructions(path, readPage(path), pageConstructions))
  }
]

describe("the sources have a bound of", () => {
  for (const { bound, places, title } of figures) {
    it(`${bound} ${title}`, () => {
      assert.isAtMost(places.length, bound, places.join("\n"))
      assert.isAtLeast(places.length, Math.floor(bound * 0.9), `there are ${places.length} left: lower the bound`)
    })
  }
})
