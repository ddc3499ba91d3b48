/**
 * Reads the result of a tool as text for a person: a file without line numbers, the output of a command, the lines that
 * were found. Results of other tools are shown as they are.
 */
import * as Option from "effect/Option"
import * as Json from "../../domain/Json.ts"
import * as Raw from "../Raw.ts"

/** A result; `text` is to be shown, `exact` is what "exactly the output" means. */
export interface Outcome {
  readonly failed: boolean
  readonly text: string
  readonly exact: string
}

const success = (text: string, exact = text): Outcome => ({ failed: false, text, exact })
const failure = (text: string): Outcome => ({ failed: true, text, exact: text })

const numbered = /^\s*\d+\|/

const withoutLineNumbers = (text: string): string => {
  const lines = text.split("\n")
  const last = lines.at(-1) === "" ? lines.length - 1 : lines.length
  return lines.slice(0, last).every((line) => numbered.test(line))
    ? lines.map((line) => line.replace(numbered, "")).join("\n")
    : text
}

const withoutFinalBreak = (text: string): string => text.endsWith("\n") ? text.slice(0, -1) : text

const command = (output: string, exit: unknown): Outcome => {
  const exact = withoutFinalBreak(output)
  const code = typeof exit === "number" ? exit : 0
  if (code !== 0) return success(`The command exited with code ${code}${exact === "" ? "." : `:\n${exact}`}`, exact)
  return success(exact === "" ? "The command printed nothing and exited with code 0." : exact, exact)
}

const match = (item: unknown): string => {
  const { content, line, path } = Raw.fields(item)
  return `${Raw.word(path)}:${Raw.word(line)}: ${Raw.word(content)}`
}

const children = (items: ReadonlyArray<Raw.Fields>): Outcome => {
  const bad = items.find(({ summary }) => Raw.word(summary) === "")
  return bad === undefined
    ? success(items.map(({ summary }) => Raw.word(summary)).join("\n\n"))
    : failure(Raw.word(bad["error"]) || `the subagent ended as ${Raw.word(bad["status"]) || "failed"}`)
}

const errorOf = (result: Raw.Fields): string | undefined => {
  const { error, message, status, success } = result
  const text = Raw.string(error) ?? Raw.string(Raw.fields(error)["message"])
  if (text !== undefined && text !== "") return text
  return success === false || status === "blocked" || status === "error" ? Raw.string(message) ?? Json.toText(result) : undefined
}

const known = (result: Raw.Fields): Outcome => {
  const { bytes_written: written, content, exit_code: exit, files, matches, matches_text: grouped, output, results } = result
  if (typeof output === "string") return command(output, exit)
  if (typeof content === "string") return success(withoutFinalBreak(withoutLineNumbers(content)))
  if (typeof grouped === "string") return success(withoutFinalBreak(grouped))
  if (Array.isArray(matches)) return success(matches.length === 0 ? "Nothing was found." : matches.map(match).join("\n"))
  if (Array.isArray(files)) return success(files.length === 0 ? "There are no such files." : files.map(Json.toText).join("\n"))
  if (typeof written === "number") return success(`${written} bytes were written.`)
  const items = Raw.items(results).map(Raw.fields)
  if (items.some((item) => Object.hasOwn(item, "summary"))) return children(items)
  const word = ["summary", "message", "text", "result"].find((name) => typeof result[name] === "string" && result[name] !== "")
  return word === undefined ? success(JSON.stringify(result, undefined, 2), JSON.stringify(result)) : success(Raw.word(result[word]))
}

/** Tells whether a result only says that a file is as it was read before. */
export const isStub = (result: string | undefined): boolean =>
  result !== undefined && Raw.fields(Option.getOrUndefined(Json.parse(result)))["content_returned"] === false

const failureText = /^(error|cancelled|unknown tool|blocked|refused|denied)\b/i

/** Reads the text of a tool message. */
export const read = (result: string): Outcome => {
  const value = Option.getOrUndefined(Json.parse(result))
  if (typeof value === "string") return success(value)
  if (Raw.isFields(value)) {
    const error = errorOf(value)
    const output = Raw.word(value["output"])
    return error === undefined ? known(value) : failure(output === "" ? error : `${error}\n${output}`)
  }
  if (failureText.test(result)) return failure(result)
  return success(result === "" ? "The tool gave an empty result." : withoutLineNumbers(result))
}
