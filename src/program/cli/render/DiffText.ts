/**
 * Differences of files as lines: additions green, removals red, the rest dim; harmless and without secrets.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as FileChange from "../../../base/domain/FileChange.ts"
import * as Redaction from "../../../base/domain/Redaction.ts"
import type { Paint } from "./Paint.ts"
import * as SafeText from "./SafeText.ts"
import * as Width from "./Width.ts"

/** Place for lines, and how many there may be. */
export interface Room {
  readonly paint: Paint
  /** Columns of a line; undefined where lines may be of any length. */
  readonly columns: number | undefined
  readonly most: number
}

/** Lines of a difference, without its file names. */
const readBody = (diff: string): ReadonlyArray<string> =>
  Redaction.redactText(SafeText.sanitise(diff))
    .replace(/\n$/, "")
    .split("\n")
    .filter((line) => !/^(?:---|\+\+\+) /.test(line))

const paintLine = (line: string, { columns, paint }: Room): string => {
  const cut = columns === undefined ? line : Width.cut(line, Math.max(10, columns - 1))
  if (line.startsWith("+")) return paint.text(cut, "added")
  if (line.startsWith("-")) return paint.text(cut, "removed")
  return paint.text(cut, "dim")
}

/** Sums of a difference: `+3 −1`. */
export const formatSums = (
  { added, removed }: Pick<FileChange.FileChanged, "added" | "removed">,
  paint: Paint
): string =>
  [
    ...(added > 0 ? [paint.text(`+${added}`, "added")] : []),
    ...(removed > 0 ? [paint.text(`-${removed}`, "removed")] : [])
  ].join(" ")

/** A difference in lines, cut at a number of them; `more` names what shows the rest. */
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
  return [...shown.map((line) => paintLine(line, room)), ...(left > 0 ? [room.paint.text(cut, "dim")] : [])]
}

/** A file with the sums of its difference. */
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

/** A file with its difference. */
export const renderFile = (
  change: Pick<FileChange.FileChanged, "added" | "diff" | "path" | "removed">,
  name: string,
  room: Room,
  more?: string
): ReadonlyArray<string> => [renderTitle(change, name, room), ...renderLines(change.diff, room, more)]

/** Lines of a file's difference, and files of one call, that are shown below the call. */
const callLines = 12
const verboseCallLines = 200
const callFiles = 5

/** Differences of the files that one call changed, indented below its line. */
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

/** The path of a file as seen from a directory. */
export const toRelativeName = (directory: string | undefined, path: string): string =>
  directory !== undefined && path.startsWith(`${directory}/`) ? path.slice(directory.length + 1) : path
