/**
 * JSON at the boundaries of the runtime: parses without exceptions, converts any value to text, and reads the fields of
 * values of unknown shape without copies.
 */
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"

/** Parses JSON; returns `None` if the text is not JSON. */
export const parse = (text: string): Option.Option<unknown> => {
  try {
    return Option.some(JSON.parse(text))
  } catch {
    return Option.none()
  }
}

/** Maximum nesting depth of {@link toPlainData}: far more than real data has, and less than the stack allows. */
export const maxDepth = 500

const toPlainMembers = (value: object, change: (text: string) => string, above: Set<object>): unknown => {
  if (Array.isArray(value)) return value.map((item: unknown) => toPlainValue(item, change, above))
  // This check precedes `toJSON`, because the `toJSON` of a Buffer lists each byte.
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return `<${value.byteLength} bytes>`
  if ("toJSON" in value && typeof value.toJSON === "function") return toPlainValue(value.toJSON(), change, above)
  if (value instanceof Set) return Array.from(value, (item) => toPlainValue(item, change, above))
  const entries: ReadonlyArray<readonly [unknown, unknown]> =
    value instanceof Map
      ? Array.from(value)
      : Object.entries(value instanceof Error ? { ...value, name: value.name, message: value.message } : value)
  return Object.fromEntries(
    entries.map(([key, item]) => [
      change(typeof key === "string" ? key : toText(key)),
      toPlainValue(item, change, above)
    ])
  )
}

const toPlainValue = (value: unknown, change: (text: string) => string, above: Set<object>): unknown => {
  if (typeof value === "string") return change(value)
  if (typeof value === "bigint") return String(value)
  if (typeof value !== "object" || value === null) return value
  if (above.has(value)) return "<circular>"
  if (above.size >= maxDepth) return "<depth limit>"
  above.add(value)
  try {
    return toPlainMembers(value, change, above)
  } catch {
    return "<unreadable>"
  } finally {
    above.delete(value)
  }
}

/**
 * Converts any value to JSON data, and applies `change` to each string and each member name. Dates and other values
 * with a `toJSON` method are converted by that method, bigints to digits, maps to records, sets to arrays, and errors
 * to name and message. Bytes, cycles, values nested too deeply and values that throw when read are replaced by a note.
 */
export const toPlainData = (value: unknown, change: (text: string) => string = (text) => text): unknown =>
  toPlainValue(value, change, new Set())

/**
 * Returns a string unchanged and every other value as compact JSON; see {@link toPlainData} for values that JSON cannot
 * express.
 */
export const toText = (value: unknown): string => {
  if (typeof value === "string") return value
  try {
    return JSON.stringify(value) ?? String(value)
  } catch {
    const safe = toPlainData(value)
    return typeof safe === "string" ? safe : (JSON.stringify(safe) ?? String(safe))
  }
}

/** Number of characters that are counted for a value that is not text. */
const valueLength = 8

/**
 * Estimates the length of a value as JSON, without making the JSON: its names and texts. Stops when the length exceeds
 * `most`.
 */
export const countCharacters = (value: unknown, most: number): number => {
  if (typeof value === "string") return value.length
  if (typeof value !== "object" || value === null || ArrayBuffer.isView(value)) return valueLength
  let sum = valueLength
  for (const key of Object.keys(value)) {
    if (sum > most) break
    sum += key.length + countCharacters(Reflect.get(value, key), most - sum)
  }
  return sum
}

/** An object with unknown fields. */
export interface Fields {
  readonly [name: string]: unknown
}

const noFields: Fields = Object.freeze({})
const noItems: ReadonlyArray<unknown> = Object.freeze([])

/** Tests whether a value is an object but not an array. */
export const isFields = (value: unknown): value is Fields => Predicate.isObject(value)

/** Returns the value if it is an object, or an object without fields. */
export const readFields = (value: unknown): Fields => (isFields(value) ? value : noFields)

/** Returns the value if it is an array, or an empty array. */
export const readItems = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value : noItems)

/** Returns the value if it is a string, or `undefined`. */
export const readString = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined)

/** Returns a string or number as text, or an empty string for any other value. */
export const readWord = (value: unknown): string =>
  typeof value === "string" ? value : typeof value === "number" ? String(value) : ""

/** Parses JSON. Returns the text itself if it is not JSON. */
export const parseOrKeep = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/**
 * Returns the body as an object, or a description of the problem if it is not an object. Text is parsed, because some
 * servers mislabel JSON.
 */
export const readBody = (raw: unknown): Fields | string => {
  if (raw === undefined || raw === null || raw === "") return "the answer is empty"
  const value = typeof raw === "string" ? parseOrKeep(raw) : raw
  if (isFields(value)) return value
  return typeof raw === "string" && raw.trimStart().startsWith("<")
    ? "the answer is an HTML page and not JSON: correct the base URL"
    : "the answer is no JSON object"
}
