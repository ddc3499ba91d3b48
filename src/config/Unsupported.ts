/**
 * Keys that are accepted although nothing reads them yet: the lines that tell so, and the check that keeps a run from
 * starting where safety depends on such a key.
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

const remark = (shape: Shape.Shape, value: unknown): Omit<Remark, "path"> | undefined => {
  const mark = Shape.unsupported(shape)
  if (mark === undefined || mark.holds === "any") return undefined
  const said = JSON.stringify(value)
  if (mark.holds.some((holds) => JSON.stringify(holds) === said)) return undefined
  const remedy = mark.remedy ?? "remove it"
  return mark.stops === true
    ? { text: `${String(value)} is not supported yet: ${remedy}`, stops: true }
    : { text: `not supported yet, has no effect; ${remedy}`, stops: false }
}

/** The remarks about settings, or about a part of them at a path: as they stand in the file, or decoded. */
export const remarks = (value: unknown, shape: Shape.Shape | undefined = Shape.root(), path: Tree.Path = []): ReadonlyArray<Remark> => {
  if (shape === undefined) return []
  const found = remark(shape, value)
  if (found !== undefined) return [{ path, ...found }]
  if (shape._tag === "Value" || typeof value !== "object" || value === null) return []
  return Object.entries(value).flatMap(([name, item]) => {
    // Fields of a section are camelCase once decoded; names of a map and positions of a list are the user's.
    const key = shape._tag === "Section" ? fileKey(name) : shape._tag === "ListOf" ? Number(name) : name
    return remarks(item, Shape.at(shape, [key]), [...path, key])
  })
}

/** Settings in the words of the file, without the values that have no effect. */
export const withoutUnsupported = (tree: Tree.Mapping): Tree.Mapping => {
  const without = (value: Tree.Mapping, shape: Shape.Shape): Tree.Mapping =>
    Object.fromEntries(Object.entries(value).flatMap(([key, item]) => {
      const inside = Shape.at(shape, [key])
      if (inside === undefined) return [[key, item]]
      if (remark(inside, item) !== undefined) return []
      if (!Tree.isMapping(item) || Object.keys(item).length === 0) return [[key, item]]
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
