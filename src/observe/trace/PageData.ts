/** The data of the page: one JSON value, written by `TraceView` and read by the page's script. */
import type { Change } from "./Diff.ts"
import type { Row } from "./Row.ts"

/** A number of a run with its unit: `3 tool calls`. */
export interface Sum {
  readonly value: string
  readonly name: string
  readonly bad: boolean
}

/** One run: its name, its totals, and its rows in the order of the tree. */
export interface Run {
  readonly name: string
  readonly sums: ReadonlyArray<Sum>
  readonly rows: ReadonlyArray<Row>
}

/** Everything that the page shows. */
export interface Data {
  readonly runs: ReadonlyArray<Run>
  /** Texts that `Detail.parts` of rows point to, each stored once. */
  readonly pool: ReadonlyArray<string>
  /** Changes from the first run to the second; absent for one run. */
  readonly diff?: ReadonlyArray<Change> | undefined
  /** Totals of `diff`: one number for each kind of change. */
  readonly changes?: ReadonlyArray<Sum> | undefined
}
