// Every test file has its own HERMES_HOME, and no test may touch the user's own ~/.hermes.
import { mkdtempSync, rmSync, statSync } from "node:fs"
import { homedir, tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect } from "vitest"

const stamp = (path: string): number | undefined => statSync(path, { throwIfNoEntry: false })?.mtimeMs

const userHome = join(homedir(), ".hermes")
const before = stamp(userHome)
const home = mkdtempSync(join(tmpdir(), "hermes-test-"))
process.env["HERMES_HOME"] = home

afterAll(() => {
  rmSync(home, { recursive: true, force: true })
  expect(stamp(userHome), "a test touched ~/.hermes").toBe(before)
})
