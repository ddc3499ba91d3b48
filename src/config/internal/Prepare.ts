/**
 * What is done to raw settings before the Schema sees them, because it needs to be said to the user: keys that nobody
 * knows, keys that have no effect yet, and numbers that are brought into bounds. Keys without a value (`base_url:`) count as absent.
 *
 * @since 0.1.0
 */
import { nearest } from "../../domain/Similarity.ts"
import { providerKeysKey } from "../Settings.ts"
import * as Unsupported from "../Unsupported.ts"
import * as Coerce from "./Coerce.ts"
import type { Section, Shape, Value } from "./Shape.ts"
import { isMapping, type Path, show } from "./Tree.ts"

/** A remark about a place. */
export interface Remark {
  readonly path: Path
  readonly text: string
  /** No run may start with it. */
  readonly stops?: boolean
}

/** Puts the `<provider>.api_keys` of the top level, whose names are free, under one key that the Schema knows. */
export const gatherProviderKeys = (tree: unknown, root: Shape): unknown => {
  if (!isMapping(tree) || root._tag !== "Section") return tree
  const isPool = ([key, value]: readonly [string, unknown]): boolean =>
    !root.fields.has(key) && isMapping(value) && Object.hasOwn(value, "api_keys")
  const entries = Object.entries(tree)
  const pools = entries.filter(isPool)
  if (pools.length === 0) return tree
  return { ...Object.fromEntries(entries.filter((entry) => !isPool(entry))), [providerKeysKey]: Object.fromEntries(pools) }
}

/** See the module. */
export const prepare = (
  tree: unknown,
  root: Shape
): { readonly tree: unknown; readonly remarks: ReadonlyArray<Remark> } => {
  const remarks: Array<Remark> = []

  const single = (value: unknown, { facts }: Value, path: Path): unknown => {
    if (typeof value === "string" && facts.words === true) return Coerce.boolean(value) ?? value
    if (facts.scalars === true && (typeof value === "number" || typeof value === "boolean")) return String(value)
    if (typeof value !== "number") return value
    const bounded = Math.min(Math.max(value, facts.least ?? -Infinity), facts.most ?? Infinity)
    if (bounded !== value && !Number.isNaN(value)) {
      remarks.push({ path, text: `${value} is out of bounds, using ${bounded}` })
      return bounded
    }
    return value
  }

  const unknownKey = (key: string, { fields, open }: Section, path: Path): void => {
    const meant = nearest(key, fields.keys())
    if (open && meant === undefined) return
    const hint = meant === undefined ? "" : `; did you mean "${show([...path.slice(0, -1), meant])}"?`
    remarks.push({ path, text: `unknown key, ignored${hint}` })
  }

  const walk = (value: unknown, shape: Shape, path: Path): unknown => {
    switch (shape._tag) {
      case "Section": {
        if (!isMapping(value)) return value
        return Object.fromEntries(Object.entries(value).flatMap(([key, item]) => {
          const field = shape.fields.get(key)
          if (field === undefined) unknownKey(key, shape, [...path, key])
          return field === undefined || item === null || item === "" ? [] : [[key, walk(item, field, [...path, key])]]
        }))
      }
      case "MapOf": {
        if (!isMapping(value)) return value
        const present = Object.entries(value).filter(([, item]) => item !== null)
        return Object.fromEntries(present.map(([key, item]) => [key, walk(item, shape.item, [...path, key])]))
      }
      case "ListOf":
        return Array.isArray(value) ? value.map((item, index) => walk(item, shape.item, [...path, index])) : value
      case "Value":
        return single(value, shape, path)
    }
  }

  const prepared = walk(tree, root, [])
  return { tree: prepared, remarks: [...remarks, ...Unsupported.remarks(prepared, root)] }
}
