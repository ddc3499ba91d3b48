/**
 * Shortens old tool output without a model: each old result becomes a line, long arguments are cut, and images are
 * replaced with labels.
 *
 * **Details**
 *
 * The newest of several identical results is preserved. The arguments of a shortened call remain valid. Nothing is
 * removed: every call keeps its result.
 *
 * Source: `hermes-llm.md` §10.5.
 */
import * as Option from "effect/Option"
import * as Prompt from "effect/ai/Prompt"
import * as Json from "../../../base/domain/Json.ts"

/** Maximum number of characters of a result that is not shortened. */
const shortResult = 200
/** Maximum number of characters of a call's arguments that are not shortened. */
const shortArguments = 500
/** Maximum number of retained characters of a text in longer arguments. */
const argumentChars = 200
const commandChars = 80
const errorChars = 200

/** Returns the text of a result as a model reads it. */
export const readResultText = (part: Prompt.ToolResultPart): string =>
  part.modelOutput === undefined
    ? Json.toText(part.result)
    : part.modelOutput.map((item) => (item.type === "text" ? item.text : `[${item.mediaType}]`)).join("\n")

const toShortLine = (text: string, most: number): string => {
  const flat = text.replaceAll(/\s+/g, " ").trim()
  return flat.length > most ? `${flat.slice(0, most).toWellFormed()}…` : flat
}

const formatArguments = (params: Json.Fields, names: ReadonlyArray<string>): string =>
  names
    .flatMap((name) =>
      params[name] === undefined ? [] : [`${name} ${toShortLine(Json.toText(params[name]), commandChars)}`]
    )
    .join(", ")

const named: Readonly<Record<string, ReadonlyArray<string>>> = {
  terminal: ["command"],
  read_file: ["path", "offset"],
  write_file: ["path"],
  patch: ["mode", "path"],
  search_files: ["pattern", "path"]
}

/** Outcome that a result reports, and the text that a user would read. */
interface ReportedResult {
  readonly output: string
  readonly exitCode: number | undefined
  readonly error: string | undefined
}

/** Reads a result in the form of the built-in tools: an object, or its JSON text. Other results are only text. */
const readResult = (part: Prompt.ToolResultPart): ReportedResult => {
  const text = readResultText(part)
  const parsed = Json.isFields(part.result) ? part.result : Json.readFields(Option.getOrUndefined(Json.parse(text)))
  const { error, exit_code: code, output } = parsed
  return {
    output: typeof output === "string" ? output : text,
    exitCode: typeof code === "number" ? code : readWrittenCode(part.name, text),
    error: typeof error === "string" && error !== "" ? error : undefined
  }
}

/** Reads the exit code at the end of a result whose beginning or middle was left out. */
const readWrittenCode = (tool: string, text: string): number | undefined => {
  const found = tool === "terminal" ? /"exit_code":\s*(-?\d+)/.exec(text.slice(-4_000)) : null
  return found === null ? undefined : Number(found[1])
}

const errorWords = /error|exception|fatal|panic|denied|refused|not found|no such|timed? ?out|cannot/i

/** Finds the line that names a failure, because a later note needs its exact words. */
const findErrorLine = (text: string): string => {
  const found = text.split(/\n|\\n/).find((one) => errorWords.test(one))
  return found === undefined ? "" : `; it said: ${toShortLine(found, errorChars)}`
}

/** Summarizes an old result in one line; for a failure it includes the error line. */
const summarizeResult = (part: Prompt.ToolResultPart, call: Prompt.ToolCallPart | undefined): string => {
  const params = Json.readFields(call?.params)
  const names = Object.hasOwn(named, part.name) ? named[part.name] : undefined
  const args = formatArguments(params, names ?? Object.keys(params).slice(0, 2))
  const { error, exitCode, output } = readResult(part)
  const lines = output.split("\n").length
  const hasFailed = part.isFailure || error !== undefined || (exitCode !== undefined && exitCode !== 0)
  const status = `${part.isFailure ? " failed" : ""}${exitCode === undefined ? "" : `, exit code ${exitCode}`}`
  const said = error === undefined ? findErrorLine(output) : `; it said: ${toShortLine(error, errorChars)}`
  return (
    `[${part.name}${args === "" ? "" : ` (${args})`}${status}: ` +
    `${output.length} characters in ${lines === 1 ? "1 line" : `${lines} lines`}, left out to save room` +
    `${hasFailed ? said : ""}]`
  )
}

/** Maximum number of characters of a line of {@link summarizeResult}. */
const lineMost = 600

/** Returns whether a text is already the summary line of a result. */
const isResultSummary = (text: string): boolean =>
  text.length <= lineMost && /^\[[^\n]*, left out to save room(?:; it said: [^\n]*)?\]$/.test(text)

const shortenStrings = (value: unknown, depth = 0): unknown => {
  if (typeof value === "string")
    return value.length > argumentChars
      ? `${value.slice(0, argumentChars).toWellFormed()}… [${value.length} characters]`
      : value
  if (typeof value !== "object" || value === null || depth > 8) return value
  return Array.isArray(value)
    ? value.map((item) => shortenStrings(item, depth + 1))
    : Object.fromEntries(Object.entries(value).map(([name, item]) => [name, shortenStrings(item, depth + 1)]))
}

const hasResultFiles = ({ modelOutput }: Prompt.ToolResultPart): boolean =>
  modelOutput?.some(({ type }) => type === "file") === true

/** Tests whether a message of the user or the result of a tool contains images or other files. */
export const hasFiles = (message: Prompt.Message): boolean =>
  (message.role === "user" && message.content.some(({ type }) => type === "file")) ||
  (message.role === "tool" && message.content.some((part) => part.type === "tool-result" && hasResultFiles(part)))

/** Replaces images and other files in a message with labels. */
export const replaceFiles = (message: Prompt.Message): Prompt.Message => {
  const describeFile = (part: { readonly mediaType: string; readonly fileName?: string | undefined }): string =>
    `[${part.mediaType}${part.fileName === undefined ? "" : ` ${part.fileName}`}, left out to save room]`
  switch (message.role) {
    case "user":
      return hasFiles(message)
        ? Prompt.userMessage({
            content: message.content.map((part) =>
              part.type === "file" ? Prompt.textPart({ text: describeFile(part) }) : part
            ),
            options: message.options
          })
        : message
    case "tool":
      return hasFiles(message)
        ? Prompt.toolMessage({
            content: message.content.map((part) =>
              part.type === "tool-result" && hasResultFiles(part)
                ? Prompt.toolResultPart({
                    ...part,
                    modelOutput: part.modelOutput?.map((one) =>
                      one.type === "file" ? Prompt.textPart({ text: describeFile(one) }) : one
                    )
                  })
                : part
            ),
            options: message.options
          })
        : message
    default:
      return message
  }
}

/** Returns a result with another text. */
export const replaceResultText = (part: Prompt.ToolResultPart, text: string): Prompt.ToolResultPart =>
  Prompt.toolResultPart({
    id: part.id,
    name: part.name,
    isFailure: part.isFailure,
    providerExecuted: part.providerExecuted,
    result: text,
    options: part.options
  })

/** Shortens the messages from `from` up to `to`; unchanged messages remain the same objects. */
export const prune = (
  messages: ReadonlyArray<Prompt.Message>,
  from: number,
  to: number
): ReadonlyArray<Prompt.Message> => {
  const calls = new Map<string, Prompt.ToolCallPart>()
  /** Positions of the newest among equal results. */
  const newest = new Map<string, number>()
  messages.forEach((message, at) => {
    if (typeof message.content === "string") return
    for (const part of message.content) {
      if (part.type === "tool-call") calls.set(part.id, part)
      if (part.type === "tool-result" && readResultText(part).length >= shortResult)
        newest.set(readResultText(part), at)
    }
  })
  return messages.map((message, at) => {
    if (at < from || at >= to) return message
    if (message.role === "tool") {
      const content = message.content.map((part) => {
        if (part.type !== "tool-result") return part
        const text = readResultText(part)
        if (isResultSummary(text)) return part
        if (text.length < shortResult && part.modelOutput?.some(({ type }) => type === "file") !== true) return part
        return replaceResultText(
          part,
          (newest.get(text) ?? at) > at ? "[Same output as a later call]" : summarizeResult(part, calls.get(part.id))
        )
      })
      return content.every((part, index) => part === message.content[index])
        ? message
        : Prompt.toolMessage({ content, options: message.options })
    }
    if (message.role === "assistant") {
      const content = message.content.map((part) =>
        part.type === "tool-call" && JSON.stringify(part.params ?? {}).length > shortArguments
          ? Prompt.toolCallPart({
              id: part.id,
              name: part.name,
              params: shortenStrings(part.params),
              providerExecuted: part.providerExecuted,
              options: part.options
            })
          : part
      )
      return content.every((part, index) => part === message.content[index])
        ? message
        : Prompt.assistantMessage({ content, options: message.options })
    }
    return replaceFiles(message)
  })
}
