/** Totals of a run for each agent, for each model and for each tool. */
import { isFailed, type Row } from "../Row.ts"
import { el } from "./Elements.ts"
import { dollars, duration, exact, short } from "./Figures.ts"
import { go } from "./Selection.ts"

/**
 * Totals of several rows. `millis` is the sum of the call durations, including parallel calls; for an agent, it is the
 * agent's own duration.
 */
interface Sums {
  readonly name: string
  /** Row that the name links to. `undefined` if several rows have this name. */
  readonly row: number | undefined
  readonly depth: number
  calls: number
  tools: number
  failed: number
  prompt: number
  completion: number
  cached: number
  cost: number
  millis: number
}

const sums = (name: string, row?: number, depth = 0): Sums => ({
  name,
  row,
  depth,
  calls: 0,
  tools: 0,
  failed: 0,
  prompt: 0,
  completion: 0,
  cached: 0,
  cost: 0,
  millis: 0
})

const add = (to: Sums, row: Row): void => {
  if (row.kind === "llm") to.calls++
  if (row.kind === "tool") to.tools++
  if (isFailed(row)) to.failed++
  to.prompt += row.promptTokens
  to.completion += row.completionTokens
  to.cached += row.cachedTokens
  to.cost += row.cost
}

/** For each agent, returns the totals of that agent's calls. The agents are in tree order. */
const ofAgents = (rows: ReadonlyArray<Row>): ReadonlyArray<Sums> => {
  const agents = new Map<number, Sums>()
  /** Agent of each row, by row id. Rows come after their parents. */
  const owners = new Map<number, number>()
  for (const row of rows) {
    const parent = owners.get(row.parent) ?? -1
    if (row.kind === "agent") {
      owners.set(row.id, row.id)
      const made = sums(row.name, row.id, parent < 0 ? 0 : (agents.get(parent)?.depth ?? 0) + 1)
      made.millis = row.end - row.start
      agents.set(row.id, made)
      continue
    }
    owners.set(row.id, parent)
    const agent = agents.get(parent)
    if (agent !== undefined && (row.kind === "llm" || row.kind === "tool")) add(agent, row)
  }
  return [...agents.values()]
}

/** Returns the totals of the rows of a kind by name, most calls first. */
const by = (rows: ReadonlyArray<Row>, kind: Row["kind"], name: (row: Row) => string): ReadonlyArray<Sums> => {
  const found = new Map<string, Sums>()
  for (const row of rows) {
    if (row.kind !== kind) continue
    const one = found.get(name(row)) ?? sums(name(row))
    found.set(one.name, one)
    add(one, row)
    one.millis += Math.max(0, row.end - row.start)
  }
  return [...found.values()].sort((a, b) => b.calls + b.tools - a.calls - a.tools)
}

const ofModels = (rows: ReadonlyArray<Row>): ReadonlyArray<Sums> => by(rows, "llm", (row) => row.model || row.name)

type Column = readonly [head: string, value: (one: Sums) => string]

const calls: Column = ["calls", (one) => exact(one.calls)]
const tools: Column = ["tools", (one) => exact(one.tools)]
const uses: Column = ["calls", (one) => exact(one.tools)]
const failed: Column = ["failed", (one) => (one.failed === 0 ? "" : exact(one.failed))]
const used: Column = [
  "tokens",
  (one) => (one.prompt + one.completion === 0 ? "" : `${short(one.prompt)} → ${short(one.completion)}`)
]
const cached: Column = [
  "cached",
  (one) => (one.cached === 0 ? "" : `${Math.round((one.cached / Math.max(1, one.prompt)) * 100)} %`)
]
const cost: Column = ["cost", (one) => dollars(one.cost)]
const time: Column = ["time", (one) => duration(one.millis)]

const nameCell = (one: Sums): HTMLElement => {
  const cell = el("th")
  cell.scope = "row"
  cell.title = one.name
  if (one.row === undefined) cell.textContent = one.name
  else {
    const { row } = one
    const link = el("button", "link", one.name)
    link.addEventListener("click", () => go(row))
    cell.append(link)
  }
  cell.style.paddingLeft = `${Math.min(one.depth, 6) * 12}px`
  return cell
}

/** Creates a table of totals. Columns that are empty in all rows are left out. */
const table = (title: string, all: ReadonlyArray<Sums>, columns: ReadonlyArray<Column>): ReadonlyArray<HTMLElement> => {
  if (all.length === 0) return []
  const used = columns.filter(([, value]) => all.some((one) => value(one) !== ""))
  const box = el("div", "wide")
  const made = el("table", "totals")
  const head = el("tr")
  head.append(el("th", "", title), ...used.map(([name]) => el("th", "", name)))
  made.append(head)
  for (const one of all) {
    const line = el("tr")
    line.append(
      nameCell(one),
      ...used.map((column) => el("td", column === failed && one.failed > 0 ? "bad" : "", column[1](one)))
    )
    made.append(line)
  }
  box.append(made)
  return [box]
}

/** Creates the tables of totals for rows in tree order. */
export const totalTables = (rows: ReadonlyArray<Row>): ReadonlyArray<HTMLElement> => [
  ...table("agent", ofAgents(rows), [calls, tools, failed, used, cached, cost, time]),
  ...table("model", ofModels(rows), [calls, failed, used, cached, cost, time]),
  ...table(
    "tool",
    by(rows, "tool", (row) => row.name),
    [uses, failed, time]
  )
]

/** Creates an element that shows the totals of a run. */
export const totals = (rows: ReadonlyArray<Row>): HTMLElement => {
  const box = el("div")
  box.append(
    el("h2", "", "Totals"),
    ...totalTables(rows),
    el("p", "dim", "Select a row to see all of it. Press ? for the keys.")
  )
  return box
}
