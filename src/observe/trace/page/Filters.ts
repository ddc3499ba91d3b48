/** Filters: the selection of the entries that the view shows, and the toolbar that controls it. */
import type { Kind, Row } from "../Row.ts"
import { el, glyphs, kinds, rowHeight, setPressed } from "./Elements.ts"
import { exact, short } from "./Figures.ts"
import { matcher, query } from "./PageSearch.ts"
import { changes, data, isBad, isDiff, isParent, redraw, rows, sides, state, total } from "./PageState.ts"
import { byId, list, room, search } from "./Skeleton.ts"

const labels: Readonly<Record<Kind, string>> = {
  agent: "Agents",
  user: "User",
  system: "System",
  llm: "Model",
  tool: "Tools",
  approval: "Approvals",
  mark: "Marks"
}

/** Returns the keys of changes with at least one side that passes the filters. */
const shownChanges = (passes: (row: Row) => boolean): ReadonlyArray<number> =>
  changes.flatMap((change, key) =>
    !(state.changes && change.state === "same") && sides(change).some((row) => row !== undefined && passes(row))
      ? [key]
      : []
  )

/**
 * Returns the keys of rows that pass the filters. Rows inside collapsed rows are excluded, unless a query or the
 * failure filter is active.
 */
const shownRows = (passes: (row: Row) => boolean): ReadonlyArray<number> => {
  const folded = new Set<number>()
  const everywhere = query() !== "" || state.failed
  const found: Array<number> = []
  for (const row of rows()) {
    const inside = folded.has(row.parent)
    if (inside || state.folded.has(row.id)) folded.add(row.id)
    if ((everywhere || !inside) && passes(row)) found.push(row.id)
  }
  return found
}

/** Applies the filters, collapsed rows and query to the view. */
export const choose = (): void => {
  const matches = matcher()
  const passes = (row: Row): boolean => !state.hidden.has(row.kind) && (!state.failed || isBad(row)) && matches(row)
  state.shown = isDiff() ? shownChanges(passes) : shownRows(passes)
  const shown = state.shown.length
  room.style.height = `${shown * rowHeight}px`
  byId("count").textContent = shown === total() ? `${exact(total())} rows` : `${exact(shown)} of ${exact(total())}`
  byId("none").hidden = shown > 0
  redraw.emit()
}

const toggles = ["failed", "changes"] as const

const press = (name: (typeof toggles)[number], on: boolean): void => {
  state[name] = on
  setPressed(byId(name), on)
}

const chips = kinds.map((kind) => {
  const chip = el("button", "chip")
  const glyph = el("span", "kind", glyphs[kind])
  const label = el("span", "", labels[kind])
  glyph.style.color = `var(--${kind})`
  chip.append(glyph, label)
  setPressed(chip, true)
  chip.addEventListener("click", () => {
    if (!state.hidden.delete(kind)) state.hidden.add(kind)
    setPressed(chip, !state.hidden.has(kind))
    choose()
  })
  return { kind, chip, label }
})

/** Clears the search text. */
export const clearQuery = (): void => {
  state.query = ""
  search.value = ""
  choose()
}

/** Removes all filters. */
export const clearFilters = (): void => {
  state.hidden.clear()
  for (const { chip } of chips) setPressed(chip, true)
  for (const name of toggles) press(name, false)
  clearQuery()
}

/**
 * Shows the number of rows of each kind and of failures on the filter buttons, and hides buttons that do not apply to
 * the view.
 */
export const drawFilters = (): void => {
  byId("changes").hidden = !isDiff()
  byId("failed").hidden = isDiff()
  const all = isDiff() ? data.runs.flatMap((run) => run.rows) : rows()
  for (const { chip, kind, label } of chips) {
    const count = all.filter((row) => row.kind === kind).length
    chip.hidden = count === 0
    label.textContent = `${labels[kind]} ${short(count)}`
  }
  const bad = all.filter(isBad).length
  byId("failed").textContent = `Failures ${bad}`
  byId("failed").toggleAttribute("disabled", bad === 0)
  if (bad === 0) press("failed", false)
}

/** Collapses or expands a row. */
export const fold = (row: Row, closed: boolean): void => {
  if (!isParent(row)) return
  if (closed) state.folded.add(row.id)
  else state.folded.delete(row.id)
  choose()
}

/**
 * Expands all rows. If all are already expanded, collapses all rows below the top level, or the top-level rows if no
 * other row has children.
 */
const foldAll = (): void => {
  const inside = state.folded.size > 0 ? [] : rows().filter(isParent)
  const below = inside.filter((row) => row.depth > 0)
  state.folded = new Set((below.length > 0 ? below : inside).map((row) => row.id))
  choose()
}

/** Updates the toolbar after another module changed the filters or the query. */
export const drawChoice = (): void => {
  search.value = state.query
  for (const { chip, kind } of chips) setPressed(chip, !state.hidden.has(kind))
  for (const name of toggles) setPressed(byId(name), state[name])
  byId("scale").textContent = `by ${state.scale}`
}

/** Creates the contents of the toolbar, and listens to its events. */
export const startFilters = (): void => {
  byId("kinds").append(...chips.map(({ chip }) => chip))
  byId("clear").addEventListener("click", clearFilters)
  byId("foldAll").addEventListener("click", foldAll)
  for (const name of toggles) {
    byId(name).addEventListener("click", () => {
      press(name, !state[name])
      list.scrollTop = 0
      choose()
    })
  }
  byId("filters").addEventListener("click", () => {
    const isOpen = byId("tools").classList.toggle("open")
    byId("filters").setAttribute("aria-expanded", String(isOpen))
  })
  search.addEventListener("input", () => {
    state.query = search.value
    list.scrollTop = 0
    choose()
  })
}
