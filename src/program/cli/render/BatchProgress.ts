/**
 * Progress of a batch run as one line: on a terminal a bar with facts in order of importance, cut to the available
 * width.
 */
import type { Progress } from "../../../research/batch/RowPool.ts"
import type * as Paint from "./Paint.ts"
import * as Width from "./Width.ts"

/** Formats a duration in words: `45 s`, `12 min`, `3 h 20 min`. */
export const formatTime = (millis: number): string => {
  const seconds = Math.round(millis / 1000)
  if (seconds < 90) return `${seconds} s`
  const minutes = Math.round(seconds / 60)
  return minutes < 90 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}

/** Formats dollars, with more digits for small amounts. */
export const formatDollars = (usd: number): string => `$${usd.toFixed(usd !== 0 && usd < 0.1 ? 4 : 2)}`

const countDone = ({ before, discarded, failed, finished, suspended }: Progress): number =>
  before + discarded + failed + finished + suspended

const formatCost = ({ costUsd, expectedCostUsd }: Progress): ReadonlyArray<string> =>
  costUsd === undefined || costUsd === 0
    ? []
    : [
        expectedCostUsd === undefined
          ? formatDollars(costUsd)
          : `${formatDollars(costUsd)} of about ${formatDollars(expectedCostUsd)}`
      ]

/** Lists the facts, most important first. `rows` is the noun for rows. */
export const listFacts = (progress: Progress, rows = "rows"): ReadonlyArray<string> => {
  const { discarded, failed, ratePerMinute, remainingMillis, retried, suspended, total } = progress
  return [
    `${countDone(progress)} of ${total} ${rows}`,
    ...(failed > 0 ? [`${failed} failed`] : []),
    ...(remainingMillis === undefined || countDone(progress) === total ? [] : [`${formatTime(remainingMillis)} left`]),
    ...(ratePerMinute > 0 ? [`${ratePerMinute.toFixed(1)} a minute`] : []),
    ...formatCost(progress),
    ...(suspended > 0 ? [`${suspended} waiting`] : []),
    ...(discarded > 0 ? [`${discarded} discarded`] : []),
    ...(retried > 0 ? [`${retried} retried`] : [])
  ]
}

const barColumns = 20

/** Renders the line for a terminal. */
export const renderBar = (progress: Progress, columns: number, paint: Paint.Paint, rows?: string): string => {
  const share = progress.total === 0 ? 1 : countDone(progress) / progress.total
  const filled = Math.floor(share * barColumns)
  const parts = listFacts(progress, rows)
  const room = columns - barColumns - 4
  let text = parts[0] ?? ""
  for (const part of parts.slice(1)) if (Width.measure(`${text}, ${part}`) <= room) text = `${text}, ${part}`
  return (
    `[${paint.text("#".repeat(filled), "green")}${" ".repeat(barColumns - filled)}] ` +
    `${Width.cut(text, Math.max(1, room))}`
  )
}

/** Renders the line for output that is not a terminal. */
export const renderText = (progress: Progress, rows?: string): string => listFacts(progress, rows).join(", ")
