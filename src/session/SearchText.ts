/**
 * The text of a message as search sees it, and the words in it.
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Json from "../domain/Json.ts"

/** Searchable text of a message, without reasoning and the bytes of files. */
export interface SearchText {
  readonly content: string
  /** The tools whose results the message holds. */
  readonly toolNames: string
  /** Name and arguments of each call in the message, without JSON's signs. */
  readonly toolCalls: string
}

/** The strings of a JSON value with their names, one per line. */
const plain = (value: unknown): string => {
  if (typeof value === "string") return value
  if (Array.isArray(value)) return value.map(plain).join("\n")
  if (typeof value === "object" && value !== null) {
    return Object.entries(value).map(([name, inner]) => `${name}: ${plain(inner)}`).join("\n")
  }
  return Json.toText(value)
}

const partText = (part: Exclude<Prompt.Message["content"], string>[number]): string => {
  switch (part.type) {
    case "text":
      return part.text
    case "file":
      return part.fileName ?? ""
    case "tool-result":
      return part.modelOutput === undefined ? plain(part.result) : part.modelOutput.map(partText).join("\n")
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
 * Arguments and results are walked as the trees that JSON makes of them: a value with a cycle must not get here.
 */
export const fromMessage = (message: Prompt.Message): SearchText => {
  if (message.role === "system") return { content: message.content, toolNames: "", toolCalls: "" }
  const content: Array<string> = []
  const toolNames: Array<string> = []
  const toolCalls: Array<string> = []
  for (const part of message.content) {
    const text = partText(part)
    if (text !== "") content.push(text)
    if (part.type === "tool-result") toolNames.push(part.name)
    if (part.type === "tool-call") toolCalls.push(`${part.name}\n${plain(part.params)}`)
  }
  return { content: content.join("\n"), toolNames: toolNames.join(" "), toolCalls: toolCalls.join("\n") }
}

/** A word and where it stands. */
export interface Word {
  readonly text: string
  readonly start: number
  readonly end: number
}

// Scripts that do not put blanks between words: each sign is a word of its own.
const unspaced = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}\p{sc=Thai}]/u

const word =
  /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}\p{sc=Thai}]|[[\p{L}\p{N}\p{M}\p{Co}]--[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}\p{sc=Thai}]]+/gv

/** The words of a text: runs of letters and digits. */
export const words = (text: string): ReadonlyArray<Word> =>
  Array.from(text.matchAll(word), (match) => ({
    text: match[0],
    start: match.index,
    end: match.index + match[0].length
  }))

/** True when a word belongs to a script that an index of blank-separated words cannot find. */
export const isUnspaced = (word: string): boolean => unspaced.test(word)

/** A word without case and accents. */
export const fold = (word: string): string =>
  word.toLowerCase().normalize("NFD").replace(/\p{Mn}/gu, "").normalize("NFC")

/** The first characters of a text. */
export const cut = (text: string, length: number): string =>
  // A character is at most two units, so that a long text is not taken apart whole.
  Array.from(text.slice(0, 2 * length)).slice(0, length).join("")
