/**
 * Which of the keys that could be used is used.
 *
 * **Details**
 *
 * Keys that nobody else is using come first, so that runs side by side spread over the pool; among them the strategy
 * decides. `fill_first` keeps to the first key and with it to the prompt cache that the provider holds for it.
 *
 * Source: `hermes-llm.md` §17.2.
 *
 * @since 0.1.0
 */

/** See the module. */
export type Strategy = "fill_first" | "round_robin" | "random" | "least_used"

/** A key that could be used. */
export interface Candidate {
  /** Its place in the pool, from 0: the smaller, the sooner it is used. */
  readonly place: number
  /** Calls that are using it now. */
  readonly leases: number
  /** How often it was chosen so far. */
  readonly used: number
}

const least = <A>(items: ReadonlyArray<A>, rank: (item: A) => number): A | undefined => {
  let best: A | undefined
  for (const item of items) {
    if (best === undefined || rank(item) < rank(best)) best = item
  }
  return best
}

const byStrategy = <C extends Candidate>(
  strategy: Strategy,
  candidates: ReadonlyArray<C>,
  last: number,
  chance: number
): C | undefined => {
  switch (strategy) {
    case "fill_first":
      return least(candidates, ({ place }) => place)
    case "round_robin":
      return candidates.find(({ place }) => place > last) ?? candidates[0]
    case "random":
      return candidates[Math.min(Math.floor(chance * candidates.length), candidates.length - 1)]
    case "least_used":
      return least(candidates, ({ used }) => used)
  }
}

/** One of the candidates, which are in the pool's order; `last` is the place of the one chosen before, `chance` in [0, 1). */
export const choose = <C extends Candidate>(
  strategy: Strategy,
  candidates: ReadonlyArray<C>,
  last: number,
  chance: number
): C | undefined => {
  const fewest = least(candidates, ({ leases }) => leases)?.leases
  return byStrategy(strategy, candidates.filter(({ leases }) => leases === fewest), last, chance)
}
