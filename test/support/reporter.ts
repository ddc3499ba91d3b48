import type { Reporter, TestModule } from "vitest/node"

/**
 * Closes the run with one plain line, `N passed, N failed`, that any reader of the output understands. Tests that
 * passed only when they were run again are named before it.
 */
export default class SummaryReporter implements Reporter {
  onTestRunEnd(modules: ReadonlyArray<TestModule>, errors: ReadonlyArray<unknown>): void {
    let passed = 0
    let failed = errors.length
    let skipped = 0
    for (const module of modules) {
      if (module.errors().length > 0) failed++
      for (const test of module.children.allTests()) {
        const state = test.result().state
        if (test.diagnostic()?.flaky === true)
          process.stdout.write(`\nfailed once, passed when it was run again: ${test.fullName}\n`)
        if (state === "passed") passed++
        else if (state === "failed") failed++
        else skipped++
      }
    }
    process.stdout.write(`\n${passed} passed, ${failed} failed${skipped === 0 ? "" : `, ${skipped} skipped`}\n`)
  }
}
