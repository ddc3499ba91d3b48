/** Search: finds the rows that contain the query, and highlights its matches in the displayed text. */
import type { Row } from "../Row.ts"
import { el } from "./Elements.ts"
import { data, state } from "./PageState.ts"

/** Maximum number of matches that are highlighted in one string. */
const mostMarks = 100

/** Returns the query in lower case. It is an empty string if there is no query. */
export const query = (): string => state.query.trim().toLowerCase()

const haystacks = new WeakMap<Row, string>()

const haystack = (row: Row): string => {
  const known = haystacks.get(row)
  if (known !== undefined) return known
  const text = [row.name, row.text, row.model, row.status, ...row.details.map((one) => one.text)]
    .join("\n")
    .toLowerCase()
  haystacks.set(row, text)
  return text
}

/** Returns a test for rows that contain the query. */
export const matcher = (): ((row: Row) => boolean) => {
  const asked = query()
  if (asked === "") return () => true
  const hits = new Set<number>()
  data.pool.forEach((text, index) => {
    if (text.toLowerCase().includes(asked)) hits.add(index)
  })
  return (row) =>
    haystack(row).includes(asked) || row.details.some((one) => one.parts?.some((part) => hits.has(part)) ?? false)
}

/** Tests whether a value, serialized as JSON, contains the query. */
export const holdsQuery = (value: unknown): boolean =>
  query() !== "" && JSON.stringify(value).toLowerCase().includes(query())

/** Appends text to an element, with the matches of the query highlighted, and returns the element. */
export const appendMarked = <E extends HTMLElement>(node: E, text: string): E => {
  const asked = query()
  const lower = asked === "" ? "" : text.toLowerCase()
  let from = 0
  // If the lower-case text has a different length, the positions of matches would be wrong.
  const most = asked === "" || lower.length !== text.length ? 0 : mostMarks
  for (let found = 0; found < most; found++) {
    const at = lower.indexOf(asked, from)
    if (at < 0) break
    node.append(text.slice(from, at), el("mark", "", text.slice(at, at + asked.length)))
    from = at + asked.length
  }
  node.append(text.slice(from))
  return node
}
