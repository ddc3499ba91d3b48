/**
 * Similarity of two short strings, and the closest matches for a misspelled name. Pure. The time grows with the product
 * of both lengths, so callers must limit the lengths.
 *
 * **Details**
 *
 * {@link distance} counts edits and suits names and lines typed by a user. {@link ratio} is the measure that the
 * specification requires for names of tools and commands (Ratcliff and Obershelp, as `difflib` computes it).
 *
 * Source: `hermes-llm.md` §13.2 (ratio), `hermes-product.md` §1.1 (a similarity of at least 0.6).
 */

/**
 * Returns the number of edits between two strings. An edit inserts, deletes or replaces a character, or swaps two
 * adjacent ones.
 */
export const distance = (a: string, b: string): number => {
  let before: ReadonlyArray<number> = []
  let previous: ReadonlyArray<number> = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 0; i < a.length; i++) {
    const row = [i + 1]
    for (let j = 0; j < b.length; j++) {
      const replaced = (previous[j] ?? 0) + (a[i] === b[j] ? 0 : 1)
      const swapped = i > 0 && j > 0 && a[i] === b[j - 1] && a[i - 1] === b[j] ? (before[j - 1] ?? 0) + 1 : Infinity
      row.push(Math.min(replaced, swapped, (previous[j + 1] ?? 0) + 1, (row[j] ?? 0) + 1))
    }
    before = previous
    previous = row
  }
  return previous[b.length] ?? 0
}

/**
 * Returns the share of the longer string that needs no edit: 1 for equal strings, 0 for strings with nothing in common.
 */
export const similarity = (a: string, b: string): number => {
  const longest = Math.max(a.length, b.length)
  return longest === 0 ? 1 : 1 - distance(a, b) / longest
}

/** A range in each of two strings, as start (inclusive) and end (exclusive). */
interface TextRanges {
  readonly aFrom: number
  readonly aTo: number
  readonly bFrom: number
  readonly bTo: number
}

/** Finds the longest substring that two ranges share; the earliest if there are several. */
const findLongestRun = (a: string, b: string, { aFrom, aTo, bFrom, bTo }: TextRanges) => {
  let best = { a: aFrom, b: bFrom, size: 0 }
  let lengths = new Map<number, number>()
  for (let i = aFrom; i < aTo; i++) {
    const next = new Map<number, number>()
    for (let j = bFrom; j < bTo; j++) {
      if (a[i] !== b[j]) continue
      const size = (lengths.get(j - 1) ?? 0) + 1
      next.set(j, size)
      if (size > best.size) best = { a: i - size + 1, b: j - size + 1, size }
    }
    lengths = next
  }
  return best
}

const countMatching = (a: string, b: string, ranges: TextRanges): number => {
  const run = findLongestRun(a, b, ranges)
  return run.size === 0
    ? 0
    : run.size +
        countMatching(a, b, { ...ranges, aTo: run.a, bTo: run.b }) +
        countMatching(a, b, { ...ranges, aFrom: run.a + run.size, bFrom: run.b + run.size })
}

/**
 * Returns twice the number of matching characters divided by the number of all characters, 0 to 1. The longest common
 * substring is matched first; the parts on either side of it are then matched in the same way.
 */
export const ratio = (a: string, b: string): number =>
  a.length + b.length === 0
    ? 1
    : (2 * countMatching(a, b, { aFrom: 0, aTo: a.length, bFrom: 0, bTo: b.length })) / (a.length + b.length)

/** Returns the name with the fewest edits to a word, if at most a third of the name differs; otherwise `undefined`. */
export const findNearest = (word: string, names: Iterable<string>): string | undefined => {
  let best: string | undefined
  let least = Infinity
  for (const name of names) {
    const allowed = Math.max(1, Math.floor(name.length / 3))
    // The distance is at least the difference in length.
    if (Math.abs(name.length - word.length) > allowed) continue
    const edits = distance(word.toLowerCase(), name)
    if (edits <= allowed && edits < least) {
      best = name
      least = edits
    }
  }
  return best
}

const alike = 0.6

/**
 * Returns at most `count` names that are similar to `wanted`, the most similar first (ties in the given order). The
 * similarity is measured in lower case, from 0 to 1. Names with less than 0.6 are excluded.
 */
export const findClosest = (
  wanted: string,
  names: ReadonlyArray<string>,
  count: number,
  measure: (wanted: string, name: string) => number = ratio
): ReadonlyArray<string> =>
  names
    .map((name) => ({ name, likeness: measure(wanted.toLowerCase(), name.toLowerCase()) }))
    .filter(({ likeness }) => likeness >= alike)
    .sort((a, b) => b.likeness - a.likeness)
    .slice(0, count)
    .map(({ name }) => name)
