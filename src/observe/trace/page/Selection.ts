/** Selection: the entry that the details pane shows, and functions that select another entry. */
import { rowHeight } from "./Elements.ts"
import { choose, clearFilters } from "./Filters.ts"
import { query } from "./PageSearch.ts"
import { changes, isBad, isDiff, findPlace, redraw, rows, selected, state } from "./PageState.ts"
import { list } from "./Skeleton.ts"

/** Selects an entry by its key. */
export const select = (key: number): void => {
  state.selected = key
  selected.emit()
}

/** Selects the entry at an index of the shown entries, and scrolls to it. */
export const reveal = (place: number): void => {
  const key = state.shown[place]
  if (key === undefined) return
  // Must come first, because the details pane may open and make the list smaller.
  select(key)
  const top = place * rowHeight
  if (top >= list.scrollTop && top + rowHeight <= list.scrollTop + list.clientHeight) return
  list.scrollTop = Math.max(0, top - list.clientHeight / 3)
  redraw.emit()
}

/** Selects an entry even if it is hidden: expands its ancestors, and clears the filters that hide it. */
export const go = (key: number): void => {
  if (!isDiff()) {
    const all = rows()
    for (let at = all[key]; at !== undefined && at.parent >= 0; at = all[at.parent]) state.folded.delete(at.parent)
    choose()
    if (findPlace(key) < 0) clearFilters()
  }
  const place = findPlace(key)
  if (place >= 0) reveal(place)
}

const isNotable = (key: number): boolean => {
  if (isDiff()) return changes[key]?.state !== "same"
  const row = rows()[key]
  return row !== undefined && isBad(row)
}

/** Returns the keys among which the next failure is searched, including keys of rows inside collapsed rows. */
const listSearchedKeys = (): ReadonlyArray<number> =>
  isDiff() || query() !== "" || state.failed
    ? state.shown
    : rows().flatMap((row) => (state.hidden.has(row.kind) ? [] : [row.id]))

/** Selects the next failure or change in a direction, wrapping around at the ends. */
export const nextFailure = (step: 1 | -1): void => {
  const keys = listSearchedKeys()
  const selected = keys.indexOf(state.selected)
  const from = selected < 0 && step < 0 ? 0 : selected
  for (let tried = 1; tried <= keys.length; tried++) {
    const key = keys[(from + step * tried + keys.length * 2) % keys.length]
    if (key !== undefined && isNotable(key)) return go(key)
  }
}
