/**
 * File differences as lines: additions green, removals red, other lines dim. The text is sanitised and secrets are
 * masked.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as FileChange from "../../../base/domain/FileChange.ts"
import * as Redaction from "../../../base/domain/Redaction.ts"
import type { Paint } from "./Paint.ts"
import * as SafeText from "./SafeText.ts"
import * as Width from "./Width.ts"

/** Available width, and maximum number of lines. */
export interface Room {
  readonly paint: Paint
  /** Maximum width of a line in columns; `undefined` without a limit. */
  readonly columns: number | undefined
  readonly most: number
}

/** Returns the lines of a difference without its file names. */
const readBody = (diff: string): ReadonlyArray<string> =>
  Redaction.redactText(SafeText.sanitise(diff))
    .replace(/\n$/, "")
    .split("\n")
    .filter((line) => !/^(?:---|\+\+\+) /.test(line))

/** Maximum number of rows of a changed line. A line without changes has one row. */
const mostRows = 3

/** Divides a changed line into rows, so that the end of a long line is visible. */
const divideChange = (line: string, columns: number): ReadonlyArray<string> => {
  const rows: Array<string> = []
  let rest = line
  while (rest !== "" && rows.length < mostRows) {
    const sign = rows.length === 0 ? "" : "  "
    const room = columns - sign.length
    const isLast = rows.length === mostRows - 1 || Width.measure(rest) <= room
    const [head, tail] = isLast ? [Width.cut(rest, room), ""] : Width.split(rest, room)
    rows.push(sign + head)
    rest = tail
  }
  return rows.length === 0 ? [line] : rows
}

const paintLine = (line: string, { columns, paint }: Room): ReadonlyArray<string> => {
  const width = columns === undefined ? undefined : Math.max(10, columns - 1)
  const look = line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : undefined
  if (width === undefined) return [paint.text(line, look ?? "dim")]
  return look === undefined
    ? [paint.text(Width.cut(line, width), "dim")]
    : divideChange(line, width).map((row) => paint.text(row, look))
}

/** Formats the numbers of added and removed lines: `+3 −1`. */
export const formatSums = (
  { added, removed }: Pick<FileChange.FileChanged, "added" | "removed">,
  paint: Paint
): string =>
  [
    ...(added > 0 ? [paint.text(`+${added}`, "added")] : []),
    ...(removed > 0 ? [paint.text(`-${removed}`, "removed")] : [])
  ].join(" ")

/** Renders a difference as lines, up to a maximum number. `more` names the command that shows the other lines. */
export const renderLines = (
  diff: string,
  room: Room,
  more = "/diff or `hermes sessions diff` shows all of it"
): ReadonlyArray<string> => {
  if (diff === "") return []
  const all = readBody(diff)
  const shown = all.slice(0, room.most)
  const left = all.length - shown.length
  const rest = `… ${left} more line${left === 1 ? "" : "s"}: ${more}`
  const cut = room.columns === undefined ? rest : Width.cut(rest, Math.max(10, room.columns - 1))
  return [...shown.flatMap((line) => paintLine(line, room)), ...(left > 0 ? [room.paint.text(cut, "dim")] : [])]
}

/** Renders a file name with its numbers of added and removed lines. */
export const renderTitle = (
  change: Pick<FileChange.FileChanged, "added" | "removed">,
  name: string,
  { columns, paint }: Pick<Room, "columns" | "paint">
): string => {
  const label = SafeText.toLine(Redaction.redactText(name))
  return (
    `${paint.text(columns === undefined ? label : Width.cut(label, Math.max(10, columns - 16)), "bold")} ` +
    `${formatSums(change, paint)}`
  ).trimEnd()
}

/** Renders a file with its difference. */
export const renderFile = (
  change: Pick<FileChange.FileChanged, "added" | "diff" | "path" | "removed">,
  name: string,
  room: Room,
  more?: string
): ReadonlyArray<string> => [renderTitle(change, name, room), ...renderLines(change.diff, room, more)]

/**
 * Maximum number of lines shown for a file's difference below a call, and maximum number of files shown for one call.
 */
const callLines = 12
const verboseCallLines = 200
const callFiles = 5

/** Renders the differences of the files changed by one call, indented below its line. */
export const renderCallChanges = (
  changes: ReadonlyArray<FileChange.FileChanged>,
  { isVerbose, ...place }: Pick<Room, "columns" | "paint"> & { readonly isVerbose: boolean }
): ReadonlyArray<string> => {
  const room = { ...place, most: isVerbose ? verboseCallLines : callLines }
  const left = changes.length - callFiles
  return [
    ...changes
      .slice(0, callFiles)
      .flatMap((change) => renderFile(change, FileChange.readFileName(change), room))
      .map((line) => `  ${line}`),
    ...(left > 0
      ? [place.paint.text(`  … ${left} more files: /diff or hermes sessions diff shows all of them`, "dim")]
      : [])
  ]
}

/** Returns the path of a file relative to a directory. */
export const toRelativeName = (directory: string | undefined, path: string): string =>
  directory !== undefined && path.startsWith(`${directory}/`) ? path.slice(directory.length + 1) : path
