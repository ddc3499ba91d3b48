/** The timeline: a tree of rows, or the rows of two runs side by side. Only visible rows exist in the DOM. */
import type { Change } from "../Diff.ts"
import type { Row } from "../Row.ts"
import { colours, el, glyphs, rowHeight } from "./Elements.ts"
import { dollars, formatRowDuration, tokens } from "./Figures.ts"
import { fold } from "./Filters.ts"
import { appendMarked } from "./PageSearch.ts"
import {
  changes,
  extent,
  isBad,
  isDiff,
  isParent,
  findPlace,
  countRetries,
  rows,
  sides,
  state,
  visible
} from "./PageState.ts"
import { select } from "./Selection.ts"
import { list, room } from "./Skeleton.ts"

/** Number of rows that are drawn above and below the visible ones. */
const margin = 8

/** Maximum depth that increases the indentation of a row. */
const deepest = 24

/** Returns the colour of a row's bar. */
export const getBarColour = (row: Row): string => (isBad(row) ? colours.bad : colours[row.kind])

/** Renders the icon of a row's kind. */
export const renderKind = (row: Row): HTMLElement => {
  const mark = el("span", "kind", glyphs[row.kind])
  mark.style.color = getBarColour(row)
  mark.title = row.kind
  return mark
}

const renderBar = (row: Row): HTMLElement => {
  const track = el("span", "track")
  const where = extent(row)
  const { from, to } = visible()
  if (where === undefined || !(where.to >= from && where.from <= to)) return track
  const percent = (at: number): number => ((at - from) / (to - from)) * 100
  const left = Math.max(0, percent(where.from))
  const right = Math.min(100, percent(where.to))
  const bar = el("span", "bar")
  bar.style.left = `${Math.min(left, 99.6)}%`
  bar.style.width = `${Math.max(0, right - left)}%`
  bar.style.background = getBarColour(row)
  if (row.kind === "agent") bar.classList.add("around")
  track.append(bar)
  return track
}

const hasNotableStatus = (row: Row): boolean => row.status !== "" && row.status !== "ok"

/** Creates an entry of the list, with its attributes for assistive technology. */
const entry = (className: string, key: number, place: number): HTMLElement => {
  const node = el("div", `row${className}${state.selected === key ? " on" : ""}`)
  node.id = `row-${key}`
  node.setAttribute("role", "treeitem")
  node.setAttribute("aria-selected", String(state.selected === key))
  node.setAttribute("aria-posinset", String(place + 1))
  node.setAttribute("aria-setsize", String(state.shown.length))
  node.style.top = `${place * rowHeight}px`
  node.addEventListener("click", () => select(key))
  return node
}

const rowEntry = (row: Row, place: number): HTMLElement => {
  const node = entry(isBad(row) ? " bad" : "", row.id, place)
  const isFolded = state.folded.has(row.id)
  node.setAttribute("aria-level", String(row.depth + 1))
  const what = el("span", "what")
  what.style.paddingLeft = `${Math.min(row.depth, deepest) * 16}px`
  const caret = el("span", "fold", isParent(row) ? (isFolded ? "▸" : "▾") : "")
  if (isParent(row)) {
    node.setAttribute("aria-expanded", String(!isFolded))
    caret.addEventListener("click", (event) => {
      event.stopPropagation()
      fold(row, !isFolded)
    })
  }
  const text = appendMarked(el("span", "text"), row.text)
  const retries = countRetries(row)
  if (retries > 0) text.prepend(el("span", "status bad", retries === 1 ? "1 retry" : `${retries} retries`), " ")
  if (row.task !== "") text.prepend(el("span", "status", row.task), " ")
  if (hasNotableStatus(row)) text.prepend(el("span", isBad(row) ? "status bad" : "status", row.status), " ")
  what.append(caret, renderKind(row), appendMarked(el("span", "name"), row.name), text)
  node.append(what, el("span", "cost", tokens(row)), renderBar(row), el("span", "time", formatRowDuration(row)))
  const used = tokens(row)
  node.title = [row.name, row.status, formatRowDuration(row), used === "" ? "" : `${used} tokens`, dollars(row.cost)]
    .filter(Boolean)
    .join(" · ")
  return node
}

const signs: Readonly<Record<Change["state"], string>> = { same: "=", changed: "~", removed: "−", added: "+" }

/** Renders one side of a change. It is empty if the run does not contain the row. */
const half = (row: Row | undefined): HTMLElement => {
  const node = el("span", "half")
  if (row === undefined) return node
  const what = el("span", "what")
  what.style.paddingLeft = `${Math.min(row.depth, deepest) * 12}px`
  const text = `${hasNotableStatus(row) ? `${row.status} ` : ""}${row.text}`
  what.append(renderKind(row), appendMarked(el("span", "name"), row.name), appendMarked(el("span", "text"), text))
  node.append(what)
  return node
}

const changeEntry = (change: Change, key: number, place: number): HTMLElement => {
  const node = entry(` ${change.state}`, key, place)
  const sign = el("span", "sign", signs[change.state])
  const [left, right] = sides(change)
  sign.title = change.state
  node.append(sign, half(left), half(right))
  return node
}

const entryAt = (place: number): ReadonlyArray<HTMLElement> => {
  const key = state.shown[place] ?? -1
  const change = isDiff() ? changes[key] : undefined
  if (change !== undefined) return [changeEntry(change, key, place)]
  const row = rows()[key]
  return row === undefined ? [] : [rowEntry(row, place)]
}

let isScheduled = false

/** Draws the visible rows. */
export const drawTimeline = (): void => {
  isScheduled = false
  const first = Math.max(0, Math.floor(list.scrollTop / rowHeight) - margin)
  const last = Math.min(state.shown.length, Math.ceil((list.scrollTop + list.clientHeight) / rowHeight) + margin)
  const nodes: Array<HTMLElement> = []
  for (let place = first; place < last; place++) nodes.push(...entryAt(place))
  room.replaceChildren(...nodes)
  if (findPlace(state.selected) >= 0) list.setAttribute("aria-activedescendant", `row-${state.selected}`)
  else list.removeAttribute("aria-activedescendant")
}

/** Redraws the rows when the list scrolls, once per frame. */
export const startTimeline = (): void =>
  list.addEventListener("scroll", () => {
    if (isScheduled) return
    isScheduled = true
    requestAnimationFrame(drawTimeline)
  })
