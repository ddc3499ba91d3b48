/**
 * Secret values of a part of a runtime's fibers, such as the keys of one tenant. A registry of such a part contains all
 * forms of its values. The registry of the runtime hides their plain form, for writers that belong to no part.
 */
import type { Registry } from "./Secrets.ts"

/** Range of characters. */
type Place = readonly [from: number, end: number]

/** Number of values up to which text is searched for one after the other, which the engine does faster. */
const fewValues = 8

/** Number of characters at the beginning of a value by which it is found. */
const keyLength = 4

const filterSize = 4_096

const hashKey = (text: string, at: number): number =>
  (Math.imul(text.charCodeAt(at), 31 ** 3) +
    Math.imul(text.charCodeAt(at + 1), 31 ** 2) +
    Math.imul(text.charCodeAt(at + 2), 31) +
    text.charCodeAt(at + 3)) %
  filterSize

/** Creates an index of values by their beginnings. The values have at least {@link keyLength} characters. */
const makeIndex = () => {
  const byHash = new Map<number, Array<string>>()
  /** 1 for each hash with values. Most positions of a text are left out by it. */
  const filter = new Uint8Array(filterSize)
  const none: ReadonlyArray<string> = []
  return {
    addValue: (value: string): void => {
      const hash = hashKey(value, 0)
      byHash.set(hash, [...(byHash.get(hash) ?? []), value])
      filter[hash] = 1
    },
    removeValue: (value: string): void => {
      const hash = hashKey(value, 0)
      const left = (byHash.get(hash) ?? []).filter((one) => one !== value)
      byHash.set(hash, left)
      if (left.length === 0) filter[hash] = 0
    },
    /** Lists the values that may begin at a position with at least {@link keyLength} characters after it. */
    listCandidates: (text: string, at: number): ReadonlyArray<string> => {
      const hash = hashKey(text, at)
      return filter[hash] === 1 ? (byHash.get(hash) ?? none) : none
    }
  }
}

type Index = ReturnType<typeof makeIndex>

const findValue = (text: string, value: string): ReadonlyArray<Place> => {
  const places: Array<Place> = []
  for (let at = text.indexOf(value); at !== -1; at = text.indexOf(value, at + 1)) places.push([at, at + value.length])
  return places
}

/** Finds all values in one pass over the text. */
const findValues = (text: string, { listCandidates }: Index): ReadonlyArray<Place> => {
  const places: Array<Place> = []
  const last = text.length - keyLength
  for (let at = 0; at <= last; at++)
    for (const value of listCandidates(text, at)) if (text.startsWith(value, at)) places.push([at, at + value.length])
  return places
}

/** Finds the beginnings of values that may continue after the end of the text. */
const findBeginnings = (text: string, values: ReadonlySet<string>, index: Index, longest: number): Array<Place> => {
  const places: Array<Place> = []
  for (let at = Math.max(0, text.length - longest + 1); at < text.length; at++) {
    const rest = text.slice(at)
    const candidates = rest.length < keyLength ? values : index.listCandidates(text, at)
    for (const value of candidates) {
      if (value.length <= rest.length || !value.startsWith(rest)) continue
      places.push([at, text.length + 1])
      break
    }
  }
  return places
}

/** Replaces places, in order. Places that overlap are replaced as one. */
const replacePlaces = (text: string, places: ReadonlyArray<Place>, mask: (value: string) => string): string => {
  let shown = ""
  let done = 0
  for (let index = 0; index < places.length;) {
    const [from, to] = places[index] ?? [0, 0]
    let end = to
    for (index++; (places[index]?.[0] ?? Infinity) < end; index++) end = Math.max(end, places[index]?.[1] ?? 0)
    shown += text.slice(done, from) + mask(text.slice(from, end))
    done = end
  }
  return shown + text.slice(done)
}

/**
 * Creates a list of at most `most` values, from which the oldest is removed first. `mask` renders a value. Values have
 * at least four characters.
 */
export const makeLentValues = (most: number, mask: (value: string) => string) => {
  const lent = new Set<string>()
  const index = makeIndex()
  let additions = 0
  /** Length of the longest value so far. */
  let longest = 0
  const removeValue = (value: string): boolean => {
    if (!lent.delete(value)) return false
    index.removeValue(value)
    return true
  }
  return {
    countValues: (): number => lent.size,
    /** Returns the number of additions so far. */
    countAdditions: (): number => additions,
    addValue: (value: string): void => {
      if (!removeValue(value)) additions++
      lent.add(value)
      index.addValue(value)
      longest = Math.max(longest, value.length)
      const [oldest] = lent
      if (lent.size > most && oldest !== undefined) removeValue(oldest)
    },
    replaceAll: (text: string): string => {
      if (lent.size > fewValues) return replacePlaces(text, findValues(text, index), mask)
      let shown = text
      for (const value of lent) if (shown.includes(value)) shown = shown.replaceAll(value, mask(value))
      return shown
    },
    /** Finds the values in a text, and the beginnings of values that may continue after its end. */
    findPlaces: (text: string): ReadonlyArray<Place> => [
      ...(lent.size > fewValues ? findValues(text, index) : Array.from(lent).flatMap((one) => findValue(text, one))),
      ...findBeginnings(text, lent, index, longest)
    ]
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
