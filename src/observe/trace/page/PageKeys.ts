/** Keyboard shortcuts of the viewer. The dialog that lists them is in `Skeleton`. */
import { rowHeight } from "./Elements.ts"
import { clearQuery, fold } from "./Filters.ts"
import { extent, isDiff, isParent, findPlace, rezoom, rows, state, zoomTo } from "./PageState.ts"
import { closeDetails, showTotals } from "./DetailPane.ts"
import { go, nextFailure, reveal } from "./Selection.ts"
import { byId, detail, help, list, search, viewer } from "./Skeleton.ts"

const hasModifier = (event: KeyboardEvent): boolean => event.ctrlKey || event.metaKey || event.altKey

/** Returns the index to which a key moves the selection. It is not yet clamped to the bounds of the list. */
const computeTarget = (key: string, from: number, last: number): number | undefined => {
  const page = Math.max(1, Math.floor(list.clientHeight / rowHeight) - 1)
  switch (key) {
    case "ArrowDown":
    case "j":
      return from + 1
    case "ArrowUp":
    case "k":
      return from - 1
    case "PageDown":
      return from + page
    case "PageUp":
      return from - page
    case "Home":
      return 0
    case "End":
      return last
    default:
      return undefined
  }
}

/**
 * Handles the arrow keys: right expands a row, then selects its first child; left collapses it, then selects its
 * parent.
 */
const foldOrStep = (event: KeyboardEvent, place: number): void => {
  const row = rows()[state.selected]
  if (row === undefined) return
  const isFolded = state.folded.has(row.id)
  event.preventDefault()
  if (event.key === "ArrowRight") {
    if (isParent(row) && isFolded) fold(row, false)
    else if (isParent(row) && place < state.shown.length - 1) reveal(place + 1)
  } else if (isParent(row) && !isFolded) fold(row, true)
  else if (row.parent >= 0) go(row.parent)
}

const onList = (event: KeyboardEvent): void => {
  if (hasModifier(event) || state.shown.length === 0) return
  const place = findPlace(state.selected)
  const last = state.shown.length - 1
  const to = computeTarget(event.key, place, last)
  if (to !== undefined) {
    event.preventDefault()
    reveal(Math.max(0, Math.min(last, to)))
  } else if (isDiff() || place < 0) return
  else if (event.key === "ArrowRight" || event.key === "ArrowLeft") foldOrStep(event, place)
  else if (event.key === "Enter") detail.focus()
}

const onSearch = (event: KeyboardEvent): void => {
  if (event.key === "Escape") {
    clearQuery()
    list.focus()
  } else if ((event.key === "Enter" || event.key === "ArrowDown") && state.shown.length > 0) {
    event.preventDefault()
    list.focus()
    if (findPlace(state.selected) < 0) reveal(0)
  }
}

const isTyping = (): boolean => document.activeElement?.matches("input, textarea, select") ?? false

/** Zooms in on the selected row if its extent is known, or else on the middle of the visible part. */
const zoomIn = (): void => {
  const row = rows()[state.selected]
  const where = row === undefined ? undefined : extent(row)
  rezoom(0.5, 0, where === undefined ? undefined : (where.from + where.to) / 2)
}

const commands: Readonly<Record<string, () => void>> = {
  "/": () => {
    search.focus()
    search.select()
  },
  n: () => nextFailure(1),
  N: () => nextFailure(-1),
  "?": () => help.showModal(),
  "+": zoomIn,
  "=": zoomIn,
  "-": () => rezoom(2),
  "[": () => rezoom(1, -0.25),
  "]": () => rezoom(1, 0.25),
  "0": () => zoomTo(undefined),
  t: () => showTotals()
}

const anywhere = (event: KeyboardEvent): void => {
  if (!viewer.isConnected || hasModifier(event) || isTyping() || document.querySelector("dialog[open]") !== null) return
  const command = commands[event.key]
  if (command !== undefined) {
    event.preventDefault()
    command()
  } else if (event.key === "Escape" && viewer.contains(document.activeElement)) {
    if (document.activeElement === list) closeDetails()
    list.focus()
  }
}

/** Connects the keys of the page and the button of their list. */
export const startKeys = (): void => {
  list.addEventListener("keydown", onList)
  search.addEventListener("keydown", onSearch)
  document.addEventListener("keydown", anywhere)
  byId("keys").addEventListener("click", () => help.showModal())
}
