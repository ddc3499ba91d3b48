/**
 * State of the viewer: its data, the view in use, filters, selection and zoom, and the signals that notify other
 * modules of changes.
 *
 * **Details**
 *
 * A view is a run, identified by its index, or the difference, which comes after the runs. A key identifies one entry
 * of a view: the `id` of a row, or the index of a change in the difference.
 */
import type { Change } from "../Diff.ts"
import type { Data, Run } from "../PageData.ts"
import type { Kind, Row } from "../Row.ts"
import { duration, short } from "./Figures.ts"

/** The data that is shown. Set by {@link load}. */
export let data: Data = { runs: [], pool: [] }

/** An interval on the current scale: milliseconds since the epoch, or tokens used so far. */
export interface Extent {
  readonly from: number
  readonly to: number
}

interface State {
  view: number
  readonly hidden: Set<Kind>
  folded: Set<number>
  query: string
  /** True if only failed rows are shown. */
  failed: boolean
  /** True if only changed entries are shown, in the difference. */
  changes: boolean
  scale: "time" | "tokens"
  /** Key of the selected entry, or -1 if no entry is selected. */
  selected: number
  /** Keys of the entries that pass the filters, in order. */
  shown: ReadonlyArray<number>
  zoom: Extent | undefined
}

/** State of the page. The module that changes a member draws its part of the page again. */
export const state: State = {
  view: 0,
  hidden: new Set(),
  folded: new Set(),
  query: "",
  failed: false,
  changes: true,
  scale: "time",
  selected: -1,
  shown: [],
  zoom: undefined
}

const signal = () => {
  const listeners: Array<() => void> = []
  return {
    listen: (...added: ReadonlyArray<() => void>): void => {
      listeners.push(...added)
    },
    emit: (): void => listeners.forEach((listener) => listener())
  }
}

/** Signals that rows, selection or zoom must be drawn again. */
export const redraw = signal()
/** Signals that a different entry was selected. */
export const selected = signal()
/** Signals that a different view was opened. */
export const viewed = signal()
/** Signals that new data was loaded: other runs, or the same run with more rows. */
export const loaded = signal()

/** Returns true if the page shows the difference of two runs. */
export const isDiff = (): boolean => state.view === data.runs.length

/** Changes from the first run to the second. Empty for a single run. */
export let changes: ReadonlyArray<Change> = []

/** Returns the rows of the run in view, or an empty list in the difference. */
export const rows = (): ReadonlyArray<Row> => data.runs[state.view]?.rows ?? []

/** Returns the number of entries in the view, before filters. */
export const total = (): number => (isDiff() ? changes.length : rows().length)

/** Returns both sides of a change. */
export const sides = (change: Change): readonly [left: Row | undefined, right: Row | undefined] => [
  data.runs[0]?.rows[change.left],
  data.runs[1]?.rows[change.right]
]

/** Returns the index of a key among the shown keys, or -1 if it is hidden. */
export const findPlace = (key: number): number => state.shown.indexOf(key)

interface RunExtents {
  readonly parents: ReadonlySet<number>
  /** Number of earlier attempts of each retried model call, by the id of its row. */
  readonly retries: ReadonlyMap<number, number>
  readonly tokens: ReadonlyArray<Extent>
  readonly limits: Readonly<Record<"time" | "tokens", Extent>>
}

let insides: ReadonlyArray<RunExtents> = []

const inside = (): RunExtents | undefined => insides[state.view]

/** Tests whether a row of the run in view has children. */
export const isParent = (row: Row): boolean => inside()?.parents.has(row.id) ?? false

/** Returns the number of earlier attempts of a model call, which are below its row. */
export const countRetries = (row: Row): number => inside()?.retries.get(row.id) ?? 0

export { isFailed as isBad } from "../Row.ts"

/**
 * Returns the extents of the rows in tokens, from the total used before a row to the total at the end of all its
 * descendants.
 */
const tokenExtents = (run: Run): ReadonlyArray<Extent> => {
  let used = 0
  const ends = new Float64Array(run.rows.length)
  const starts = run.rows.map((row, index) => {
    const from = used
    used += row.promptTokens + row.completionTokens
    ends[index] = used
    return from
  })
  // Rows come after their parents, so iterating backwards completes every row before its parent is updated.
  for (let index = run.rows.length - 1; index >= 0; index--) {
    const parent = run.rows[index]?.parent ?? -1
    if (parent >= 0) ends[parent] = Math.max(ends[parent] ?? 0, ends[index] ?? 0)
  }
  return starts.map((from, index) => ({ from, to: ends[index] ?? from }))
}

const timeLimits = (run: Run): Extent => {
  let from = Infinity
  let to = 0
  for (const row of run.rows) {
    if (row.start > 0) from = Math.min(from, row.start)
    to = Math.max(to, row.end)
  }
  return from === Infinity ? { from: 0, to: Math.max(to, 1) } : { from, to: Math.max(to, from + 1) }
}

const computeRunExtents = (run: Run): RunExtents => {
  const retries = new Map<number, number>()
  for (const row of run.rows) {
    if (row.kind === "llm" && run.rows[row.parent]?.kind === "llm")
      retries.set(row.parent, (retries.get(row.parent) ?? 0) + 1)
  }
  const tokens = tokenExtents(run)
  const most = tokens.reduce((sum, one) => Math.max(sum, one.to), 1)
  return {
    parents: new Set(run.rows.map((row) => row.parent)),
    retries,
    tokens,
    limits: { time: timeLimits(run), tokens: { from: 0, to: most } }
  }
}

const take = (given: Data): void => {
  data = given
  changes = given.diff ?? []
  insides = given.runs.map(computeRunExtents)
}

/** Returns the keys of rows that are initially collapsed: model calls with earlier attempts. */
const foldedFirst = (): Set<number> => new Set(inside()?.retries.keys())

/** Opens a view at its beginning. */
export const enter = (view: number): void => {
  Object.assign(state, { view, selected: -1, zoom: undefined })
  state.folded = foldedFirst()
}

/** Shows other runs. The view, the filters and the query are reset. */
export const load = (given: Data): void => {
  take(given)
  state.hidden.clear()
  Object.assign(state, { query: "", failed: false, changes: true, scale: "time", shown: [] })
  enter(given.diff === undefined ? 0 : given.runs.length)
  loaded.emit()
}

/**
 * Returns a key that identifies the same row in two states of an active run. The id of a row cannot be used, because it
 * is an index and changes when rows are inserted before it.
 */
const identity = (row: Row): string => `${row.kind} ${row.start} ${row.depth} ${row.lane}`

/** Updates the run in view with more rows. The selection, collapsed rows, filters and zoom are preserved. */
export const update = (given: Data): void => {
  const before = rows()
  const known = new Set(inside()?.retries.keys())
  take(given)
  const ids = new Map(rows().map((row) => [identity(row), row.id]))
  const findKey = (key: number): number => {
    const [old, now] = [before[key], rows()[key]]
    if (old === undefined) return -1
    return now !== undefined && identity(now) === identity(old) ? key : (ids.get(identity(old)) ?? -1)
  }
  state.selected = findKey(state.selected)
  state.folded = new Set([...state.folded].map(findKey).filter((key) => key >= 0))
  for (const key of foldedFirst()) if (!known.has(key)) state.folded.add(key)
  loaded.emit()
}

/** Returns the extent of the whole run in view, or of the first run in the difference. */
export const whole = (): Extent => insides[isDiff() ? 0 : state.view]?.limits[state.scale] ?? { from: 0, to: 1 }

/** Returns the extent that the bars show: the zoomed part, or else the whole run. */
export const visible = (): Extent => state.zoom ?? whole()

/** Returns the extent of a row, or `undefined` if its times are unknown. */
export const extent = (row: Row): Extent | undefined => {
  if (state.scale === "tokens") return inside()?.tokens[row.id]
  return row.start > 0 ? { from: row.start, to: Math.max(row.start, row.end) } : undefined
}

/**
 * Zooms to a part of the run, within its limits. Shows the whole run for `undefined` or for a part that is not smaller.
 */
export const zoomTo = (zoom: Extent | undefined): void => {
  const { from, to } = whole()
  const width = Math.min(to - from, zoom === undefined ? to - from : Math.max(zoom.to - zoom.from, (to - from) / 1e6))
  const start = zoom === undefined ? from : Math.max(from, Math.min(zoom.from, to - width))
  state.zoom = width >= to - from ? undefined : { from: start, to: start + width }
  redraw.emit()
}

/**
 * Changes the zoom: multiplies the visible part by `by` around `middle`, and moves it by the fraction `move` of the
 * visible part.
 */
export const rezoom = (by: number, move = 0, middle?: number): void => {
  const { from, to } = visible()
  const center = (middle ?? (from + to) / 2) + (to - from) * move
  const half = ((to - from) * by) / 2
  zoomTo({ from: center - half, to: center + half })
}

/** Formats an amount on the current scale. */
export const inScale = (amount: number): string =>
  state.scale === "time" ? duration(amount).replace(/\.0+ s$/u, " s") || "0" : short(Math.round(amount))
