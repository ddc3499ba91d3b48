/**
 * Limits and seed of commands that run many rows (`hermes batch run`, `swe run`, `eval run`): the same flags with the
 * same meaning.
 *
 * A row that reaches its token or cost limit ends as if it had used its last model call, and is written. A row that
 * reaches its time limit fails. If the whole run reaches a limit, the rows in flight are interrupted and no more rows
 * start.
 *
 * Source: `hermes-product.md` §5.1.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { Limits } from "../../agent/Budget.ts"
import type * as RowPool from "../../research/batch/RowPool.ts"
import { type Failure, makeUsageFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import type * as ProgressDisplay from "./ProgressDisplay.ts"

/** Creates the flags of a command that runs rows. `row` is the command's noun for a row. */
export const makeFlags = (row: "attempt" | "row" | "task", seed: string) => ({
  rowTimeout: Flags.makeNumber(
    "row-timeout",
    "SECONDS",
    row === "attempt" ? "Time limit of one attempt" : `Time limit of one attempt at a ${row}`
  ),
  rowTokens: Flags.makeInteger("row-tokens", "N", `Token limit of each ${row}; no model call starts after it`),
  rowCost: Flags.makeNumber("row-cost", "DOLLARS", `Cost limit of each ${row}`),
  maxCost: Flags.makeNumber("max-cost", "DOLLARS", `Cost limit of the run; stops ${row}s in flight`),
  maxTotalTokens: Flags.makeInteger("max-total-tokens", "N", "Token limit of the run"),
  maxTime: Flags.makeNumber("max-time", "SECONDS", "Time limit of the run"),
  seed: Flags.makeText("seed", "TEXT", seed)
})

/** Values of {@link makeFlags}. */
export type Values = Flags.Parsed<ReturnType<typeof makeFlags>>

/** Limits in the form used by code that runs rows. */
export interface RunLimits extends Pick<RowPool.Options<never, never, never>, "limits" | "timeout"> {
  /** Limits of the agent in one row. */
  readonly budget: Limits | undefined
}

const makeTooSmallFailure = (name: string, value: number, least: number): Failure =>
  makeUsageFailure(`${name} ${value} is too small: pass ${least === 0 ? "more than 0" : `${least} or more`}`)

const toDuration = (value: number | undefined) => (value === undefined ? undefined : Duration.seconds(value))

/** Checks the limits of one run, and converts them. Returns `undefined` if no limit is given. */
export const readBudget = Effect.fnUntraced(function* ({
  maxCost,
  maxTime,
  maxTotalTokens
}: Pick<Values, "maxCost" | "maxTime" | "maxTotalTokens">): Effect.fn.Return<Limits | undefined, Failure> {
  if (maxCost !== undefined && maxCost <= 0) return yield* makeTooSmallFailure("--max-cost", maxCost, 0)
  if (maxTime !== undefined && maxTime <= 0) return yield* makeTooSmallFailure("--max-time", maxTime, 0)
  if (maxTotalTokens !== undefined && maxTotalTokens < 1)
    return yield* makeTooSmallFailure("--max-total-tokens", maxTotalTokens, 1)
  return maxCost === undefined && maxTime === undefined && maxTotalTokens === undefined
    ? undefined
    : { tokens: maxTotalTokens, dollars: maxCost, seconds: maxTime }
})

/** Checks and converts the values of the flags. */
export const read = Effect.fnUntraced(function* ({
  maxCost,
  maxTime,
  maxTotalTokens,
  rowCost,
  rowTimeout,
  rowTokens
}: Values): Effect.fn.Return<RunLimits, Failure> {
  for (const [name, value] of [
    ["--row-timeout", rowTimeout],
    ["--row-cost", rowCost],
    ["--max-cost", maxCost],
    ["--max-time", maxTime]
  ] as const) {
    if (value !== undefined && value <= 0) return yield* makeTooSmallFailure(name, value, 0)
  }
  for (const [name, value] of [
    ["--row-tokens", rowTokens],
    ["--max-total-tokens", maxTotalTokens]
  ] as const) {
    if (value !== undefined && value < 1) return yield* makeTooSmallFailure(name, value, 1)
  }
  return {
    limits: { costUsd: maxCost, tokens: maxTotalTokens, duration: toDuration(maxTime) },
    timeout: toDuration(rowTimeout),
    budget: rowTokens === undefined && rowCost === undefined ? undefined : { tokens: rowTokens, dollars: rowCost }
  }
})

/**
 * Shows progress. Prints one warning if a run has a cost limit but no tokens have a known price, because the limit
 * cannot be applied then.
 */
export const watchProgress = (
  { limits }: Pick<RunLimits, "limits">,
  { progress, say }: Pick<ProgressDisplay.Display, "progress" | "say">
): ((now: RowPool.Progress) => Effect.Effect<void>) => {
  let isTold = limits?.costUsd === undefined
  return (now) => {
    if (isTold || now.tokens === 0 || now.costUsd !== undefined) return progress(now)
    isTold = true
    return Effect.andThen(
      say("Warning: the price of the model is unknown, so --max-cost has no effect: pass --max-total-tokens"),
      progress(now)
    )
  }
}
