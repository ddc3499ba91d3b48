/**
 * How alike two words are: twice the number of matching characters over the number of all, matching the longest common
 * block first and then what lies on either side of it (Ratcliff and Obershelp).
 *
 * Source: `hermes-llm.md` §13.2.
 *
 * @since 0.1.0
 */

interface Block {
  readonly a: number
  readonly b: number
  readonly size: number
}

/** The longest run that both ranges share; the earliest of several. */
const longest = (a: string, b: string, aFrom: number, aTo: number, bFrom: number, bTo: number): Block => {
  let best: Block = { a: aFrom, b: bFrom, size: 0 }
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

const matches = (a: string, b: string, aFrom: number, aTo: number, bFrom: number, bTo: number): number => {
  const block = longest(a, b, aFrom, aTo, bFrom, bTo)
  if (block.size === 0) return 0
  return block.size +
    matches(a, b, aFrom, block.a, bFrom, block.b) +
    matches(a, b, block.a + block.size, aTo, block.b + block.size, bTo)
}

/** 0 for nothing in common, 1 for equal words. */
export const ratio = (a: string, b: string): number =>
  a.length + b.length === 0 ? 1 : (2 * matches(a, b, 0, a.length, 0, b.length)) / (a.length + b.length)
