/** How many single-character edits make one word of the other. */
const distance = (a: string, b: string): number => {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 0; i < a.length; i++) {
    const next = [i + 1]
    for (let j = 0; j < b.length; j++) {
      const substituted = (row[j] ?? 0) + (a[i] === b[j] ? 0 : 1)
      next.push(Math.min(substituted, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}

/** The name that somebody may have meant: the closest one, when no more than a third of it is wrong. */
export const nearest = (word: string, names: ReadonlyArray<string>): string | undefined => {
  let best: string | undefined
  let least = Infinity
  for (const name of names) {
    // A word of another length is at least that far away; a very long one is not worth the work.
    if (Math.abs(name.length - word.length) > name.length / 3) continue
    const edits = distance(word.toLowerCase(), name)
    if (edits < least && edits <= name.length / 3) {
      best = name
      least = edits
    }
  }
  return best
}
