/**
 * Runs one command of a task (setup, test or scorer) in the environment selected by the settings. The command has a
 * time limit, and its environment variables contain no credentials. All of its processes are ended at the end.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Redaction from "../../base/domain/Redaction.ts"
import { CommandEnvironment, provide } from "../../places/CommandEnvironment.ts"
import { CallConversation, CallDirectory } from "../../base/domain/CallContext.ts"
import * as OutputText from "../../tools/builtin/terminal/OutputText.ts"
import * as Shell from "../../tools/builtin/terminal/Shell.ts"

/** Error raised when a command could not be started. */
export class CommandNotRun extends Schema.TaggedError<CommandNotRun>("hermes-effect/runner/swe/CommandNotRun")(
  "CommandNotRun",
  { message: Schema.String }
) {}

/** A command and its working directory. */
export interface Command {
  readonly command: string
  /** Absolute path of the working directory in the environment. */
  readonly cwd: string
  readonly timeoutSeconds: number
}

/** Result of a command. */
export interface CommandEnd {
  /** Exit code, or `undefined` if the command exceeded its time limit and was stopped. */
  readonly exitCode: number | undefined
  /**
   * Standard output and standard error, in order of arrival. Long output is cut in the middle. Secrets are redacted.
   */
  readonly output: string
  readonly seconds: number
}

/** Maximum number of retained output characters: enough for the names of about ten thousand tests. */
const outputChars = 2_000_000

/** Runs a command until it ends or reaches its time limit. */
export const run = Effect.fn("BoundedCommand.run")(function* ({
  command,
  cwd,
  timeoutSeconds
}: Command): Effect.fn.Return<CommandEnd, CommandNotRun, CommandEnvironment> {
  const began = yield* Clock.currentTimeMillis
  const buffer = OutputText.makeBuffer(outputChars)
  const exitCode = yield* Effect.gen(function* () {
    const shell = yield* provide(Shell.make)
    const running = yield* shell.start({
      command,
      cwd,
      stdin: "ignore",
      onOutput: (chunks) => Effect.sync(() => chunks.forEach(buffer.push))
    })
    return yield* Effect.timeoutOrElse(
      Effect.map(running.exit, ({ code }): number | undefined => code),
      { duration: `${timeoutSeconds} seconds`, orElse: () => Effect.undefined }
    )
  }).pipe(
    Effect.scoped,
    Effect.provideService(CallDirectory, cwd),
    // Each working directory has separate temporary files, so that a command cannot access the temporary files of
    // another task.
    Effect.provideService(CallConversation, cwd),
    Effect.mapError(({ message }) => new CommandNotRun({ message }))
  )
  const seconds = ((yield* Clock.currentTimeMillis) - began) / 1000
  return {
    exitCode,
    output: Redaction.redactText(OutputText.stripAnsi(OutputText.renderBounded(buffer.kept(), outputChars, true))),
    seconds
  }
})
