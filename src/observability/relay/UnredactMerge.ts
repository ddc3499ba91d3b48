/**
 * Merges changes to a redacted copy into the value behind it: the value itself wherever the copy came back
 * as it was, and the changed text elsewhere.
 */
import * as Predicate from "effect/Predicate"
import type * as Schema from "effect/Schema"

const isList = (value: unknown): value is ReadonlyArray<unknown> => Array.isArray(value)

const isFields = (value: unknown): value is Readonly<Record<string, unknown>> =>
  Predicate.isObject(value) && !Array.isArray(value)

/**
 * True when two JSON values are equal, whatever the order of their keys; halves of characters, which the library replaces,
 * are no difference.
 */
export const same = (a: unknown, b: unknown): boolean => {
  if (a === b) return true
  if (typeof a === "string" && typeof b === "string") return a.toWellFormed() === b.toWellFormed()
  if (isList(a) && isList(b)) return a.length === b.length && a.every((one, index) => same(one, b[index]))
  if (!isFields(a) || !isFields(b)) return false
  const keys = Object.keys(a)
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && same(a[key], b[key]))
}

/** `original` with the changes that lead from `shown`, which is a copy of it, to `given`. */
export const changed = (original: unknown, shown: unknown, given: Schema.Json): unknown => {
  if (same(shown, given)) return original
  if (isList(original) && isList(shown) && isList(given) && original.length === shown.length && shown.length === given.length) {
    return given.map((one, index) => changed(original[index], shown[index], one))
  }
  if (!isFields(original) || !isFields(shown) || !isFields(given)) return given
  // Fields that a copy cannot have (functions, nothing) were never shown, and stay.
  const unseen = Object.entries(original).filter(([key]) => !Object.hasOwn(shown, key) && !Object.hasOwn(given, key))
  return Object.fromEntries([
    ...unseen,
    ...Object.entries(given).map(([key, value]): [string, unknown] => [
      key,
      Object.hasOwn(original, key) && Object.hasOwn(shown, key) ? changed(original[key], shown[key], value) : value
    ])
  ])
}
