/** Details of a change: the row in both runs, with its text compared line by line. */
import type { Change } from "../Diff.ts"
import type { Detail, Row } from "../Row.ts"
import { renderFoldedText } from "./DetailText.ts"
import { el } from "./Elements.ts"
import { data, sides } from "./PageState.ts"
import { facts } from "./RowDetails.ts"
import { renderKind } from "./Timeline.ts"

/** Maximum number of cells in the comparison table. For longer text, both versions are shown without a comparison. */
const mostCells = 4e6

type Line = readonly [sign: " " | "-" | "+", text: string]

/**
 * Merges the lines of two strings into one list, paired by their longest common subsequence. Returns `undefined` if
 * they are too long.
 */
const lineDiff = (left: string, right: string): ReadonlyArray<Line> | undefined => {
  const a = left.split("\n")
  const b = right.split("\n")
  if (a.length * b.length > mostCells) return undefined
  // A cell of the table contains the length of the longest common subsequence of `a` from index `i` and `b` from index
  // `j`.
  const width = b.length + 1
  const table = new Uint32Array((a.length + 1) * width)
  const common = (i: number, j: number): number => table[i * width + j] ?? 0
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      table[i * width + j] = a[i] === b[j] ? common(i + 1, j + 1) + 1 : Math.max(common(i + 1, j), common(i, j + 1))
    }
  }
  const lines: Array<Line> = []
  let [i, j] = [0, 0]
  while (i < a.length || j < b.length) {
    const [one, other] = [a[i], b[j]]
    if (one !== undefined && one === other) {
      lines.push([" ", one])
      i++
      j++
    } else if (one !== undefined && (other === undefined || common(i + 1, j) >= common(i, j + 1))) {
      lines.push(["-", one])
      i++
    } else {
      lines.push(["+", other ?? ""])
      j++
    }
  }
  return lines
}

const joinDetailText = (one: Detail | undefined): string =>
  one === undefined ? "" : [one.text, ...(one.parts ?? []).map((part) => data.pool[part])].filter(Boolean).join("\n")

const classes: Readonly<Record<Line[0], string>> = { " ": "", "-": "minus", "+": "plus" }

/** Renders the comparison of two strings. If they are too long, shows one after the other. */
const comparison = (left: string, right: string): ReadonlyArray<HTMLElement> => {
  const lines = lineDiff(left, right)
  if (lines === undefined) return [renderFoldedText(left), renderFoldedText(right)]
  const pre = el("pre", "lines")
  pre.append(...lines.map(([sign, line]) => el("span", classes[sign], `${sign} ${line}\n`)))
  return [pre]
}

/** Renders the comparison of all details of two rows. Equal details come last and are collapsed. */
const renderComparison = (left: Row | undefined, right: Row | undefined): HTMLElement => {
  const box = el("div")
  const same = el("div")
  const of = (row: Row | undefined): ReadonlyArray<Detail> => row?.details ?? []
  for (const title of new Set([...of(left), ...of(right)].map((one) => one.title))) {
    const [a, b] = [
      joinDetailText(of(left).find((one) => one.title === title)),
      joinDetailText(of(right).find((one) => one.title === title))
    ]
    const isFolded = [...of(left), ...of(right)].some((one) => one.title === title && one.folded)
    if (a === b || isFolded) {
      const kept = el("details", "message")
      kept.append(
        el("summary", "", a === b ? `${title}: the same in both` : title),
        ...(a === b ? [renderFoldedText(a)] : comparison(a, b))
      )
      same.append(kept)
    } else box.append(el("h3", "", title), ...comparison(a, b))
  }
  box.append(same)
  return box
}

/** Renders both sides of a change. */
export const changeDetails = (change: Change): HTMLElement => {
  const [left, right] = sides(change)
  const box = el("div")
  const head = el("h2")
  const row = left ?? right
  if (row !== undefined) head.append(renderKind(row), " ", row.name, el("span", "status", change.state))
  const both = el("div", "sides")
  for (const [index, one] of [left, right].entries()) {
    const side = el("div")
    side.append(
      el("h3", "", data.runs[index]?.name),
      one === undefined ? el("p", "dim", "not in this run") : facts(one)
    )
    both.append(side)
  }
  box.append(head, both, renderComparison(left, right))
  return box
}
