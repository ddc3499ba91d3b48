/**
 * `${VAR}` and `${env:VAR}` in the texts of the file.
 *
 * **Details**
 *
 * Expansion happens on parsed values, so that a variable can not change the structure of the file, and comments may say
 * what they like. A text that is one reference takes the type that its place expects, as a variable of the environment
 * does. `$${` is a literal `${`. Commands of a shell keep theirs.
 *
 * @since 0.1.0
 */
import * as Coerce from "./Coerce.ts"
import type { Shape } from "./Shape.ts"
import * as ShapeOf from "./Shape.ts"
import { isMapping, type Path } from "./Tree.ts"

/** A reference to a variable that nobody set. */
export interface Missing {
  readonly path: Path
  readonly variable: string
  readonly reference: string
}

const reference = /\$?\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}/g
const whole = /^\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}$/

/** The tree with its references replaced, and those that could not be. */
export const expand = (
  tree: unknown,
  shape: Shape,
  lookup: (name: string) => string | undefined
): { readonly tree: unknown; readonly missing: ReadonlyArray<Missing> } => {
  const missing: Array<Missing> = []

  const text = (value: string, shape: Shape | undefined, path: Path): unknown => {
    const only = whole.exec(value)?.[1]
    const found = only === undefined ? undefined : lookup(only)
    if (found !== undefined && shape !== undefined) return Coerce.coerce(found, shape)
    return value.replaceAll(reference, (match, variable: string) => {
      if (match.startsWith("$$")) return match.slice(1)
      const found = lookup(variable)
      if (found === undefined) missing.push({ path, variable, reference: match })
      return found ?? match
    })
  }

  const walk = (value: unknown, shape: Shape | undefined, path: Path): unknown => {
    if (typeof value === "string") {
      const verbatim = shape?._tag === "Value" && shape.facts.verbatim === true
      return verbatim || !value.includes("${") ? value : text(value, shape, path)
    }
    const inside = (key: string | number) => shape && ShapeOf.at(shape, [key])
    if (Array.isArray(value)) return value.map((item, index) => walk(item, inside(index), [...path, index]))
    if (!isMapping(value)) return value
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, walk(item, inside(key), [...path, key])]))
  }

  return { tree: walk(tree, shape, []), missing }
}

/** Names of the variables that a tree refers to. */
export const references = (tree: unknown): ReadonlyArray<string> => {
  if (typeof tree === "string") {
    return Array.from(tree.matchAll(reference)).flatMap(([match, variable]) => match.startsWith("$$") || variable === undefined ? [] : [variable])
  }
  if (Array.isArray(tree)) return tree.flatMap(references)
  return isMapping(tree) ? Object.values(tree).flatMap(references) : []
}
