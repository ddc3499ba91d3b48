/**
 * The state of a route in words: its keys and its breaker. No key is told.
 */
import * as Duration from "effect/Duration"
import type { RouteStatus } from "../../../models/routing/ModelRouter.ts"

/** Describes the resting keys: for how long, and why. */
export const describeResting = (keys: RouteStatus["keys"]): ReadonlyArray<string> =>
  keys.flatMap(({ number, resting }) => {
    if (resting === undefined) return []
    const left = Duration.format(Duration.seconds(Math.ceil(resting.millis / 1_000)))
    return [`key ${number} rests for ${left} (${resting.reason})`]
  })

/** Its name and its state. */
export const formatRoute = ({ breaker, keys, route }: RouteStatus): string => {
  const name = `${route.model} by ${route.provider}`
  const state = [
    ...(keys.length > 1 ? [`${keys.length} keys`] : []),
    ...describeResting(keys),
    `breaker ${breaker.toLowerCase()}`
  ]
  return `${name}, ${state.join(", ")}`
}
