/** Data of the trace page: one JSON value that `TraceView` writes and the page's script reads. */
import type { Change } from "./Diff.ts"
import type { Row } from "./Row.ts"

/** A figure of a run with its unit, such as `3 tool calls`. */
export interface Sum {
  readonly value: string
  readonly name: string
  readonly bad: boolean
}

/** One run: its name, its totals, and its rows in tree order. */
export interface Run {
  readonly name: string
  readonly sums: ReadonlyArray<Sum>
  readonly rows: ReadonlyArray<Row>
}

/** All data that the page shows. */
export interface Data {
  readonly runs: ReadonlyArray<Run>
  /** Strings to which `Detail.parts` of rows refer. Each string is stored once. */
  readonly pool: ReadonlyArray<string>
  /** Changes from the first run to the second. Absent for a single run. */
  readonly diff?: ReadonlyArray<Change> | undefined
  /** Totals of `diff`, one figure for each kind of change. */
  readonly changes?: ReadonlyArray<Sum> | undefined
}
