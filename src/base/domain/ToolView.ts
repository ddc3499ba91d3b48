/**
 * The result of a tool call as a user reads it, derived from the result that the model receives. Every client shows the
 * same view: the terminal, exported pages, the studio, editors and `stream-json`. Pure; secrets are not removed here.
 *
 * **Details**
 *
 * A command that ended with another exit code than 0 has failed, although its call succeeded, unless the code has a
 * meaning that is not an error (`grep` without a match). Instructions to the model (what to do after a refusal) are not
 * part of a view. Reasoning is not a result: clients show it folded.
 */
import * as Option from "effect/Option"
import * as Json from "./Json.ts"
import type { ToolStatus } from "./RunEvent.ts"
import * as ViewContent from "./ViewContent.ts"

/** End of a call from the user's point of view. */
export type ToolOutcome = "done" | "failed" | "refused" | "stopped"

/** Kind of a result. */
export type ToolViewKind = "command" | "matches" | "table" | "diff" | "plan" | "image" | "text"

/** Names of the arguments that identify the subject of a call, the most informative first. */
const subjectArguments = [
  "command",
  "pattern",
  "query",
  "path",
  "file_path",
  "url",
  "urls",
  "goal",
  "action",
  "name",
  "code",
  "question",
  "prompt"
]

/** Returns the name of the argument that identifies the subject of a call, if it has one of the usual names. */
export const findSubjectArgument = (params: Readonly<Record<string, unknown>>): string | undefined =>
  subjectArguments.find((name) => Object.hasOwn(params, name) && params[name] !== undefined)

/** A result as a user reads it. */
export interface ToolView {
  readonly kind: ToolViewKind
  readonly outcome: ToolOutcome
  /** The outcome in a few words: `exit 3`, `14 matches in 3 files`, the reason of a refusal; often empty. */
  readonly note: string
  /** Exit code of a command that has ended. */
  readonly exitCode: number | undefined
  /**
   * Lines to show without being asked: the last lines of a command or of an error, the first matches, the rows of a
   * table, the items of a plan. Otherwise empty.
   */
  readonly lines: ReadonlyArray<string>
  /** Number of lines that are left out: before {@link lines} of a command or of an error, otherwise after them. */
  readonly omitted: number
  readonly table?: ViewContent.Table
  /** Unified difference of the changed files. */
  readonly diff?: string
  readonly plan?: ReadonlyArray<ViewContent.PlanItem>
  readonly images?: ReadonlyArray<ViewContent.Picture>
}

/** Number of lines shown of a command that succeeded, and of one that failed. */
const successLines = 5
const failureLines = 12

/** Maximum number of characters of the end of an output that is divided into lines. */
const examined = 40_000

/** Maximum number of characters of an output that is read as JSON. */
const mostParsed = 2_000_000

type Fields = Readonly<Record<string, unknown>>

const readValue = (output: string): unknown =>
  output.length > mostParsed || !/^\s*[[{]/u.test(output) ? undefined : Option.getOrUndefined(Json.parse(output))

const takeTail = (text: string, most: number): Pick<ToolView, "lines" | "omitted"> => {
  const all = text.trimEnd()
  if (all === "") return { lines: [], omitted: 0 }
  const end = all.slice(-examined).split("\n")
  const lines = end.slice(-most)
  const total = all.length <= examined ? end.length : all.split("\n").length
  return { lines, omitted: total - lines.length }
}

const readText = (value: unknown): string => (typeof value === "string" ? value : "")

/** Beginnings of sentences that tell the model what to do next. */
const advice = /(?:^|[.;] )(?:Do not|Don't|Find another|Go on|Tell the user|This never runs|Ask the user|Stop )[^]*$/u

/** Returns the reason of a refusal without the instructions to the model. */
const readRefusal = (text: string): string => {
  const [, mode = "", said = text] = /^BLOCKED(?: \(([^)]*)\))?: ([^]*)$/u.exec(text) ?? []
  const reason = said
    .replace(advice, "")
    .replace(/^the user denied this\b/u, "you denied this")
    .replace(/ Reason: [^]*$/u, "")
    .trim()
    .replace(/\.$/u, "")
  const shown = reason === "" ? "refused" : reason
  return mode === "" ? shown : `${mode}: ${shown}`
}

const presentCommand = (fields: Fields, exitCode: number, status: ToolStatus): ToolView => {
  const meaning = readText(fields["exit_code_meaning"])
  const isFailure = status !== "ok" || (exitCode !== 0 && !/\bnot an error\b/iu.test(meaning))
  const printed = [readText(fields["output"]), readText(fields["error"])].filter((text) => text.trim() !== "")
  return {
    kind: "command",
    outcome: isFailure ? "failed" : "done",
    note: exitCode === 0 ? "" : `exit ${exitCode}`,
    exitCode,
    ...takeTail(printed.join("\n"), isFailure ? failureLines : successLines)
  }
}

const makeView = (kind: ToolViewKind, outcome: ToolOutcome, note: string): ToolView => ({
  kind,
  outcome,
  note,
  exitCode: undefined,
  lines: [],
  omitted: 0
})

const presentFailure = (status: ToolStatus, fields: Fields, output: string): ToolView => {
  const error = readText(fields["error"]) || output
  if (status === "blocked") return makeView("text", "refused", readRefusal(error))
  if (status === "cancelled") return makeView("text", "stopped", "stopped")
  return { ...makeView("text", "failed", ""), ...takeTail(error, failureLines) }
}

const presentSuccess = (name: string, value: unknown, images: ReadonlyArray<ViewContent.Picture>): ToolView => {
  if (images.length > 0) {
    const note = images.length === 1 ? "1 picture" : `${images.length} pictures`
    return { ...makeView("image", "done", note), images }
  }
  if (value === undefined) return makeView(name === "todo" ? "plan" : "text", "done", "")
  const hits = ViewContent.readMatches(value)
  if (hits !== undefined) {
    const { lines, note, omitted } = hits
    return { ...makeView("matches", "done", note), lines, omitted }
  }
  const plan = name === "todo" ? ViewContent.readPlan(value) : undefined
  if (plan !== undefined) return { ...makeView("plan", "done", ""), plan, lines: plan.map(ViewContent.renderPlanItem) }
  const diff = ViewContent.readDiff(value)
  if (diff !== undefined) return { ...makeView("diff", "done", ViewContent.describeDiff(diff)), diff }
  const table = ViewContent.readTable(value)
  if (table === undefined) return makeView("text", "done", "")
  return {
    ...makeView("table", "done", `${table.total} rows`),
    table,
    lines: ViewContent.renderTable(table),
    omitted: table.total - table.rows.length
  }
}

/**
 * Returns the view of a result. `output` is the text that the model receives, and `images` are the pictures that it
 * receives beside it.
 */
export const presentResult = (
  name: string,
  status: ToolStatus,
  output: string,
  images: ReadonlyArray<ViewContent.Picture> = []
): ToolView => {
  const value = readValue(output)
  const fields = Json.readFields(value)
  const exitCode = fields["exit_code"]
  if (typeof exitCode === "number" && exitCode >= 0 && (status === "ok" || status === "error"))
    return presentCommand(fields, exitCode, status)
  if (status !== "ok") return presentFailure(status, fields, output)
  const pictures = images.length > 0 || value !== undefined ? images : ViewContent.readPictures(output)
  return presentSuccess(name, value, pictures)
}

/** Returns true if lines of the view are left out before the shown lines. */
export const isTail = ({ kind, outcome }: Pick<ToolView, "kind" | "outcome">): boolean =>
  kind === "command" || outcome !== "done"

/** Returns the number of left out lines in words; empty if all lines are shown. */
export const describeOmitted = (view: Pick<ToolView, "kind" | "omitted" | "outcome">): string =>
  view.omitted === 0
    ? ""
    : `… ${view.omitted} ${isTail(view) ? "earlier" : "more"} ${view.omitted === 1 ? "line" : "lines"}`

/** Returns the shown lines, and the number of left out lines before or after them. */
export const listLines = (view: ToolView): ReadonlyArray<string> => {
  const omitted = view.omitted === 0 ? [] : [describeOmitted(view)]
  return isTail(view) ? [...omitted, ...view.lines] : [...view.lines, ...omitted]
}

/** A view under the names of `stream-json`, the studio and editors. */
export interface WireView {
  readonly kind: ToolViewKind
  readonly outcome: ToolOutcome
  readonly note?: string
  readonly exit_code?: number
  readonly lines?: ReadonlyArray<string>
  readonly omitted_lines?: number
  readonly table?: { readonly columns: ReadonlyArray<string>; readonly rows: ReadonlyArray<ReadonlyArray<string>> }
  readonly diff?: string
  readonly plan?: ReadonlyArray<ViewContent.PlanItem>
  readonly images?: ReadonlyArray<{ readonly media_type: string; readonly name?: string }>
}

/** Converts a view to the names of `stream-json`. Empty parts are absent. */
export const toWire = ({
  diff,
  exitCode,
  images,
  kind,
  lines,
  note,
  omitted,
  outcome,
  plan,
  table
}: ToolView): WireView => ({
  kind,
  outcome,
  ...(note === "" ? {} : { note }),
  ...(exitCode === undefined ? {} : { exit_code: exitCode }),
  ...(lines.length === 0 ? {} : { lines, omitted_lines: omitted }),
  ...(table === undefined ? {} : { table: { columns: table.columns, rows: table.rows } }),
  ...(diff === undefined ? {} : { diff }),
  ...(plan === undefined ? {} : { plan }),
  ...(images === undefined
    ? {}
    : {
        images: images.map(({ mediaType, name }) => ({
          media_type: mediaType,
          ...(name === undefined ? {} : { name })
        }))
      })
})
