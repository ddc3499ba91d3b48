/**
 * Retries and fallbacks as plain values: numbers, or a function of the failure.
 *
 * **Details**
 *
 * All times are in seconds. A number of attempts and waits keeps the rules of the default policies: a wait that the
 * provider requests replaces the own wait, and permanent failures are not repeated. A function decides alone, for each
 * failure; a function that never returns `undefined` repeats a call without end.
 *
 * **Example** (Five quick attempts, then the next model)
 *
 * ```ts
 * import { createHermes } from "hermes-effect/promise"
 *
 * const hermes = createHermes({
 *   model: [{ model: "ollama/qwen3" }, { model: "offline/offline" }],
 *   retry: { attempts: 5, wait: 0.2 },
 *   fallback: { leave: ({ reason }) => (reason === "rate_limit" ? "after retries" : "at once") }
 * })
 * await hermes.dispose()
 * ```
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Json from "../../base/domain/Json.ts"
import * as FallbackPolicy from "../../models/routing/FallbackPolicy.ts"
import * as RetryPolicy from "../../models/routing/RetryPolicy.ts"
import { HermesError } from "./HermesError.ts"
import * as Options from "./PlainOptions.ts"

/** A failed attempt to call a model. Times are in seconds. */
export interface ModelFailure extends Omit<RetryPolicy.RouteFailure, "elapsed" | "retryAfter"> {
  /** Time since the call began with this model. */
  readonly elapsed: number
  /** Wait that the provider requested, if it requested one. */
  readonly retryAfter: number | undefined
}

/** Number of attempts with one model, and the waits between them. */
export interface RetryLimits {
  /** Maximum number of attempts; 1 for no retries. Default: 3. */
  readonly attempts?: number | undefined
  /** First wait in seconds, which doubles with each failure. Default: 5. */
  readonly wait?: number | undefined
  /** Longest wait in seconds. Default: 120. */
  readonly longestWait?: number | undefined
}

/** Returns the wait before the next attempt in seconds, or `undefined` to stop. */
export type DecideWait = (failure: ModelFailure) => number | undefined

/** Repeats failed calls of a model. */
export type HermesRetry = RetryLimits | DecideWait

/** Leaves a model for the next one, and returns to the first. */
export interface HermesFallback {
  /** Decides when a failed call continues with the next model. */
  readonly leave?: ((failure: ModelFailure) => FallbackPolicy.Leaving) | undefined
  /**
   * Seconds for which a session does not return to the first model after a rate limit or missing credit (default: 60),
   * or a function for all failures. After `undefined` the session returns with its next turn.
   */
  readonly cooldown?: number | DecideWait | undefined
  /** Treatment of a model whose answers have no content. Default: `leave`, after the answer was requested again. */
  readonly emptyAnswers?: FallbackPolicy.FallbackPolicy["emptyAnswers"] | undefined
}

const toModelFailure = ({ elapsed, retryAfter, ...failure }: RetryPolicy.RouteFailure): ModelFailure => ({
  ...failure,
  elapsed: Duration.toSeconds(elapsed),
  retryAfter: retryAfter === undefined ? undefined : Duration.toSeconds(retryAfter)
})

/** Creates a schedule from a function of the failure. Its mistakes end the run with an error that names the option. */
const makeSchedule = (decide: DecideWait, option: string): RetryPolicy.RetryPolicy =>
  Schedule.fromStep(
    Effect.succeed((_now: number, failure: RetryPolicy.RouteFailure) =>
      Effect.suspend(() => {
        const seconds: unknown = decide(toModelFailure(failure))
        if (seconds === undefined) return Cause.done(undefined)
        if (typeof seconds === "number" && seconds >= 0 && Number.isFinite(seconds)) {
          const step: [unknown, Duration.Duration] = [undefined, Duration.seconds(seconds)]
          return Effect.succeed(step)
        }
        return Effect.die(
          new HermesError(
            "ConfigError",
            `${option}: the function must return a number of seconds, or undefined to stop`
          )
        )
      })
    )
  )

/** Converts the option `retry`. */
export const toRetryPolicy = (retry: HermesRetry): RetryPolicy.RetryPolicy => {
  if (typeof retry === "function") return makeSchedule(retry, "retry")
  const { attempts, longestWait, wait } = retry
  return RetryPolicy.make({
    attempts,
    base: wait === undefined ? undefined : Duration.seconds(wait),
    cap: longestWait === undefined ? undefined : Duration.seconds(longestWait)
  })
}

const toCooldown = (cooldown: number | DecideWait): RetryPolicy.RetryPolicy =>
  typeof cooldown === "function"
    ? makeSchedule(cooldown, "fallback.cooldown")
    : makeSchedule(({ reason }) => (reason === "rate_limit" || reason === "billing" ? cooldown : undefined), "")

/** Converts the option `fallback`. */
export const toFallbackPolicy = ({ cooldown, emptyAnswers, leave }: HermesFallback): FallbackPolicy.FallbackPolicy =>
  FallbackPolicy.make({
    ...(leave === undefined ? {} : { leave: (failure) => leave(toModelFailure(failure)) }),
    ...(cooldown === undefined ? {} : { cooldown: toCooldown(cooldown) }),
    ...(emptyAnswers === undefined ? {} : { emptyAnswers })
  })

const retryLimits: Options.Checks<RetryLimits> = {
  attempts: Options.count,
  wait: Options.amount,
  longestWait: Options.amount
}
const checkLimits = Options.makeMembersCheck("option of retry", retryLimits)

/** Check for the option `retry`. */
export const retryCheck: Options.Check = (value, at) => {
  if (typeof value === "function") return []
  return Json.isFields(value)
    ? checkLimits(value, at)
    : [`${at}: expected { attempts, wait, longestWait } or a function`]
}

const fallbackOptions: Options.Checks<HermesFallback> = {
  leave: Options.callback,
  cooldown: Options.makeKindCheck(
    "a number of seconds or a function",
    (value) => typeof value === "function" || (typeof value === "number" && value >= 0)
  ),
  emptyAnswers: Options.makeChoiceCheck(["leave", "leave at once", "stay"])
}

/** Check for the option `fallback`. */
export const fallbackCheck = Options.makeMembersCheck("option of fallback", fallbackOptions)
