// Before the tests of this folder: their package, unless it is there already. A failure is theirs alone, see setup.ts.
import { spawnSync } from "node:child_process"
import { delimiter, dirname } from "node:path"
import { folder, isInstalled } from "./library.ts"

export default function install(): void {
  if (isInstalled()) return
  // npm runs on the first Node of the path, and skips binaries that this one is too old for.
  const path = [dirname(process.execPath), process.env["PATH"] ?? ""].join(delimiter)
  const { error, status, stderr } = spawnSync(
    "npm",
    ["ci", "--prefix", folder, "--prefer-offline", "--no-audit", "--no-fund"],
    { env: { ...process.env, PATH: path }, encoding: "utf8" }
  )
  if (status !== 0) process.stderr.write(`npm ci --prefix ${folder} failed: ${error?.message ?? stderr}\n`)
}
