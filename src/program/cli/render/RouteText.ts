/** The state of a route in words: its keys and its breaker. Keys are not shown. */
import * as Duration from "effect/Duration"
import type { RouteStatus } from "../../../models/routing/ModelRouter.ts"

/** Describes the suspended keys with the durations and reasons. */
export const describeResting = (keys: RouteStatus["keys"]): ReadonlyArray<string> =>
  keys.flatMap(({ number, resting }) => {
    if (resting === undefined) return []
    const left = Duration.format(Duration.seconds(Math.ceil(resting.millis / 1_000)))
    return [`key ${number} rests for ${left} (${resting.reason})`]
  })

/** Formats the name and the state of a route. */
export const formatRoute = ({ breaker, keys, route }: RouteStatus): string => {
  const name = `${route.model} by ${route.provider}`
  const state = [
    ...(keys.length > 1 ? [`${keys.length} keys`] : []),
    ...describeResting(keys),
    `breaker ${breaker.toLowerCase()}`
  ]
  return `${name}, ${state.join(", ")}`
}
