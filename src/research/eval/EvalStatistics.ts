/**
 * Statistics of an evaluation: pass@k, intervals, paired tests, agreement between judges. Pure, and the same for the
 * same numbers: resampling begins from a fixed seed.
 *
 * **Details**
 *
 * - {@link passAtK} is the unbiased estimator: of `n` runs of which `c` passed, `1 − C(n−c, k) / C(n, k)`.
 * - {@link computeWilsonInterval} is the score interval of a share; it holds for single runs of rows that do not depend
 *   on each other.
 * - {@link bootstrap} is the percentile interval over rows, for everything else: runs of one row are no independent
 *   rows. {@link estimateInterval} takes the one that fits.
 * - {@link testMcNemar} is the exact test on rows of which two configurations passed different ones;
 *   {@link bootstrapDifferences} is for rows with several runs.
 * - {@link computeKappa} is Cohen's: the agreement of two judges beyond the one that their habits alone would give.
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

/** Interval of an estimate at 95 %, and the method that gave it. */
export interface Interval {
  readonly low: number
  readonly high: number
  readonly method: "wilson" | "bootstrap"
}

/** Normal quantile of a two-sided interval at 95 %. */
const z = 1.959963984540054

/** Resamples of a bootstrap. */
export const resamples = 2000

const clamp = (share: number): number => Math.min(1, Math.max(0, share))

/** Estimates the chance that at least one of `k` runs passes; undefined where fewer than `k` were made. */
export const passAtK = (runs: number, passed: number, k: number): number | undefined => {
  if (k < 1 || runs < k) return undefined
  if (runs - passed < k) return 1
  let missed = 1
  for (let i = runs - passed + 1; i <= runs; i++) missed *= 1 - k / i
  return 1 - missed
}

/** Arithmetic mean; 0 of nothing. */
export const mean = (values: ReadonlyArray<number>): number =>
  values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length

/** Value below which a share of the values lies, interpolated between neighbours; undefined of nothing. */
export const quantile = (values: ReadonlyArray<number>, share: number): number | undefined => {
  if (values.length === 0) return undefined
  const sorted = values.toSorted((a, b) => a - b)
  const at = clamp(share) * (sorted.length - 1)
  const [low = 0, high = 0] = [sorted[Math.floor(at)], sorted[Math.ceil(at)]]
  return low + (high - low) * (at - Math.floor(at))
}

/** Wilson score interval of `passed` of `total`; undefined of nothing. */
export const computeWilsonInterval = (passed: number, total: number): Interval | undefined => {
  if (total === 0) return undefined
  const share = passed / total
  const scale = 1 + (z * z) / total
  const centre = (share + (z * z) / (2 * total)) / scale
  const half = (z * Math.sqrt((share * (1 - share)) / total + (z * z) / (4 * total * total))) / scale
  return { low: clamp(centre - half), high: clamp(centre + half), method: "wilson" }
}

/** Numbers between 0 and 1, the same for the same seed (mulberry32). */
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

/** Means of as many values, drawn with replacement. */
const resampleMeans = (values: ReadonlyArray<number>): ReadonlyArray<number> => {
  const random = makeRandom(seed)
  return Array.from({ length: resamples }, () => {
    let sum = 0
    for (let i = 0; i < values.length; i++) sum += values[Math.floor(random() * values.length)] ?? 0
    return sum / values.length
  })
}

/** Percentile interval of the mean over rows; undefined of nothing. */
export const bootstrap = (values: ReadonlyArray<number>): Interval | undefined => {
  if (values.length === 0) return undefined
  const means = resampleMeans(values)
  return { low: quantile(means, 0.025) ?? 0, high: quantile(means, 0.975) ?? 0, method: "bootstrap" }
}

/** Interval of the mean over rows: Wilson's where every row is 0 or 1, else a bootstrap; undefined of nothing. */
export const estimateInterval = (values: ReadonlyArray<number>): Interval | undefined =>
  values.every((value) => value === 0 || value === 1)
    ? computeWilsonInterval(values.filter((value) => value === 1).length, values.length)
    : bootstrap(values)

/** Logarithm of a binomial coefficient. */
const logChoose = (n: number, k: number): number => {
  let sum = 0
  for (let i = 1; i <= k; i++) sum += Math.log((n - k + i) / i)
  return sum
}

/** Two-sided p-value of the exact McNemar test, from the rows that only the first and only the second passed. */
export const testMcNemar = (onlyFirst: number, onlySecond: number): number => {
  const total = onlyFirst + onlySecond
  if (total === 0) return 1
  let tail = 0
  for (let i = 0; i <= Math.min(onlyFirst, onlySecond); i++) tail += Math.exp(logChoose(total, i) - total * Math.LN2)
  return Math.min(1, 2 * tail)
}

/** Mean of paired differences. */
export interface PairedDifference {
  readonly mean: number
  readonly interval: Interval
  /** Two-sided, from the share of resampled means at and beyond 0. */
  readonly p: number
}

/**
 * Mean of the differences of rows, its interval, and the chance of one as large without a difference; undefined of
 * nothing.
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
  /** Share of items on which both say the same. */
  readonly share: number
  /** Cohen's kappa; undefined where both always say the same one thing, so that chance alone would give it. */
  readonly kappa: number | undefined
}

/** Agreement of pairs of verdicts. */
export const computeAgreement = (pairs: ReadonlyArray<readonly [boolean, boolean]>): Agreement => {
  const items = pairs.length
  const share = items === 0 ? 0 : pairs.filter(([a, b]) => a === b).length / items
  const [first, second] = [mean(pairs.map(([a]) => Number(a))), mean(pairs.map(([, b]) => Number(b)))]
  const chance = first * second + (1 - first) * (1 - second)
  return { items, share, kappa: items === 0 || chance >= 1 ? undefined : computeKappa(share, chance) }
}

/** Cohen's kappa of an observed agreement and the one that chance would give. */
export const computeKappa = (observed: number, chance: number): number => (observed - chance) / (1 - chance)
