/**
 * Compares two runs: pairs rows of the same kind, depth and name in order, and compares their text and status.
 *
 * **Details**
 *
 * Computes the shortest edit script (Myers) between the common beginning and the common end. Runs with little in common
 * are not compared completely: if more than {@link limit} edits are needed, all rows between these two parts count as
 * removed and added.
 */
import type { Row } from "./Row.ts"

/** Ids of a row in both runs. An id is -1 if that run does not contain the row. */
export interface Change {
  readonly state: "same" | "changed" | "removed" | "added"
  readonly left: number
  readonly right: number
}

/** Maximum number of edits in the search. */
const limit = 1500

/** Returns the key by which rows are paired. It excludes goals and models, which may differ. */
const makePairKey = ({ depth, kind, name, task }: Row): string =>
  kind === "agent" || kind === "llm" ? `${kind} ${depth} ${task}` : `${kind} ${depth} ${name}`

/**
 * Tests whether two paired rows are equal. Rows of agents count as equal, because their sessions always differ, and the
 * message or call that contains their goal is compared as a separate row.
 */
const isSame = (a: Row, b: Row): boolean =>
  a.status === b.status && (a.kind === "agent" || (a.name === b.name && a.text === b.text))

/**
 * Finds the longest common subsequence, as pairs of indexes in order. Returns an empty list if more than {@link limit}
 * edits are needed.
 */
const findCommonPairs = (
  a: ReadonlyArray<string>,
  b: ReadonlyArray<string>
): ReadonlyArray<readonly [number, number]> => {
  const most = Math.min(a.length + b.length, limit)
  const furthest = new Int32Array(2 * most + 3)
  const trail: Array<Int32Array> = []
  for (let edits = 0; edits <= most; edits++) {
    trail.push(furthest.slice())
    for (let k = -edits; k <= edits; k += 2) {
      const down =
        k === -edits || (k !== edits && getFurthest(furthest, k - 1, most) < getFurthest(furthest, k + 1, most))
      let x = down ? getFurthest(furthest, k + 1, most) : getFurthest(furthest, k - 1, most) + 1
      let y = x - k
      while (x < a.length && y < b.length && a[x] === b[y]) {
        x++
        y++
      }
      furthest[k + most + 1] = x
      if (x >= a.length && y >= b.length) return walkBack(a, b, trail, edits, most)
    }
  }
  return []
}

const getFurthest = (places: Int32Array, k: number, most: number): number => places[k + most + 1] ?? 0

const walkBack = (
  a: ReadonlyArray<string>,
  b: ReadonlyArray<string>,
  trail: ReadonlyArray<Int32Array>,
  edits: number,
  most: number
): ReadonlyArray<readonly [number, number]> => {
  const pairs: Array<readonly [number, number]> = []
  let [x, y] = [a.length, b.length]
  for (let d = edits; d >= 0; d--) {
    const before = trail[d] ?? new Int32Array()
    const k = x - y
    const down = k === -d || (k !== d && getFurthest(before, k - 1, most) < getFurthest(before, k + 1, most))
    const previous = d === 0 ? 0 : down ? k + 1 : k - 1
    const fromX = d === 0 ? 0 : getFurthest(before, previous, most)
    const fromY = fromX - previous
    while (x > fromX && y > fromY && x > 0 && y > 0) pairs.push([--x, --y])
    x = fromX
    y = fromY
  }
  return pairs.toReversed()
}

/** Compares the rows of two runs. Every row of both runs is in exactly one change. */
export const compareRows = (left: ReadonlyArray<Row>, right: ReadonlyArray<Row>): ReadonlyArray<Change> => {
  const a = left.map(makePairKey)
  const b = right.map(makePairKey)
  let start = 0
  while (start < a.length && start < b.length && a[start] === b[start]) start++
  let tail = 0
  while (tail < a.length - start && tail < b.length - start && a.at(-1 - tail) === b.at(-1 - tail)) tail++
  const pairs: Array<readonly [number, number]> = [
    ...Array.from({ length: start }, (_, index) => [index, index] as const),
    ...findCommonPairs(a.slice(start, a.length - tail), b.slice(start, b.length - tail)).map(
      ([x, y]) => [x + start, y + start] as const
    ),
    ...Array.from({ length: tail }, (_, index) => [a.length - tail + index, b.length - tail + index] as const)
  ]
  const changes: Array<Change> = []
  let [x, y] = [0, 0]
  for (const [toX, toY] of [...pairs, [a.length, b.length] as const]) {
    while (x < toX) changes.push({ state: "removed", left: x++, right: -1 })
    while (y < toY) changes.push({ state: "added", left: -1, right: y++ })
    const one = left[toX]
    const other = right[toY]
    if (one !== undefined && other !== undefined)
      changes.push({ state: isSame(one, other) ? "same" : "changed", left: x++, right: y++ })
  }
  return changes
}
