/**
 * What a tool gave, as a person would say it: the text of a file without line numbers, the output of a command, the
 * lines that were found. Knows the built-in tools by the fields of their results and shows every other result as it is.
 *
 * @since 0.1.0
 */
import * as Option from "effect/Option"
import * as Json from "../../domain/Json.ts"
import * as Raw from "../Raw.ts"

/** See the module. */
export interface Outcome {
  readonly failed: boolean
  /** What to show, or what went wrong. */
  readonly text: string
  /** What `exactly the output` means. */
  readonly exact: string
}

const said = (text: string, exact = text): Outcome => ({ failed: false, text, exact })
const wrong = (text: string): Outcome => ({ failed: true, text, exact: text })

const numbered = /^\s*\d+\|/

/** A text without the numbers that `read_file` puts before its lines. */
const unnumbered = (text: string): string => {
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
  if (code !== 0) return said(`The command exited with code ${code}${exact === "" ? "." : `:\n${exact}`}`, exact)
  return said(exact === "" ? "The command printed nothing and exited with code 0." : exact, exact)
}

const matches = (items: ReadonlyArray<unknown>): string =>
  items.map((item) => {
    const match = Raw.fields(item)
    return `${Raw.word(match["path"])}:${Raw.word(match["line"])}: ${Raw.word(match["content"])}`
  }).join("\n")

const boxes: Readonly<Record<string, string>> = { completed: "x", in_progress: "-", cancelled: "~" }

const todos = (items: ReadonlyArray<unknown>): string =>
  items.length === 0 ? "The todo list is empty." : items.map((item) => {
    const todo = Raw.fields(item)
    return `[${boxes[Raw.word(todo["status"])] ?? " "}] ${Raw.word(todo["content"])}`
  }).join("\n")

const children = (items: ReadonlyArray<unknown>): Outcome => {
  const all = items.map(Raw.fields)
  const bad = all.find((child) => Raw.word(child["summary"]) === "")
  const summaries = all.map((child) => Raw.word(child["summary"])).filter((summary) => summary !== "")
  return bad === undefined
    ? said(summaries.join("\n\n"))
    : wrong(Raw.word(bad["error"]) || `the subagent ended as ${Raw.word(bad["status"]) || "failed"}`)
}

const isList = (value: unknown): value is ReadonlyArray<unknown> => Array.isArray(value)

const errorOf = (result: Raw.Fields): string | undefined => {
  const { error } = result
  const text = Raw.string(error) ?? Raw.string(Raw.fields(error)["message"])
  if (text !== undefined && text !== "") return text
  const refused = result["success"] === false || result["status"] === "blocked" || result["status"] === "error"
  return refused ? Raw.string(result["message"]) ?? Json.toText(result) : undefined
}

const words = ["summary", "message", "text", "result", "answer", "diff"]

const known = (result: Raw.Fields): Outcome => {
  const { content, files, output, results, todos: list } = result
  const found = result["matches"]
  const grouped = result["matches_text"]
  if (typeof output === "string") return command(output, result["exit_code"])
  if (typeof content === "string") return said(withoutFinalBreak(unnumbered(content)))
  if (typeof grouped === "string") return said(withoutFinalBreak(grouped))
  if (isList(found)) return said(found.length === 0 ? "Nothing was found." : matches(found))
  if (isList(files)) return said(files.length === 0 ? "There are no such files." : files.map(Json.toText).join("\n"))
  if (isList(list)) return said(todos(list))
  if (isList(results) && results.some((item) => Object.hasOwn(Raw.fields(item), "summary"))) return children(results)
  if (typeof result["bytes_written"] === "number") return said(`${result["bytes_written"]} bytes were written.`)
  const word = words.find((name) => typeof result[name] === "string" && result[name] !== "")
  return word === undefined
    ? said(JSON.stringify(result, undefined, 2), JSON.stringify(result))
    : said(Raw.word(result[word]))
}

/** Whether a result stands for one that was given before (`read_file` of a file that did not change). */
export const isStub = (result: string | undefined): boolean =>
  result !== undefined && Raw.fields(Option.getOrUndefined(Json.parse(result)))["content_returned"] === false

const failureText = /^(error|cancelled|unknown tool|blocked|refused|denied)\b/i

/** Reads the text of a tool message. */
export const read = (result: string): Outcome => {
  const value = Option.getOrUndefined(Json.parse(result))
  if (typeof value === "string") return said(value)
  if (Raw.isFields(value)) {
    const error = errorOf(value)
    const output = Raw.word(value["output"])
    return error === undefined ? known(value) : wrong(output === "" ? error : `${error}\n${output}`)
  }
  if (failureText.test(result)) return wrong(result)
  return said(result === "" ? "The tool gave an empty result." : unnumbered(result), unnumbered(result))
}
