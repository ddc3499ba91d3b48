// Reports of evaluations and their comparison, the page of both, and what judges agree on.
import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import * as EvalPage from "../../../src/research/eval/EvalPage.ts"
import * as EvalReport from "../../../src/research/eval/EvalReport.ts"
import * as JudgeScorer from "../../../src/research/eval/JudgeScorer.ts"

const attempt = (
  item: string,
  run: number,
  passed: boolean,
  more: Partial<EvalReport.AttemptResult> = {}
): EvalReport.AttemptResult => ({
  item,
  run,
  passed,
  scores: new Map([["exact", { passed, score: passed ? 1 : 0, detail: "" }]]),
  opinions: [],
  label: undefined,
  prompt: "?",
  answer: "!",
  exit: "text_response",
  model: "m",
  seconds: 2,
  inputTokens: 100,
  outputTokens: 10,
  costUsd: 0.5,
  judgeCostUsd: undefined,
  ...more
})

describe("EvalReport", () => {
  it("single attempts have a Wilson interval, repeated ones a bootstrap over rows", () => {
    const single = EvalReport.make("a", [attempt("x", 1, true), attempt("y", 1, false)])
    assert.deepStrictEqual([single.passRate.value, single.passRate.interval?.method], [0.5, "wilson"])
    assert.deepStrictEqual(single.passAtK, [])
    const repeated = EvalReport.make("a", [
      attempt("x", 1, true),
      attempt("x", 2, false),
      attempt("y", 1, false),
      attempt("y", 2, false)
    ])
    assert.deepStrictEqual([repeated.passRate.value, repeated.passRate.interval?.method], [0.25, "bootstrap"])
    assert.deepStrictEqual(
      repeated.passAtK.map(({ k, value }) => [k, value]),
      [
        [1, 0.25],
        [2, 0.5]
      ]
    )
    assert.strictEqual(repeated.passAtK[1]?.interval?.method, "wilson")
  })

  it("sums tokens and cost, and tells latency by its quantiles", () => {
    const report = EvalReport.make("a", [
      attempt("x", 1, true, { seconds: 1 }),
      attempt("y", 1, true, { seconds: 3, costUsd: undefined }),
      attempt("z", 1, true, { seconds: undefined, exit: "max_iterations_reached" })
    ])
    assert.deepInclude(report, {
      inputTokens: 300,
      outputTokens: 30,
      costUsd: 1,
      incomplete: 1,
      judgeCostUsd: undefined
    })
    assert.deepStrictEqual(report.latency, { mean: 2, p50: 2, p95: 2.9 })
    assert.isUndefined(EvalReport.make("b", [attempt("x", 1, true, { costUsd: undefined })]).costUsd)
  })

  it("single attempts are compared by McNemar's test, repeated ones by a paired bootstrap, on common rows", () => {
    const ids = Array.from({ length: 8 }, (_, index) => `r${index}`)
    const first = { name: "a", attempts: ids.map((id) => attempt(id, 1, false)) }
    const second = { name: "b", attempts: [...ids.slice(2), "other"].map((id) => attempt(id, 1, true)) }
    const comparison = EvalReport.compare(first, second)
    assert.strictEqual(comparison.commonItems, 6)
    assert.strictEqual(comparison.test?.method, "mcnemar")
    assert.approximately(comparison.test?.p ?? 0, 2 / 64, 1e-9)
    assert.strictEqual(comparison.first.items, 6)
    assert.deepStrictEqual([comparison.better.length, comparison.worse.length], [6, 0])
    const repeated = EvalReport.compare(first, {
      name: "b",
      attempts: ids.flatMap((id) => [attempt(id, 1, true), attempt(id, 2, false)])
    })
    assert.strictEqual(repeated.test?.method, "paired_bootstrap")
    assert.isTrue((repeated.test?.p ?? 1) < 0.01)
    assert.isUndefined(EvalReport.compare(first, { name: "c", attempts: [attempt("z", 1, true)] }).test)
  })

  it("an attempt without a result is one that did not pass, in every rate", () => {
    const attempts = EvalReport.addMissing(
      [attempt("x", 1, true)],
      ["x#1", "y#1", "a#b#1"],
      new Map([["y#1", "the model was not there"]])
    )
    const report = EvalReport.make("a", attempts)
    assert.deepInclude(report, { items: 3, attempts: 3, withoutResult: 2, incomplete: 0, models: ["m"] })
    assert.approximately(report.passRate.value, 1 / 3, 1e-9)
    assert.approximately(report.scorers[0]?.passRate ?? 1, 1 / 3, 1e-9)
    assert.approximately(report.scorers[0]?.meanScore ?? 1, 1 / 3, 1e-9)
    assert.deepStrictEqual(
      attempts.map(({ answer, item, run }) => [item, run, answer]),
      [
        ["x", 1, "!"],
        ["y", 1, "the model was not there"],
        ["a#b", 1, ""]
      ]
    )
    const repeated = EvalReport.make("a", EvalReport.addMissing([attempt("x", 1, true)], ["x#1", "x#2"]))
    assert.deepStrictEqual(
      repeated.passAtK.map(({ k, value }) => [k, value]),
      [
        [1, 0.5],
        [2, 1]
      ]
    )
    const comparison = EvalReport.compare(
      { name: "a", attempts },
      { name: "b", attempts: [attempt("x", 1, true), attempt("y", 1, true), attempt("a#b", 1, false)] }
    )
    assert.deepStrictEqual([comparison.commonItems, comparison.better], [3, ["y"]])
    assert.include(EvalPage.render("a", [{ report, attempts }]), "2 of 3 attempts, which count as not passed")
  })

  it("an attempt is read back from its row", () => {
    const fields = {
      item: "x",
      run: 2,
      passed: true,
      scores: { exact: { passed: true, score: 1, detail: "" } },
      answer: "a",
      exit: "text_response",
      model: "m",
      seconds: 1.5,
      usage: { prompt_tokens: 3, completion_tokens: 4 },
      cost_usd: null,
      opinions: [{ judge: "j", passed: false, reason: "no" }],
      label: true
    }
    assert.deepInclude(EvalReport.parseAttempt({ fields }), {
      item: "x",
      run: 2,
      passed: true,
      inputTokens: 3,
      outputTokens: 4,
      costUsd: undefined,
      label: true
    })
    assert.isUndefined(EvalReport.parseAttempt({ fields: {} }))
  })

  it("judges are compared with each other and with labels", () => {
    const rated = (a: boolean, b: boolean, label?: boolean) => ({
      opinions: [
        { judge: "a", passed: a, reason: "" },
        { judge: "b", passed: b, reason: "" }
      ],
      label
    })
    const found = JudgeScorer.computeAgreements([
      rated(true, true, true),
      rated(true, false, true),
      rated(false, false),
      rated(false, false, true)
    ])
    assert.deepStrictEqual(
      found.map(({ between, items, share }) => [between.join(), items, share]),
      [
        ["a,b", 4, 0.75],
        ["a,label", 3, 2 / 3],
        ["b,label", 3, 1 / 3]
      ]
    )
    assert.strictEqual(found[0]?.kappa, 0.5)
    assert.deepStrictEqual(
      ["pass", "FAIL", 1, true, "maybe", undefined].map((value) => JudgeScorer.readLabel({ label: value })),
      [true, false, true, true, undefined, undefined]
    )
  })

  it("a verdict is read from the end of what a judge says", () => {
    assert.deepStrictEqual(
      JudgeScorer.readVerdict('Hm. {"verdict": "fail"} no: {"reason": "same", "verdict": "PASS"}'),
      { passed: true, reason: "same" }
    )
    assert.isUndefined(JudgeScorer.readVerdict("I pass on this one"))
    assert.isUndefined(JudgeScorer.readVerdict('{"verdict": "pass or fail"}'))
  })

  it("a judge is a model, a provider with a model, or the main one", () => {
    assert.deepStrictEqual(
      JudgeScorer.parse("vendor/model:free"),
      Result.succeed({ name: "vendor/model:free", route: { model: "vendor/model:free" } })
    )
    assert.deepStrictEqual(
      JudgeScorer.parse("provider=p,model=m"),
      Result.succeed({ name: "m", route: { provider: "p", model: "m" } })
    )
    assert.deepStrictEqual(JudgeScorer.parse("main"), Result.succeed({ name: "main", route: { provider: "main" } }))
    // Not a model of that name.
    assert.deepStrictEqual(
      JudgeScorer.parse("provider=p,model=m,base_url=x"),
      Result.fail(
        '"base_url=x" of the judge "provider=p,model=m,base_url=x" is not known: pass a model, main, or provider=NAME,model=NAME'
      )
    )
  })

  it("the page is whole in itself and runs nothing that a model wrote", () => {
    const hostile = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>"
    const attempts = [attempt(`<b>${"x"}`, 1, false, { answer: hostile, prompt: hostile })]
    const report = EvalReport.make(hostile, attempts)
    const page = EvalPage.render(
      hostile,
      [
        { report, attempts },
        { report, attempts }
      ],
      EvalReport.compare({ name: hostile, attempts }, { name: "b", attempts })
    )
    assert.notMatch(page, /<script|<img|<b>/)
    assert.notMatch(page, /(?:src|href)=["']?(?:https?:)?\/\//)
    assert.include(page, "default-src 'none'")
    assert.include(page, "&lt;script&gt;alert(1)")
  })
})
