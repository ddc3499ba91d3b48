/**
 * Evaluates a patch without a model: makes a new workspace, applies the patch and the task's tests, and runs the
 * command that tests the result.
 *
 * **Details**
 *
 * The workspace is recreated from the base commit, so that only the patch counts: ignored files that the agent changed
 * and tests that it weakened have no effect. Files that the task's test patch changes are restored before that patch is
 * applied. A command that exceeds its time limit is stopped. The test results that it printed until then count. Such a
 * task is therefore resolved only if it names tests and all of them passed.
 *
 * The tests of a task folder run in the agent's own workspace, because they may check any file in it.
 */
import * as Effect from "effect/Effect"
import type { CommandEnvironment } from "../../places/CommandEnvironment.ts"
import * as TextCut from "../../base/domain/TextCut.ts"
import * as BoundedCommand from "./BoundedCommand.ts"
import * as RemoteWorkspace from "./RemoteWorkspace.ts"
import type { Check, SweTask, TestFolder } from "./SweTask.ts"
import * as TaskFolder from "./TaskFolder.ts"
import * as TestReport from "./TestReport.ts"
import * as WorkingCopy from "./WorkingCopy.ts"

/** Status of an evaluation. */
export type Status =
  | "resolved"
  | "unresolved"
  /** The patch changes nothing. */
  | "empty_patch"
  /** The patch, or the task's test patch, cannot be applied. */
  | "patch_does_not_apply"
  /** The command exceeded its time limit. */
  | "timeout"
  /** The setup or the command could not be run. */
  | "error"

/** Result of evaluating a patch. */
export interface PatchEvaluation {
  readonly status: Status
  readonly score: TestReport.Score
  /** Reward written by the tests of a task folder. */
  readonly reward: number | undefined
  readonly seconds: number
  /** Reason for a status that is not a test result. For a test result, the end of the output. */
  readonly detail: string
}

const detailChars = 2000

const makeUnscored = (status: Status, { expected }: Check, detail: string): PatchEvaluation => ({
  status,
  score: TestReport.makeUnresolvedScore(expected),
  reward: undefined,
  seconds: 0,
  detail
})

/** Runs the setup of a task in a workspace. If the setup fails, returns the reason as a string. */
export const runSetup = Effect.fnUntraced(function* (
  { setup }: Pick<SweTask, "setup">,
  cwd: string,
  timeoutSeconds: number
) {
  if (setup === undefined) return undefined
  const { exitCode, output } = yield* BoundedCommand.run({ command: setup, cwd, timeoutSeconds })
  if (exitCode === 0) return undefined
  const end = output.trim().split("\n").at(-1) ?? ""
  return (
    "the setup " +
    `${exitCode === undefined ? `did not end within ${timeoutSeconds} s` : `ended with exit code ${exitCode}`}${end === "" ? "" : `: ${TextCut.shorten(end, 200)}`}`
  )
})

const scoreEnd = (
  { exitCode, output, seconds }: BoundedCommand.CommandEnd,
  check: Check,
  reward: number | undefined
): PatchEvaluation => {
  const score = TestReport.score({ exitCode, tests: TestReport.read(output) }, check.expected)
  const resolved = reward === undefined ? score.resolved : reward >= 1
  const status = resolved ? "resolved" : exitCode === undefined ? "timeout" : "unresolved"
  const detail =
    exitCode === undefined
      ? `the command did not end within ${check.timeoutSeconds} s\n${TextCut.takeTail(output, detailChars)}`
      : TextCut.takeTail(output, detailChars)
  return { status, score: { ...score, resolved }, reward, seconds, detail: detail.trim() }
}

/** Runs the tests of a task folder in the agent's workspace. */
export const evaluateFolder = (
  check: Check,
  folder: TestFolder,
  directory: string,
  { collect, cwd, send }: RemoteWorkspace.PlacedWorkspace
): Effect.Effect<PatchEvaluation, never, CommandEnvironment | WorkingCopy.Needs> =>
  Effect.gen(function* () {
    yield* TaskFolder.bringTests(folder, directory, cwd)
    yield* send
    const ended = yield* BoundedCommand.run({ command: check.command, cwd, timeoutSeconds: check.timeoutSeconds })
    yield* collect
    return scoreEnd(ended, check, yield* TaskFolder.readReward(directory))
  }).pipe(Effect.catch(({ message }) => Effect.succeed(makeUnscored("error", check, message))))

/** Evaluates a patch for a task in a new workspace. */
export const evaluatePatch = Effect.fn("SweEvaluation.evaluatePatch")(function* (
  task: Pick<SweTask, "prefix" | "setup" | "source">,
  check: Check,
  patch: string
): Effect.fn.Return<PatchEvaluation, never, CommandEnvironment | WorkingCopy.Needs> {
  if (patch.trim() === "") return makeUnscored("empty_patch", check, "nothing was changed")
  return yield* Effect.gen(function* () {
    const copy = yield* WorkingCopy.make(task.source)
    yield* copy.apply(patch)
    if (check.testPatch !== undefined) {
      yield* copy.restore(WorkingCopy.listPaths(check.testPatch))
      yield* Effect.mapError(
        copy.apply(check.testPatch),
        (error) => new WorkingCopy.PatchRejected({ message: `test_patch: ${error.message}` })
      )
    }
    const { cwd } = yield* RemoteWorkspace.place(copy, task.prefix)
    const unprepared = yield* runSetup(task, cwd, check.timeoutSeconds)
    if (unprepared !== undefined) return makeUnscored("error", check, unprepared)
    return scoreEnd(
      yield* BoundedCommand.run({ command: check.command, cwd, timeoutSeconds: check.timeoutSeconds }),
      check,
      undefined
    )
  }).pipe(
    Effect.scoped,
    Effect.catchTag("PatchRejected", ({ message }) =>
      Effect.succeed(makeUnscored("patch_does_not_apply", check, message))
    ),
    Effect.catch(({ message }) => Effect.succeed(makeUnscored("error", check, message)))
  )
})

/** Converts an evaluation to the form that result rows contain. */
export const toWire = ({ detail, reward, score, seconds, status }: PatchEvaluation) => ({
  status,
  resolved: score.resolved,
  fail_to_pass: { passed: score.failToPass.passed, total: score.failToPass.total, missing: score.failToPass.missing },
  pass_to_pass: { passed: score.passToPass.passed, total: score.passToPass.total, missing: score.passToPass.missing },
  ...(reward === undefined ? {} : { reward }),
  seconds,
  detail
})
