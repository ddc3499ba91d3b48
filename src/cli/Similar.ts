/**
 * The words that somebody may have meant. Pure.
 *
 * Source: `hermes-product.md` §1.1 (similarity of at least 0.6).
 *
 * @since 0.1.0
 */

const threshold = 0.6

/** Letters that two words have in common, in the same order. */
const common = (a: string, b: string): number => {
  let row = Array.from({ length: b.length + 1 }, () => 0)
  for (const letter of a) {
    const next = [0]
    for (let j = 0; j < b.length; j++) {
      next.push(b[j] === letter ? (row[j] ?? 0) + 1 : Math.max(next[j] ?? 0, row[j + 1] ?? 0))
    }
    row = next
  }
  return row[b.length] ?? 0
}

/** The share of the letters of both words that they have in common, 0 to 1. */
export const similarity = (a: string, b: string): number =>
  a.length + b.length === 0 ? 1 : (2 * common(a, b)) / (a.length + b.length)

/** The words most like `wanted`, best first, at most `count`, none that is not alike. */
export const closest = (wanted: string, words: ReadonlyArray<string>, count: number): ReadonlyArray<string> =>
  words
    .map((word) => ({ word, score: similarity(wanted.toLowerCase(), word.toLowerCase()) }))
    .filter(({ score }) => score >= threshold)
    .sort((a, b) => b.score - a.score)
    .slice(0, count)
    .map(({ word }) => word)
