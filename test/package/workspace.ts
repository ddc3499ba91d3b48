// The folder in which the packed package is installed and used, and the rows that are reported.
import { execFileSync } from "node:child_process"
import { mkdirSync, mkdtempSync, readdirSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { root } from "../support/sources.ts"

/** A temporary folder outside of the checkout; the caller removes it. */
export const folder = mkdtempSync(join(tmpdir(), "hermes-package-"))

/** Runs a program and returns its output. */
export const run = (command: string, args: ReadonlyArray<string>, cwd: string): string =>
  execFileSync(command, args, {
    cwd,
    encoding: "utf8",
    env: { ...process.env, HERMES_HOME: join(folder, "home"), NEXT_TELEMETRY_DISABLED: "1" },
    maxBuffer: 64 * 1024 * 1024,
    stdio: ["ignore", "pipe", "inherit"]
  })

/** Runs a script of Node and returns its output. */
export const runNode = (args: ReadonlyArray<string>, cwd: string): string => run(process.execPath, args, cwd)

let passed = 0

/** Number of checks that held. */
export const countPassed = (): number => passed

/** Reports a check; throws if the condition does not hold. */
export const holds = (what: string, condition: boolean, found: string): void => {
  if (!condition) throw new Error(`${what}: ${found}`)
  passed++
  process.stdout.write(`ok ${what}${found === "" ? "" : ` (${found})`}\n`)
}

/** Compares a text with the expected one. */
export const expect = (what: string, actual: string, wanted: string): void => {
  if (actual !== wanted) throw new Error(`${what}: expected ${JSON.stringify(wanted)}, got ${JSON.stringify(actual)}`)
  holds(what, true, "")
}

let packed: string | undefined

/** Returns the packed package: of `HERMES_PACKAGE`, or a new one. */
export const pack = (): string => {
  if (packed !== undefined) return packed
  const given = process.env["HERMES_PACKAGE"]
  if (given === undefined) run("npm", ["pack", "--silent", "--pack-destination", folder], root)
  const [name = ""] = readdirSync(folder).filter((file) => file.endsWith(".tgz"))
  return (packed = given ?? join(folder, name))
}

/** A folder in which the package is installed. */
export interface Workspace {
  readonly path: string
  readonly modules: string
  /** Writes a file and returns its path. */
  readonly write: (name: string, text: string) => string
  /** Installs packages beside those that are installed. */
  readonly install: (...packages: ReadonlyArray<string>) => void
}

/** Makes a folder of an application that has no packages. */
export const makeFolder = (name: string): Workspace => {
  const path = join(folder, name)
  mkdirSync(path, { recursive: true })
  const write = (file: string, text: string): string => {
    const target = join(path, file)
    mkdirSync(dirname(target), { recursive: true })
    writeFileSync(target, text)
    return target
  }
  const install = (...names: ReadonlyArray<string>): void =>
    void run("npm", ["install", "--silent", "--force", "--no-audit", "--no-fund", ...names], path)
  write("package.json", JSON.stringify({ name: "empty", private: true, type: "module" }))
  return { path, modules: join(path, "node_modules"), write, install }
}

/** Makes a folder and installs the package and others in it. */
export const makeWorkspace = (name: string, packages: ReadonlyArray<string>): Workspace => {
  const workspace = makeFolder(name)
  workspace.install(pack(), ...packages)
  return workspace
}

/** Releases of packages with which the rows are run. */
export const releases = {
  esbuild: "esbuild@0.28.2",
  openai: "openai@7.57.0",
  typescripts: ["5.9.3", "6.0.3", "7.0.2"]
} as const
