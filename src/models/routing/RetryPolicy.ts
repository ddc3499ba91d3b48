/**
 * Policies that decide how long, and how often, a failed model call is repeated on its route. A policy is an Effect
 * `Schedule` whose input is the classified failure, so it composes with everything in Effect's `Schedule` module.
 *
 * **Details**
 *
 * A policy is stepped once for each failure for which no immediate recovery exists (another key, another form of the
 * request, a shorter answer). The delay of the step is the wait before the next attempt. When the policy is done, the
 * call continues with the next route or fails. Each call steps its own instance of the policy. Rate limits step a
 * second instance, or a third one if the provider names a time, so that the waits of one kind do not lengthen the waits
 * of another. After a rate limit the call waits in the queue of its key.
 *
 * `RetryPolicy.default` is the default: 5 seconds, doubled up to 2 minutes, with a random share, three attempts. It is
 * built from {@link maxWait}, {@link jitter}, {@link connectionWait}, {@link providerWait}, {@link attempts} and
 * {@link onlyRetryable}, which policies of an application use the same way.
 *
 * **Gotchas**
 *
 * A policy without {@link onlyRetryable} also repeats calls that were refused for good, for example for their key. A
 * policy without {@link attempts} or `Schedule.upTo` does not end.
 *
 * **Example** (Up to one minute of retries)
 *
 * ```ts
 * import * as Schedule from "effect/Schedule"
 * import { RetryPolicy, Runtime } from "hermes-effect"
 *
 * const retry = RetryPolicy.default.pipe(Schedule.upTo({ duration: "1 minute" }))
 * const runtime = Runtime.layer({ retry })
 * ```
 *
 * Source: `hermes-llm.md` §17.1, `ARCHITECTURE.md` §7 (D4).
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Pull from "effect/Pull"
import * as Random from "effect/Random"
import * as Schedule from "effect/Schedule"
import type { RouteInfo } from "../../base/domain/Route.ts"
import type { Reason } from "./Recovery.ts"

/** A failed attempt, as policies see it. */
export interface RouteFailure {
  readonly reason: Reason
  /** Message of the provider, at most 500 characters. */
  readonly message: string
  /**
   * Number of failed attempts of this call on this route, including this one. Rate limits are not counted while the run
   * has time left, or while other calls with the key succeed.
   */
  readonly attempt: number
  /** Time since the call began on this route. */
  readonly elapsed: Duration.Duration
  /** Wait that the provider asked for (`retry-after`, a header or a sentence); `undefined` if it asked for none. */
  readonly retryAfter: Duration.Duration | undefined
  readonly route: RouteInfo
  /** True if a part of the answer was received before the failure. */
  readonly hasStreamed: boolean
  /** False if the classification calls the failure permanent: the same request would fail again. */
  readonly isRetryable: boolean
  /** True if no server could be reached at the address. */
  readonly isUnreachable: boolean
}

/** Schedule of the attempts of a failed call on its route. */
export type RetryPolicy<Output = unknown> = Schedule.Schedule<Output, RouteFailure>

/** Longest wait of a provider that is honored. A provider that asks for more is asked again after this. */
export const longestRetryAfter = Duration.minutes(2)

const spread = 0.25
const largestSpreadMillis = 5_000

const addSpread = (asked: Duration.Duration): Effect.Effect<Duration.Duration> =>
  Effect.map(Random.next, (chance) => {
    const millis = Duration.toMillis(Duration.min(asked, longestRetryAfter))
    return Duration.millis(Math.round(millis + chance * Math.min(millis * spread, largestSpreadMillis)))
  })

/** Limits every wait of a policy. */
export const maxWait =
  (limit: Duration.Input) =>
  <Output>(policy: RetryPolicy<Output>): RetryPolicy<Output> => {
    const longest = Duration.fromInputUnsafe(limit)
    return Schedule.modifyDelay(policy, ({ duration }) => Effect.succeed(Duration.min(duration, longest)))
  }

/** Adds a random share of up to half of each wait, so that callers that failed together do not return together. */
export const jitter = <Output>(policy: RetryPolicy<Output>): RetryPolicy<Output> =>
  Schedule.modifyDelay(policy, ({ duration }) =>
    Effect.map(Random.next, (chance) => Duration.times(duration, 1 + chance / 2))
  )

/**
 * Waits as long as the provider asked, if it did: at most {@link longestRetryAfter}, plus a random share of up to a
 * quarter of it and at most five seconds.
 */
export const providerWait = <Output>(policy: RetryPolicy<Output>): RetryPolicy<Output> =>
  Schedule.modifyDelay(policy, ({ duration, input: { retryAfter } }) =>
    retryAfter === undefined ? Effect.succeed(duration) : addSpread(retryAfter)
  )

/** Waits this long, exactly, after a refused connection: no busy server has to be spared. */
export const connectionWait =
  (wait: Duration.Input) =>
  <Output>(policy: RetryPolicy<Output>): RetryPolicy<Output> => {
    const exact = Duration.fromInputUnsafe(wait)
    return Schedule.modifyDelay(policy, ({ duration, input: { isUnreachable } }) =>
      Effect.succeed(isUnreachable ? exact : duration)
    )
  }

/** Ends the policy with the failure of the attempt with this number. */
export const attempts =
  (most: number) =>
  <Output>(policy: RetryPolicy<Output>): RetryPolicy<Output> =>
    limitKnown(
      Schedule.while(policy, ({ input: { attempt } }) => attempt < most),
      most
    )

/** Ends the policy at a failure that the classification calls permanent. */
export const onlyRetryable = <Output>(policy: RetryPolicy<Output>): RetryPolicy<Output> =>
  Schedule.while(policy, ({ input: { isRetryable } }) => isRetryable)

/** Attempts of the policies whose number of attempts is known. */
const knownLimits = new WeakMap<RetryPolicy, number>()

const limitKnown = <Output>(policy: RetryPolicy<Output>, most: number): RetryPolicy<Output> => {
  knownLimits.set(policy, most)
  return policy
}

/** Returns how many attempts a policy allows; `undefined` for a policy that does not end with {@link attempts}. */
export const findAttemptLimit = (policy: RetryPolicy): number | undefined => knownLimits.get(policy)

/** Numbers of a policy that is built like `RetryPolicy.default`. */
export interface Limits {
  /** Attempts on one route; 3 when absent. */
  readonly attempts?: number | undefined
  /** The first wait; 5 seconds when absent. */
  readonly base?: Duration.Input | undefined
  /** The longest wait before a random share is added; 2 minutes when absent. */
  readonly cap?: Duration.Input | undefined
}

/** Builds a policy like `RetryPolicy.default` with other numbers. */
export const make = ({ attempts: most = 3, base = "5 seconds", cap = "2 minutes" }: Limits = {}): RetryPolicy =>
  Schedule.exponential(base).pipe(
    maxWait(cap),
    jitter,
    connectionWait("2 seconds"),
    providerWait,
    onlyRetryable,
    attempts(Math.max(1, most))
  )

const standard: RetryPolicy = make()

/** Never repeats a call on its route. */
export const none: RetryPolicy = make({ attempts: 1 })

/**
 * Policy of the calls of a fiber and its children, which overrides the policy of their routes and of the runtime;
 * `undefined` by default.
 *
 * **Example** (One run without retries)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, RetryPolicy, Runtime } from "hermes-effect"
 *
 * const once = Agent.run({ prompt: "Reply exactly hello" }).pipe(
 *   Effect.provideService(RetryPolicy.CallPolicy, RetryPolicy.none)
 * )
 * console.log((await Effect.runPromise(Effect.provide(once, Runtime.layer()))).text)
 * // => hello
 * ```
 */
export const CallPolicy = Context.Reference<RetryPolicy | undefined>("hermes-effect/routing/RetryPolicy/CallPolicy", {
  defaultValue: () => undefined
})

/** A wait of a policy. It is between these two because of its random share. */
export interface PlannedWait {
  readonly least: Duration.Duration
  readonly most: Duration.Duration
}

/** An overloaded provider that asks for no wait. */
const overload: RouteFailure = {
  reason: "overloaded",
  message: "",
  attempt: 1,
  elapsed: Duration.zero,
  retryAfter: undefined,
  route: { provider: "example", model: "example", apiMode: "chat_completions", baseUrl: undefined },
  hasStreamed: false,
  isRetryable: true,
  isUnreachable: false
}

/** Collects the waits of a policy while the failure repeats, with `chance` in place of every random number. */
const collectWaits = Effect.fnUntraced(
  function* (policy: RetryPolicy, failure: RouteFailure, { most }: { readonly chance: number; readonly most: number }) {
    const step = yield* Schedule.toStep(policy)
    const waits: Array<Duration.Duration> = []
    let elapsed = Duration.zero
    while (waits.length < most) {
      const attempt = waits.length + 1
      const wait = yield* step(Duration.toMillis(elapsed), { ...failure, attempt, elapsed }).pipe(
        Effect.map(([, duration]) => duration),
        Pull.catchDone(() => Effect.undefined)
      )
      if (wait === undefined) break
      waits.push(wait)
      elapsed = Duration.sum(elapsed, wait)
    }
    return waits
  },
  (collected, _policy, _failure, { chance }) =>
    Effect.provideService(collected, Random.Random, { nextDoubleUnsafe: () => chance, nextIntUnsafe: () => 0 })
)

/** Options of {@link planWaits}. */
export interface PlanOptions {
  /** Properties of the failure; an overloaded provider that asks for no wait when absent. */
  readonly failure?: Partial<RouteFailure> | undefined
  /** Number of waits at which the plan ends; 10 when absent. */
  readonly most?: number | undefined
}

/**
 * Returns the waits of a policy while one failure repeats. The plan takes no time, but effects of `Schedule.tap` in the
 * policy run.
 *
 * **Example** (The waits of the default policy)
 *
 * ```ts
 * import * as Duration from "effect/Duration"
 * import * as Effect from "effect/Effect"
 * import { RetryPolicy } from "hermes-effect"
 *
 * const waits = await Effect.runPromise(RetryPolicy.planWaits(RetryPolicy.default))
 * console.log(waits.map(({ least }) => Duration.toSeconds(least)))
 * // => [ 5, 10 ]
 * ```
 */
export const planWaits = (
  policy: RetryPolicy,
  { failure, most = 10 }: PlanOptions = {}
): Effect.Effect<ReadonlyArray<PlannedWait>> => {
  const repeated = { ...overload, ...failure }
  return Effect.zipWith(
    collectWaits(policy, repeated, { chance: 0, most }),
    collectWaits(policy, repeated, { chance: 1, most }),
    (least, longest) =>
      least.flatMap((shortest, index) => {
        const wait = longest[index]
        return wait === undefined ? [] : [{ least: shortest, most: wait }]
      })
  )
}

const formatSeconds = (duration: Duration.Duration): string =>
  String(Math.round(Duration.toSeconds(duration) * 100) / 100)

/** Describes a policy in one line for users: its attempts and its waits. */
export const describePolicy = (policy: RetryPolicy): Effect.Effect<string> =>
  Effect.map(planWaits(policy), (waits) => {
    if (waits.length === 0) return "no retries"
    const limit = findAttemptLimit(policy)
    const spans = waits.map(({ least, most }) =>
      Duration.equals(least, most) ? formatSeconds(least) : `${formatSeconds(least)}-${formatSeconds(most)}`
    )
    const more = waits.length === 10 ? ", ..." : ""
    return `${limit === undefined ? "" : `${limit} attempts, `}waits of ${spans.join(", ")}${more} s`
  })

export {
  /**
   * The default policy: 5 seconds after the first failure, doubled with each further one up to 2 minutes, with a random
   * share; the provider's own wait if it asks for one; three attempts; no repetition of a permanent failure.
   */
  standard as default
}
