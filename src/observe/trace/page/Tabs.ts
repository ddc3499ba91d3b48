/** The tabs for the runs and their difference, the totals of the current run, and the state in the page's address. */
import { el } from "./Elements.ts"
import { data, enter, isDiff, state, total, viewed } from "./PageState.ts"
import { go } from "./Selection.ts"
import { byId, list } from "./Skeleton.ts"

/** Opens a view at its beginning. */
const show = (view: number): void => {
  enter(view)
  list.scrollTop = 0
  viewed.emit()
}

const names = (): ReadonlyArray<string> => [
  ...data.runs.map((run) => run.name),
  ...(data.diff === undefined ? [] : ["Difference"])
]

const steps: Readonly<Record<string, number>> = { ArrowRight: 1, ArrowLeft: -1 }

let tabs: ReadonlyArray<HTMLElement> = []

const makeTab = (name: string, view: number): HTMLElement => {
  const tab = el("button", "tab", name)
  tab.title = name
  tab.setAttribute("role", "tab")
  tab.addEventListener("click", () => show(view))
  tab.addEventListener("keydown", (event) => {
    const step = steps[event.key]
    if (step === undefined) return
    const next = (view + step + tabs.length) % tabs.length
    show(next)
    tabs[next]?.focus()
  })
  return tab
}

/** Draws the tabs, the totals, and the parts of the current view. */
export const drawTabs = (): void => {
  const sums = (isDiff() ? data.changes : data.runs[state.view]?.sums) ?? []
  byId("sums").replaceChildren(
    ...sums.map(({ bad, name, value }) => {
      const chip = el("span", bad ? "sum bad" : "sum")
      chip.append(el("b", "", value), ` ${name}`)
      return chip
    })
  )
  for (const [view, tab] of tabs.entries()) {
    tab.setAttribute("aria-selected", String(view === state.view))
    tab.tabIndex = view === state.view ? 0 : -1
  }
  for (const id of ["scale", "foldAll", "totals", "axisRow"]) byId(id).hidden = isDiff()
  byId("sideNames").hidden = !isDiff()
  byId("sideNames").replaceChildren(el("span", "sign"), ...data.runs.map((run) => el("b", "half", run.name)))
}

/** Functions that read and write the view and the selection in the page's address. Another page may override them. */
export const address = {
  read: (): URLSearchParams => new URLSearchParams(location.hash.slice(1)),
  write: (place: URLSearchParams): void => {
    try {
      history.replaceState(null, "", `#${place}`)
    } catch {
      // Some pages do not allow their address to be changed. They work without it.
    }
  }
}

/** Stores the view and the selection in the address. */
export const remember = (): void => {
  const place = new URLSearchParams({ view: String(state.view) })
  if (state.selected >= 0) place.set("row", String(state.selected))
  address.write(place)
}

const readNumber = (place: URLSearchParams, name: string): number => Number(place.get(name) ?? NaN)

/**
 * Opens the view and selects the entry that the address specifies. Returns false if the address does not identify a
 * view of this page.
 */
export const restore = (): boolean => {
  const place = address.read()
  const view = readNumber(place, "view")
  if (!Number.isInteger(view) || view < 0 || view >= tabs.length) return false
  show(view)
  const key = readNumber(place, "row")
  if (Number.isInteger(key) && key >= 0 && key < total()) go(key)
  return true
}

/** Creates the tabs of the loaded runs. */
export const makeTabs = (): void => {
  tabs = names().map(makeTab)
  byId("views").replaceChildren(...tabs)
  byId("views").hidden = tabs.length < 2
}
