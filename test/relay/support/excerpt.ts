// The excerpts of the NeMo Relay document are "must contain": what they say must be said, and more may be.
import { assert } from "@effect/vitest"

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** JSON that stands as text in the document is compared as what it says. */
const opened = (value: unknown): unknown => {
  if (typeof value !== "string" || !/^[[{]/u.test(value)) return value
  try {
    return JSON.parse(value)
  } catch {
    return value
  }
}

/** Whether `actual` says what `excerpt` says. Of lists, in the same order, with others between. */
export const contains = (actual: unknown, excerpt: unknown): boolean => {
  const [have, want] = [opened(actual), opened(excerpt)]
  if (Array.isArray(want)) {
    if (!Array.isArray(have)) return false
    let at = 0
    return want.every((one) => {
      while (at < have.length && !contains(have[at], one)) at++
      return at++ < have.length
    })
  }
  if (isObject(want)) return isObject(have) && Object.entries(want).every(([key, value]) => contains(have[key], value))
  return have === want
}

/** Fails with both where something is missing. */
export const assertContains = (actual: unknown, excerpt: unknown): void =>
  assert.isTrue(
    contains(actual, excerpt),
    `it does not contain the excerpt:\n${JSON.stringify(excerpt, null, 1)}\n${JSON.stringify(actual, null, 1)}`
  )
