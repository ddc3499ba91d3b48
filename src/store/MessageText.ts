/** Text of stored messages for search, and the skill that a user chose for a message. */
import type * as Prompt from "effect/ai/Prompt"
import * as Json from "../base/domain/Json.ts"

/** Searchable text of a message, without reasoning and the bytes of files. */
export interface SearchText {
  readonly content: string
  /** Names of the tools whose results the message contains. */
  readonly toolNames: string
  /** Name and arguments of each call in the message, without JSON punctuation. */
  readonly toolCalls: string
}

/** Returns the strings in a JSON value with their keys, one per line. */
const toPlainText = (value: unknown): string => {
  if (typeof value === "string") return value
  if (Array.isArray(value)) return value.map(toPlainText).join("\n")
  if (typeof value === "object" && value !== null) {
    return Object.entries(value)
      .map(([name, inner]) => `${name}: ${toPlainText(inner)}`)
      .join("\n")
  }
  return Json.toText(value)
}

const readPartText = (part: Exclude<Prompt.Message["content"], string>[number]): string => {
  switch (part.type) {
    case "text":
      return part.text
    case "file":
      return part.fileName ?? ""
    case "tool-result":
      return part.modelOutput === undefined ? toPlainText(part.result) : part.modelOutput.map(readPartText).join("\n")
    case "reasoning":
    case "tool-call":
    case "tool-approval-request":
    case "tool-approval-response":
      return ""
  }
}

/**
 * Extracts the searchable text of a message.
 *
 * **Gotchas**
 *
 * Arguments and results are traversed as trees, so they must not contain a cycle.
 */
export const extractSearchText = (message: Prompt.Message): SearchText => {
  if (message.role === "system") return { content: message.content, toolNames: "", toolCalls: "" }
  const content: Array<string> = []
  const toolNames: Array<string> = []
  const toolCalls: Array<string> = []
  for (const part of message.content) {
    const text = readPartText(part)
    if (text !== "") content.push(text)
    if (part.type === "tool-result") toolNames.push(part.name)
    if (part.type === "tool-call") toolCalls.push(`${part.name}\n${toPlainText(part.params)}`)
  }
  return { content: content.join("\n"), toolNames: toolNames.join(" "), toolCalls: toolCalls.join("\n") }
}

/**
 * Returns the skill that a user chose for a message. It is named at the beginning of the message text. Returns
 * `undefined` if no skill was chosen.
 */
export const findChosenSkill = (text: string): string | undefined => /^<skill name="([^"<>]{1,100})"/u.exec(text)?.[1]
