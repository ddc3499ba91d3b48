/**
 * Shared parts of the commands that run many rows without a user (`batch run`, `eval run`, `swe run`, `rl rollout`):
 * flag checks, warnings, reports, interruption and exit codes.
 *
 * Exit code 1: a row failed or did not run. Exit code 2: nothing can be run. Ctrl+C ends a command with one message.
 * Results are kept, and running the same command again continues.
 *
 * Source: `hermes-product.md` §5.1 and §5.3, `ARCHITECTURE.md` §6.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FileSystem from "effect/FileSystem"
import type { AgentFile } from "../../base/config/AgentFile.ts"
import * as Dataset from "../../research/batch/Dataset.ts"
import type * as RowPool from "../../research/batch/RowPool.ts"
import { failed, type Failure, InterruptCode, makeSilentFailure, makeUsageFailure, makeWorkFailure } from "./Failure.ts"
import { Output, printLine, printWarnings } from "./ProgramOutput.ts"
import type * as ProgressDisplay from "./ProgressDisplay.ts"
import * as SafeText from "./render/SafeText.ts"

/** Formats a count with its noun: `1 row`, `2 rows`. */
export const formatCount = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`

/** Fails if a flag has a value below a minimum. */
export const checkMinimum = (flag: string, value: number | undefined, least: number): Effect.Effect<void, Failure> =>
  value !== undefined && value < least
    ? Effect.fail(makeUsageFailure(`--${flag} ${value} is too small: pass ${least} or more`))
    : Effect.void

/** Fails if one of the named flags is below 1. */
export const checkCounts = (flags: Readonly<Record<string, number | undefined>>): Effect.Effect<void, Failure> =>
  Effect.forEach(Object.entries(flags), ([flag, value]) => checkMinimum(flag, value, 1), { discard: true })

/** Prints the first warnings individually, and one line with the number of the others. */
export const printFirstWarnings = (
  texts: ReadonlyArray<string>,
  limit: number,
  describeRest: (count: number) => string
): Effect.Effect<void, never, Output> =>
  printWarnings([
    ...texts.slice(0, limit).map((text) => SafeText.toLine(text)),
    ...(texts.length > limit ? [describeRest(texts.length - limit)] : [])
  ])

/** Reads a dataset, and prints warnings about lines that are not rows. */
export const readDataset = Effect.fnUntraced(function* (path: string, options: Parameters<typeof Dataset.read>[1]) {
  const dataset = yield* Effect.mapError(Dataset.read(path, options), ({ message }) => makeUsageFailure(message))
  yield* printWarnings(Dataset.renderProblems(dataset.problems).map((text) => SafeText.toLine(text)))
  return dataset
})

/** Loads the agent file of `--agent`, if the flag is given. */
export const loadAgentFile = (reference: string | undefined) =>
  reference === undefined
    ? Effect.succeed<AgentFile | undefined>(undefined)
    : Effect.flatMap(
        Effect.promise(() => import("./AgentChoice.ts")),
        ({ choose }) => choose(reference, true)
      )

/** Creates a results directory that only its owner can read. */
export const makeResultsDirectory = Effect.fnUntraced(function* (directory: string, flag: string) {
  const fs = yield* FileSystem.FileSystem
  yield* Effect.mapError(fs.makeDirectory(directory, { recursive: true, mode: 0o700 }), ({ message }) =>
    makeUsageFailure(`${flag}: ${message}`)
  )
})

/** Fails if a flag works only on this machine, but the rows are run by the runners of a cluster. */
export const checkRemoteFlags = ({
  replay,
  script
}: {
  readonly replay?: string | undefined
  readonly script?: string | undefined
}): Effect.Effect<void, Failure> => {
  const own = script !== undefined ? "--script" : replay !== undefined ? "--replay" : undefined
  return own === undefined
    ? Effect.void
    : Effect.fail(
        makeUsageFailure(
          `${own} has no effect on the runners of --cluster: pass it to \`hermes cluster runner\`, or leave out --cluster`
        )
      )
}

/** End of the message about an interruption while runners of a cluster run the rows. */
export const continuesOnRunners = "Runners continue what they have; run the same command to collect it"

/** Handlers for the end of a run supervised by {@link superviseWork}. */
interface Supervision<A, E, R> {
  /** Display of the run, cleared before the report is printed. */
  readonly display: Pick<ProgressDisplay.Display, "clear"> | undefined
  /** Message about an interruption; nothing is printed if it is `undefined`. */
  readonly describeInterruption: (code: number) => string | undefined
  /** Reports the result. A signal does not interrupt the report. */
  readonly conclude: (result: A) => Effect.Effect<void, E, R>
}

/**
 * Runs the work of a command until its report is printed. An interruption ends the command with the exit code of the
 * signal.
 */
export const superviseWork = Effect.fnUntraced(function* <A, E, R, E2, R2>(
  work: Effect.Effect<A, E, R>,
  { conclude, describeInterruption, display }: Supervision<A, E2, R2>
) {
  const output = yield* Output
  const interruptCode = yield* InterruptCode
  const handleEnd = Effect.fnUntraced(function* (exit: Exit.Exit<A, E>) {
    if (display !== undefined) yield* display.clear
    if (Exit.isSuccess(exit)) return yield* conclude(exit.value)
    if (!Exit.hasInterrupts(exit)) return yield* Effect.failCause(exit.cause)
    const text = describeInterruption(interruptCode())
    if (text !== undefined) yield* output.err(`${text}\n`)
    return yield* makeSilentFailure(interruptCode())
  })
  return yield* Effect.uninterruptibleMask((restore) => Effect.flatMap(Effect.exit(restore(work)), handleEnd))
})

/** Prints the result of a command, as JSON if requested. An `undefined` text is not printed. */
export const printResult = (
  isJson: boolean,
  toJson: () => unknown,
  toText: () => string | undefined
): Effect.Effect<void, never, Output> => {
  if (isJson) return printLine(SafeText.toJson(toJson(), 2))
  const text = toText()
  return text === undefined ? Effect.void : printLine(text)
}

/**
 * Fails if the run stopped before its last row, with a message if one is given, or if a row failed or waits for
 * answers.
 */
export const checkOutcome = (
  {
    failures,
    stopped,
    waiting = []
  }: Pick<RowPool.Summary, "failures" | "stopped"> & Partial<Pick<RowPool.Summary, "waiting">>,
  describeStop?: (reason: string) => string
): Effect.Effect<void, Failure> => {
  if (stopped !== undefined && describeStop !== undefined)
    return Effect.fail(makeWorkFailure(describeStop(SafeText.toLine(stopped))))
  return failures.length + waiting.length > 0 || stopped !== undefined
    ? Effect.fail(makeSilentFailure(failed))
    : Effect.void
}
