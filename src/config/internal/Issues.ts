/**
 * What the Schema refuses, one line per place: what was expected there and what was found.
 *
 * @since 0.1.0
 */
import type * as SchemaIssue from "effect/SchemaIssue"
import { redactText } from "../../domain/Redaction.ts"
import { fileKey } from "../Settings.ts"
import type { Shape } from "./Shape.ts"
import * as ShapeOf from "./Shape.ts"
import * as Tree from "./Tree.ts"

/** The place of each refusal; the Schema may speak of it by either name of a key. */
const places = (issue: SchemaIssue.Issue, path: ReadonlyArray<PropertyKey> = []): ReadonlyArray<ReadonlyArray<PropertyKey>> => {
  switch (issue._tag) {
    case "Pointer":
      return places(issue.issue, [...path, ...issue.path])
    case "Encoding":
    case "Filter":
      return places(issue.issue, path)
    case "Composite":
      return issue.issues.flatMap((inner) => places(inner, path))
    default:
      return [path]
  }
}

/** The place in words of the file, no deeper than something is declared. */
const filePath = (root: Shape, path: ReadonlyArray<PropertyKey>): Tree.Path => {
  const out: Array<string | number> = []
  let shape: Shape | undefined = root
  for (const key of path) {
    const name: string | number = typeof key === "number" ? key : shape._tag === "Section" ? fileKey(String(key)) : String(key)
    const inside: Shape | undefined = ShapeOf.at(shape, [name])
    if (inside === undefined) break
    out.push(name)
    shape = inside
  }
  return out
}

const longest = 60

const shorten = (text: string): string => text.length > longest ? `${text.slice(0, longest)}…` : text

/** A value as an error may show it. */
const found = (value: unknown, shape: Shape | undefined): string => {
  if (value === undefined || value === null) return "nothing"
  if (Array.isArray(value)) return "a list"
  if (Tree.isMapping(value)) return "a mapping"
  if (shape !== undefined && ShapeOf.isSecret(shape)) return `a ${typeof value}`
  return typeof value === "string" ? JSON.stringify(shorten(redactText(value))) : String(value)
}

/** The lines of a refusal, by place. */
export const explain = (
  issue: SchemaIssue.Issue,
  root: Shape,
  tree: unknown
): ReadonlyArray<{ readonly path: Tree.Path; readonly text: string }> => {
  const paths = new Map(places(issue).map((place) => {
    const path = filePath(root, place)
    return [Tree.show(path), path]
  }))
  return Array.from(paths.values(), (path) => {
    const shape = ShapeOf.at(root, path)
    const expected = shape === undefined ? "a mapping" : ShapeOf.expected(shape)
    return { path, text: `expected ${expected}, got ${found(Tree.get(tree, path), shape)}` }
  })
}
