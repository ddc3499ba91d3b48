/**
 * One command that is waited for: until it ends, its time is over, or the user asks the run to stop. However it ends,
 * nothing of its process tree is left.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as OutputBuffer from "./OutputBuffer.ts"
import * as OutputText from "./OutputText.ts"
import type * as Shell from "./Shell.ts"
import { StopRequested, TerminalSettings } from "./TerminalSettings.ts"

const progressInterval = "500 millis"
const progressChars = 2000

/** What to run. */
export interface Options {
  readonly command: string
  readonly cwd: string
  readonly seconds: number
  /** Told the end of the output while it grows, at most twice a second. */
  readonly onProgress: (output: string) => Effect.Effect<void>
}

/** How the wait ended. */
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
    return onProgress(OutputText.last(output.kept(), progressChars))
  }).pipe(Effect.delay(progressInterval), Effect.forever)
}

/** See the module. */
export const run = Effect.fnUntraced(function*(
  shell: Shell.Shell,
  { command, cwd, onProgress, seconds }: Options
): Effect.fn.Return<Finished, Shell.NotStarted> {
  const { outputChars } = yield* TerminalSettings
  const stopRequested = yield* StopRequested
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
  return { outcome, output: OutputText.bounded(output.kept(), outputChars).trimEnd() }
})
