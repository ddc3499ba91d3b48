/**
 * Markdown tables, laid out for a terminal. Columns are as wide as their content, or narrower with wrapped lines if the
 * terminal is too narrow. A table that cannot fit becomes a list of its rows.
 */
import * as MarkdownInline from "./MarkdownInline.ts"
import type { MarkdownTheme } from "./MarkdownTheme.ts"
import { type Paint, type Span, strip } from "./Paint.ts"
import * as Width from "./Width.ts"
import * as Wrap from "./Wrap.ts"

type Align = "left" | "right" | "center"

/** Minimum useful width of a table column, in terminal columns. */
const narrowest = 5

const trimRow = (row: string): string =>
  row
    .trim()
    .replace(/^\|/, "")
    .replace(/(?<!\\)\|$/, "")

const cleanCell = (cell: string): string =>
  cell
    .trim()
    .replaceAll("\\|", "|")
    .replace(/<br\s*\/?>/gi, " ")

const bar = /(?<!\\)\|/
const barOrCode = /(?<!\\)\||(`+)(?:(?!\1)[^\n]){0,500}?\1(?!`)/g

/** Splits a row into cells. A bar inside of code separates cells only if the row would otherwise have too few cells. */
const splitCells = (row: string, count = 0): ReadonlyArray<string> => {
  const line = trimRow(row)
  const cells: Array<string> = []
  let from = 0
  for (const found of line.matchAll(barOrCode)) {
    if (found[0] !== "|") continue
    cells.push(line.slice(from, found.index))
    from = found.index + 1
  }
  cells.push(line.slice(from))
  return (cells.length < count ? line.split(bar) : cells).map(cleanCell)
}

const readAlignment = (cell: string): Align =>
  cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "right") : "left"

/** Returns column widths that fit, reducing the widest columns first; `undefined` if there is not enough room. */
const fitWidths = (natural: ReadonlyArray<number>, room: number): ReadonlyArray<number> | undefined => {
  const total = natural.reduce((sum, width) => sum + width, 0)
  if (total <= room) return natural
  if (natural.reduce((sum, width) => sum + Math.min(width, narrowest), 0) > room) return undefined
  let cap = Math.max(...natural)
  const sumWidths = (): number => natural.reduce((sum, width) => sum + Math.min(width, cap), 0)
  while (sumWidths() > room) cap--
  let spare = room - sumWidths()
  return natural.map((width) => {
    if (width <= cap || spare === 0) return Math.min(width, cap)
    spare--
    return cap + 1
  })
}

const joinText = (spans: ReadonlyArray<Span>): string => spans.map(({ text }) => text).join("")

const toBold = ({ style, text }: Span): Span => ({
  text,
  style: { ...style, attributes: ["bold", ...style.attributes] }
})

/** Renders the rows of a table, without its delimiter row, as lines of the given width. */
export const render = (
  rows: ReadonlyArray<string>,
  columns: number,
  { paint, table: lines }: MarkdownTheme
): ReadonlyArray<string> => {
  const [first = "", delimiter = "", ...others] = rows
  const aligns = splitCells(delimiter).map(readAlignment)
  const parseCells = (row: string): ReadonlyArray<ReadonlyArray<Span>> => {
    const found = splitCells(row, aligns.length)
    // Extra cells are joined into the last column.
    const last = found.slice(aligns.length - 1).join(" | ")
    return aligns.map((_, index) =>
      MarkdownInline.render(index < aligns.length - 1 ? (found[index] ?? "") : last, paint)
    )
  }
  const header = parseCells(first).map((spans) => spans.map(toBold))
  const body = others.map(parseCells)
  const natural = aligns.map((_, index) =>
    Math.max(1, ...[header, ...body].map((row) => Width.measure(joinText(row[index] ?? []))))
  )
  const widths = fitWidths(natural, columns - 3 * (aligns.length - 1))
  if (widths === undefined) return renderList(header, body, columns, paint)

  const vertical = paint.text(lines.vertical, "dim")
  const renderRow = (content: ReadonlyArray<ReadonlyArray<Span>>): ReadonlyArray<string> => {
    const broken = widths.map((width, index) => Wrap.wrapLines(content[index] ?? [], width, paint))
    const height = Math.max(...broken.map((cell) => cell.length))
    return Array.from({ length: height }, (_, line) =>
      widths
        .map((width, index) => {
          const text = broken[index]?.[line] ?? ""
          const padded = Width.pad(strip(text), width, aligns[index])
          return padded.replace(strip(text), () => text)
        })
        .join(` ${vertical} `)
        .trimEnd()
    )
  }
  const rule = widths
    .map((width) => lines.horizontal.repeat(width))
    .join(lines.horizontal + lines.cross + lines.horizontal)
  return [...renderRow(header), paint.text(rule, "dim"), ...body.flatMap(renderRow)]
}

const renderList = (
  header: ReadonlyArray<ReadonlyArray<Span>>,
  body: ReadonlyArray<ReadonlyArray<ReadonlyArray<Span>>>,
  columns: number,
  paint: Paint
): ReadonlyArray<string> =>
  body.flatMap((row, index) => [
    ...(index === 0 ? [] : [""]),
    ...header.flatMap((name, column) =>
      Wrap.wrapLines([...name, { text: ": ", style: { attributes: [] } }, ...(row[column] ?? [])], columns, paint)
    )
  ])
