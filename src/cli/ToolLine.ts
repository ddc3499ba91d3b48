/**
 * One finished tool call in one line: what was called with what, how it ended, how long it took. Pure.
 *
 * Source: `hermes-product.md` §1.8.
 *
 * @since 0.1.0
 */
import * as Predicate from "effect/Predicate"
import * as Json from "../domain/Json.ts"
import type { ToolStatus } from "../domain/RunEvent.ts"

/** See the module. */
export interface Call {
  readonly name: string
  readonly params: unknown
  readonly status: ToolStatus
  readonly output: string
  readonly durationMillis: number
}

/** Arguments that say best what a call is about, the first that is there. */
const telling = ["command", "path", "pattern", "query", "url", "urls", "goal", "action", "name", "code", "question"]

/** Text without line breaks. */
export const oneLine = (text: string): string => text.replaceAll(/\s+/g, " ").trim()

/** Text of at most this many characters. */
export const shorten = (text: string, length: number): string => text.length > length ? `${text.slice(0, length - 1)}…` : text

const defaultLength = 80

/** The arguments in a few words. `length` 0 is as many as fit on a line. */
export const preview = (params: unknown, length: number): string => {
  if (!Predicate.isObject(params) || Array.isArray(params)) return ""
  const entries = Object.entries(params)
  const [, value] = entries.find(([name]) => telling.includes(name)) ?? entries[0] ?? []
  return value === undefined ? "" : shorten(oneLine(Json.toText(value)), length === 0 ? defaultLength : length)
}

/** A length of time, as short as it can be read: `12 ms`, `1.2 s`, `2 min 5 s`. */
export const duration = (millis: number): string => {
  if (millis < 1000) return `${Math.round(millis)} ms`
  if (millis < 60_000) return `${(millis / 1000).toFixed(1)} s`
  const seconds = Math.round(millis / 1000)
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`
}

/** What went wrong, of a result that is an error. */
const problem = (output: string): string => {
  const parsed = Json.parse(output)
  const error = parsed._tag === "Some" && Predicate.isObject(parsed.value) && !Array.isArray(parsed.value)
    ? Reflect.get(parsed.value, "error")
    : undefined
  return shorten(oneLine(typeof error === "string" ? error : output), 160)
}

/** See the module; without line break. */
export const render = (call: Call, length: number): string => {
  const what = [call.name, preview(call.params, length)].filter((word) => word !== "").join(" ")
  switch (call.status) {
    case "ok":
      return `┊ ${what} (${duration(call.durationMillis)})`
    case "error":
      return `┊ ${what} (${duration(call.durationMillis)}) failed: ${problem(call.output)}`
    case "blocked":
      return `┊ ${what} blocked: ${problem(call.output)}`
    case "cancelled":
      return `┊ ${what} cancelled`
  }
}
