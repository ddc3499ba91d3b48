/**
 * Pure functions that convert JSON values to the form sent to Langfuse: without secrets, limited in size, and readable
 * for people.
 *
 * **Details**
 *
 * - Values nested deeper than four levels become `<max-depth>`. A collection is truncated to its first 50 entries. A
 *   long string is truncated, and the number of omitted characters is appended.
 * - JSON text is decoded; text after it is stored as `_hint` or `_trailing_text`.
 * - A base64 data URI is replaced by a description.
 * - The content of a file that a tool read is truncated to its first 25 and last 15 lines.
 *
 * Source: `hermes-contract.md` §5 ("Value limits").
 */
import type * as Schema from "effect/Schema"
import { redactValue } from "../../base/domain/Redaction.ts"
import { takeHead } from "../../base/domain/TextCut.ts"

const maxDepth = 4
const maxItems = 50
const headLines = 25
const tailLines = 15

const dataUri = /^data:([\w.+-]+\/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,/u

const cutText = (text: string, maxChars: number): Schema.Json => {
  const uri = dataUri.exec(text)
  if (uri !== null) return { type: "data_uri", media_type: uri[1] ?? "text/plain", omitted: true, length: text.length }
  if (text.length <= maxChars) return text
  const shown = takeHead(text, maxChars)
  return `${shown}... [truncated ${text.length - shown.length} chars]`
}

const isBase64 = (key: string, value: Schema.Json): value is string => typeof value === "string" && /base64/iu.test(key)

const unbounded = { nodes: Number.POSITIVE_INFINITY }

/** Returns a value of the record as complete JSON without secrets. */
export const toWholeValue = (value: unknown): Schema.Json => {
  // Redacting a string returns a string.
  if (typeof value === "string") return redactValue(value) as string
  const text: string | undefined = JSON.stringify(redactValue(value, unbounded))
  // `text` is valid JSON, so parsing it cannot fail.
  return text === undefined ? null : (JSON.parse(text) as Schema.Json)
}

/**
 * Returns a value with the limits of this module applied. Secrets must already be removed, because part of a secret
 * would not be recognized.
 */
export const boundValue = (value: Schema.Json, maxChars: number, depth = 0): Schema.Json => {
  if (depth > maxDepth) return "<max-depth>"
  if (typeof value === "string") return cutText(value, maxChars)
  if (typeof value !== "object" || value === null) return value
  if (isList(value)) return value.slice(0, maxItems).map((item) => boundValue(item, maxChars, depth + 1))
  const out: Record<string, Schema.Json> = {}
  for (const [key, member] of Object.entries(value).slice(0, maxItems)) {
    out[key] = isBase64(key, member)
      ? { omitted: true, length: member.length }
      : boundValue(member, maxChars, depth + 1)
  }
  return out
}

// `Array.isArray` does not narrow a readonly list.
const isList = (value: Schema.Json): value is ReadonlyArray<Schema.Json> => Array.isArray(value)

/** Returns the end offset of the JSON value at the start of a string, or -1 if its brackets are never closed. */
const findJsonEnd = (text: string): number => {
  let depth = 0
  let isQuoted = false
  for (let at = 0; at < text.length; at++) {
    const char = text[at]
    if (isQuoted) {
      if (char === "\\") at++
      else if (char === '"') isQuoted = false
    } else if (char === '"') isQuoted = true
    else if (char === "{" || char === "[") depth++
    else if ((char === "}" || char === "]") && --depth === 0) return at + 1
  }
  return -1
}

/** Parses JSON text and preserves any text after it. Text that is not JSON is returned unchanged. */
export const parseText = (text: string): Schema.Json => {
  const trimmed = text.trim()
  if (!/^[{[]/u.test(trimmed)) return text
  const end = findJsonEnd(trimmed)
  if (end < 0) return text
  try {
    const value: Schema.Json = JSON.parse(trimmed.slice(0, end))
    const rest = trimmed.slice(end).trim()
    if (rest === "") return value
    const behind = { [/^\[?(hint|tip|note)\b/iu.test(rest) ? "_hint" : "_trailing_text"]: rest }
    return isList(value) ? { value, ...behind } : { ...(value as Readonly<Record<string, Schema.Json>>), ...behind }
  } catch {
    // The text only looked like JSON.
    return text
  }
}

const shortenFile = (content: string): string => {
  const lines = content.split("\n")
  if (lines.length <= headLines + tailLines) return content
  const omitted = `... [${lines.length - headLines - tailLines} lines omitted]`
  return [...lines.slice(0, headLines), omitted, ...lines.slice(-tailLines)].join("\n")
}

/** Renders the result of a tool. */
export const renderResult = (tool: string, value: Schema.Json, maxChars: number): Schema.Json => {
  const said = typeof value === "string" ? parseText(value) : value
  if (tool !== "read_file" || typeof said !== "object" || said === null || isList(said))
    return boundValue(said, maxChars)
  const { content } = said
  return boundValue(typeof content === "string" ? { ...said, content: shortenFile(content) } : said, maxChars)
}
