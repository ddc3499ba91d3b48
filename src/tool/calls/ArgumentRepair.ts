/**
 * Arguments of a tool call that are no JSON: what can be read out of them, and whether they were cut or are malformed.
 *
 * **Details**
 *
 * Nothing is invented: a repair closes what is open and removes what is surplus, and the result must be an object. A text
 * that ends in the middle of something was cut by an output limit; it must never be executed as if it were whole, so that
 * only a text whose last character closes something is repaired.
 *
 * Source: `hermes-llm.md` §13.4, `ARCHITECTURE.md` §7.
 */
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Json from "../../domain/Json.ts"

/** Arguments: a JSON object. */
export type Arguments = Readonly<Record<string, unknown>>

/** Arguments of a tool call that are no JSON. */
export type Repaired =
  | { readonly _tag: "Repaired"; readonly args: Arguments; readonly how: string }
  | { readonly _tag: "Truncated" }
  | { readonly _tag: "Malformed"; readonly reason: string }

/** True when a value is a JSON object, as opposed to a list or a scalar. */
export const isArguments = (value: unknown): value is Arguments => Predicate.isObject(value) && !Array.isArray(value)

const asArguments = (text: string): Option.Option<Arguments> => Option.filter(Json.parse(text), isArguments)

interface Scan {
  /** Closers that are missing, the innermost first. */
  readonly missing: string
  /** The cleaned text before the first closer without an opener. */
  readonly surplus: string | undefined
  readonly inString: boolean
  /** The text with raw control characters inside strings escaped, and trailing commas removed. */
  readonly cleaned: string
}

const closers: Readonly<Record<string, string>> = { "{": "}", "[": "]" }

const escapeControl = (character: string): string => {
  switch (character) {
    case "\n":
      return "\\n"
    case "\r":
      return "\\r"
    case "\t":
      return "\\t"
    default:
      return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`
  }
}

/** One pass over the text, aware of strings and their escapes. */
const scan = (text: string): Scan => {
  const open: Array<string> = []
  let surplus: number | undefined
  let inString = false
  let escaped = false
  const cleaned: Array<string> = []
  /** Position of a comma that only white space has followed; -1 when there is none. */
  let comma = -1
  for (const character of text) {
    if (inString) {
      if (escaped) escaped = false
      else if (character === "\\") escaped = true
      else if (character === "\"") inString = false
      cleaned.push(character < " " ? escapeControl(character) : character)
      continue
    }
    if (character === "\"") inString = true
    const closer = closers[character]
    if (closer !== undefined) open.push(closer)
    if (character === "}" || character === "]") {
      if (comma >= 0) cleaned.length = comma
      if (open.at(-1) === character) open.pop()
      else surplus ??= cleaned.length
    }
    if (character === ",") comma = cleaned.length
    else if (character.trim() !== "") comma = -1
    cleaned.push(character)
  }
  return {
    missing: open.toReversed().join(""),
    surplus: surplus === undefined ? undefined : cleaned.slice(0, surplus).join(""),
    inString,
    cleaned: cleaned.join("")
  }
}

/** Message of the parser for a text that is no JSON. */
const syntaxError = (text: string): string => {
  try {
    JSON.parse(text)
    return "not valid JSON"
  } catch (error) {
    return error instanceof Error ? error.message : "not valid JSON"
  }
}

/** Longest text that is looked at: arguments beyond it are malformed whatever they say. */
const longestText = 2_000_000

/** Makes an object of a text that is no JSON object, where that is possible. */
export const repair = (text: string): Repaired => {
  const trimmed = text.trim()
  if (trimmed === "" || trimmed === "None" || trimmed === "null") {
    return { _tag: "Repaired", args: {}, how: "nothing was given" }
  }
  if (trimmed.length > longestText) return { _tag: "Malformed", reason: "it is too long" }
  const parsed = Json.parse(trimmed)
  if (Option.isSome(parsed)) {
    if (isArguments(parsed.value)) return { _tag: "Repaired", args: parsed.value, how: "it was JSON already" }
    // Some models send the object as a JSON text within a JSON text.
    const inner = typeof parsed.value === "string" ? repair(parsed.value) : undefined
    return inner?._tag === "Repaired" ? inner : { _tag: "Malformed", reason: "it is another kind of value" }
  }
  const { cleaned, inString, missing, surplus } = scan(trimmed)
  if (inString || !/[}\]]$/.test(trimmed)) return { _tag: "Truncated" }
  const candidates: ReadonlyArray<readonly [text: string, how: string]> = [
    [cleaned, "control characters and trailing commas"],
    [cleaned + missing, "closers that were missing"],
    ...(surplus === undefined ? [] : [[surplus, "closers that were surplus"] as const])
  ]
  for (const [candidate, how] of candidates) {
    const args = asArguments(candidate)
    if (Option.isSome(args)) return { _tag: "Repaired", args: args.value, how }
  }
  return { _tag: "Malformed", reason: syntaxError(trimmed) }
}

/** Why arguments are none, in words for whoever wrote them. */
export const reasonOf = (params: unknown): string => {
  const repaired = typeof params === "string" ? repair(params) : undefined
  if (repaired?._tag === "Malformed") return repaired.reason
  return params === null ? "null" : Array.isArray(params) ? "a list" : `a ${typeof params}`
}
