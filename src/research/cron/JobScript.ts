/**
 * Runs the script of a job: in a process of its own, without credentials, and with everything that it started gone
 * after it.
 *
 * **Details**
 *
 * The ending decides what runs it: `.py` is for `python3`, `.js`, `.mjs`, `.cjs`, `.ts` and `.mts` are for `node`,
 * everything else is for a shell.
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

/** Characters of its output that are kept. */
const outputChars = 50_000
const errorChars = 2_000
/** Bytes of stderr that are kept: its beginning may be the end of a secret, and is left out. */
const errorBytes = 16_384

/** The script gave no result. */
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
 * Its stdout stays stdout; of stderr, which may be endless too, only the end goes to a file, and the exit code to
 * another.
 */
const buildCommand = (path: string, extension: string, errors: string, code: string): string => {
  const program = quoteForShell(programs[extension.toLowerCase()] ?? "bash")
  return (
    `{ { ${program} ${quoteForShell(path)} 3>&- 4>&-; echo $? >&4; ` +
    `} 2>&1 1>&3 | tail -c ${errorBytes} > ${quoteForShell(errors)}; } 3>&1 4> ${quoteForShell(code)}`
  )
}

/** Output of the script. */
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
        // The interpreter and its child processes run with the user's rights, and a command may have put programs into
        // the working tree.
        Effect.provideService(ProcessEnvironment, yield* TrustedPrograms.safeEnvironment)
      )
    yield* Effect.timeoutOrElse(running.exit, {
      duration: Duration.seconds(timeoutSeconds),
      orElse: () => new ScriptFailed({ message: `the script was ended after ${timeoutSeconds} s` })
    })
    // Shown, written down, and given to a model.
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
