// The library reads a configuration of the user's: there is none here. And without the library there is nothing to
// test.
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll } from "vitest"
import { folder, isInstalled } from "./library.ts"

if (!isInstalled())
  throw new Error(`NeMo Relay's library is not installed for these tests: npm ci --prefix ${folder} (under Node 24)`)

const home = mkdtempSync(join(tmpdir(), "hermes-relay-config-"))
process.env["XDG_CONFIG_HOME"] = home

afterAll(() => rmSync(home, { recursive: true, force: true }))
