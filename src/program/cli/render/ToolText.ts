/**
 * Describes a tool call as text: its arguments and its result. Pure; the text is sanitized and does not contain
 * secrets.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as Option from "effect/Option"
import * as Json from "../../../base/domain/Json.ts"
import * as Redaction from "../../../base/domain/Redaction.ts"
import type { ToolStatus } from "../../../base/domain/RunEvent.ts"
import * as ToolView from "../../../base/domain/ToolView.ts"
import * as ViewContent from "../../../base/domain/ViewContent.ts"
import * as SafeText from "./SafeText.ts"
import * as Width from "./Width.ts"

/**
 * Maximum number of characters of an argument that are examined, because the full text of a file is too long for a
 * preview.
 */
const looked = 2000

const toSafeText = (text: string): string =>
  Redaction.redactText(SafeText.sanitise(Redaction.takeBeginning(text, looked))).slice(0, looked)

/** Returns the first non-empty line of the text, with the number of other non-empty lines. */
const readFirstLine = (text: string): string => {
  const lines = toSafeText(text)
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "")
  const [first = ""] = lines
  const more = lines.length - 1
  return more < 1 ? first : `${first} … (+${more} ${more === 1 ? "line" : "lines"})`
}

/** Summarises the arguments in a few words: the most informative argument, or else the first. */
export const summariseParams = (params: unknown): string => {
  if (!Json.isFields(params)) return ""
  const entries = Object.entries(params)
  const name = ToolView.findSubjectArgument(params)
  const value = name === undefined ? entries[0]?.[1] : params[name]
  return value === undefined ? "" : readFirstLine(Json.toText(value))
}

/** Formats all arguments as one line of JSON. */
export const formatParams = (params: unknown): string =>
  Json.isFields(params) && Object.keys(params).length > 0 ? SafeText.toLine(toSafeText(JSON.stringify(params))) : ""

const parseOutput = (output: string): Readonly<Record<string, unknown>> | undefined => {
  if (!output.startsWith("{")) return undefined
  const value = Option.getOrUndefined(Json.parse(output))
  return Json.isFields(value) ? value : undefined
}

/** Returns the view of a result, safe to print and without secrets. */
export const viewResult = (name: string, status: ToolStatus, output: string): ToolView.ToolView => {
  const view = ToolView.presentResult(name, status, output)
  const shown = view.table === undefined ? view.lines : ViewContent.renderTable(view.table, Width.measure)
  const text = shown.length === 0 ? "" : Redaction.redactText(SafeText.sanitise(shown.join("\n")))
  return {
    ...view,
    note: SafeText.toLine(Redaction.redactText(view.note)),
    lines: view.lines.length === 0 ? [] : text.split("\n").map((line) => line.replaceAll("\t", "  "))
  }
}

/** Returns true if the lines of a view are shown below its call. Plans and differences have their own blocks. */
export const hasShownLines = (name: string, { kind }: ToolView.ToolView): boolean =>
  // Sub-agents have their own lines.
  kind === "command" || kind === "matches" || (kind === "table" && name !== "delegate_task")

/** Returns the outcome of a call in a few words; empty for success. */
export const describeOutcome = (view: ToolView.ToolView): string => {
  // The block of the changed files has these numbers.
  if (view.kind === "diff") return ""
  if (view.kind === "command" || view.outcome !== "failed") return view.note
  const said = readFirstLine(view.lines.join("\n"))
  return said === "" ? "error" : said
}

/** Returns the readable part of a result: the longest multi-line string in a record, otherwise the whole result. */
const selectReadable = (output: string): string => {
  const texts = Object.values(parseOutput(output) ?? {}).filter(
    (value) => typeof value === "string" && value.includes("\n")
  )
  return (
    texts.reduce<string>(
      (longest, text) => (typeof text === "string" && text.length > longest.length ? text : longest),
      ""
    ) || output
  )
}

/** Returns a result as lines, up to a maximum number, and the number of omitted lines. */
export const toLines = (
  output: string,
  most: number
): { readonly lines: ReadonlyArray<string>; readonly more: number } => {
  const all = Redaction.redactText(SafeText.sanitise(selectReadable(output))).trimEnd()
  const found = all === "" ? [] : all.split("\n")
  return { lines: found.slice(0, most), more: Math.max(0, found.length - most) }
}

/** Formats a duration briefly: `12 ms`, `1.2 s`, `2 min 5 s`, `1 h 4 min`. */
export const formatDuration = (millis: number): string => {
  if (millis < 1000) return `${Math.max(0, Math.round(millis))} ms`
  if (millis < 59_950) return `${(millis / 1000).toFixed(1)} s`
  const seconds = Math.round(millis / 1000)
  return seconds < 3600
    ? `${Math.floor(seconds / 60)} min ${seconds % 60} s`
    : `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`
}

/** Formats the elapsed time in whole seconds, so that it does not flicker. */
export const formatElapsed = (millis: number): string =>
  millis < 60_000 ? `${Math.floor(millis / 1000)} s` : formatDuration(millis)
