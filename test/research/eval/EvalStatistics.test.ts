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

  it("a paired bootstrap sees a difference of all rows, and none where rows cancel out", () => {
    const better = Statistics.bootstrapDifferences(Array.from({ length: 30 }, (_, i) => (i % 5 === 0 ? 0 : 0.4)))
    assert.isTrue(better !== undefined && better.p < 0.01 && better.interval.low > 0)
    const same = Statistics.bootstrapDifferences([0.5, -0.5, 0.5, -0.5])
    assert.isTrue(same !== undefined && same.p > 0.5 && same.mean === 0)
    assert.isUndefined(Statistics.bootstrapDifferences([]))
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
