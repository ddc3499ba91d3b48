/**
 * Runs one command of a task in the environment that its settings choose: a setup, a test, a scorer. It has a deadline,
 * everything that it started is gone after it, and no credentials are among its variables.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Redaction from "../../base/domain/Redaction.ts"
import { CommandEnvironment, provide } from "../../places/CommandEnvironment.ts"
import { CallConversation, CallDirectory } from "../../base/domain/CallContext.ts"
import * as OutputText from "../../tools/builtin/terminal/OutputText.ts"
import * as Shell from "../../tools/builtin/terminal/Shell.ts"

/** A command could not be run at all. */
export class CommandNotRun extends Schema.TaggedError<CommandNotRun>("hermes-effect/runner/swe/CommandNotRun")(
  "CommandNotRun",
  { message: Schema.String }
) {}

/** A command and its working directory. */
export interface Command {
  readonly command: string
  /** Absolute path in the environment. */
  readonly cwd: string
  readonly timeoutSeconds: number
}

/** End of a command. */
export interface CommandEnd {
  /** undefined: it did not end within its time, and was stopped. */
  readonly exitCode: number | undefined
  /** Standard output and standard error, in order; a long one is cut in the middle. Secrets are redacted. */
  readonly output: string
  readonly seconds: number
}

/** Maximum number of retained output characters: enough for the names of about ten thousand tests. */
const outputChars = 2_000_000

/** Runs a command to its end, or to its deadline. */
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
    // A command that checks one thing sees no temporary files of another.
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
