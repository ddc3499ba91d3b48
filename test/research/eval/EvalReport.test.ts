// Reports of evaluations and their comparison, the page of both, and what judges agree on.
import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import * as EvalPage from "../../../src/research/eval/EvalPage.ts"
import * as EvalReport from "../../../src/research/eval/EvalReport.ts"
import * as Experiment from "../../../src/research/eval/Experiment.ts"
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
  kind: passed ? "passed" : "failed",
  scores: new Map([["exact", { passed, score: passed ? 1 : 0, detail: "" }]]),
  opinions: [],
  label: undefined,
  prompt: "?",
  expected: "",
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
  it("single attempts have a Wilson interval, repeated ones one with errors over rows", () => {
    const single = EvalReport.make("a", [attempt("x", 1, true), attempt("y", 1, false)])
    assert.deepStrictEqual([single.passRate.value, single.passRate.interval?.method], [0.5, "wilson"])
    assert.deepStrictEqual(single.passAtK, [])
    const repeated = EvalReport.make("a", [
      attempt("x", 1, true),
      attempt("x", 2, false),
      attempt("y", 1, false),
      attempt("y", 2, false)
    ])
    assert.deepStrictEqual([repeated.passRate.value, repeated.passRate.interval?.method], [0.25, "clustered"])
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

  it("single attempts are compared by McNemar's test, repeated ones by flips of signs, on common rows", () => {
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
    assert.strictEqual(repeated.test?.method, "sign_flip")
    assert.approximately(repeated.test?.p ?? 1, 2 / 256, 1e-9)
    assert.isUndefined(EvalReport.compare(first, { name: "c", attempts: [attempt("z", 1, true)] }).test)
  })

  it("an attempt without a result is one that did not pass, in every rate", () => {
    const attempts = EvalReport.addMissing(
      [attempt("x", 1, true)],
      ["x#1", "y#1", "a#b#1"],
      new Map([["y#1", { message: "the model was not there", kind: "model_failure" }]])
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
    const page = EvalPage.render("a", [{ report, attempts }])
    assert.include(page, "2 of 3 attempts, which count as not passed")
    assert.include(page, "1 model failure, 1 not run")
  })

  it("failures of the infrastructure count, and are shown apart", () => {
    const attempts = EvalReport.addMissing(
      [attempt("x", 1, true), attempt("y", 1, false, { kind: "limit", exit: "max_iterations_reached" })],
      ["x#1", "y#1", "z#1"],
      new Map([["z#1", { message: "no disk", kind: "infrastructure" }]])
    )
    const report = EvalReport.make("a", attempts)
    assert.approximately(report.passRate.value, 1 / 3, 1e-9)
    assert.deepInclude(report.outcomes.counts, { passed: 1, failed: 0, limit: 1, infrastructure: 1 })
    assert.strictEqual(report.outcomes.rateWithoutInfrastructure, 0.5)
    const facts = new Map(EvalPage.listFacts(report))
    assert.strictEqual(facts.get("failures"), "1 limit, 1 infrastructure")
    assert.strictEqual(facts.get("infrastructure"), "1 failed; passed without them: 50.0 %")
    assert.deepInclude(EvalReport.toWire(report), { pass_rate_without_infrastructure: 0.5 })
  })

  it("a page shows prompt, expected answer and score of an attempt without opening it", () => {
    const attempts = [attempt("x", 1, false, { prompt: "How many?", expected: "12", answer: "many words" })]
    const page = EvalPage.render("a", [{ report: EvalReport.make("a", attempts), attempts }])
    const [, summary = ""] = /<summary>(.*?)<\/summary>/s.exec(page) ?? []
    for (const text of ["x #1", "How many?", "12", "0.00"]) assert.include(summary, text)
    assert.notInclude(summary, "many words")
    assert.include(page, "<pre>many words</pre>")
  })

  it("a page counts the attempts and rows that it leaves out, failed ones too", () => {
    const ids = Array.from({ length: EvalPage.shownAttempts + 5 }, (_, index) => `r${index}`)
    const fail = (passed: (index: number) => boolean) => ids.map((id, index) => attempt(id, 1, passed(index)))
    const [low, high] = [fail((index) => index < 2), fail(() => true)]
    const parts = [low, high].map((attempts, index) => ({ report: EvalReport.make(`c${index}`, attempts), attempts }))
    const comparison = EvalReport.compare({ name: "low", attempts: low }, { name: "high", attempts: high })
    const page = EvalPage.render("a", parts, comparison)
    assert.include(page, "5 more attempts are in results.jsonl: 3 did not pass, 2 passed.")
    assert.include(page, `and ${ids.length - 2 - 200} more</p>`)
    const experiment = Experiment.makeExperiment([
      { name: "low", attempts: low },
      { name: "high", attempts: high }
    ])
    assert.include(
      EvalPage.renderLeaderboard("a", experiment, parts),
      `${ids.length - 1000} more tasks are not in this table.`
    )
  })

  it("an experiment ranks configurations over all common tasks, with adjusted tests against the first", () => {
    const ids = Array.from({ length: 8 }, (_, index) => `r${index}`)
    const configure = (name: string, passes: (index: number) => boolean, more: ReadonlyArray<string> = []) => ({
      name,
      attempts: [...ids, ...more].flatMap((id, index) => [attempt(id, 1, passes(index)), attempt(id, 2, passes(index))])
    })
    const experiment = Experiment.makeExperiment([
      configure("low", () => false),
      configure("best", () => true, ["only here"]),
      configure("same", (index) => index % 2 === 0),
      configure("as good", (index) => index % 2 === 1)
    ])
    assert.deepInclude(experiment, { tasks: ids, leftOut: 1 })
    assert.deepStrictEqual(
      experiment.standings.map(({ rank, report }) => [rank, report.name, report.passRate.value]),
      [
        [1, "best", 1],
        [2, "same", 0.5],
        [2, "as good", 0.5],
        [4, "low", 0]
      ]
    )
    // Eight equal differences: 2 / 2^8, the smallest of six p-values. Four of eight: 2 / 2^4.
    assert.deepStrictEqual(
      experiment.standings.map(({ adjustedP, difference }) => [difference?.p, adjustedP]),
      [
        [undefined, undefined],
        [0.125, 0.625],
        [0.125, 0.625],
        [0.0078125, 0.046875]
      ]
    )
    assert.deepStrictEqual(experiment.outcomes.get("same")?.get("r1"), ["failed", "failed"])
    const parts = experiment.standings.map(({ report }) => ({ report, attempts: [] }))
    const page = EvalPage.renderLeaderboard("<i>", experiment, parts)
    assert.include(page, "<td>best</td><td>100.0 %</td>")
    assert.include(page, "1 tasks that not all configurations have are left out")
    assert.notMatch(page, /<script|<i>/)
    assert.deepInclude(Experiment.toWire(experiment).configurations[3], { rank: 4, p: 0.0078125 })
  })

  it("p-values are adjusted by Holm's method", () => {
    // statsmodels.stats.multitest.multipletests(method="holm").
    assert.deepStrictEqual(Experiment.adjustByHolm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    assert.deepStrictEqual(Experiment.adjustByHolm([0.6, 0.7]), [1, 1])
    const many = Experiment.adjustByHolm([0.0004, 0.03, 0.03, 0.2, 0.011, 0.9])
    const expected = [0.0024, 0.12, 0.12, 0.4, 0.055, 0.9]
    many.forEach((value, index) => assert.approximately(value, expected[index] ?? 0, 1e-12))
    assert.deepStrictEqual(Experiment.adjustByHolm([]), [])
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
