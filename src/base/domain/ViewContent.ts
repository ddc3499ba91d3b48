/**
 * Parts of a tool's result that a {@link ToolView} shows in their own form: matches of a search, a table, a difference,
 * a plan, pictures. They are recognised by the form of the result, so that tools of plugins and MCP servers have them
 * too. Pure and bounded.
 */
import * as Json from "./Json.ts"
import * as TextCut from "./TextCut.ts"

/** Rows of a result, cut to a few rows, columns and characters. */
export interface Table {
  readonly columns: ReadonlyArray<string>
  readonly rows: ReadonlyArray<ReadonlyArray<string>>
  /** Number of rows of the result. */
  readonly total: number
}

/** An item of a plan. */
export interface PlanItem {
  readonly content: string
  readonly status: "pending" | "in_progress" | "completed" | "cancelled"
}

/** A picture that the model receives with a result. */
export interface Picture {
  readonly mediaType: string
  readonly name?: string | undefined
}

/** Maximum length of a result in which pictures are searched, in characters. */
const mostDescribed = 4000

/** Returns the pictures that the text of a result describes, as `[image/png name.png]` in lines of their own. */
export const readPictures = (output: string): ReadonlyArray<Picture> =>
  output.length > mostDescribed
    ? []
    : Array.from(output.matchAll(/^\[(image\/[\w.+-]+)(?: ([^\]\n]+))?\]$/gmu), ([, mediaType = "", name]) => ({
        mediaType,
        name
      }))

/** The first matches of a search. */
export interface Matches {
  readonly note: string
  readonly lines: ReadonlyArray<string>
  readonly omitted: number
}

const mostMatches = 3
const mostRows = 5
const mostColumns = 5
const mostCell = 60
const mostLine = 400
const mostMatch = 200
const mostDiff = 100_000
const mostItems = 100

const toLine = (text: string, most: number): string => TextCut.shorten(text.replace(/\s+/gu, " ").trim(), most)

const countFiles = (count: number): string => `${count} ${count === 1 ? "file" : "files"}`

const describeMatches = (total: number, files: number): string =>
  total === 0 ? "no match" : `${total} ${total === 1 ? "match" : "matches"} in ${countFiles(files)}`

/** Returns the matches that a search lists one by one. */
const readMatchList = (matches: ReadonlyArray<unknown>, total: number): Matches => {
  const found = matches.map(Json.readFields)
  const files = new Set(found.flatMap(({ path }) => (typeof path === "string" ? [path] : []))).size
  const lines = found
    .slice(0, mostMatches)
    .map(({ content, line, path }) =>
      toLine(`${Json.toText(path)}:${Json.toText(line)}: ${Json.toText(content)}`, mostMatch)
    )
  return { note: describeMatches(total, files), lines, omitted: Math.max(0, total - lines.length) }
}

/** Returns the matches that a search groups by file. */
const readMatchText = (text: string, total: number): Matches => {
  const all = text.split("\n").filter((line) => line.trim() !== "")
  let file = ""
  const hits: Array<string> = []
  let files = 0
  for (const line of all) {
    if (/^\s/u.test(line)) {
      if (hits.length < mostMatches) hits.push(toLine(`${file}:${line.trim()}`, mostMatch))
    } else {
      file = line
      files++
    }
  }
  return { note: describeMatches(total, files), lines: hits, omitted: Math.max(0, total - hits.length) }
}

/** Returns the matches of a search, or `undefined` if a result is not one of a search. */
export const readMatches = (value: unknown): Matches | undefined => {
  const { counts, files, matches, matches_text: text, total_count: count } = Json.readFields(value)
  if (typeof count !== "number") return undefined
  if (Array.isArray(matches)) return readMatchList(matches, count)
  if (typeof text === "string") return readMatchText(text, count)
  const names = Array.isArray(files)
    ? files.map(String)
    : Json.isFields(counts)
      ? Object.entries(counts).map(([name, number]) => `${name}: ${Json.toText(number)}`)
      : undefined
  if (names === undefined) return count === 0 ? { note: "no match", lines: [], omitted: 0 } : undefined
  const lines = names.slice(0, mostMatches).map((name) => toLine(name, mostMatch))
  const note = names.length === 0 ? "no match" : countFiles(Math.max(count, names.length))
  return { note, lines, omitted: Math.max(0, names.length - lines.length) }
}

const statuses: ReadonlySet<unknown> = new Set(["pending", "in_progress", "completed", "cancelled"])
const isStatus = (status: unknown): status is PlanItem["status"] => statuses.has(status)

/** Returns the items of a plan, or `undefined` if a result contains no plan. */
export const readPlan = (value: unknown): ReadonlyArray<PlanItem> | undefined => {
  const { todos } = Json.readFields(value)
  if (!Array.isArray(todos)) return undefined
  return todos.slice(0, mostItems).flatMap((item): ReadonlyArray<PlanItem> => {
    const { content, status } = Json.readFields(item)
    return typeof content === "string" && isStatus(status) ? [{ content: toLine(content, mostLine), status }] : []
  })
}

const marks: Readonly<Record<PlanItem["status"], string>> = {
  pending: "☐",
  in_progress: "◐",
  completed: "☑",
  cancelled: "☒"
}

/** Returns an item of a plan as a line. */
export const renderPlanItem = ({ content, status }: PlanItem): string => `${marks[status]} ${content}`

/** Returns the unified difference of a result, or `undefined` if it contains no difference. */
export const readDiff = (value: unknown): string | undefined => {
  const { diff } = Json.readFields(value)
  return typeof diff === "string" && /^@@ /mu.test(diff) ? diff.slice(0, mostDiff) : undefined
}

/** Returns the number of changed lines and files of a difference. */
export const describeDiff = (diff: string): string => {
  const lines = diff.split("\n")
  const files = lines.filter((line) => line.startsWith("+++ ")).length
  const added = lines.filter((line) => line.startsWith("+") && !line.startsWith("+++ ")).length
  const removed = lines.filter((line) => line.startsWith("-") && !line.startsWith("--- ")).length
  return `+${added} -${removed}${files > 1 ? ` in ${countFiles(files)}` : ""}`
}

const isCell = (value: unknown): boolean =>
  value === null || typeof value === "string" || typeof value === "number" || typeof value === "boolean"

/** Types of the parts of a message, which are not rows. */
const partTypes: ReadonlySet<unknown> = new Set(["text", "image", "audio", "file", "resource", "resource_link"])

const isRow = (value: unknown): value is Readonly<Record<string, unknown>> =>
  Json.isFields(value) && !partTypes.has(value["type"]) && Object.values(value).some(isCell)

const isRows = (value: unknown): value is ReadonlyArray<Readonly<Record<string, unknown>>> =>
  Array.isArray(value) && value.length > 0 && value.every(isRow)

/** Finds the rows of a result: the result, one of its fields, or a field of one of its records. */
const findRows = (value: unknown): ReadonlyArray<Readonly<Record<string, unknown>>> | undefined => {
  if (isRows(value)) return value
  if (!Json.isFields(value)) return undefined
  const inside = Object.values(value)
  return (
    inside.find(isRows) ??
    inside
      .filter(Json.isFields)
      .flatMap((fields) => Object.values(fields))
      .find(isRows)
  )
}

/** Returns the rows of a result that is a list of two or more records, or `undefined` for other results. */
export const readTable = (value: unknown): Table | undefined => {
  const found = findRows(value)
  if (found === undefined || found.length === 1) return undefined
  const shown = found.slice(0, mostRows)
  const names = new Set(shown.flatMap((row) => Object.keys(row).filter((name) => isCell(row[name]))))
  const columns = Array.from(names).slice(0, mostColumns)
  const readCell = (cell: unknown): string =>
    cell === null || cell === undefined || !isCell(cell) ? "" : toLine(String(cell), mostCell)
  return {
    columns: columns.map((name) => toLine(name, mostCell)),
    rows: shown.map((row) => columns.map((name) => readCell(row[name]))),
    total: found.length
  }
}

/** Returns a table as lines, its columns separated by two spaces or more. `measure` returns the width of a text. */
export const renderTable = (
  { columns, rows }: Table,
  measure: (text: string) => number = ({ length }) => length
): ReadonlyArray<string> => {
  const all = [columns, ...rows]
  const widths = columns.map((_, index) => Math.max(...all.map((row) => measure(row[index] ?? ""))))
  return all.map((row) =>
    row
      .map((cell, index) => cell + " ".repeat(Math.max(0, (widths[index] ?? 0) - measure(cell))))
      .join("  ")
      .trimEnd()
  )
}
