// Before the tests of this folder: their packages, unless they are there already.
import { spawnSync } from "node:child_process"
import { existsSync } from "node:fs"
import { delimiter, dirname, join } from "node:path"

const folder = import.meta.dirname

export default function install(): void {
  if (existsSync(join(folder, "node_modules/ai"))) return
  // npm runs on the first Node of the path.
  const path = [dirname(process.execPath), process.env["PATH"] ?? ""].join(delimiter)
  const { error, status, stderr } = spawnSync("npm", ["ci", "--prefix", folder, "--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund"], {
    env: { ...process.env, PATH: path },
    encoding: "utf8"
  })
  if (status !== 0) throw new Error(`npm ci --prefix ${folder} failed: ${error?.message ?? stderr}`)
}
