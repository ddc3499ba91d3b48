/**
 * One command that is waited for: until it ends, its time is over, or the user asks the run to stop. However it ends,
 * nothing of its process tree is left.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { RedactSecrets } from "../../../domain/Redaction.ts"
import * as Hooks from "../../../hooks/Hooks.ts"
import { ToolContext } from "../../ToolContext.ts"
import type * as OutputBuffer from "./OutputText.ts"
import * as OutputText from "./OutputText.ts"
import type * as Shell from "./Shell.ts"
import { StopRequested, TerminalSettings } from "./ShellEnvironment.ts"

const progressInterval = "500 millis"
const progressChars = 2000

/** Command to run. */
export interface Options {
  readonly command: string
  readonly cwd: string
  readonly seconds: number
  /** Told the end of the output while it grows, at most twice a second. */
  readonly onProgress: (output: string) => Effect.Effect<void>
}

/** Outcome of waiting for a command. */
export type Outcome =
  | { readonly _tag: "Exited"; readonly exit: Shell.Exit }
  | { readonly _tag: "TimedOut" }
  | { readonly _tag: "Stopped" }

/** A command that was run. */
export interface Finished {
  readonly outcome: Outcome
  readonly output: string
}

const progress = (
  output: OutputBuffer.OutputBuffer,
  onProgress: Options["onProgress"]
): Effect.Effect<never> => {
  let seen = 0
  return Effect.suspend(() => {
    if (output.total() === seen) return Effect.void
    seen = output.total()
    return onProgress(OutputText.last(output.kept(), progressChars, { redact: true, goesOn: true }))
  }).pipe(Effect.delay(progressInterval), Effect.forever)
}

/** Lets a run's listeners rewrite an output; the output itself when nobody listens. */
const transformed = Effect.fnUntraced(function*(command: string, output: string, returncode: number) {
  const hooks = Option.getOrUndefined(yield* Effect.serviceOption(Hooks.Hooks))
  if (hooks === undefined || !hooks.has("transform_terminal_output")) return output
  const { taskId } = yield* ToolContext
  const replacement = yield* hooks.ask("transform_terminal_output", () => ({
    command,
    output,
    returncode,
    task_id: taskId,
    env_type: "local"
  }))
  return replacement ?? output
})

/** The code that a command's end is told as. */
export const exitCode = (outcome: Outcome): number => {
  switch (outcome._tag) {
    case "Exited":
      return outcome.exit.code
    case "TimedOut":
      return 124
    case "Stopped":
      return 130
  }
}

/** One command that is waited for. */
export const run = Effect.fnUntraced(function*(
  shell: Shell.Shell,
  { command, cwd, onProgress, seconds }: Options
): Effect.fn.Return<Finished, Shell.NotStarted, ToolContext> {
  const { outputChars } = yield* TerminalSettings
  const stopRequested = yield* StopRequested
  const redact = yield* RedactSecrets
  const output = OutputText.buffer(outputChars)
  const outcome = yield* Effect.scoped(Effect.gen(function*() {
    const running = yield* shell.start({
      command,
      cwd,
      stdin: "ignore",
      onOutput: (chunks) => Effect.sync(() => chunks.forEach(output.push))
    })
    yield* Effect.forkScoped(progress(output, onProgress))
    return yield* Effect.raceAllFirst<Effect.Effect<Outcome>>([
      Effect.map(running.exit, (exit) => ({ _tag: "Exited", exit })),
      Effect.as(Effect.sleep(seconds * 1000), { _tag: "TimedOut" }),
      Effect.as(stopRequested, { _tag: "Stopped" })
    ])
  }))
  const own = OutputText.bounded(output.kept(), outputChars, redact).trimEnd()
  const shown = yield* transformed(command, own, exitCode(outcome))
  if (shown === own) return { outcome, output: own }
  const replaced = OutputText.buffer(outputChars)
  replaced.push(new TextEncoder().encode(shown))
  return { outcome, output: OutputText.bounded(replaced.kept(), outputChars, redact).trimEnd() }
})
