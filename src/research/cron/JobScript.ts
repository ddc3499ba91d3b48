/**
 * Runs the script of a job in a separate process without credentials, and ends all processes that it started.
 *
 * **Details**
 *
 * The file extension selects the interpreter: `python3` for `.py`, `node` for `.js`, `.mjs`, `.cjs`, `.ts` and `.mts`,
 * and a shell for all other files.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import * as Ids from "../../base/domain/Ids.ts"
import { nodePath } from "../../base/platform/CurrentProcess.ts"
import { ProcessEnvironment } from "../../base/platform/ProcessVariables.ts"
import * as TrustedPrograms from "../../base/platform/TrustedPrograms.ts"
import { redactText } from "../../base/domain/Redaction.ts"
import * as OutputText from "../../tools/builtin/terminal/OutputText.ts"
import * as Shell from "../../tools/builtin/terminal/Shell.ts"

/** Maximum number of characters retained from the script's output. */
const outputChars = 50_000
const errorChars = 2_000
/**
 * Number of bytes retained from the end of stderr. Its first line is omitted, because it may contain the end of a
 * secret.
 */
const errorBytes = 16_384

/** Error raised when the script produced no result. */
class ScriptFailed extends Schema.TaggedError<ScriptFailed>("hermes-effect/runner/ScriptFailed")("ScriptFailed", {
  message: Schema.String
}) {}

const programs: Readonly<Record<string, string>> = {
  ".py": "python3",
  ".js": nodePath,
  ".mjs": nodePath,
  ".cjs": nodePath,
  ".ts": nodePath,
  ".mts": nodePath
}

const quoteForShell = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

/**
 * Builds the command that runs a script. Stdout of the script is passed through. The end of stderr, which may be
 * endless too, is written to the file `errors`, and the exit code to the file `code`.
 */
const buildCommand = (path: string, extension: string, errors: string, code: string): string => {
  const program = quoteForShell(programs[extension.toLowerCase()] ?? "bash")
  return (
    `{ { ${program} ${quoteForShell(path)} 3>&- 4>&-; echo $? >&4; ` +
    `} 2>&1 1>&3 | tail -c ${errorBytes} > ${quoteForShell(errors)}; } 3>&1 4> ${quoteForShell(code)}`
  )
}

/** Runs the script, and returns its output. */
export const run = Effect.fnUntraced(
  function* (path: string, cwd: string | undefined, timeoutSeconds: number) {
    const fs = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    const shell = yield* Shell.make
    const directory = yield* fs.makeTempDirectoryScoped({ prefix: "hermes-cron-" })
    const [errors, code] = [paths.join(directory, "stderr"), paths.join(directory, "code")]
    const buffer = OutputText.makeBuffer(outputChars)
    const running = yield* shell
      .start({
        command: buildCommand(path, paths.extname(path), errors, code),
        cwd: cwd ?? paths.dirname(path),
        stdin: "ignore",
        mark: yield* Ids.makeHex(12),
        onOutput: (chunks) => Effect.sync(() => chunks.forEach(buffer.push))
      })
      .pipe(
        // The interpreter and its child processes run with the user's rights. They must not find programs that an
        // earlier command may have placed in the working tree.
        Effect.provideService(ProcessEnvironment, yield* TrustedPrograms.safeEnvironment)
      )
    yield* Effect.timeoutOrElse(running.exit, {
      duration: Duration.seconds(timeoutSeconds),
      orElse: () => new ScriptFailed({ message: `the script was ended after ${timeoutSeconds} s` })
    })
    // The output is shown, stored, and sent to a model.
    const output = redactText(OutputText.renderBounded(buffer.kept(), outputChars, true)).trim()
    const exitCode = (yield* fs.readFileString(code)).trim()
    if (exitCode === "0") return output
    const tail = yield* fs.readFile(errors)
    const kept = { head: new Uint8Array(0), omitted: tail.length < errorBytes ? 0 : 1, tail }
    const said = OutputText.renderEnd(kept, errorChars, { redact: true, goesOn: false }).trim()
    return yield* new ScriptFailed({
      message: `the script ended with exit code ${exitCode}${said === "" ? "" : `: ${said}`}`
    })
  },
  Effect.scoped,
  Effect.catchTag(["NotStarted", "PlatformError"], ({ message }) => Effect.fail(new ScriptFailed({ message })))
)
