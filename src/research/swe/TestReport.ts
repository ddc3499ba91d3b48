/**
 * Reads the results of individual tests from the output of a test program, and computes the score of a task from them.
 *
 * **Details**
 *
 * Supported formats are TAP (`node --test --test-reporter=tap`), marks before names (`✔`, `✓`, `✖`, `×`: the reporters
 * of node, jest, vitest and mocha), pytest (`-rA` and `-v`), unittest (`-v`), `go test -v` and `cargo test`. Each line
 * is read in the first format that matches, so the test program need not be specified.
 *
 * A task is resolved when every test of `FAIL_TO_PASS` passes (the problem is solved) and every test of `PASS_TO_PASS`
 * still passes (nothing else was broken). If a task names no tests, the exit code of the command decides. A named test
 * that does not appear in the output counts as not passed.
 *
 * **Example** (One test fixed, another one broken)
 *
 * ```ts
 * import { TestReport } from "hermes-effect/swe"
 *
 * const tests = TestReport.read("ok 1 - adds\nnot ok 2 - divides\n")
 * const score = TestReport.score({ tests, exitCode: 1 }, { failToPass: ["adds"], passToPass: ["divides"] })
 *
 * console.log(score.resolved, score.failToPass.passed, score.passToPass.missing)
 * // => false 1 [ 'divides' ]
 * ```
 */

/** Outcome of one test. */
export type Outcome = "passed" | "failed" | "skipped"

/** Outcomes of a run's tests, by test name. */
export type Tests = ReadonlyMap<string, Outcome>

/** Tests that a task names, with their expected outcomes. */
export interface Expected {
  /** Tests that fail before the problem is solved and pass afterwards. */
  readonly failToPass: ReadonlyArray<string>
  /** Tests that pass before and after the problem is solved. */
  readonly passToPass: ReadonlyArray<string>
}

/** Result for one of the two lists of tests. */
export interface Part {
  readonly passed: number
  readonly total: number
  /** Names of the tests that did not pass. */
  readonly missing: ReadonlyArray<string>
}

/** Score of a task, computed only from test results. */
export interface Score {
  readonly resolved: boolean
  readonly failToPass: Part
  readonly passToPass: Part
}

const escapes = new RegExp(`${String.fromCharCode(27)}\\[[0-9;]*[A-Za-z]`, "g")

const outcomes: Readonly<Record<string, Outcome>> = {
  ok: "passed",
  pass: "passed",
  passed: "passed",
  xpass: "passed",
  "✔": "passed",
  "✓": "passed",
  "√": "passed",
  "not ok": "failed",
  fail: "failed",
  failed: "failed",
  error: "failed",
  "✖": "failed",
  "✗": "failed",
  "×": "failed",
  "✕": "failed",
  skip: "skipped",
  skipped: "skipped",
  ignored: "skipped",
  xfail: "skipped",
  xfailed: "skipped",
  "﹣": "skipped",
  "↓": "skipped",
  "○": "skipped"
}

/**
 * A line with a test result: the outcome, the name, and the indentation, which shows how deeply the test is nested in
 * suites.
 */
interface Line {
  readonly outcome: string
  readonly name: string
  readonly indent?: number
}

const words = "PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS"

const forms: ReadonlyArray<(line: string) => Line | undefined> = [
  (line) => {
    const [, space = "", outcome, name = ""] = /^(\s*)(ok|not ok)\b(?:\s+\d+)?\s*(?:-\s*)?(.*)$/.exec(line) ?? []
    if (outcome === undefined) return undefined
    const [, own = name, directive] = /^(.*?)\s+#\s*(SKIP|TODO)\b.*$/i.exec(name) ?? []
    return { outcome: directive === undefined ? outcome : "skip", name: own, indent: space.length }
  },
  (line) => {
    const [, space = "", outcome, name = ""] =
      /^(\s*)([✔✓√✖✗×✕﹣↓○])\s+(.+?)(?:\s+\(?[\d.]+\s?m?s\)?)?(?:\s+# SKIP.*)?$/u.exec(line) ?? []
    return outcome === undefined ? undefined : { outcome, name, indent: space.length }
  },
  (line) => {
    const [, outcome, name = ""] = new RegExp(`^(${words}) (\\S+::.+?|\\S+\\.py)(?: - .*)?$`).exec(line) ?? []
    return outcome === undefined ? undefined : { outcome, name }
  },
  (line) => {
    const [, name = "", outcome] =
      new RegExp(`^(\\S+::.+?) (${words})(?:\\s+\\(.*\\))?(?:\\s+\\[\\s*\\d+%\\])?$`).exec(line) ?? []
    return outcome === undefined ? undefined : { outcome, name }
  },
  (line) => {
    const [, outcome, name = ""] = /^\s*--- (PASS|FAIL|SKIP): (\S+)/.exec(line) ?? []
    return outcome === undefined ? undefined : { outcome, name }
  },
  (line) => {
    const [, name = "", outcome] = /^test (.+?) \.\.\. (ok|FAILED|ignored)\b/.exec(line) ?? []
    return outcome === undefined ? undefined : { outcome, name }
  },
  (line) => {
    const [, name = "", outcome] = /^(\w+ \([\w.]+\)).* \.\.\. (ok|FAIL|ERROR|skipped)\b/.exec(line) ?? []
    return outcome === undefined ? undefined : { outcome, name }
  }
]

const parseLine = (line: string): Line | undefined => {
  for (const form of forms) {
    const found = form(line)
    if (found !== undefined && found.name !== "") return found
  }
  return undefined
}

const suite = /^(\s*)(?:# Subtest: (.+)|▶ (.+?)(?: \([\d.]+ms\))?)$/

/**
 * Reads the test results in the output of a test program. A test in a suite is stored under its own name and under its
 * full name, in which ` > ` separates the suite names. If a name has two results, the failed one counts.
 */
export const read = (output: string): Tests => {
  const tests = new Map<string, Outcome>()
  const recordOutcome = (name: string, outcome: Outcome): void => {
    if (tests.get(name) !== "failed") tests.set(name, outcome)
  }
  /** Open suites, with their indentation. */
  let suites: ReadonlyArray<{ readonly indent: number; readonly name: string }> = []
  for (const raw of output.replace(escapes, "").split("\n")) {
    const line = raw.trimEnd()
    const [, space = "", subtest, group] = suite.exec(line) ?? []
    const opened = subtest ?? group
    if (opened !== undefined) {
      suites = [...suites.filter(({ indent }) => indent < space.length), { indent: space.length, name: opened }]
      continue
    }
    const found = parseLine(line)
    const outcome = outcomes[found?.outcome.toLowerCase() ?? ""]
    if (found === undefined || outcome === undefined) continue
    const { indent, name } = found
    recordOutcome(name, outcome)
    const above = indent === undefined ? [] : suites.filter((suite) => suite.indent < indent)
    if (above.length > 0) recordOutcome([...above.map((suite) => suite.name), name].join(" > "), outcome)
  }
  return tests
}

const toPart = (names: ReadonlyArray<string>, tests: Tests): Part => {
  const missing = names.filter((name) => tests.get(name) !== "passed")
  return { passed: names.length - missing.length, total: names.length, missing }
}

/** Scores the result of an evaluation command. `exitCode` is `undefined` if the command was stopped. */
export const score = (
  { exitCode, tests }: { readonly tests: Tests; readonly exitCode: number | undefined },
  expected: Expected
): Score => {
  const [failToPass, passToPass] = [toPart(expected.failToPass, tests), toPart(expected.passToPass, tests)]
  const isNamed = failToPass.total + passToPass.total > 0
  const resolved = isNamed ? failToPass.missing.length === 0 && passToPass.missing.length === 0 : exitCode === 0
  return { resolved, failToPass, passToPass }
}

/** Makes the score of a task that could not be evaluated. */
export const makeUnresolvedScore = (expected: Expected): Score => ({
  ...score({ tests: new Map(), exitCode: undefined }, expected),
  resolved: false
})
