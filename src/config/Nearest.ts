/**
 * The name that somebody may have meant.
 *
 * @since 0.1.0
 */

/** How many edits make one word of the other: a character put in, taken out or replaced, or two neighbours swapped. */
export const distance = (a: string, b: string): number => {
  let previous: ReadonlyArray<number> = []
  let row = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 0; i < a.length; i++) {
    const next = [i + 1]
    for (let j = 0; j < b.length; j++) {
      const replaced = (row[j] ?? 0) + (a[i] === b[j] ? 0 : 1)
      const swapped = i > 0 && j > 0 && a[i] === b[j - 1] && a[i - 1] === b[j] ? (previous[j - 1] ?? 0) + 1 : Infinity
      next.push(Math.min(replaced, swapped, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1))
    }
    previous = row
    row = next
  }
  return row[b.length] ?? 0
}

/** The closest of some names, when no more than a third of it is wrong. */
export const nearest = (word: string, names: Iterable<string>): string | undefined => {
  let best: string | undefined
  let least = Infinity
  for (const name of names) {
    const allowed = Math.max(1, Math.floor(name.length / 3))
    // A word of another length is at least that far away.
    if (Math.abs(name.length - word.length) > allowed) continue
    const edits = distance(word.toLowerCase(), name)
    if (edits <= allowed && edits < least) {
      best = name
      least = edits
    }
  }
  return best
}
