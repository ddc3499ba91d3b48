/**
 * Checks the types of a plugin's files against the declarations of this program. Runs none of the plugin's code.
 *
 * **Details**
 *
 * The compiler is the nearest package `typescript` or `@typescript/native-preview`: of the plugin, or of the
 * installation of this program. Its settings equal the settings of a new plugin (`PluginTemplate`), whatever a
 * `tsconfig.json` of the plugin says, so that the plugin is checked against the declarations of this program.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import { nodePath } from "../../base/platform/CurrentProcess.ts"
import { findTypeCompiler } from "../../base/platform/PluginModules.ts"
import * as TrustedPrograms from "../../base/platform/TrustedPrograms.ts"
import type { Finding } from "./PluginFindings.ts"
import { makeTypeSettings } from "./PluginTemplate.ts"

/** Time limit of the compiler. */
const deadline = Duration.minutes(3)

/** Outcome of a check. */
export interface TypeCheck {
  /** Compiler that checked the types; `undefined` if they were not checked. */
  readonly compiler: string | undefined
  readonly findings: ReadonlyArray<Finding>
}

const runCompiler = (program: string, settings: string) =>
  Effect.gen(function* () {
    const spawner = yield* ChildProcessSpawner
    const handle = yield* spawner.spawn(
      ChildProcess.make(nodePath, [program, "-p", settings, "--pretty", "false"], {
        env: { PATH: yield* TrustedPrograms.safePath },
        stdin: "ignore",
        forceKillAfter: "1 second"
      })
    )
    const [stdout, stderr] = yield* Effect.all(
      [Stream.mkString(Stream.decodeText(handle.stdout)), Stream.mkString(Stream.decodeText(handle.stderr))],
      { concurrency: 2 }
    )
    return { code: yield* handle.exitCode, output: `${stdout}${stderr}` }
  }).pipe(Effect.scoped, Effect.timeoutOption(deadline))

const diagnostic = /^(.+?)\((\d+),(\d+)\): error (TS\d+: .*)$/

/** Parses the output of a compiler. Indented lines continue the message of the line above. */
const parseDiagnostics = (output: string, resolve: (file: string) => string): ReadonlyArray<Finding> => {
  const findings: Array<Finding> = []
  for (const line of output.split(/\r?\n/)) {
    const [, file, row, , message] = diagnostic.exec(line) ?? []
    const last = findings.at(-1)
    if (file !== undefined && message !== undefined)
      findings.push({ severity: "error", file: resolve(file), line: Number(row), message })
    else if (last !== undefined && /^\s+\S/.test(line))
      findings[findings.length - 1] = { ...last, message: `${last.message} ${line.trim()}` }
  }
  return findings
}

const makeUnchecked = (module: string, message: string): TypeCheck => ({
  compiler: undefined,
  findings: [{ severity: "warning", file: module, line: 1, message: `types were not checked: ${message}` }]
})

const listFolders = [".", "..", "../.."]

/** Checks the types of the files in a plugin's directory. `module` is its main file. Paths must be real paths. */
export const checkTypes = Effect.fn("TypeCheck.checkTypes")(function* (
  directory: string,
  module: string
): Effect.fn.Return<TypeCheck, PlatformError, FileSystem.FileSystem | Path.Path | ChildProcessSpawner | Scope.Scope> {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const compiler = findTypeCompiler(directory)
  if (compiler === undefined) {
    return makeUnchecked(module, `no TypeScript here: run \`npm install --no-save typescript\` in ${directory}`)
  }
  const temporary = yield* fs.realPath(yield* fs.makeTempDirectoryScoped({ prefix: "hermes-types-" }))
  const settings = paths.join(temporary, "tsconfig.json")
  const isPlain = /\.[cm]?js$/.test(module)
  yield* fs.writeFileString(
    settings,
    makeTypeSettings({
      // The parameters of plain functions have no types unless the author names them in comments.
      compilerOptions: isPlain ? { noImplicitAny: false } : {},
      include: ["ts", "mts", "cts", "js", "mjs", "cjs"].map((end) => `${directory}/**/*.${end}`),
      exclude: [`${directory}/**/node_modules`]
    })
  )
  const outcome = yield* Effect.option(runCompiler(compiler.program, settings))
  const ended = Option.getOrUndefined(Option.flatten(outcome))
  if (ended === undefined)
    return makeUnchecked(module, `${compiler.name} did not end within ${Duration.format(deadline)}`)
  // The compiler prints paths relative to its working directory, or to the folder of its settings.
  const resolveFile = (file: string): string =>
    [...listFolders.map((up) => paths.resolve(up, file)), paths.resolve(temporary, file)].find((path) =>
      path.startsWith(directory + paths.sep)
    ) ?? file
  const all = parseDiagnostics(ended.output, resolveFile)
  const findings = all.filter(({ file }) => file.startsWith(directory + paths.sep))
  if (ended.code !== 0 && all.length === 0) {
    const [line = `exit code ${ended.code}`] = ended.output.trim().split("\n")
    return makeUnchecked(module, `${compiler.name}: ${line}`)
  }
  return { compiler: compiler.name, findings }
})
