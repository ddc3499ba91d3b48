/** Selection: the entry that the details show, and the ways to another one. */
import { list, rowHeight } from "./Elements.ts"
import { choose, clearFilters } from "./Filters.ts"
import { changes, isBad, isDiff, placeOf, rows, selected, state } from "./PageState.ts"

/** Selects an entry by its key. */
export const select = (key: number): void => {
  state.selected = key
  selected.emit()
}

/** Selects the entry at a place of the shown ones, and scrolls to it. */
export const reveal = (place: number): void => {
  const key = state.shown[place]
  if (key === undefined) return
  const top = place * rowHeight
  if (top < list.scrollTop || top + rowHeight > list.scrollTop + list.clientHeight) {
    list.scrollTop = Math.max(0, top - list.clientHeight / 3)
  }
  select(key)
}

/** Selects an entry wherever it is: unfolds the rows around it, and clears the filters that hide it. */
export const go = (key: number): void => {
  if (!isDiff()) {
    const all = rows()
    for (let at = all[key]; at !== undefined && at.parent >= 0; at = all[at.parent]) state.folded.delete(at.parent)
    choose()
    if (placeOf(key) < 0) clearFilters()
  }
  const place = placeOf(key)
  if (place >= 0) reveal(place)
}

const isNotable = (key: number): boolean => {
  if (isDiff()) return changes[key]?.state !== "same"
  const row = rows()[key]
  return row !== undefined && isBad(row)
}

/** Selects the next failure or change in a direction, around the end. */
export const nextFailure = (step: 1 | -1): void => {
  const count = state.shown.length
  const selected = placeOf(state.selected)
  const from = selected < 0 && step < 0 ? 0 : selected
  for (let tried = 1; tried <= count; tried++) {
    const place = (from + step * tried + count * 2) % count
    const key = state.shown[place]
    if (key !== undefined && isNotable(key)) return reveal(place)
  }
}
