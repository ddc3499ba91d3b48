// Scorers without a model: what passes, what does not, and what cannot be used.
import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import * as Scorer from "../../../src/research/eval/Scorer.ts"

const passes = (spec: string, answer: string, references: ReadonlyArray<string>, pattern?: string): boolean => {
  const { kind, option } = Result.getOrThrow(Scorer.parse(spec))
  if (kind === "command" || kind === "judge") throw new Error(spec)
  return Scorer.compare({ kind, option }, answer, { references, pattern }).passed
}

const problem = (spec: string): string => {
  const parsed = Scorer.parse(spec)
  return Result.isFailure(parsed) ? parsed.failure : ""
}

describe("Scorer", () => {
  it("exact leaves out white space around; loose also case, punctuation and articles", () => {
    assert.isTrue(passes("exact", " Paris\n", ["Paris"]))
    assert.isFalse(passes("exact", "paris", ["Paris"]))
    assert.isTrue(passes("exact", "cafe\u0301", ["caf\u00e9"]))
    assert.isTrue(passes("exact:loose", "The  Eiffel-Tower!", ["eiffel tower"]))
    assert.isFalse(passes("exact:loose", "Eiffel", ["eiffel tower"]))
  })

  it("one of several references is enough", () => {
    assert.isTrue(passes("exact", "b", ["a", "b"]))
    assert.deepStrictEqual(Scorer.readReference({ answer: ["a", 2, null] }).references, ["a", "2"])
    assert.deepStrictEqual(Scorer.readReference({ gold: 4, answer: "x" }, "gold").references, ["4"])
  })

  it("contains, in any case", () => {
    assert.isTrue(passes("contains", "It is PARIS, of course", [" paris "]))
    assert.isFalse(passes("contains", "Rome", ["paris"]))
  })

  it("a pattern that backtracks without end comes to no verdict", () => {
    const row = { references: [], pattern: "(a+)+$" }
    const verdict = Scorer.compare({ kind: "regex" }, `${"a".repeat(60)}!`, row)
    assert.deepInclude(verdict, { passed: false, isUndecided: true })
    assert.include(verdict.detail, "(a+)+$ takes too long")
    assert.deepStrictEqual(Scorer.compare({ kind: "regex" }, "aaa", row), { passed: true, score: 1, detail: "" })
  })

  it("regex takes the pattern behind the colon, of the row, or the references", () => {
    assert.isTrue(passes("regex:^\\d{3}$", "123", []))
    assert.isTrue(passes("regex", "abc", [], "^a.c$"))
    assert.isTrue(passes("regex", "line\nend", ["line.end"]))
    assert.isFalse(passes("regex", "x", [], "(broken"))
  })

  it("number reads the last one: with separators, units, signs, exponents, and behind ####", () => {
    const cases: ReadonlyArray<readonly [text: string, value: number | undefined]> = [
      ["So it costs $1,250.00.", 1250],
      ["Step 1: 3 apples\nStep 2: 4 apples\nTogether 7 apples", 7],
      ["3 + 4 = 7\n#### 1,007", 1007],
      ["\u22123.5 degrees", -3.5],
      ["1.5e3", 1500],
      ["about .5", 0.5],
      ["2024-05-06 is the 6th", 6],
      ["none", undefined],
      ["12 345,", 12345]
    ]
    for (const [text, value] of cases) assert.strictEqual(Scorer.readLastNumber(text), value, text)
    assert.isTrue(passes("number", "0.1 + 0.2 = 0.30000000000000004", ["0.3"]))
    assert.isFalse(passes("number", "0.31", ["0.3"]))
    assert.isTrue(passes("number:0.02", "0.31", ["0.3"]))
    assert.isFalse(passes("number", "no idea", ["3"]))
  })

  it("what is no scorer is told, with the nearest one", () => {
    assert.strictEqual(problem("exakt"), 'unknown scorer "exakt": did you mean "exact"?')
    assert.match(problem("zzz"), /there are exact, contains, regex, number, command, judge/)
    assert.match(problem("regex:("), /not a regular expression/)
    assert.match(problem("number:x"), /not a valid tolerance/)
    assert.match(problem("command"), /needs a command line/)
    assert.match(problem("judge:gpt"), /takes nothing behind a colon/)
    assert.strictEqual(problem("command:echo a:b"), "")
  })

  it("a scorer that compares needs a reference", () => {
    const none = { references: [], pattern: undefined }
    assert.isTrue(Scorer.isMissingReference({ kind: "exact" }, none))
    assert.isTrue(Scorer.isMissingReference({ kind: "regex" }, none))
    assert.isFalse(Scorer.isMissingReference({ kind: "regex", option: "x" }, none))
    assert.isFalse(Scorer.isMissingReference({ kind: "judge" }, none))
  })
})
