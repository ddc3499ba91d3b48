/** Details of a row: its ancestors, its figures, and all its contents as text. */
import type { Detail, Row } from "../Row.ts"
import { copier, parseJsonText, shownText } from "./DetailText.ts"
import { el } from "./Elements.ts"
import { dollars, exact, formatRowDuration, tokens } from "./Figures.ts"
import { holdsQuery } from "./PageSearch.ts"
import { data, isBad, rows } from "./PageState.ts"
import { go } from "./Selection.ts"
import { totalTables } from "./Subtotals.ts"
import { renderKind } from "./Timeline.ts"

/** Returns the role and the beginning of a message of a request. */
const summarizeMessage = (text: string, index: number): string => {
  const value = parseJsonText(text)
  const { content, role }: { readonly content?: unknown; readonly role?: unknown } =
    typeof value === "object" && value !== null ? value : {}
  const begin = typeof content === "string" ? content.replace(/\s+/gu, " ").slice(0, 90) : ""
  return `${role ? String(role) : `message ${index + 1}`}${begin === "" ? "" : `: ${begin}`}`
}

/**
 * Creates a collapsible box for a message of a request. Its content is created when it is opened. With `isOpen`, it is
 * open from the start.
 */
const messageBox = (text: string, index: number, isOpen: boolean): HTMLElement => {
  const box = el("details", "message")
  box.append(el("summary", "", summarizeMessage(text, index)))
  box.addEventListener("toggle", () => {
    if (box.open && box.children.length === 1) box.append(shownText(text))
  })
  if (isOpen || holdsQuery(text)) {
    box.append(shownText(text))
    box.open = true
  }
  return box
}

/** Creates a collapsible part with a title. Its content is created when it is opened. */
const foldedBox = (title: string, make: () => ReadonlyArray<HTMLElement>): HTMLElement => {
  const box = el("details", "folded")
  box.append(el("summary", "", title))
  box.addEventListener("toggle", () => {
    if (box.open && box.children.length === 1) box.append(...make())
  })
  return box
}

const section = (one: Detail): HTMLElement => {
  const parts = one.parts ?? []
  if (one.folded) return foldedBox(one.title, () => [copier(one.text), shownText(one.text)])
  const box = el("section")
  const head = el("h3", "", parts.length > 0 ? `${one.title} (${parts.length})` : one.title)
  box.append(head)
  if (one.text !== "") {
    head.append(copier(one.text))
    box.append(shownText(one.text))
  }
  box.append(...parts.map((part, index) => messageBox(data.pool[part] ?? "", index, index === parts.length - 1)))
  return box
}

const formatCachedTokens = (row: Row): string =>
  row.cachedTokens > 0
    ? `${exact(row.cachedTokens)} (${Math.round((row.cachedTokens / Math.max(1, row.promptTokens)) * 100)} % of the prompt)`
    : ""

/** Creates an element with the known figures of a row. */
export const facts = (row: Row): HTMLElement => {
  const start = row.start > 0 ? new Date(row.start).toISOString().replace("T", " ").replace("Z", " UTC") : ""
  const found: ReadonlyArray<readonly [name: string, value: string]> = [
    ["kind", row.kind],
    ["model", row.model],
    ["status", row.status],
    ["start", start],
    ["time", formatRowDuration(row)],
    ["tokens", tokens(row)],
    ["cached", formatCachedTokens(row)],
    ["cost", dollars(row.cost)]
  ]
  const box = el("dl")
  for (const [name, value] of found) {
    if (value !== "") box.append(el("dt", "", name), el("dd", name === "status" && isBad(row) ? "bad" : "", value))
  }
  return box
}

/** Creates links to the ancestors of a row, from the outermost to the nearest. */
const trail = (row: Row): HTMLElement => {
  const nav = el("nav", "trail")
  nav.setAttribute("aria-label", "Around this")
  const all = rows()
  for (let at = all[row.parent]; at !== undefined; at = all[at.parent]) {
    const { id } = at
    const link = el("button", "link", at.name)
    link.addEventListener("click", () => go(id))
    nav.prepend(link, " ▸ ")
  }
  return nav
}

/** Returns all descendants of a row. */
const inside = (row: Row): ReadonlyArray<Row> => {
  const all = rows()
  const end = all.findIndex(({ depth }, place) => place > row.id && depth <= row.depth)
  return all.slice(row.id + 1, end < 0 ? all.length : end)
}

/** Creates an element with all details of a row. */
export const rowDetails = (row: Row): HTMLElement => {
  const box = el("div")
  if (row.parent >= 0) box.append(trail(row))
  const head = el("h2")
  head.append(renderKind(row), " ", row.name)
  box.append(head, facts(row))
  if (row.kind === "agent") box.append(el("h3", "", "Totals, with sub-agents"), ...totalTables([row, ...inside(row)]))
  box.append(...row.details.map(section))
  return box
}
