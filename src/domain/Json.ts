/**
 * JSON at the borders of the runtime: parsing without exceptions, and one way to turn any value into text.
 */
import * as Option from "effect/Option"

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
