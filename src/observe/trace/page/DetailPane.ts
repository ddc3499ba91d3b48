/**
 * The details pane. It shows the selected row or change, or the totals if nothing is selected. On narrow screens it
 * covers a part of the timeline.
 */
import { changeDetails } from "./DiffView.ts"
import { el } from "./Elements.ts"
import { changes, isDiff, rows, selected, state } from "./PageState.ts"
import { rowDetails } from "./RowDetails.ts"
import { byId, detail, viewer } from "./Skeleton.ts"
import { totals } from "./Subtotals.ts"

let isOpen = false
let drawn: unknown

const open = (on: boolean): void => {
  isOpen = on
  viewer.classList.toggle("open", isOpen)
}

const empty = (): HTMLElement =>
  isDiff() ? el("p", "dim", "Select a change to compare both sides. Press ? for the keys.") : totals(rows())

/** Draws the selection. Keeps the scroll position if the selection has not changed. */
export const drawDetails = (): void => {
  const change = isDiff() ? changes[state.selected] : undefined
  const row = rows()[state.selected]
  const shown = change ?? row
  // Updates of an active run repeat the same rows. Details are redrawn only if they changed, so that expanded parts
  // stay open.
  if (shown !== undefined && JSON.stringify(shown) === drawn) return
  drawn = shown && JSON.stringify(shown)
  const at = detail.scrollTop
  detail.replaceChildren(change !== undefined ? changeDetails(change) : row !== undefined ? rowDetails(row) : empty())
  detail.scrollTop = shown === undefined ? at : 0
}

/** Opens the pane for a selection if it is closed. */
export const openDetails = (): void => open(state.selected >= 0)

/** Closes the pane if it covers the timeline. */
export const closeDetails = (): void => {
  open(false)
}

/** Shows the totals. */
export const showTotals = (): void => {
  state.selected = -1
  selected.emit()
  open(true)
}

/** Connects the buttons of the detail pane. */
export const startDetails = (): void => {
  byId("closeDetail").addEventListener("click", closeDetails)
  byId("totals").addEventListener("click", showTotals)
}
