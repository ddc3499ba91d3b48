/**
 * Secret values of a part of a runtime's fibers, such as the keys of one tenant. A registry of such a part contains all
 * forms of its values. The registry of the runtime hides their plain form, for writers that belong to no part.
 */
import type { Registry } from "./Secrets.ts"

/** Range of characters. */
type Place = readonly [from: number, end: number]

/** Finds a value in text, also if it may continue after the end of the text. */
const findPlaces = (text: string, value: string): ReadonlyArray<Place> => {
  const places: Array<Place> = []
  for (let at = text.indexOf(value); at !== -1; at = text.indexOf(value, at + 1)) places.push([at, at + value.length])
  for (let at = Math.max(0, text.length - value.length + 1); at < text.length; at++) {
    if (text[at] !== value[0] || !value.startsWith(text.slice(at))) continue
    places.push([at, text.length + 1])
    break
  }
  return places
}

/** Creates a list of at most `most` values, from which the oldest is removed first. `mask` renders a value. */
export const makeLentValues = (most: number, mask: (value: string) => string) => {
  const lent = new Set<string>()
  let additions = 0
  return {
    countValues: (): number => lent.size,
    /** Returns the number of additions so far. */
    countAdditions: (): number => additions,
    addValue: (value: string): void => {
      if (!lent.delete(value)) additions++
      lent.add(value)
      const [oldest] = lent
      if (lent.size > most && oldest !== undefined) lent.delete(oldest)
    },
    replaceAll: (text: string): string => {
      let shown = text
      for (const value of lent) if (shown.includes(value)) shown = shown.replaceAll(value, mask(value))
      return shown
    },
    findPlaces: (text: string): ReadonlyArray<Place> => Array.from(lent).flatMap((value) => findPlaces(text, value))
  }
}

/** Maximum number of extended registries that are kept for their next use. */
const mostExtensions = 16

/** Creates a cache of extended registries by their values. */
export const makeExtensions = () => {
  const known = new Map<string, Registry>()
  return {
    findOrMake: (values: ReadonlyArray<string>, makeRegistry: () => Registry): Registry => {
      const key = JSON.stringify(values)
      const found = known.get(key) ?? makeRegistry()
      known.delete(key)
      known.set(key, found)
      const oldest = known.size > mostExtensions ? known.keys().next() : undefined
      if (oldest?.done === false) known.delete(oldest.value)
      return found
    }
  }
}

/** Joins the registry of a runtime and the registry of one part. `add` adds values to the part. */
export const joinRegistries = (base: Registry, own: Registry, add: Registry["add"]): Registry => ({
  add,
  extend: (values) => joinRegistries(base.extend(values), own, add),
  version: () => base.version() + own.version(),
  mask: (text) => base.mask(own.mask(text)),
  within: (text, from, to) => {
    const byBase = base.within(text, from, to)
    const byOwn = own.within(text, from, to)
    return byBase === byOwn
      ? byOwn
      : Array.from({ length: byOwn.length }, (_, at) => (byBase[at] === "*" ? "*" : byOwn[at])).join("")
  },
  cut: (text, wanted) => {
    for (let at = wanted; ;) {
      const next = own.cut(text, base.cut(text, at))
      if (next === at) return at
      at = next
    }
  }
})
