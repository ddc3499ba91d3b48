/**
 * Markup of the viewer: tabs, totals, toolbar, map, timeline and details. Each page inserts {@link viewer} wherever it
 * needs it.
 */
import { el, make } from "./Elements.ts"

const parts = new Map<string, HTMLElement>()

/** Creates an element that other modules can find by its id, even before it is in the document. */
const part = <Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  id: string,
  attributes: Readonly<Record<string, string>> = {},
  ...inside: ReadonlyArray<Node | string>
): HTMLElementTagNameMap[Tag] => {
  const made = make(tag, { id, ...attributes }, ...inside)
  parts.set(id, made)
  return made
}

/** Returns the part of the viewer that has the given id. */
export const byId = (id: string): HTMLElement => {
  const found = parts.get(id)
  if (found === undefined) throw new Error(`the viewer has no element with the id ${id}`)
  return found
}

const keys: ReadonlyArray<readonly [keys: string, what: string]> = [
  ["↑ ↓", "previous row, next row"],
  ["← →", "fold and unfold; to the row around, to the first row inside"],
  ["Home End", "first row, last row"],
  ["Enter", "to the details; Escape goes back"],
  ["/", "search"],
  ["n N", "next failure or change, previous one"],
  ["+ -", "zoom in on the selected row, zoom out"],
  ["[ ]", "move the zoomed part"],
  ["0", "whole run"],
  ["t", "totals of agents, models and tools"],
  ["?", "these keys"]
]

const keyTable = (): HTMLElement => {
  const table = el("dl")
  for (const [names, what] of keys) {
    const term = el("dt")
    term.append(...names.split(" ").flatMap((name) => [el("kbd", "", name), " "]))
    table.append(term, el("dd", "", what))
  }
  return table
}

const button = (id: string, text: string, attributes: Readonly<Record<string, string>> = {}): HTMLElement =>
  part("button", id, { type: "button", ...attributes }, text)

const helpForm = (): HTMLElement => {
  const form = el("form")
  form.method = "dialog"
  const title = el("b", "", "Keys")
  title.id = "helpTitle"
  const note = el(
    "p",
    "dim",
    "Drag over the map to zoom, drag the zoomed part to move it, double-click for the whole run. " +
      "The address names the selected row."
  )
  form.append(title, keyTable(), note, el("button", "", "Close"))
  return form
}

/** The search field. */
export const search = part("input", "search", {
  type: "search",
  placeholder: "Search everything ( / )",
  "aria-label": "Search everything",
  autocomplete: "off",
  spellcheck: "false"
})
export const map = part("canvas", "map", { "aria-hidden": "true" })
/** Container of the drawn rows. Its height is the height of all rows. */
export const room = part("div", "room", { role: "presentation" })
/** Scroll container of the timeline. */
export const list = part(
  "div",
  "list",
  { role: "tree", tabindex: "0", "aria-label": "Timeline" },
  part("div", "none", { hidden: "" }, "No row matches. ", button("clear", "Clear search and filters")),
  room
)
/** The pane with the details of the selected row. */
export const detail = part("div", "detail", {
  role: "region",
  tabindex: "-1",
  "aria-label": "Details of the selected row"
})
/** The dialog with the list of keys. */
export const help = part("dialog", "help", { "aria-labelledby": "helpTitle" }, helpForm())

const tools = part(
  "div",
  "tools",
  { role: "toolbar", "aria-label": "Search and filters" },
  search,
  button("filters", "Filters", { "aria-expanded": "false" }),
  part(
    "span",
    "chosen",
    {},
    part("span", "kinds"),
    button("failed", "Failures", { "aria-pressed": "false" }),
    button("changes", "Only changes", { "aria-pressed": "false" })
  ),
  el("span", "gap"),
  part("span", "count", { role: "status" }),
  button("unzoom", "Whole run"),
  button("scale", "by time", { title: "Length of the bars" }),
  button("foldAll", "Fold"),
  button("totals", "Totals", { title: "Totals of agents, models and tools ( t )" }),
  button("keys", "?", { "aria-label": "Keys", title: "Keys ( ? )" })
)

const axisRow = part(
  "div",
  "axisRow",
  { "aria-hidden": "true" },
  el("span"),
  el("span", "cost", "tokens"),
  part("span", "axis"),
  el("span", "time", "time")
)

/** The whole viewer. */
export const viewer = part(
  "div",
  "viewer",
  {},
  part("div", "top", {}, part("nav", "views", { role: "tablist", "aria-label": "Runs" }), part("span", "sums")),
  tools,
  map,
  part(
    "div",
    "panes",
    {},
    part("div", "left", {}, axisRow, part("div", "sideNames"), list),
    part(
      "div",
      "right",
      {},
      button("closeDetail", "✕", { "aria-label": "Close the details", title: "Close ( Escape )" }),
      detail
    )
  ),
  help
)
