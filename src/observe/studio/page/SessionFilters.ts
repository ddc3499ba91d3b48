/** Filters for sessions: a form that edits the query in the address. The list and the insights share it. */
import { el, make } from "../../trace/page/Elements.ts"
import type { SessionList, Sort, Status } from "../StudioApi.ts"
import { address, go, route } from "./Router.ts"
import { button, choice, field } from "./Widgets.ts"

/** Names of the filters in an address. They are the same as in the server's query. */
const names = ["q", "status", "model", "tool", "source", "days", "minCost", "children", "sort", "order"] as const

const statuses: ReadonlyArray<readonly [Status | "", string]> = [
  ["", "any state"],
  ["running", "running"],
  ["ok", "ok"],
  ["error", "error"],
  ["interrupted", "interrupted"]
]

const spans: ReadonlyArray<readonly [string, string]> = [
  ["", "any time"],
  ["1", "last 24 hours"],
  ["7", "last 7 days"],
  ["30", "last 30 days"],
  ["90", "last 90 days"]
]

const sorts: ReadonlyArray<readonly [Sort | "", string]> = [
  ["", "newest first"],
  ["started", "started last"],
  ["duration", "longest first"],
  ["cost", "dearest first"],
  ["tokens", "most tokens first"],
  ["errors", "most errors first"],
  ["steps", "most steps first"],
  ["title", "by title"]
]

const dayMillis = 86_400_000

/** Converts the filters in an address to a query for the server. */
export const toServerQuery = (parameters: URLSearchParams): URLSearchParams => {
  const query = new URLSearchParams()
  for (const name of names) {
    if (name === "days") continue
    for (const value of parameters.getAll(name)) if (value !== "") query.append(name, value)
  }
  const days = Number(parameters.get("days") ?? "")
  if (days > 0) query.set("since", String(Date.now() - days * dayMillis))
  if (query.get("sort") === "title" && !query.has("order")) query.set("order", "asc")
  query.set("utcOffset", String(-new Date().getTimezoneOffset()))
  return query
}

const filtersIn = (parameters: URLSearchParams): number =>
  names.filter((name) => name !== "q" && name !== "sort" && name !== "order" && (parameters.get(name) ?? "") !== "")
    .length

/** Returns the parameters that must be passed to another page so that it uses the same filters. */
export const selectFilterParameters = (parameters: URLSearchParams): URLSearchParams => {
  const found = new URLSearchParams()
  for (const name of names) for (const value of parameters.getAll(name)) if (value !== "") found.append(name, value)
  return found
}

/** The form of filters above a list of sessions. */
export interface SessionFilters {
  readonly element: HTMLElement
  /** Offers these values as choices. */
  readonly offer: (known: SessionList["known"]) => void
}

/** Creates the form. A change navigates to the address with the new filters. `sorted` adds the sort order for lists. */
export const sessionFilters = (sorted: boolean): SessionFilters => {
  const { page, parameters } = route()
  const at = (name: (typeof names)[number]): string => parameters.get(name) ?? ""
  const words = make("input", {
    type: "search",
    id: "query",
    placeholder: "Search titles and messages ( / )",
    "aria-label": "Search titles and messages",
    value: at("q"),
    autocomplete: "off",
    spellcheck: "false"
  })
  const status = choice(statuses, at("status"))
  const days = choice(spans, at("days"))
  const model = choice([["", "any model"]])
  const tool = choice([["", "any tool"]])
  const source = choice([["", "any source"]])
  const minCost = make("input", { type: "number", min: "0", step: "any", value: at("minCost"), placeholder: "0" })
  const children = make("input", { type: "checkbox" })
  children.checked = at("children") === "true"
  const sort = choice(sorts, at("sort"))
  const values: Readonly<Record<string, () => string>> = {
    q: () => words.value.trim(),
    status: () => status.value,
    days: () => days.value,
    model: () => model.value,
    tool: () => tool.value,
    source: () => source.value,
    minCost: () => minCost.value,
    children: () => (children.checked ? "true" : ""),
    sort: () => sort.value
  }
  const apply = (replace: boolean): void => {
    const next = new URLSearchParams()
    for (const [name, value] of Object.entries(values)) if (value() !== "") next.set(name, value())
    const to = address(page, next)
    if (to !== location.hash) go(to, replace)
  }
  const count = filtersIn(parameters)
  const more = make(
    "details",
    { class: "filterBox", ...(count > 0 ? { open: "" } : {}) },
    el("summary", "", count > 0 ? `Filters (${count})` : "Filters")
  )
  more.append(
    make(
      "div",
      { class: "fields" },
      field("State", status),
      field("Active in", days),
      field("Model", model),
      field("Tool", tool),
      field("Source", source),
      field("Cost from $", minCost),
      field("Sub-agents too", children),
      button("Clear", () => go(address(page)), { class: "small" })
    )
  )
  const form = make("form", { class: "filters", role: "search" }, words, more)
  if (sorted) form.append(field("Order", sort))
  form.addEventListener("submit", (event) => {
    event.preventDefault()
    apply(false)
  })
  form.addEventListener("change", (event) => {
    if (event.target !== words) apply(false)
  })
  let waiting: ReturnType<typeof setTimeout> | undefined
  words.addEventListener("input", () => {
    clearTimeout(waiting)
    // A search adds one entry to the history, not one per letter. No entry is added if the reader has left the page.
    waiting = setTimeout(() => {
      if (form.isConnected) apply(true)
    }, 250)
  })
  const fill = (select: HTMLSelectElement, known: ReadonlyArray<string>, chosen: string): void => {
    const have = new Set(Array.from(select.options, (option) => option.value))
    for (const value of chosen === "" || known.includes(chosen) ? known : [...known, chosen]) {
      if (have.has(value)) continue
      const option = el("option", "", value)
      option.value = value
      option.selected = value === chosen
      select.append(option)
    }
  }
  const offer = (known: SessionList["known"]): void => {
    fill(model, known.models, at("model"))
    fill(tool, known.tools, at("tool"))
    fill(source, known.sources, at("source"))
  }
  offer({ models: [], sources: [], tools: [] })
  return { element: form, offer }
}
