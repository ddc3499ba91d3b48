/**
 * Functions that compare values in a rule, without a test runner. A failed check throws {@link RuleBroken}, with both
 * values for runners that show a difference.
 *
 * **Example** (A comparison by value)
 *
 * ```ts
 * import { Check } from "hermes-effect/testing"
 *
 * Check.equals([1, { a: "b" }], [1, { a: "b" }])
 * ```
 */
import * as Equal from "effect/Equal"
import * as Schema from "effect/Schema"

/** The failure of a rule. */
export class RuleBroken extends Schema.TaggedError<RuleBroken>("hermes-effect/testing/RuleBroken")("RuleBroken", {
  message: Schema.String,
  actual: Schema.Unknown,
  expected: Schema.Unknown
}) {}

/** Renders the beginning of a value as text, for a one-line message. */
const renderValue = (value: unknown): string => {
  const text =
    (typeof value === "string"
      ? JSON.stringify(value)
      : value instanceof Uint8Array
        ? `${value.length} bytes`
        : JSON.stringify(value)) ?? String(value)
  return text.length > 200 ? `${text.slice(0, 200)}…` : text
}

const makeRuleBroken = (message: string | undefined, what: string, actual: unknown, expected: unknown): RuleBroken =>
  new RuleBroken({ message: message === undefined ? what : `${message}: ${what}`, actual, expected })

/** Fails unless both values are structurally equal, including lists, records, maps, sets, dates and bytes. */
export const equals = (actual: unknown, expected: unknown, message?: string): void => {
  if (!Equal.equals(actual, expected))
    throw makeRuleBroken(message, `${renderValue(actual)} should be ${renderValue(expected)}`, actual, expected)
}

/** Fails unless the condition is true. */
export const holds = (condition: boolean, message = "the condition should hold"): void => {
  if (!condition) throw makeRuleBroken(undefined, message, condition, true)
}

/** Fails unless the text contains the part. */
export const includes = (text: string | undefined, part: string, message?: string): void => {
  if (text?.includes(part) !== true)
    throw makeRuleBroken(message, `${renderValue(text)} should contain ${renderValue(part)}`, text, part)
}

/** Fails if the text contains the part. */
export const excludes = (text: string, part: string, message?: string): void => {
  if (text.includes(part))
    throw makeRuleBroken(message, `${renderValue(text)} should not contain ${renderValue(part)}`, text, part)
}

/** Fails unless the text matches the regular expression. */
export const matches = (text: string, pattern: RegExp, message?: string): void => {
  if (!pattern.test(text))
    throw makeRuleBroken(message, `${renderValue(text)} should match ${pattern}`, text, String(pattern))
}

/** Fails unless a record has these fields with these values. */
export const hasFields = (record: object, fields: Readonly<Record<string, unknown>>, message?: string): void => {
  const found = Object.fromEntries(Object.entries(record).filter(([key]) => Object.hasOwn(fields, key)))
  equals(found, fields, message)
}

/** Fails unless a list contains all given values. */
export const includesAll = (list: ReadonlyArray<unknown>, values: ReadonlyArray<unknown>, message?: string): void => {
  for (const value of values) {
    if (!list.some((one) => Equal.equals(one, value)))
      throw makeRuleBroken(message, `${renderValue(value)} should be one of ${renderValue(list)}`, list, value)
  }
}
