/**
 * The result of a tool call as a user reads it, derived from the result that the model receives. Every client shows the
 * same view: the terminal, exported pages, and `stream-json`. Pure; secrets are not removed here.
 *
 * **Details**
 *
 * A command that ended with another exit code than 0 has failed, although its call succeeded, unless the code has a
 * meaning that is not an error (`grep` without a match). Instructions to the model (what to do after a refusal) are not
 * part of a view.
 */
import * as Option from "effect/Option"
import * as Json from "./Json.ts"
import type { ToolStatus } from "./RunEvent.ts"

/** End of a call from the user's point of view. */
export type ToolOutcome = "done" | "failed" | "refused" | "stopped"

/** Kind of a result. */
export type ToolViewKind = "command" | "matches" | "plan" | "text"

/** A result as a user reads it. */
export interface ToolView {
  readonly kind: ToolViewKind
  readonly outcome: ToolOutcome
  /** The outcome in a few words: `exit 3`, `14 matches in 3 files`, the reason of a refusal; often empty. */
  readonly note: string
  /** Exit code of a command that has ended. */
  readonly exitCode: number | undefined
  /** Lines to show without being asked: the last lines of a command or of an error. Otherwise empty. */
  readonly lines: ReadonlyArray<string>
  /** Number of lines before {@link lines}. */
  readonly omitted: number
}

/** Number of lines shown of a command that succeeded, and of one that failed. */
const successLines = 5
const failureLines = 12

/** Maximum number of characters of the end of an output that is divided into lines. */
const examined = 40_000

type Fields = Readonly<Record<string, unknown>>

const readRecord = (output: string): Fields => {
  if (!output.trimStart().startsWith("{")) return {}
  const value = Option.getOrUndefined(Json.parse(output))
  return Json.isFields(value) ? value : {}
}

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

const countMatches = (text: string, total: unknown): string => {
  const files = text.split("\n").filter((line) => line !== "" && !/^\s/u.test(line)).length
  const count = typeof total === "number" ? total : 0
  return count === 0
    ? "no match"
    : `${count} ${count === 1 ? "match" : "matches"} in ${files} ${files === 1 ? "file" : "files"}`
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

/** Returns the view of a result. `output` is the text that the model receives. */
export const presentResult = (name: string, status: ToolStatus, output: string): ToolView => {
  const fields = readRecord(output)
  const exitCode = fields["exit_code"]
  if (typeof exitCode === "number" && exitCode >= 0 && (status === "ok" || status === "error"))
    return presentCommand(fields, exitCode, status)
  if (status !== "ok") return presentFailure(status, fields, output)
  const matches = fields["matches_text"]
  if (typeof matches === "string") return makeView("matches", "done", countMatches(matches, fields["total_count"]))
  return makeView(name === "todo" ? "plan" : "text", "done", "")
}
