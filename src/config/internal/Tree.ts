/**
 * Reads and changes places in the plain values of a file: mappings, lists and scalars.
 */
import { providerKeysKey } from "../Settings.ts"

/** A mapping of the file. */
export type Mapping = Readonly<Record<string, unknown>>

/** A place: keys of mappings, positions of lists. */
export type Path = ReadonlyArray<string | number>

/** Tests for a mapping. */
export const isMapping = (value: unknown): value is Mapping =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const own = (tree: unknown, key: string | number): unknown => {
  if (Array.isArray(tree)) return tree[Number(key)]
  return isMapping(tree) && Object.hasOwn(tree, key) ? tree[String(key)] : undefined
}

/** Value at a place, or undefined. */
export const get = (tree: unknown, path: Path): unknown => path.reduce(own, tree)

/** A copy with a value at a place; mappings that are missing on the way are made. */
export const set = (tree: unknown, path: ReadonlyArray<string>, value: unknown): unknown => {
  const [key, ...rest] = path
  if (key === undefined) return value
  return { ...(isMapping(tree) ? tree : {}), [key]: set(own(tree, key), rest, value) }
}

/** A copy without the place. */
export const remove = (tree: unknown, path: ReadonlyArray<string>): unknown => {
  const [key, ...rest] = path
  if (key === undefined || !isMapping(tree) || !Object.hasOwn(tree, key)) return tree
  if (rest.length > 0) return { ...tree, [key]: remove(tree[key], rest) }
  return Object.fromEntries(Object.entries(tree).filter(([name]) => name !== key))
}

const showKey = (key: string): string => /^[\w<>-]+$/.test(key) ? key : JSON.stringify(key)

/** The place as it is in the file: see `gatherProviderKeys`. */
export const inFile = (path: Path): Path => path[0] === providerKeysKey ? path.slice(1) : path

/** A place as users read it: `agent.max_turns`, `fallback_providers[0].model`, `providers.x.models."a.b"`. */
export const show = (path: Path): string =>
  inFile(path).reduce<string>((shown, key) => {
    if (typeof key === "number") return `${shown}[${key}]`
    return shown === "" ? showKey(key) : `${shown}.${showKey(key)}`
  }, "")
