/**
 * When a server says that it may be asked again.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"

/** `get` of a header table, names in lower case. */
export type GetHeader = (name: string) => string | undefined

/**
 * `retry-after-ms`, else `retry-after` in seconds or as a date. A date is measured from the server's own `date`, so that
 * a wrong clock on this side does not matter; without one, from now. What is past or no number is none.
 */
export const read = (get: GetHeader): Duration.Duration | undefined => {
  const millis = Number.parseFloat(get("retry-after-ms") ?? "")
  if (millis >= 0) return Duration.millis(millis)
  const value = get("retry-after")?.trim()
  if (value === undefined || value === "") return undefined
  const seconds = Number(value)
  if (seconds >= 0) return Duration.millis(seconds * 1_000)
  const at = Date.parse(value)
  const now = Date.parse(get("date") ?? "")
  const wait = at - (Number.isNaN(now) ? Date.now() : now)
  return wait >= 0 ? Duration.millis(wait) : undefined
}
