/** Text charts: named horizontal bars, and columns over time. No line is wider than the given number of columns. */
import type { Attribute, Paint } from "./Paint.ts"
import * as Width from "./Width.ts"

/** Available width of a chart. */
export interface Room {
  readonly columns: number
  readonly paint: Paint
}

/** A named value of 0 or more, with a note after its bar. */
export interface Bar {
  readonly name: string
  readonly value: number
  readonly note: string
}

const eighths = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"]
const heights = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"]

/** Draws a bar for a share from 0 to 1 of a width in columns. Any share above 0 is visible. */
const drawBar = (share: number, columns: number): string => {
  const parts = share <= 0 ? 0 : Math.max(1, Math.round(share * columns * 8))
  return "█".repeat(Math.floor(parts / 8)) + (eighths[parts % 8] ?? "")
}

/** Minimum width of a bar in columns; bars are omitted if there is less room. */
const smallest = 4
const largest = 40

/** Renders one line for each value: name, bar, note. The largest value has the longest bar. */
export const renderBars = (
  rows: ReadonlyArray<Bar>,
  { columns, paint }: Room,
  color: Attribute = "cyan"
): ReadonlyArray<string> => {
  if (rows.length === 0) return []
  const most = Math.max(...rows.map(({ value }) => value))
  const noteWidth = Math.min(Math.max(...rows.map(({ note }) => Width.measure(note))), Math.floor(columns / 2))
  const widest = Math.max(...rows.map(({ name }) => Width.measure(name)))
  const names = Math.max(1, Math.min(widest, Math.max(8, columns - noteWidth - smallest - 4), columns - noteWidth - 2))
  const room = Math.min(largest, columns - names - noteWidth - 4)
  return rows.map(({ name, note, value }) => {
    const head = Width.pad(Width.cut(name, names), names)
    const tail = Width.cut(note, noteWidth)
    const drawn =
      room < smallest
        ? ""
        : `${paint.text(drawBar(most === 0 ? 0 : value / most, room), color)}${" ".repeat(
            room - Width.measure(drawBar(most === 0 ? 0 : value / most, room))
          )}  `
    return `${head}  ${drawn}${tail}`.trimEnd()
  })
}

/** A value at a point in time. */
export interface Point {
  readonly name: string
  readonly value: number
}

/** Adds up adjacent points, so that at most `count` points remain. A sum has the name of its first point. */
const mergePoints = (points: ReadonlyArray<Point>, count: number): ReadonlyArray<Point> => {
  const size = Math.ceil(points.length / count)
  return size <= 1
    ? points
    : Array.from({ length: Math.ceil(points.length / size) }, (_, index) => {
        const some = points.slice(index * size, (index + 1) * size)
        return { name: some[0]?.name ?? "", value: some.reduce((sum, { value }) => sum + value, 0) }
      })
}

/**
 * Renders columns over time, `rows` lines high, with the first and the last name below. `label` formats the largest
 * value.
 */
export const renderTimeline = (
  points: ReadonlyArray<Point>,
  { columns, paint }: Room,
  label: (value: number) => string,
  rows = 4
): ReadonlyArray<string> => {
  const scale = Width.measure(label(Math.max(0, ...points.map(({ value }) => value))))
  const shown = mergePoints(points, Math.max(1, columns - scale - 2))
  const most = Math.max(0, ...shown.map(({ value }) => value))
  const axis = Width.measure(label(most))
  const wide = Math.max(1, Math.min(4, Math.floor((columns - axis - 2) / Math.max(1, shown.length))))
  const lines = Array.from({ length: rows }, (_, index) => {
    const row = rows - 1 - index
    const drawn = shown
      .map(({ value }) => {
        const filled = most === 0 || value <= 0 ? 0 : Math.max(1, Math.round((value / most) * rows * 8))
        const sign = heights[Math.max(0, Math.min(8, filled - row * 8))] ?? " "
        return wide > 1 ? sign.repeat(wide - 1) + " " : sign
      })
      .join("")
    return (
      `${Width.pad(index === 0 ? label(most) : index === rows - 1 ? "0" : "", axis, "right")}  ` +
      `${paint.text(drawn.trimEnd(), "cyan")}`
    ).trimEnd()
  })
  const first = points[0]?.name ?? ""
  const last = points.at(-1)?.name ?? ""
  const width = Math.min(columns - axis - 2, shown.length * wide)
  const gap = width - Width.measure(first) - Width.measure(last)
  const names = first === last || gap < 1 ? first : `${first}${" ".repeat(gap)}${last}`
  return [...lines, `${" ".repeat(axis + 2)}${Width.cut(names, columns - axis - 2)}`]
}
