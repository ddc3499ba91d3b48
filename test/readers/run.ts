// Programs that others wrote for streams and trajectories, over every scenario of the relay tests: npm run test:readers.
// Their packages are installed into an environment in a temporary directory. Without Python, pip or a registry that has
// them, the script says so and ends well. HERMES_TEST_READERS_PYTHON names a Python that has them already.
import { spawnSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("../..", import.meta.url))
const here = (name: string): string => fileURLToPath(new URL(name, import.meta.url))

/** Runs a program, and returns its exit code and the last line that it wrote. */
const run = (
  program: string,
  args: ReadonlyArray<string>,
  more: { readonly env?: Record<string, string>; readonly shown?: true } = {}
): { readonly code: number; readonly line: string } => {
  const { error, status, stderr, stdout } = spawnSync(program, args, {
    cwd: root,
    encoding: "utf8",
    stdio: more.shown === true ? "inherit" : "pipe",
    env: { ...process.env, ...more.env }
  })
  const lines = `${stdout ?? ""}\n${stderr ?? ""}`.trim().split("\n")
  return { code: error === undefined ? (status ?? 1) : 1, line: error?.message ?? lines.at(-1) ?? "" }
}

/** A Python that has the readers, or the reason why there is none. */
const findPython = (directory: string): { readonly python: string } | { readonly reason: string } => {
  const given = process.env["HERMES_TEST_READERS_PYTHON"]
  if (given !== undefined) return { python: given }
  const made = run("python3", ["-m", "venv", join(directory, "python")])
  if (made.code !== 0) return { reason: `Python 3 with venv is needed: ${made.line}` }
  const python = join(directory, "python", "bin", "python")
  const installed = run(python, ["-m", "pip", "install", "--quiet", "--retries", "1", "-r", here("requirements.txt")])
  if (installed.code === 0) return { python }
  const wanted = readFileSync(here("requirements.txt"), "utf8").trim().replaceAll("\n", ", ")
  return { reason: `pip could not install ${wanted}: ${installed.line}` }
}

const directory = mkdtempSync(join(tmpdir(), "hermes-readers-"))
try {
  const found = findPython(directory)
  if ("reason" in found) process.stdout.write(`test:readers: skipped: ${found.reason}\n`)
  else {
    const written = join(directory, "written")
    const vitest = ["vitest", "run", "--config", "test/vitest.config.ts", "--project", "relay", "test/relay/protocols"]
    const { code } = run("npx", vitest, { env: { HERMES_TEST_READERS: written }, shown: true })
    process.exitCode = code === 0 ? run(found.python, [here("readers.py"), written], { shown: true }).code : code
  }
} finally {
  rmSync(directory, { recursive: true, force: true })
}
