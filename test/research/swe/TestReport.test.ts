// Results of tests read from what test programs print, those of this machine's own ones included.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { spawnSync } from "node:child_process"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import * as TestReport from "../../../src/research/swe/TestReport.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const of = (output: string) => Object.fromEntries(TestReport.read(output))

const suite = `
const { describe, it } = require("node:test")
describe("numbers", () => {
  it("adds (quickly)", () => {})
  it("divides", () => { throw new Error("no") })
  it("later", { skip: true }, () => {})
})
it("alone", () => {})
`

describe("TestReport", () => {
  for (const reporter of ["tap", "spec"]) {
    it.effect(`reads node's ${reporter} reporter, with the names of suites`, () =>
      Effect.gen(function* () {
        const root = yield* temporaryDirectory
        writeFileSync(join(root, "a.test.cjs"), suite)
        // The variable tells node's runner that it is inside of another one.
        const { NODE_TEST_CONTEXT: _, ...env } = process.env
        const { stdout } = spawnSync(process.execPath, ["--test", `--test-reporter=${reporter}`, "a.test.cjs"], {
          cwd: root,
          encoding: "utf8",
          env
        })
        const tests = TestReport.read(stdout)
        assert.strictEqual(tests.get("adds (quickly)"), "passed", stdout)
        assert.strictEqual(tests.get("numbers > adds (quickly)"), "passed")
        assert.strictEqual(tests.get("numbers > divides"), "failed")
        assert.strictEqual(tests.get("later"), "skipped")
        assert.strictEqual(tests.get("alone"), "passed")
        assert.isFalse(tests.has("numbers > alone"))
      })
    )
  }

  it("reads pytest's summary and its verbose lines", () => {
    const output = [
      "tests/test_a.py::test_one PASSED                                         [ 50%]",
      "tests/test_a.py::test_two[a b] FAILED                                    [100%]",
      "=========================== short test summary info ============================",
      "PASSED tests/test_a.py::test_one",
      "FAILED tests/test_a.py::test_two[a b] - AssertionError: assert 1 == 2",
      "ERROR tests/test_b.py::test_three - fixture 'x' not found",
      "SKIPPED [1] tests/test_c.py:3: no network"
    ].join("\n")
    assert.deepStrictEqual(of(output), {
      "tests/test_a.py::test_one": "passed",
      "tests/test_a.py::test_two[a b]": "failed",
      "tests/test_b.py::test_three": "failed"
    })
  })

  it("reads unittest, go and cargo", () => {
    assert.deepStrictEqual(of("test_a (tests.T.test_a) ... ok\ntest_b (tests.T.test_b) ... FAIL"), {
      "test_a (tests.T.test_a)": "passed",
      "test_b (tests.T.test_b)": "failed"
    })
    assert.deepStrictEqual(
      of("--- PASS: TestA (0.00s)\n    --- FAIL: TestA/case_1 (0.00s)\nok  \texample.com/x\t0.1s"),
      { TestA: "passed", "TestA/case_1": "failed", "example.com/x\t0.1s": "passed" }
    )
    assert.deepStrictEqual(of("test mod::a ... ok\ntest mod::b ... FAILED\ntest result: FAILED. 1 passed"), {
      "mod::a": "passed",
      "mod::b": "failed"
    })
  })

  it("reads jest's and vitest's marks, in colours", () => {
    const escape = String.fromCharCode(27)
    assert.deepStrictEqual(
      of(`  ${escape}[32m✓${escape}[0m adds (3 ms)\n  ${escape}[31m✕${escape}[0m divides\n × a.test.ts > late 12ms`),
      { adds: "passed", divides: "failed", "a.test.ts > late": "failed" }
    )
  })

  it("of two results of one name the failed one counts", () => {
    assert.deepStrictEqual(of("not ok 1 - a\nok 2 - a"), { a: "failed" })
  })

  it("a task is resolved when all named tests pass; one that does not appear has not passed", () => {
    const tests = TestReport.read("ok 1 - a\nok 2 - b\nnot ok 3 - c")
    const score = (failToPass: ReadonlyArray<string>, passToPass: ReadonlyArray<string>, exitCode?: number) =>
      TestReport.score({ tests, exitCode }, { failToPass, passToPass })
    assert.isTrue(score(["a"], ["b"], 1).resolved)
    assert.deepStrictEqual(score(["a", "x"], ["b"], 0), {
      resolved: false,
      failToPass: { passed: 1, total: 2, missing: ["x"] },
      passToPass: { passed: 1, total: 1, missing: [] }
    })
    assert.isFalse(score(["a"], ["c"], 0).resolved)
  })

  it("a task without names is decided by the exit code; a command that was stopped has none", () => {
    const none = { failToPass: [], passToPass: [] }
    assert.isTrue(TestReport.score({ tests: new Map(), exitCode: 0 }, none).resolved)
    assert.isFalse(TestReport.score({ tests: new Map(), exitCode: 3 }, none).resolved)
    assert.isFalse(TestReport.score({ tests: new Map(), exitCode: undefined }, none).resolved)
    assert.isFalse(TestReport.makeUnresolvedScore(none).resolved)
  })
})
