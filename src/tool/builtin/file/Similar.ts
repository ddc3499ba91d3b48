/**
 * Names that a misspelt file name may have meant. Pure.
 *
 * @since 0.1.0
 */

/** Edits (insert, delete, replace) between two texts. */
export const distance = (a: string, b: string): number => {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}

/** How alike two texts are, 0 to 1. */
export const similarity = (a: string, b: string): number => {
  const longest = Math.max(a.length, b.length)
  return longest === 0 ? 1 : 1 - distance(a, b) / longest
}

const stem = (name: string): string => name.replace(/(?<!^)\.[^.]*$/, "")

const score = (wanted: string, name: string): number => {
  if (wanted === name) return 1
  if (stem(wanted) === stem(name)) return 0.95
  const contained = wanted.length >= 3 && (name.includes(wanted) || wanted.includes(name) && name.length >= 3)
  return Math.max(similarity(wanted, name), contained ? 0.7 : 0)
}

/** The names most like `wanted`, best first, at most `count`, none that is not alike. */
export const closest = (wanted: string, names: ReadonlyArray<string>, count: number): ReadonlyArray<string> => {
  const key = wanted.toLowerCase()
  return names
    .map((name) => ({ name, score: score(key, name.toLowerCase()) }))
    .filter(({ score }) => score >= 0.6)
    .sort((a, b) => b.score - a.score || a.name.localeCompare(b.name))
    .slice(0, count)
    .map(({ name }) => name)
}
