/** Numbers as text: durations, counts, tokens and costs. */
import type { Row } from "../Row.ts"

const format = new Intl.NumberFormat("en")

/** Formats a count with separators: `5,001`. */
export const exact = (count: number): string => format.format(count)

/** Formats a count in few characters: `12.3k`, `1.5M`. */
export const short = (count: number): string =>
  count < 10_000
    ? exact(count)
    : count < 1e6
      ? `${(count / 1000).toFixed(count < 1e5 ? 1 : 0)}k`
      : `${(count / 1e6).toFixed(1)}M`

/** Formats a duration in milliseconds with a suitable unit. Empty for 0. */
export const duration = (millis: number): string => {
  if (!(millis > 0)) return ""
  if (millis < 1) return "<1 ms"
  if (millis < 1000) return `${Math.round(millis)} ms`
  if (millis < 60_000) return `${(millis / 1000).toFixed(millis < 10_000 ? 2 : 1)} s`
  const minutes = Math.floor(millis / 60_000)
  return minutes < 60
    ? `${minutes} min ${Math.round((millis % 60_000) / 1000)} s`
    : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}

/** Formats the duration of a row. */
export const formatRowDuration = (row: Row): string => duration(row.end - row.start)

/** Formats a cost in US dollars. Empty for 0. */
export const dollars = (cost: number): string => (cost > 0 ? `$${cost.toFixed(4)}` : "")

/** Formats the tokens of a row as prompt → completion. Empty if there is nothing to show. */
export const tokens = (row: Row): string =>
  row.promptTokens > 0 || row.completionTokens > 0 ? `${short(row.promptTokens)} → ${short(row.completionTokens)}` : ""
