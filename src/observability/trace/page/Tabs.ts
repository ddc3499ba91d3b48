/** Tabs: the runs and their difference, the totals of the one in view, and the place in the address. */
import { byId, detail, el, list } from "./Elements.ts"
import { data, isDiff, state, total, viewed } from "./PageState.ts"
import { go } from "./Selection.ts"

/** Shows a view from its beginning. */
const show = (view: number): void => {
  Object.assign(state, { view, selected: -1, folded: new Set(), zoom: undefined })
  detail.replaceChildren(el("p", "dim", "Choose a row to see all of it. Press ? for the keys."))
  list.scrollTop = 0
  viewed.emit()
}

const names = [...data.runs.map((run) => run.name), ...(data.diff === undefined ? [] : ["Difference"])]

const steps: Readonly<Record<string, number>> = { ArrowRight: 1, ArrowLeft: -1 }

const tabs = names.map((name, view) => {
  const tab = el("button", "tab", name)
  tab.setAttribute("role", "tab")
  tab.addEventListener("click", () => show(view))
  tab.addEventListener("keydown", (event) => {
    const step = steps[event.key]
    if (step === undefined) return
    const next = (view + step + names.length) % names.length
    show(next)
    tabs[next]?.focus()
  })
  return tab
})

/** Draws tabs, totals, and what a view has or has not. */
export const drawTabs = (): void => {
  const sums = (isDiff() ? data.changes : data.runs[state.view]?.sums) ?? []
  byId("sums").replaceChildren(...sums.map(({ bad, name, value }) => {
    const chip = el("span", bad ? "sum bad" : "sum")
    chip.append(el("b", "", value), ` ${name}`)
    return chip
  }))
  for (const [view, tab] of tabs.entries()) {
    tab.setAttribute("aria-selected", String(view === state.view))
    tab.tabIndex = view === state.view ? 0 : -1
  }
  for (const id of ["scale", "foldAll", "axisRow"]) byId(id).hidden = isDiff()
}

/** Puts view and selection into the address. */
export const remember = (): void => {
  const place = new URLSearchParams({ view: String(state.view) })
  if (state.selected >= 0) place.set("row", String(state.selected))
  try {
    history.replaceState(null, "", `#${place}`)
  } catch {
    // A page without an address works without it.
  }
}

const numberOf = (place: URLSearchParams, name: string): number => Number(place.get(name) ?? NaN)

/** Shows the view and the entry that the address names; false when it names none of this page. */
export const restore = (): boolean => {
  const place = new URLSearchParams(location.hash.slice(1))
  const view = numberOf(place, "view")
  if (!Number.isInteger(view) || view < 0 || view >= names.length) return false
  show(view)
  const key = numberOf(place, "row")
  if (Number.isInteger(key) && key >= 0 && key < total()) go(key)
  return true
}

/** Adds the tabs and shows the first view: the one of the address, else the difference, else the run. */
export const startTabs = (): void => {
  byId("views").append(...tabs)
  if (!restore()) show(data.diff === undefined ? 0 : data.runs.length)
}
