// Checks without running anything, side by side: `types` (types and the errors of Effect's own diagnostics, in one
// pass), `page` (types of the pages' scripts), `lint` and `format` (`npm run format` mends it). Arguments: which of
// them; `npm test` asks for all.
import { execFile, execFileSync } from "node:child_process"
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import { buildPages } from "./page.ts"
import { root } from "./support/sources.ts"

const require = createRequire(import.meta.url)

/** The program of a package, as its package.json names it. */
const programOf = (packageName: string, name: string): string => {
  const path = require.resolve(`${packageName}/package.json`)
  const { bin } = require(path) as { readonly bin: Readonly<Record<string, string>> }
  return join(dirname(path), bin[name] ?? "")
}

interface Outcome {
  readonly code: number
  readonly output: string
}

const run = (command: string, args: ReadonlyArray<string>): Promise<Outcome> =>
  new Promise((resolve) => {
    execFile(command, args, { cwd: root, maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : 1, output: (stdout + stderr).trim() })
    )
  })

/** What the schema of Effect's settings says of a rule. */
interface Rule {
  readonly default: "error" | "warning" | "suggestion" | "off"
}

/**
 * The settings of the project without the rules whose findings are remarks for an editor: to look for them takes a
 * third of the time.
 */
const settingsForErrors = (): string => {
  const schema = readFileSync(join(dirname(require.resolve("@effect/tsgo/package.json")), "schema.json"), "utf8")
  // The schema of the installed release, whose names are fixed by its package-lock entry.
  const { definitions } = JSON.parse(schema) as {
    readonly definitions: {
      readonly effectLanguageServicePluginDiagnosticSeverityDefinition: {
        readonly properties: Readonly<Record<string, Rule>>
      }
    }
  }
  const rules = Object.entries(definitions.effectLanguageServicePluginDiagnosticSeverityDefinition.properties)
  const diagnosticSeverity = Object.fromEntries(
    rules.filter(([, rule]) => rule.default !== "error").map(([name]) => [name, "off"])
  )
  const path = join(root, "node_modules/.cache/tsconfig.errors.json")
  mkdirSync(dirname(path), { recursive: true })
  const plugins = [{ name: "@effect/language-service", diagnosticSeverity }]
  writeFileSync(path, JSON.stringify({ extends: join(root, "tsconfig.json"), compilerOptions: { plugins } }))
  return path
}

/** TypeScript with Effect's diagnostics. Only its errors count. */
const types = async (): Promise<Outcome> => {
  const compiler = execFileSync(process.execPath, [programOf("@effect/tsgo", "effect-tsgo"), "get-exe-path"], {
    encoding: "utf8"
  }).trim()
  const { code, output } = await run(compiler, ["-p", settingsForErrors(), "--pretty", "false"])
  // A diagnostic begins at the start of a line; what belongs to it is indented.
  const diagnostics = output.split(/\n(?=\S)/)
  const remarks = diagnostics.filter((text) => /^\S+\(\d+,\d+\): (?:warning|suggestion|message) TS\d+: /.test(text))
  const errors = diagnostics.filter((text) => text !== "" && !remarks.includes(text))
  return { code: errors.length > 0 || (code !== 0 && remarks.length === 0) ? 1 : 0, output: errors.join("\n") }
}

const checks: Readonly<Record<string, () => Promise<Outcome>>> = {
  types,
  page: () =>
    run(process.execPath, [programOf("typescript", "tsc"), "-p", "test/tsconfig.page.json", "--pretty", "false"]),
  lint: () =>
    run(process.execPath, [
      programOf("oxlint", "oxlint"),
      "-c",
      "test/oxlint.json",
      "--deny-warnings",
      "src",
      "test",
      "scratchpad"
    ]),
  format: () =>
    run(process.execPath, [
      programOf("oxfmt", "oxfmt"),
      "-c",
      "test/oxfmt.json",
      "--check",
      ...["src", "test", "scratchpad"].map((folder) => `${folder}/**/*.ts`)
    ])
}

// Types of the pages' modules are built.
await buildPages()

const outcomes = await Promise.all(
  process.argv.slice(2).map(async (name) => {
    const check = checks[name]
    if (check === undefined) throw new Error(`no check ${name}: give ${Object.keys(checks).join(", ")}`)
    return { name, ...(await check()) }
  })
)

for (const { code, name, output } of outcomes) {
  if (code !== 0) process.stdout.write(`${name} failed:\n${output}\n\n`)
}
process.exitCode = outcomes.some(({ code }) => code !== 0) ? 1 : 0
