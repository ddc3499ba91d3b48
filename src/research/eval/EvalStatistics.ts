/**
 * Statistics of an evaluation: pass@k, intervals, paired tests, agreement between judges. Pure. The results are
 * deterministic, because resampling uses a fixed seed.
 *
 * **Details**
 *
 * - {@link passAtK} is the unbiased estimator for `n` runs of which `c` passed: `1 − C(n−c, k) / C(n, k)`.
 * - {@link computeWilsonInterval} is the Wilson score interval of a share. It is valid if every row has one run and the
 *   rows are independent.
 * - {@link bootstrap} is the percentile interval over rows, for all other cases, because several runs of one row are
 *   not independent. {@link estimateInterval} chooses the suitable interval.
 * - {@link testMcNemar} is the exact test on the rows that only one of two configurations passed;
 *   {@link bootstrapDifferences} is for rows with several runs.
 * - {@link computeKappa} is Cohen's kappa: the agreement of two judges beyond the agreement expected by chance.
 *
 * **Example** (Three of five runs passed)
 *
 * ```ts
 * import { EvalStatistics } from "hermes-effect/evaluation"
 *
 * console.log(EvalStatistics.passAtK(5, 3, 1), EvalStatistics.passAtK(5, 3, 3))
 * // => 0.6 1
 * ```
 */

/** 95 % interval of an estimate, and the method used to compute it. */
export interface Interval {
  readonly low: number
  readonly high: number
  readonly method: "wilson" | "bootstrap"
}

/** Normal quantile of a two-sided 95 % interval. */
const z = 1.959963984540054

/** Number of resamples of a bootstrap. */
export const resamples = 2000

const clamp = (share: number): number => Math.min(1, Math.max(0, share))

/**
 * Estimates the probability that at least one of `k` runs passes. Returns `undefined` if fewer than `k` runs were made.
 */
export const passAtK = (runs: number, passed: number, k: number): number | undefined => {
  if (k < 1 || runs < k) return undefined
  if (runs - passed < k) return 1
  let missed = 1
  for (let i = runs - passed + 1; i <= runs; i++) missed *= 1 - k / i
  return 1 - missed
}

/** Returns the arithmetic mean, or 0 for an empty list. */
export const mean = (values: ReadonlyArray<number>): number =>
  values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length

/**
 * Returns the quantile for a share from 0 to 1, interpolated between neighboring values, or `undefined` for an empty
 * list.
 */
export const quantile = (values: ReadonlyArray<number>, share: number): number | undefined => {
  if (values.length === 0) return undefined
  const sorted = values.toSorted((a, b) => a - b)
  const at = clamp(share) * (sorted.length - 1)
  const [low = 0, high = 0] = [sorted[Math.floor(at)], sorted[Math.ceil(at)]]
  return low + (high - low) * (at - Math.floor(at))
}

/** Returns the Wilson score interval for `passed` out of `total`, or `undefined` if `total` is 0. */
export const computeWilsonInterval = (passed: number, total: number): Interval | undefined => {
  if (total === 0) return undefined
  const share = passed / total
  const scale = 1 + (z * z) / total
  const centre = (share + (z * z) / (2 * total)) / scale
  const half = (z * Math.sqrt((share * (1 - share)) / total + (z * z) / (4 * total * total))) / scale
  return { low: clamp(centre - half), high: clamp(centre + half), method: "wilson" }
}

/** Makes a generator of numbers between 0 and 1 that is deterministic for a seed (mulberry32). */
const makeRandom = (seed: number): (() => number) => {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

const seed = 42

/** Draws resamples with replacement, each with as many values as the list, and returns their means. */
const resampleMeans = (values: ReadonlyArray<number>): ReadonlyArray<number> => {
  const random = makeRandom(seed)
  return Array.from({ length: resamples }, () => {
    let sum = 0
    for (let i = 0; i < values.length; i++) sum += values[Math.floor(random() * values.length)] ?? 0
    return sum / values.length
  })
}

/** Returns the percentile interval of the mean over rows, or `undefined` for an empty list. */
export const bootstrap = (values: ReadonlyArray<number>): Interval | undefined => {
  if (values.length === 0) return undefined
  const means = resampleMeans(values)
  return { low: quantile(means, 0.025) ?? 0, high: quantile(means, 0.975) ?? 0, method: "bootstrap" }
}

/**
 * Returns the interval of the mean over rows: a Wilson interval if every value is 0 or 1, otherwise a bootstrap.
 * Returns `undefined` for an empty list.
 */
export const estimateInterval = (values: ReadonlyArray<number>): Interval | undefined =>
  values.every((value) => value === 0 || value === 1)
    ? computeWilsonInterval(values.filter((value) => value === 1).length, values.length)
    : bootstrap(values)

/** Returns the logarithm of a binomial coefficient. */
const logChoose = (n: number, k: number): number => {
  let sum = 0
  for (let i = 1; i <= k; i++) sum += Math.log((n - k + i) / i)
  return sum
}

/**
 * Returns the two-sided p-value of the exact McNemar test, from the number of rows that only the first configuration
 * passed and the number that only the second passed.
 */
export const testMcNemar = (onlyFirst: number, onlySecond: number): number => {
  const total = onlyFirst + onlySecond
  if (total === 0) return 1
  let tail = 0
  for (let i = 0; i <= Math.min(onlyFirst, onlySecond); i++) tail += Math.exp(logChoose(total, i) - total * Math.LN2)
  return Math.min(1, 2 * tail)
}

/** Mean of paired differences, with its interval and p-value. */
export interface PairedDifference {
  readonly mean: number
  readonly interval: Interval
  /** Two-sided p-value, computed from the share of resampled means at or beyond 0. */
  readonly p: number
}

/**
 * Returns the mean of the differences between rows, its interval, and the probability that a difference of at least
 * this size occurs by chance. Returns `undefined` for an empty list.
 */
export const bootstrapDifferences = (differences: ReadonlyArray<number>): PairedDifference | undefined => {
  const interval = bootstrap(differences)
  if (interval === undefined) return undefined
  const means = resampleMeans(differences)
  const computeTailShare = (test: (value: number) => boolean): number =>
    (means.filter(test).length + 1) / (means.length + 1)
  return {
    mean: mean(differences),
    interval,
    p: Math.min(
      1,
      2 *
        Math.min(
          computeTailShare((value) => value <= 0),
          computeTailShare((value) => value >= 0)
        )
    )
  }
}

/** Agreement of two judges on the same items. */
export interface Agreement {
  readonly items: number
  /** Share of items with the same verdict from both judges. */
  readonly share: number
  /**
   * Cohen's kappa. It is `undefined` if both judges return the same verdict for all items, because agreement by chance
   * is then certain.
   */
  readonly kappa: number | undefined
}

/** Computes the agreement of pairs of verdicts. */
export const computeAgreement = (pairs: ReadonlyArray<readonly [boolean, boolean]>): Agreement => {
  const items = pairs.length
  const share = items === 0 ? 0 : pairs.filter(([a, b]) => a === b).length / items
  const [first, second] = [mean(pairs.map(([a]) => Number(a))), mean(pairs.map(([, b]) => Number(b)))]
  const chance = first * second + (1 - first) * (1 - second)
  return { items, share, kappa: items === 0 || chance >= 1 ? undefined : computeKappa(share, chance) }
}

/** Computes Cohen's kappa from the observed agreement and the agreement expected by chance. */
export const computeKappa = (observed: number, chance: number): number => (observed - chance) / (1 - chance)
