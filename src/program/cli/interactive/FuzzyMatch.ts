/**
 * Fuzzy search in a list: an item matches if its text contains the characters of the query in order, ignoring case.
 * Matches that are contiguous, at the start of a word, or in the last part of a path rank higher. Pure.
 *
 * Source: `hermes-product.md` §1.8.
 */

const isBoundary = (text: string, index: number): boolean => index === 0 || /[\s/._-]/.test(text.charAt(index - 1))

/** Scores text against a query, both in lower case. Returns `undefined` if the text does not match. */
const scoreMatch = (query: string, text: string): number | undefined => {
  if (query === "") return 0
  const base = text.lastIndexOf("/") + 1
  const whole = text.indexOf(query, base)
  const found = whole === -1 ? text.indexOf(query) : whole
  const length = text.length / 1000
  if (found !== -1)
    return (
      100 +
      (found >= base ? 40 : 0) +
      (isBoundary(text, found) ? 30 : 0) +
      (query.length === text.length ? 50 : 0) -
      length
    )
  let at = -1
  let points = 0
  for (const char of query) {
    const next = text.indexOf(char, at + 1)
    if (next === -1) return undefined
    points += next === at + 1 ? 4 : isBoundary(text, next) ? 3 : 0
    at = next
  }
  return (points / query.length) * 10 + (at >= base ? 5 : 0) - length
}

/** Returns the items whose text matches a query, best first, with ties in their original order; at most `count`. */
export const rank = <A>(
  query: string,
  items: ReadonlyArray<A>,
  toText: (item: A) => string,
  count: number
): ReadonlyArray<A> => {
  const wanted = query.toLowerCase().replaceAll(/\s+/g, "")
  if (wanted === "") return items.slice(0, count)
  const found: Array<{ readonly item: A; readonly points: number }> = []
  for (const item of items) {
    const points = scoreMatch(wanted, toText(item).toLowerCase())
    if (points !== undefined) found.push({ item, points })
  }
  return found
    .sort((a, b) => b.points - a.points)
    .slice(0, count)
    .map(({ item }) => item)
}
