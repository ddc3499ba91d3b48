// Packages of a folder of tests with a package of its own: installed before its tests, unless they are there already.
import { spawnSync } from "node:child_process"
import { existsSync, readFileSync } from "node:fs"
import { delimiter, dirname, join } from "node:path"

/** Installs the packages of the lock of a folder. */
export const installPackages = (folder: string): void => {
  const { dependencies }: { readonly dependencies: Readonly<Record<string, string>> } = JSON.parse(
    readFileSync(join(folder, "package.json"), "utf8")
  )
  if (Object.keys(dependencies).every((name) => existsSync(join(folder, "node_modules", name)))) return
  // npm runs on the first Node of the path.
  const path = [dirname(process.execPath), process.env["PATH"] ?? ""].join(delimiter)
  const { error, status, stderr } = spawnSync(
    "npm",
    ["ci", "--prefix", folder, "--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund"],
    { env: { ...process.env, PATH: path }, encoding: "utf8" }
  )
  if (status !== 0) throw new Error(`npm ci --prefix ${folder} failed: ${error?.message ?? stderr}`)
}
