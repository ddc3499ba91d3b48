/**
 * Titles of sessions: one line, at most 100 characters, without control characters. A title is unique within a tenant.
 *
 * **Details**
 *
 * Sessions that continue a session after compaction are named `title #2`, `title #3`, and so on; the plain title refers
 * to the last of these sessions.
 *
 * Source: `hermes-product.md` §1.7.
 */
import * as Effect from "effect/Effect"
import { SessionStoreError } from "../base/domain/AgentError.ts"

/** Maximum length of a title, in characters. */
const maxLength = 100

/** Normalizes a title: one line, single spaces, no control characters. Every store and every lookup uses this form. */
export const normalise = (title: string): string =>
  title
    .replace(/(?!\s)\p{Cc}/gu, "")
    .replace(/\s+/gu, " ")
    .trim()

/** Returns a title in its stored form, or fails with an error that describes how to correct it. */
export const clean = (operation: string, title: string): Effect.Effect<string, SessionStoreError> => {
  const line = normalise(title)
  const length = Array.from(line).length
  if (length > 0 && length <= maxLength) return Effect.succeed(line)
  return Effect.fail(
    new SessionStoreError({
      operation,
      message:
        length === 0
          ? "title is empty: give the session a name of at least one visible character"
          : `title has ${length} characters: shorten it to ${maxLength}`
    })
  )
}

/** Returns the prefix of the titles of a session's continuations. */
export const formatContinuationPrefix = (title: string): string => `${title} #`

/** Returns the title of the next continuation of a session. `taken` are the titles of other sessions. */
export const makeNext = (title: string, taken: ReadonlyArray<string>): string => {
  const base = title.replace(/ #[1-9]\d*$/u, "")
  const known = [title, ...taken].map((other) => parseContinuation(base, other) ?? 1)
  const suffix = `#${Math.max(...known) + 1}`
  return `${Array.from(base)
    .slice(0, maxLength - suffix.length - 1)
    .join("")
    .trimEnd()} ${suffix}`
}

/** Returns the prefix that the titles of all continuations of a session share. */
export const formatFamilyPrefix = (title: string): string => formatContinuationPrefix(title.replace(/ #[1-9]\d*$/u, ""))

/**
 * Returns the number in the title of a continuation of `base`, which is 2 for the first one. Returns `undefined` if the
 * title does not belong to a continuation.
 */
export const parseContinuation = (base: string, title: string | undefined): number | undefined => {
  const prefix = formatContinuationPrefix(base)
  const number = title?.startsWith(prefix) === true ? title.slice(prefix.length) : ""
  return /^[1-9]\d*$/u.test(number) ? Number(number) : undefined
}
