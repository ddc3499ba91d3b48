/** Outcome of a tool call as shown in its row: the exit code of a command, or the error in a result. */
import * as Option from "effect/Option"
import * as Json from "../../base/domain/Json.ts"
import { toFields, toNonEmptyText } from "../atif/Value.ts"
import { isFailed, toOneLine } from "./Row.ts"

/**
 * Status of the row, and its error in one line. The error is `undefined` if the call did not fail or has no message.
 */
export interface ToolEnding {
  readonly status: string
  readonly error: string | undefined
}

/**
 * Reads the outcome of a call from its status, its result, and its error. For a command with a non-zero exit code, the
 * status is that code, with its meaning if the result contains one. The error is then the last line of the output.
 */
export const describeToolEnding = (status: string, result: string, error: string | undefined): ToolEnding => {
  const value = toFields(result.trimStart().startsWith("{") ? Option.getOrUndefined(Json.parse(result)) : undefined)
  const code = value["exit_code"]
  const meaning = toNonEmptyText(value["exit_code_meaning"])
  const isExit = status === "ok" && typeof code === "number" && code !== 0
  const ended = isExit ? `exit ${code}${meaning === undefined ? "" : `: ${toOneLine(meaning)}`}` : status
  if (!isFailed({ status: ended })) return { status: ended, error: undefined }
  const said =
    error ??
    toNonEmptyText(value["error"]) ??
    (isExit ? toNonEmptyText(value["output"])?.trimEnd().split("\n").at(-1) : status === "error" ? result : undefined)
  return { status: ended, error: said === undefined ? undefined : toOneLine(said) || undefined }
}
