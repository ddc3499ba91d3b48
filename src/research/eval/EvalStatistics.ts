/**
 * Statistics of an evaluation: pass@k, intervals, paired tests, agreement between judges. Pure. The results are
 * deterministic, because resampling uses a fixed seed.
 *
 * **Details**
 *
 * - {@link passAtK} is the unbiased estimator for `n` runs of which `c` passed: `1 − C(n−c, k) / C(n, k)`.
 * - {@link computeWilsonInterval} is the Wilson score interval of a share. It is valid if every row has one run and the
 *   rows are independent.
 * - {@link computeClusteredInterval} is Student's interval of the mean over rows, for all other cases. Several runs of
 *   one row are not independent, so that the error is computed from the means of the rows. {@link estimateInterval}
 *   chooses the suitable interval. {@link bootstrap} is the percentile interval over rows, for values of any kind.
 * - {@link testMcNemar} is the exact test on the rows that only one of two configurations passed.
 *   {@link testSignFlips} is the permutation test for rows with several runs; both are the same for single runs.
 * - {@link comparePairs} estimates the difference of two configurations. Its interval and its test treat the runs of a
 *   row as one cluster.
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
  readonly method: "wilson" | "clustered" | "bootstrap"
}

/** Normal quantile of a two-sided 95 % interval. */
const z = 1.959963984540054

/** Number of resamples of a bootstrap. */
export const resamples = 2000

const clampShare = (share: number): number => Math.min(1, Math.max(0, share))

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
  const at = clampShare(share) * (sorted.length - 1)
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
  return { low: clampShare(centre - half), high: clampShare(centre + half), method: "wilson" }
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
 * Returns the probability that Student's t with a whole number of degrees of freedom is between `-t` and `t`.
 *
 * Source: Abramowitz and Stegun, 26.7.3 and 26.7.4.
 */
const computeCentralT = (t: number, freedom: number): number => {
  const angle = Math.atan(t / Math.sqrt(freedom))
  const square = Math.cos(angle) ** 2
  const isOdd = freedom % 2 === 1
  let term = isOdd ? Math.cos(angle) : 1
  let sum = freedom === 1 ? 0 : term
  for (let i = isOdd ? 2 : 1; i <= freedom - 3; i += 2) {
    term *= (square * i) / (i + 1)
    sum += term
  }
  return isOdd ? (2 / Math.PI) * (angle + Math.sin(angle) * sum) : Math.sin(angle) * sum
}

/** Degrees of freedom from which the normal quantile is used. */
const manyRows = 10_000

/** Returns the quantile of Student's t for a two-sided 95 % interval. `freedom` is a positive integer. */
export const computeStudentQuantile = (freedom: number): number => {
  if (freedom >= manyRows) return z
  let [low, high] = [z, 13]
  for (let i = 0; i < 60; i++) {
    const middle = (low + high) / 2
    if (computeCentralT(middle, freedom) < 0.95) low = middle
    else high = middle
  }
  return (low + high) / 2
}

/** Returns the standard error of the mean over rows, or `undefined` for fewer than two rows. */
export const computeStandardError = (values: ReadonlyArray<number>): number | undefined => {
  if (values.length < 2) return undefined
  const centre = mean(values)
  const squares = values.reduce((sum, value) => sum + (value - centre) ** 2, 0)
  return Math.sqrt(squares / (values.length - 1) / values.length)
}

/** Tests whether rows have the same value, apart from rounding. */
const areEqual = (values: ReadonlyArray<number>): boolean =>
  values.every((value) => Math.abs(value - (values[0] ?? 0)) < 1e-12)

/**
 * Returns Student's 95 % interval of a mean of shares over rows, whose error is computed from the shares of the rows.
 * If all rows have the same share, or there is only one, their variance is unknown, and the result is the Wilson
 * interval of as many single runs. Returns `undefined` for an empty list.
 */
export const computeClusteredInterval = (values: ReadonlyArray<number>): Interval | undefined => {
  const centre = mean(values)
  const error = computeStandardError(values)
  if (error === undefined || areEqual(values)) return computeWilsonInterval(centre * values.length, values.length)
  const half = computeStudentQuantile(values.length - 1) * error
  return { low: clampShare(centre - half), high: clampShare(centre + half), method: "clustered" }
}

/**
 * Returns the interval of the mean over rows: a Wilson interval if every value is 0 or 1, otherwise
 * {@link computeClusteredInterval}. Returns `undefined` for an empty list.
 */
export const estimateInterval = (values: ReadonlyArray<number>): Interval | undefined =>
  values.every((value) => value === 0 || value === 1)
    ? computeWilsonInterval(values.filter((value) => value === 1).length, values.length)
    : computeClusteredInterval(values)

/**
 * Returns the two-sided p-value of the exact McNemar test, from the number of rows that only the first configuration
 * passed and the number that only the second passed.
 */
export const testMcNemar = (onlyFirst: number, onlySecond: number): number => {
  const total = onlyFirst + onlySecond
  if (total === 0) return 1
  let tail = 0
  // The logarithm of the probability of each number, computed from the previous one.
  let log = -total * Math.LN2
  for (let i = 0; i <= Math.min(onlyFirst, onlySecond); i++) {
    tail += Math.exp(log)
    log += Math.log((total - i) / (i + 1))
  }
  return Math.min(1, 2 * tail)
}

/** Result of a test of paired differences. */
export interface PairedTest {
  /** Two-sided p-value. */
  readonly p: number
  /** `exact` if every permutation was counted, otherwise `sampled` (at random, with a fixed seed). */
  readonly method: "exact" | "sampled"
}

/** Largest common denominator of differences that is tried. */
const maxDenominator = 5040
/** Maximum number of steps of an exact test. */
const maxSteps = 50_000_000
/** Number of permutations that a test samples if it cannot count all. */
const sampledPermutations = 20_000

/** Returns the differences as integers in a common unit, or `undefined` if there is no small common denominator. */
const toIntegers = (differences: ReadonlyArray<number>): ReadonlyArray<number> | undefined => {
  for (let scale = 1; scale <= maxDenominator; scale++) {
    const isWhole = differences.every((value) => Math.abs(value * scale - Math.round(value * scale)) < 1e-9 * scale)
    if (isWhole) return differences.map((value) => Math.round(value * scale))
  }
  return undefined
}

/** Counts all permutations at once: the distribution of the sum of the sizes that keep their sign. */
const countIntegerFlips = (sizes: ReadonlyArray<number>, observed: number): number => {
  const total = sizes.reduce((sum, size) => sum + size, 0)
  const shares = new Float64Array(total + 1)
  shares[0] = 1
  let reached = 0
  for (const size of sizes) {
    reached += size
    for (let sum = reached; sum >= 0; sum--)
      shares[sum] = ((shares[sum] ?? 0) + (sum >= size ? (shares[sum - size] ?? 0) : 0)) / 2
  }
  return shares.reduce((tail, share, sum) => (Math.abs(2 * sum - total) >= Math.abs(observed) ? tail + share : tail), 0)
}

const sumValues = (values: ReadonlyArray<number>): number => values.reduce((all, value) => all + value, 0)

/** Returns the share of sums, made by `flip` for each index, that are at least as far from 0 as the observed one. */
const countSums = (count: number, observed: number, flip: (index: number) => number): number => {
  const bound = Math.abs(observed) * (1 - 1e-12)
  let extreme = 0
  for (let index = 0; index < count; index++) if (Math.abs(flip(index)) >= bound) extreme++
  return extreme
}

/** Counts the bits of a 32-bit integer. */
const countBits = (word: number): number => {
  let bits = word - ((word >>> 1) & 0x55555555)
  bits = (bits & 0x33333333) + ((bits >>> 2) & 0x33333333)
  return Math.imul((bits + (bits >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24
}

/** Tests a sample of the permutations. Equal sizes are drawn together, 32 signs at a time. */
const samplePermutations = (differences: ReadonlyArray<number>): PairedTest => {
  const random = makeRandom(seed)
  const groups = Array.from(Map.groupBy(differences, Math.abs), ([size, { length }]) => ({ size, length }))
  const countPositive = (length: number): number => {
    let positive = 0
    for (let left = length; left > 0; left -= 32)
      positive += countBits(Math.floor(random() * 4_294_967_296) >>> Math.max(0, 32 - left))
    return positive
  }
  const flipSigns = (): number =>
    groups.reduce((sum, { length, size }) => sum + size * (2 * countPositive(length) - length), 0)
  const extreme = countSums(sampledPermutations, sumValues(differences), flipSigns)
  return { p: (extreme + 1) / (sampledPermutations + 1), method: "sampled" }
}

/** Counts the permutations of whole differences. Returns `undefined` if that takes too long. */
const countWholeFlips = (whole: ReadonlyArray<number>): number | undefined => {
  const sizes = whole.map(Math.abs)
  if (sumValues(sizes) * sizes.length <= maxSteps) return countIntegerFlips(sizes, sumValues(whole))
  return sizes.every((size) => size === sizes[0])
    ? testMcNemar(whole.filter((value) => value < 0).length, whole.filter((value) => value > 0).length)
    : undefined
}

/**
 * Tests by permutation of signs that paired differences are symmetric about 0, as they are if both configurations are
 * equally good. A row with several runs has one difference, that between its rates.
 *
 * All permutations are counted if the differences are multiples of a common fraction, as the differences of rates are,
 * or if at most 20 rows differ. Otherwise the test samples permutations, and counts the observed one among them.
 */
export const testSignFlips = (differences: ReadonlyArray<number>): PairedTest => {
  const changed = differences.filter((value) => Math.abs(value) > 1e-12)
  if (changed.length === 0) return { p: 1, method: "exact" }
  const whole = toIntegers(changed)
  const counted = whole === undefined ? undefined : countWholeFlips(whole)
  if (counted !== undefined) return { p: Math.min(1, counted), method: "exact" }
  if (changed.length > 20) return samplePermutations(whole ?? changed)
  const flipSigns = (index: number): number =>
    changed.reduce((all, value, at) => all + ((index >> at) & 1 ? -value : value), 0)
  const count = 2 ** changed.length
  return { p: countSums(count, sumValues(changed), flipSigns) / count, method: "exact" }
}

/** Smallest number of rows with which a two-sided test at 5 % can find a difference: `2 / 2^6 < 0.05`. */
export const leastRows = 6

/** Mean of paired differences, with its interval and test. */
export interface PairedDifference extends PairedTest {
  readonly mean: number
  /** Standard error over rows, or `undefined` for a single row. */
  readonly standardError: number | undefined
  /** Interval of the mean, or `undefined` for fewer than {@link leastRows} rows. */
  readonly interval: Interval | undefined
  /** True if no result with this number of rows could be significant at 5 %. */
  readonly hasTooFewRows: boolean
}

/** Returns the interval of rows that all have the same difference, so that their variance is unknown. */
const boundEqualDifferences = (difference: number, rows: number): Interval => {
  const { high = 1 } = computeWilsonInterval(0, rows) ?? {}
  const bounds = difference === 0 ? [-high, high] : [difference, difference * (1 - high)].toSorted((a, b) => a - b)
  return { low: bounds[0] ?? difference, high: bounds[1] ?? difference, method: "wilson" }
}

/**
 * Compares two configurations by the differences between their rates, one for each row. Returns the mean difference,
 * Student's interval with errors over rows, and {@link testSignFlips}. Returns `undefined` for an empty list.
 */
export const comparePairs = (differences: ReadonlyArray<number>): PairedDifference | undefined => {
  const rows = differences.length
  if (rows === 0) return undefined
  const centre = mean(differences)
  const standardError = computeStandardError(differences)
  const hasTooFewRows = rows < leastRows
  const half = computeStudentQuantile(Math.max(1, rows - 1)) * (standardError ?? 0)
  const clampDifference = (value: number): number => Math.min(1, Math.max(-1, value))
  const student: Interval = {
    low: clampDifference(centre - half),
    high: clampDifference(centre + half),
    method: "clustered"
  }
  return {
    ...testSignFlips(differences),
    mean: centre,
    standardError,
    interval: hasTooFewRows ? undefined : areEqual(differences) ? boundEqualDifferences(centre, rows) : student,
    hasTooFewRows
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
