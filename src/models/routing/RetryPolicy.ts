/**
 * Policies that decide how long, and how often, a failed model call is repeated on its route. A policy is an Effect
 * `Schedule` whose input is the classified failure, so it composes with everything in Effect's `Schedule` module.
 *
 * **Details**
 *
 * A policy is advanced by one step for each failure for which no immediate recovery exists (another key, another form
 * of the request, a shorter answer). The delay of the step is the wait before the next attempt. When the policy is
 * done, the call continues with the next route or fails. Each call uses its own instance of the policy. Rate limits use
 * a second instance, or a third one if the provider states a time, so that the waits of one kind do not lengthen the
 * waits of another. After a rate limit the call waits in the queue of its key.
 *
 * `RetryPolicy.default` is the default: 5 seconds, doubled up to 2 minutes, with a random share, three attempts. It is
 * built from {@link maxWait}, {@link jitter}, {@link connectionWait}, {@link providerWait}, {@link attempts} and
 * {@link onlyRetryable}, which policies of an application use the same way.
 *
 * **Gotchas**
 *
 * A policy without {@link onlyRetryable} also repeats calls that were refused permanently, for example because of an
 * invalid key. A policy without {@link attempts} or `Schedule.upTo` does not end.
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
  /**
   * Wait that the provider requested (`retry-after`, a header or a sentence); `undefined` if it did not request one.
   */
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

/**
 * Longest wait that is accepted from a provider. If the provider requests a longer wait, the call is repeated after
 * this time.
 */
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

/**
 * Adds a random extra of up to half of each wait, so that callers that failed at the same time do not retry at the same
 * time.
 */
export const jitter = <Output>(policy: RetryPolicy<Output>): RetryPolicy<Output> =>
  Schedule.modifyDelay(policy, ({ duration }) =>
    Effect.map(Random.next, (chance) => Duration.times(duration, 1 + chance / 2))
  )

/**
 * Waits as long as the provider requested, if it requested a wait, but at most {@link longestRetryAfter}. Adds a random
 * extra of up to a quarter of the wait, and at most five seconds.
 */
export const providerWait = <Output>(policy: RetryPolicy<Output>): RetryPolicy<Output> =>
  Schedule.modifyDelay(policy, ({ duration, input: { retryAfter } }) =>
    retryAfter === undefined ? Effect.succeed(duration) : addSpread(retryAfter)
  )

/** Waits exactly this long after a refused connection, because no busy server has to be protected. */
export const connectionWait =
  (wait: Duration.Input) =>
  <Output>(policy: RetryPolicy<Output>): RetryPolicy<Output> => {
    const exact = Duration.fromInputUnsafe(wait)
    return Schedule.modifyDelay(policy, ({ duration, input: { isUnreachable } }) =>
      Effect.succeed(isUnreachable ? exact : duration)
    )
  }

/** Ends the policy when the attempt with this number fails. */
export const attempts =
  (most: number) =>
  <Output>(policy: RetryPolicy<Output>): RetryPolicy<Output> =>
    limitKnown(
      Schedule.while(policy, ({ input: { attempt } }) => attempt < most),
      most
    )

/** Ends the policy at a failure that is classified as permanent. */
export const onlyRetryable = <Output>(policy: RetryPolicy<Output>): RetryPolicy<Output> =>
  Schedule.while(policy, ({ input: { isRetryable } }) => isRetryable)

/** Maximum number of attempts of each policy for which it is known. */
const knownLimits = new WeakMap<RetryPolicy, number>()

const limitKnown = <Output>(policy: RetryPolicy<Output>, most: number): RetryPolicy<Output> => {
  knownLimits.set(policy, most)
  return policy
}

/** Returns how many attempts a policy allows; `undefined` for a policy that does not end with {@link attempts}. */
export const findAttemptLimit = (policy: RetryPolicy): number | undefined => knownLimits.get(policy)

/** Parameters of a policy that is built like `RetryPolicy.default`. */
export interface Limits {
  /** Maximum number of attempts on one route. Defaults to 3. */
  readonly attempts?: number | undefined
  /** The first wait. Defaults to 5 seconds. */
  readonly base?: Duration.Input | undefined
  /** The longest wait before the random extra is added. Defaults to 2 minutes. */
  readonly cap?: Duration.Input | undefined
}

/** Creates a policy like `RetryPolicy.default`, but with the given parameters. */
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

/** Policy that never repeats a call on its route. */
export const none: RetryPolicy = make({ attempts: 1 })

/**
 * Policy for the calls of a fiber and its child fibers. It overrides the policies of their routes and of the runtime.
 * Defaults to `undefined`.
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

/** Range of one wait of a policy. The actual wait is chosen randomly between these two durations. */
export interface PlannedWait {
  readonly least: Duration.Duration
  readonly most: Duration.Duration
}

/** Failure of an overloaded provider that does not request a wait. */
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

/** Collects the waits that a policy produces if the same failure repeats. `chance` replaces every random number. */
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
  /** Properties of the failure. By default, an overloaded provider does not request a wait. */
  readonly failure?: Partial<RouteFailure> | undefined
  /** Maximum number of waits in the plan. Defaults to 10. */
  readonly most?: number | undefined
}

/**
 * Returns the waits that a policy produces if one failure repeats. Planning does not actually wait, but runs the
 * effects of `Schedule.tap` in the policy.
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
   * The default policy. It waits 5 seconds after the first failure and doubles the wait with each later failure up to 2
   * minutes, with jitter. If the provider requests a wait, that wait is used instead. It allows three attempts and does
   * not repeat a permanent failure.
   */
  standard as default
}
