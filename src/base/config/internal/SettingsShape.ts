/** The shape of the settings that their Schema declares, and places in it as users write them. */
import { findNearest } from "../../domain/Similarity.ts"
import { SettingsSchema } from "../SettingsSchema.ts"
import { providerKeysKey } from "./FileKeys.ts"
import * as Tree from "./Tree.ts"

let cached: Tree.Section | undefined

/** Returns the shape of the whole file. */
export const getRootShape = (): Tree.Section => (cached ??= Tree.makeSection(SettingsSchema.ast))

/** Returns the shape at a path as users write it. In a path `<provider>.api_keys`, the provider may have any name. */
export const findShapeOfPath = (path: ReadonlyArray<string>): Tree.Shape | undefined => {
  if (Tree.findReservedName(path) !== undefined) return undefined
  return (
    Tree.findShape(getRootShape(), path) ??
    (path.length > 1 && !getRootShape().fields.has(path[0] ?? "")
      ? Tree.findShape(getRootShape(), [providerKeysKey, ...path])
      : undefined)
  )
}

/**
 * Returns the known path that is closest to a path, with each wrong name replaced by the nearest; `undefined` if no
 * known name is similar.
 */
export const findNearestPath = (path: ReadonlyArray<string>): ReadonlyArray<string> | undefined => {
  const found: Array<string> = []
  for (const name of path) {
    const parent = Tree.findShape(getRootShape(), found)
    const known = Tree.findShape(getRootShape(), [...found, name]) !== undefined
    const meant = known ? name : parent?._tag === "Section" ? findNearest(name, parent.fields.keys()) : undefined
    if (meant === undefined) return undefined
    found.push(meant)
  }
  return found
}

/** Replaces the references in a tree of settings. Returns the new tree and the references that have no value. */
export const expand = (
  tree: unknown,
  lookup: (name: string) => string | undefined
): ReturnType<typeof Tree.expandWith> => Tree.expandWith(getRootShape(), tree, lookup)
