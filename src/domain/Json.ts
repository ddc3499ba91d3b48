/**
 * JSON at the borders of the runtime: parsing without exceptions, one way to turn any value into text, and values of unknown shape read
 * field by field, without copies.
 */
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"

/** The value of a JSON text, or none. */
export const parse = (text: string): Option.Option<unknown> => {
  try {
    return Option.some(JSON.parse(text))
  } catch {
    return Option.none()
  }
}

/** A string as it is, everything else as compact JSON; a value that JSON cannot express becomes its `String`. */
export const toText = (value: unknown): string => {
  if (typeof value === "string") return value
  try {
    return JSON.stringify(value) ?? String(value)
  } catch {
    return String(value)
  }
}

/** An object of unknown fields. */
export interface Fields {
  readonly [name: string]: unknown
}

const noFields: Fields = Object.freeze({})
const noItems: ReadonlyArray<unknown> = Object.freeze([])

/** Tells whether a value is an object and no array. */
export const isFields = (value: unknown): value is Fields => Predicate.isObject(value)

/** The value itself, or an object without fields. */
export const fields = (value: unknown): Fields => isFields(value) ? value : noFields

/** The value itself, or an array without items. */
export const items = (value: unknown): ReadonlyArray<unknown> => Array.isArray(value) ? value : noItems

/** The value itself if it is a string. */
export const string = (value: unknown): string | undefined => typeof value === "string" ? value : undefined

/** A string or number as text; empty for everything else. */
export const word = (value: unknown): string =>
  typeof value === "string" ? value : typeof value === "number" ? String(value) : ""

/** The value of a text that is JSON, else the text. */
export const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** The object, or what is wrong with the body in its place. Text is parsed: servers mislabel JSON. */
export const body = (raw: unknown): Fields | string => {
  if (raw === undefined || raw === null || raw === "") return "the answer is empty"
  const value = typeof raw === "string" ? parsed(raw) : raw
  if (isFields(value)) return value
  return typeof raw === "string" && raw.trimStart().startsWith("<")
    ? "the answer is an HTML page and not JSON: correct the base URL"
    : "the answer is no JSON object"
}
