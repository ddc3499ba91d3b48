/**
 * True for what a `TestClock` logs if a test waits for it in real time, which happens in any test on a slow machine. It
 * is not a line of the code under test.
 */
export const isClockWarning = (message: unknown): boolean =>
  /^A (?:test is using time, but is not advancing|fiber woken by the test clock is still running)/.test(
    Array.isArray(message) ? String(message[0]) : String(message)
  )
