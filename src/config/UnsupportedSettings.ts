/**
 * Warns of keys that are accepted although nothing reads them yet, and keeps a run from starting where safety depends on
 * such a key.
 *
 * **Details**
 *
 * Each is marked where it is defined, by `Fields.unsupported`. A value that describes what happens anyway draws no line.
 *
 * Source: `ARCHITECTURE.md` §7.
 */
import { ConfigError } from "../domain/AgentError.ts"
import * as Shape from "./internal/Shape.ts"
import * as Tree from "./internal/Tree.ts"
import { fileKey, type Values } from "./Settings.ts"

/** A remark about the value of an unsupported key. */
export interface Remark {
  readonly path: Tree.Path
  readonly text: string
  /** No run may start with it. */
  readonly stops: boolean
}

type Said = Omit<Remark, "path">

const withoutEffect = (remedy = "remove it"): Said => ({ text: `not supported yet, has no effect; ${remedy}`, stops: false })

/** The remark about the value under a name of `parent`; undefined where it has an effect, or may have in its parts. */
const remark = (parent: Shape.Shape, name: string | number, value: unknown): Said | undefined => {
  if (parent._tag === "MapOf" && parent.facts.unsupportedNames?.includes(String(name)) === true) return withoutEffect()
  const shape = Shape.at(parent, [name])
  const mark = shape === undefined ? undefined : Shape.unsupported(shape)
  if (mark === undefined || mark.holds === "any") return undefined
  const said = JSON.stringify(value)
  if (mark.holds.some((holds) => JSON.stringify(holds) === said)) return undefined
  return mark.stops === true
    ? { text: `${String(value)} is not supported yet: ${mark.remedy ?? "remove it"}`, stops: true }
    : withoutEffect(mark.remedy)
}

/** The remarks about the parts of settings, or of a value at a path: as they stand in the file, or decoded. */
export const remarks = (value: unknown, shape: Shape.Shape | undefined = Shape.root(), path: Tree.Path = []): ReadonlyArray<Remark> => {
  if (shape === undefined || shape._tag === "Value" || typeof value !== "object" || value === null) return []
  return Object.entries(value).flatMap(([name, item]) => {
    // Fields of a section are camelCase once decoded; names of a map and positions of a list are the user's.
    const key = shape._tag === "Section" ? fileKey(name) : shape._tag === "ListOf" ? Number(name) : name
    const found = remark(shape, key, item)
    return found === undefined ? remarks(item, Shape.at(shape, [key]), [...path, key]) : [{ path: [...path, key], ...found }]
  })
}

/** The remarks about the value of one key. */
export const remarksAt = (path: ReadonlyArray<string>, value: unknown): ReadonlyArray<Remark> => {
  const parent = path.length === 1 ? Shape.root() : Shape.ofPath(path.slice(0, -1))
  const found = parent === undefined ? undefined : remark(parent, path.at(-1) ?? "", value)
  return found === undefined ? remarks(value, Shape.ofPath(path), path) : [{ path, ...found }]
}

/** Settings in the words of the file, without the values that have no effect. */
export const withoutUnsupported = (tree: Tree.Mapping): Tree.Mapping => {
  const without = (value: Tree.Mapping, shape: Shape.Shape): Tree.Mapping =>
    Object.fromEntries(Object.entries(value).flatMap(([key, item]) => {
      if (remark(shape, key, item) !== undefined) return []
      const inside = Shape.at(shape, [key])
      if (inside === undefined || !Tree.isMapping(item) || Object.keys(item).length === 0) return [[key, item]]
      const left = without(item, inside)
      return Object.keys(left).length === 0 ? [] : [[key, left]]
    }))
  return without(tree, Shape.root())
}

/** The error of settings with which no run may start. */
export const refusal = (settings: Values): ConfigError | undefined => {
  const found = remarks(settings).find(({ stops }) => stops)
  if (found === undefined) return undefined
  const path = Tree.show(found.path)
  return new ConfigError({ path, message: `${path}: ${found.text}` })
}
