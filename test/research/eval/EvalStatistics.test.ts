// Statistics of evaluations against values from the literature and from brute force.
import { assert, describe, it } from "@effect/vitest"
import * as Statistics from "../../../src/research/eval/EvalStatistics.ts"

const close = (actual: number | undefined, expected: number, within = 1e-6): void =>
  assert.isTrue(actual !== undefined && Math.abs(actual - expected) <= within, `${actual} is not ${expected}`)

/** Share of all choices of `k` of `n` runs, of which the first `c` passed, that hold a passed one. */
const counted = (n: number, c: number, k: number): number => {
  let all = 0
  let passed = 0
  for (let mask = 0; mask < 1 << n; mask++) {
    const chosen = Array.from({ length: n }, (_, i) => i).filter((i) => (mask & (1 << i)) !== 0)
    if (chosen.length !== k) continue
    all++
    if (chosen.some((i) => i < c)) passed++
  }
  return passed / all
}

describe("EvalStatistics", () => {
  it("pass@k is the share of all choices of k runs that hold a passed one", () => {
    for (const n of [1, 4, 7]) {
      for (let c = 0; c <= n; c++) {
        for (let k = 1; k <= n; k++) assert.approximately(Statistics.passAtK(n, c, k) ?? -1, counted(n, c, k), 1e-9)
      }
    }
  })

  it("pass@k is not guessed from fewer than k runs", () => {
    assert.isUndefined(Statistics.passAtK(2, 2, 3))
    assert.isUndefined(Statistics.passAtK(2, 2, 0))
  })

  it("the Wilson interval is that of the textbook, and stays between 0 and 1", () => {
    // Newcombe 1998, table I: 81 of 263, and 0 of 20.
    close(Statistics.computeWilsonInterval(81, 263)?.low, 0.2553, 5e-5)
    close(Statistics.computeWilsonInterval(81, 263)?.high, 0.3662, 5e-5)
    close(Statistics.computeWilsonInterval(0, 20)?.low, 0)
    close(Statistics.computeWilsonInterval(0, 20)?.high, 0.1611, 5e-5)
    assert.isUndefined(Statistics.computeWilsonInterval(0, 0))
  })

  it("the bootstrap interval holds the mean, is the same each time, and is narrow where nothing varies", () => {
    const values = Array.from({ length: 40 }, (_, i) => Number(i % 4 === 0))
    const interval = Statistics.bootstrap(values)
    assert.deepStrictEqual(Statistics.bootstrap(values), interval)
    // As wide as that of a share of 0.25 of 40, roughly.
    close(interval?.low, 0.125, 0.03)
    close(interval?.high, 0.4, 0.03)
    assert.deepStrictEqual(Statistics.bootstrap([1, 1, 1]), { low: 1, high: 1, method: "bootstrap" })
    assert.isUndefined(Statistics.bootstrap([]))
  })

  it("McNemar's exact test is the two-sided binomial test of the rows that differ", () => {
    close(Statistics.testMcNemar(0, 0), 1)
    close(Statistics.testMcNemar(0, 6), 2 / 64)
    close(Statistics.testMcNemar(1, 9), (2 * 11) / 1024)
    close(Statistics.testMcNemar(5, 5), 1)
    close(Statistics.testMcNemar(9, 1), Statistics.testMcNemar(1, 9))
    assert.isTrue(Statistics.testMcNemar(2000, 2200) < 0.01)
  })

  it("Student's interval of the mean over rows is that of scipy", () => {
    // scipy.stats.t.ppf(0.975, df).
    for (const [freedom, quantile] of [
      [1, 12.706204736174694],
      [2, 4.302652729749462],
      [3, 3.1824463052837078],
      [5, 2.5705818356363146],
      [7, 2.364624251592784],
      [10, 2.228138851986274],
      [29, 2.045229642132703],
      [100, 1.9839715185235518],
      [999, 1.9623414611334493],
      [50_000, 1.959963984540054]
    ] as const)
      close(Statistics.computeStudentQuantile(freedom), quantile, 1e-9)
    // scipy.stats.t.interval(0.95, 3, loc=0.5, scale=sem([0.25, 0.5, 0.75, 0.5])).
    const interval = Statistics.computeClusteredInterval([0.25, 0.5, 0.75, 0.5])
    close(interval?.low, 0.17519293409372227, 1e-9)
    close(interval?.high, 0.8248070659062777, 1e-9)
    // Rows that all have the same share have an unknown variance, not one of 0.
    assert.deepStrictEqual(Statistics.computeClusteredInterval([0.5, 0.5]), Statistics.computeWilsonInterval(1, 2))
    assert.isUndefined(Statistics.computeClusteredInterval([]))
  })

  it("the sign-flip test is that of scipy, and McNemar's for single runs", () => {
    // scipy.stats.permutation_test(..., permutation_type="samples", n_resamples=inf, alternative="two-sided").
    for (const [differences, p] of [
      [[1, 1, 1], 0.25],
      [[1, 1, 1, 1, 1], 0.0625],
      [[0.5, 0.5, 1, -0.5, 0, 1, 0.25], 0.15625],
      [[1 / 3, 2 / 3, 1, -1 / 3, 0, 1 / 3, 1, 1 / 3], 0.078125],
      [Array.from({ length: 10 }, () => 0.2), 0.001953125],
      [[1, -1, 1, -1], 1],
      [[0.12, 0.5, -0.37, 0.81, 0.33, 0.24, -0.05, 0.61, 0.44], 0.046875]
    ] as const) {
      const found = Statistics.testSignFlips(differences)
      assert.strictEqual(found.method, "exact")
      close(found.p, p, 1e-12)
    }
    for (const [worse, better] of [
      [1, 9],
      [12, 3],
      [20, 37],
      [0, 0]
    ] as const) {
      const rows = [...Array.from({ length: worse }, () => -1), ...Array.from({ length: better }, () => 1), 0, 0]
      close(Statistics.testSignFlips(rows).p, Statistics.testMcNemar(worse, better), 1e-9)
    }
  })

  it("the sign-flip test counts all permutations, of fractions and of any numbers, or samples them", () => {
    const countAll = (values: ReadonlyArray<number>): number => {
      const observed = Math.abs(values.reduce((sum, value) => sum + value, 0))
      let extreme = 0
      for (let mask = 0; mask < 2 ** values.length; mask++) {
        const sum = values.reduce((sum, value, at) => sum + ((mask >> at) & 1 ? -value : value), 0)
        if (Math.abs(sum) >= observed - 1e-9) extreme++
      }
      return extreme / 2 ** values.length
    }
    const random = (seed: number) => {
      let state = seed
      return () => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647
    }
    for (let seed = 1; seed <= 40; seed++) {
      const next = random(seed * 7919)
      const rows = Math.floor(next() * 10) + 1
      const isWhole = seed % 2 === 0
      const values = Array.from({ length: rows }, () =>
        isWhole ? Math.round(next() * 12 - 6) / 6 : Math.SQRT2 * (next() - 0.4)
      )
      const found = Statistics.testSignFlips(values)
      assert.strictEqual(found.method, "exact")
      close(found.p, countAll(values), 1e-9)
    }
    const next = random(11)
    const many = Array.from({ length: 60 }, () => Math.SQRT2 * (next() - 0.3))
    const sampled = Statistics.testSignFlips(many)
    assert.strictEqual(sampled.method, "sampled")
    assert.isTrue(sampled.p > 0 && sampled.p < 0.001)
    assert.deepStrictEqual(Statistics.testSignFlips(many), sampled)
    // Five thousand rows are still counted, not sampled.
    const large = Array.from({ length: 5000 }, (_, index) => (index % 11 === 0 ? 0.5 : index % 2 === 0 ? 0.25 : -0.25))
    assert.strictEqual(Statistics.testSignFlips(large).method, "exact")
  })

  it("without a difference, at most 5 % of small experiments are significant", () => {
    // All results of n rows with two attempts each, where both configurations pass each attempt with probability 1/2.
    const shares = [
      [-1, 1 / 16],
      [-0.5, 4 / 16],
      [0, 6 / 16],
      [0.5, 4 / 16],
      [1, 1 / 16]
    ] as const
    const sum = (rows: ReadonlyArray<number>, left: number, share: number): number =>
      left === 0
        ? (Statistics.comparePairs(rows)?.p ?? 1) <= 0.05
          ? share
          : 0
        : shares.reduce((all, [value, part]) => all + sum([...rows, value], left - 1, share * part), 0)
    assert.strictEqual(sum([], 3, 1), 0)
    assert.strictEqual(sum([], 5, 1), 0)
    assert.isTrue(sum([], 6, 1) <= 0.05)
  })

  it("a comparison has an interval with errors over rows, and says when there are too few", () => {
    const few = Statistics.comparePairs([1, 1, 1])
    assert.deepInclude(few, { mean: 1, p: 0.25, interval: undefined, hasTooFewRows: true })
    const better = Statistics.comparePairs([1 / 3, 2 / 3, 1, -1 / 3, 0, 1 / 3, 1, 1 / 3])
    assert.deepInclude(better, { hasTooFewRows: false, method: "exact" })
    // scipy.stats.t.interval(0.95, 7, loc=mean, scale=sem).
    close(better?.interval?.low, 0.029664180129086837, 1e-9)
    close(better?.interval?.high, 0.8036691532042464, 1e-9)
    // Rows that are all alike are not proof that every row is.
    const alike = Statistics.comparePairs(Array.from({ length: 10 }, () => 1))
    assert.isTrue(alike !== undefined && (alike.interval?.low ?? 1) < 0.8 && alike.interval?.high === 1)
    const none = Statistics.comparePairs(Array.from({ length: 10 }, () => 0))
    assert.isTrue(none?.p === 1 && (none.interval?.low ?? 0) < -0.2 && (none.interval?.high ?? 0) > 0.2)
    assert.isUndefined(Statistics.comparePairs([]))
  })

  it("two hundred thousand rows are compared, and their signs are drawn together", () => {
    const differences = Array.from({ length: 200_000 }, (_, index) => [1, -1, 0.5][index % 3] ?? 0)
    assert.isTrue((Statistics.comparePairs(differences)?.p ?? 1) < 0.001)
    const shares = differences.map((value) => Math.abs(value) / 2)
    assert.strictEqual(Statistics.computeClusteredInterval(shares)?.method, "clustered")
    // The normal approximation: 2 * (1 - Phi(1)), for a sum of one standard deviation.
    const balanced = Array.from({ length: 30_000 }, (_, index) => (index % 2 === 0 ? 0.5 : -0.5))
    const size = Math.round(Math.sqrt(30_000 * 0.25 + 30_000) / 2) * 2
    const rest = Array.from({ length: 30_000 }, (_, index) => (index < 15_000 + size / 2 ? 1 : -1))
    const sampled = Statistics.testSignFlips([...balanced, ...rest])
    assert.strictEqual(sampled.method, "sampled")
    close(sampled.p, 0.317, 0.02)
    // scipy.stats.binomtest(50000, 100300).pvalue.
    close(Statistics.testMcNemar(50_000, 50_300), 0.3451155669541081, 1e-6)
  })

  it("kappa is the agreement beyond chance", () => {
    const pairs = (count: number, pair: readonly [boolean, boolean]) => Array.from({ length: count }, () => pair)
    // The textbook's table: 20 and 15 agreed, 5 and 10 not.
    const table = [
      ...pairs(20, [true, true]),
      ...pairs(5, [true, false]),
      ...pairs(10, [false, true]),
      ...pairs(15, [false, false])
    ]
    const { kappa, share } = Statistics.computeAgreement(table)
    close(share, 0.7)
    close(kappa, 0.4)
    assert.isUndefined(Statistics.computeAgreement(pairs(5, [true, true])).kappa)
    assert.deepStrictEqual(Statistics.computeAgreement([]), { items: 0, share: 0, kappa: undefined })
  })

  it("a quantile lies between its neighbours", () => {
    assert.strictEqual(Statistics.quantile([4, 1, 3, 2], 0.5), 2.5)
    assert.strictEqual(Statistics.quantile([7], 0.95), 7)
    assert.isUndefined(Statistics.quantile([], 0.5))
  })
})
