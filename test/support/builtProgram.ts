/**
 * The program and the scripts of this folder that start it, bundled: a started one takes half the time of the sources.
 * The bundle is made when the first test of a state of the sources asks for it. `HERMES_TEST_SOURCES=1` starts the
 * sources instead.
 */
import { execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { root } from "./sources.ts"

/** The program as its sources. */
export const programFromSources = join(root, "src/bin.js")

const scripts = [
  "clusterWorker",
  "exitingParent",
  "fileWriter",
  "killedRun",
  "leaseHolder",
  "sessionCrash",
  "sessionWriter",
  "suspendedRun",
  "tenantWorker"
]
const cache = join(root, "node_modules/.cache/program")
/** The directory of compiled code of started programs. */
export const codeCache = join(root, "node_modules/.cache/node-compile")

const filesBelow = (folder: string): ReadonlyArray<string> =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => /\.(?:ts|js)$/.test(name))
    .toSorted()
    .map((name) => join(folder, name))

const stateOfSources = (): string => {
  const hash = createHash("sha256")
  for (const path of [
    join(root, "package-lock.json"),
    join(root, "test/program.ts"),
    ...filesBelow(join(root, "test/support")),
    ...filesBelow(join(root, "src"))
  ]) {
    hash.update(path).update(readFileSync(path))
  }
  return hash.digest("hex").slice(0, 16)
}

let directory: string | undefined

const directoryOfBundle = (): string => {
  if (directory !== undefined) return directory
  const state = stateOfSources()
  const found = join(cache, state)
  if (!existsSync(found)) {
    mkdirSync(cache, { recursive: true })
    // One process makes it, others wait; the lock ends with its process.
    const lock = new DatabaseSync(`${cache}.lock`, { timeout: 3_600_000 })
    try {
      lock.exec("BEGIN EXCLUSIVE")
      if (!existsSync(found)) {
        for (const name of readdirSync(cache)) {
          // A newer one may be at work in another run.
          if (statSync(join(cache, name)).mtimeMs < Date.now() - 3_600_000)
            rmSync(join(cache, name), { recursive: true, force: true })
        }
        // As in the package: Node need not look into each file for what it is.
        writeFileSync(join(cache, "package.json"), JSON.stringify({ type: "module" }))
        execFileSync(process.execPath, [join(root, "test/program.ts"), found, ...scripts], {
          stdio: ["ignore", "ignore", "inherit"]
        })
      }
    } finally {
      lock.close()
    }
  }
  return (directory = found)
}

const fromSources = process.env["HERMES_TEST_SOURCES"] === "1"

/** The module that starts the program. */
export const program = fromSources ? programFromSources : join(directoryOfBundle(), "main.js")

/** The module that runs a script of this folder. */
export const scriptOf = (file: string): string => {
  const name = file.replace(/\.ts$/, "")
  return !fromSources && scripts.includes(name)
    ? join(directoryOfBundle(), `${name}.js`)
    : join(root, "test/support", file)
}
