/**
 * Amount of generated cases. `npm test` tries a quarter of those that a test names; `HERMES_TEST_RUNS` is another
 * factor (`npm run test:generated`: 1), and adds seeds that no run had before.
 */
const named = process.env["HERMES_TEST_RUNS"]
const factor = Number(named ?? 0.25)

/** True in long runs. Only they try new seeds: a change is not to blame for what those find. */
export const isLong = named !== undefined || process.env["HERMES_FUZZ_RUNS"] !== undefined

/** Number of cases to try, of a number that is tried at length. */
export const scaleRuns = (runs: number): number => Math.ceil(runs * factor)
