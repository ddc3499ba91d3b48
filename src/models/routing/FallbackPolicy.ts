/**
 * Policies that decide when a session leaves a route of a chain for the next one, and when it returns to the primary.
 *
 * **Details**
 *
 * A session starts on the primary. After a failure {@link FallbackPolicy.leave} decides whether the call continues on
 * the next route or waits according to the `RetryPolicy`. The session stays on the route that answered for the rest of
 * its turn. Its next turn starts on the primary again, unless {@link FallbackPolicy.cooldown} is longer. Key pools and
 * circuit breakers come first: a route without a usable key, or with an open circuit, is skipped.
 *
 * {@link make} returns the default policy with the given parts replaced.
 *
 * **Example** (Wait for the primary instead of leaving it at a rate limit)
 *
 * ```ts
 * import { FallbackPolicy, Runtime } from "hermes-effect"
 *
 * const fallback = FallbackPolicy.make({ leave: () => "after retries" })
 * const runtime = Runtime.layer({ routes: [{ provider: "offline", model: "offline" }], fallback })
 * ```
 *
 * Source: `hermes-llm.md` §17.3, §17.6.
 */
import * as Schedule from "effect/Schedule"
import type { RouteFailure } from "./RetryPolicy.ts"

/**
 * Time at which a failed call continues on the next route: instead of a wait, after the retry policy is done, or never.
 */
export type Leaving = "at once" | "after retries" | "never"

/** Policy that decides when a session leaves a route, and when it returns to the primary. */
export interface FallbackPolicy {
  /**
   * Decides when a failure leaves the route. The result does not apply to a conversation that is too large for the
   * model: it is compacted first.
   */
  readonly leave: (failure: RouteFailure) => Leaving
  /**
   * Time for which a session does not return to the primary after a failure there. Each failure advances the schedule,
   * until a call of the session succeeds on the primary. If the schedule is done, the session returns with its next
   * turn.
   */
  readonly cooldown: Schedule.Schedule<unknown, RouteFailure>
  /**
   * Decides when a session leaves a route whose answers have no content: after they were requested again, after the
   * first one, or never.
   */
  readonly emptyAnswers: "leave" | "leave at once" | "stay"
}

/** Decides to leave a route immediately if a wait on it is unlikely to help. */
const leave: FallbackPolicy["leave"] = ({ reason }) => {
  switch (reason) {
    case "rate_limit":
    case "invalid_response":
      return "at once"
    default:
      return "after retries"
  }
}

/** Creates a policy. Parts that are not given are taken from the default policy. */
export const make = (parts: Partial<FallbackPolicy> = {}): FallbackPolicy => ({ ...standard, ...parts })

/** Tests whether a new turn would fail for the same reason: the account's rate limit or credit is exhausted. */
const isLasting = ({ reason }: RouteFailure): boolean => reason === "rate_limit" || reason === "billing"

const standard: FallbackPolicy = {
  leave,
  cooldown: Schedule.spaced("1 minute").pipe(
    Schedule.setInputType<RouteFailure>(),
    Schedule.while(({ input }) => isLasting(input))
  ),
  emptyAnswers: "leave"
}

export {
  /**
   * The default policy. A call continues on the next route immediately after a rate limit or an unusable answer, and
   * after the retries for any other failure. A session returns to the primary one minute after a refusal because of a
   * rate limit or missing credit.
   */
  standard as default
}
