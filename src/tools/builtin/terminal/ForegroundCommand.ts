/**
 * A command in the foreground: waits until it ends, it times out, or the user asks the run to stop, and reports its
 * output meanwhile. In every case, its whole process tree is terminated.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import type { Service as Environment } from "../../../places/CommandEnvironment.ts"
import type { Maker } from "../../../places/PseudoTerminal.ts"
import { RedactSecrets } from "../../../base/domain/Redaction.ts"
import * as Hooks from "../../../hooks/Hooks.ts"
import { StopRequested, ToolContext } from "../../ToolContext.ts"
import * as OutputText from "./OutputText.ts"
import type * as Shell from "./Shell.ts"
import { TerminalSettings } from "../BuiltinSettings.ts"

const progressInterval = "500 millis"

const progressChars = 2000

/** Command to run. */
interface ForegroundOptions {
  readonly command: string
  readonly cwd: string
  readonly seconds: number
  readonly terminal: Maker | undefined
  /** Receives the end of the output while the output grows, at most twice a second. */
  readonly onProgress: (output: string) => Effect.Effect<void>
}

/** Outcome of waiting for a command. */
type Outcome =
  | { readonly _tag: "Exited"; readonly exit: Shell.Exit }
  | { readonly _tag: "TimedOut" }
  | { readonly _tag: "Stopped" }

/** A command that has run. */
export interface FinishedCommand {
  readonly outcome: Outcome
  readonly output: string
}

const reportProgress = (
  output: OutputText.OutputBuffer,
  onProgress: ForegroundOptions["onProgress"]
): Effect.Effect<never> => {
  let seen = 0
  return Effect.suspend(() => {
    if (output.total() === seen) return Effect.void
    seen = output.total()
    return onProgress(OutputText.renderEnd(output.kept(), progressChars, { redact: true, goesOn: true }))
  }).pipe(Effect.schedule(Schedule.spaced(progressInterval)), Effect.andThen(Effect.never))
}

/** Lets listeners of the run rewrite an output. Without listeners, the output is returned unchanged. */
const transformOutput = Effect.fnUntraced(function* (
  environment: Environment,
  command: string,
  output: string,
  returncode: number
) {
  const hooks = Option.getOrUndefined(yield* Effect.serviceOption(Hooks.Hooks))
  if (hooks === undefined || !hooks.has("transform_terminal_output")) return output
  const { taskId } = yield* ToolContext
  const replacement = yield* hooks.ask("transform_terminal_output", () => ({
    command,
    output,
    returncode,
    task_id: taskId,
    env_type: environment.name
  }))
  return replacement ?? output
})

/** Returns the exit code reported for the outcome of a command. */
export const toExitCode = (outcome: Outcome): number => {
  switch (outcome._tag) {
    case "Exited":
      return outcome.exit.code
    case "TimedOut":
      return 124
    case "Stopped":
      return 130
  }
}

/** Runs one command in the foreground and waits for it. */
export const runForeground = Effect.fnUntraced(function* (
  environment: Environment,
  shell: Shell.Shell,
  { command, cwd, onProgress, seconds, terminal }: ForegroundOptions
): Effect.fn.Return<FinishedCommand, Shell.NotStarted, ToolContext> {
  const { outputChars } = yield* TerminalSettings
  const stopRequested = yield* StopRequested
  const redact = yield* RedactSecrets
  const output = OutputText.makeBuffer(outputChars)
  const outcome = yield* Effect.scoped(
    Effect.gen(function* () {
      const running = yield* shell.start({
        command,
        cwd,
        terminal,
        stdin: "ignore",
        onOutput: (chunks) => Effect.sync(() => chunks.forEach(output.push))
      })
      yield* Effect.forkScoped(reportProgress(output, onProgress))
      return yield* Effect.raceAllFirst<Effect.Effect<Outcome>>([
        Effect.map(running.exit, (exit) => ({ _tag: "Exited", exit })),
        Effect.as(Effect.sleep(seconds * 1000), { _tag: "TimedOut" }),
        Effect.as(stopRequested, { _tag: "Stopped" })
      ])
    })
  )
  const own = OutputText.renderBounded(output.kept(), outputChars, redact).trimEnd()
  const shown = yield* transformOutput(environment, command, own, toExitCode(outcome))
  if (shown === own) return { outcome, output: own }
  const replaced = OutputText.makeBuffer(outputChars)
  replaced.push(new TextEncoder().encode(shown))
  return { outcome, output: OutputText.renderBounded(replaced.kept(), outputChars, redact).trimEnd() }
})
