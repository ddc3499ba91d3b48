/**
 * Action of `hermes swe run`.
 *
 * Prints a line for each finished task on stderr, and the table or JSON on stdout. Exit code 0: every task has a
 * result, solved or not. Exit code 1: some tasks could not be run. Results of an interrupted run are kept, and running
 * the same command again continues.
 *
 * Source: `hermes-product.md` §5.3.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Scope from "effect/Scope"
import type { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import type { Environment, Home } from "../../base/config/Environment.ts"
import type { Values } from "../../base/config/Settings.ts"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import * as Json from "../../base/domain/Json.ts"
import type { RunEvent } from "../../base/domain/RunEvent.ts"
import * as TextCut from "../../base/domain/TextCut.ts"
import { getWorkingDirectory } from "../../base/platform/CurrentProcess.ts"
import * as RowSeed from "../../research/batch/RowSeed.ts"
import * as EvalPage from "../../research/eval/EvalPage.ts"
import * as EvalReport from "../../research/eval/EvalReport.ts"
import * as SweAttempts from "../../research/swe/SweAttempts.ts"
import * as SwePool from "../../research/swe/SwePool.ts"
import * as SweRun from "../../research/swe/SweRun.ts"
import type * as SweTask from "../../research/swe/SweTask.ts"
import * as WorkingCopy from "../../research/swe/WorkingCopy.ts"
import { surroundings } from "./CommandSettings.ts"
import { makeUsageFailure, makeWorkFailure } from "./Failure.ts"
import type { Program } from "./Program.ts"
import { hermes } from "./Hermes.ts"
import * as OutputFile from "./OutputFile.ts"
import * as ProgressDisplay from "./ProgressDisplay.ts"
import { Output, printNote, printWarnings } from "./ProgramOutput.ts"
import * as RunLimits from "./RunLimits.ts"
import * as RunnerCommand from "./RunnerCommand.ts"
import * as RunnerRuntime from "./RunnerRuntime.ts"
import type { RunFlags } from "./SweCommand.ts"
import * as SweTaskFlags from "./SweTaskFlags.ts"
import * as SweText from "./SweText.ts"

const defaultOutput = "swe-results/results.jsonl"
/** Maximum number of failures reported individually. */
const shownFailures = 20

type Needs = ChildProcessSpawner | Environment | FileSystem.FileSystem | Home | Path.Path | Program | Output

/** Warns that commands that need an approval will be refused, because the run is unattended and without a sandbox. */
const mentionRefusals = (
  { approvals: { mode, unattendedMode, unknownCommands } }: Values,
  { isConfined, name }: SweRun.Runtime["environment"]
) =>
  isConfined || mode === "off" || unattendedMode === "approve" || unknownCommands === "allow"
    ? Effect.void
    : printNote(
        `Warning: commands run without a sandbox (${name}), so those that need an approval are refused. ` +
          "Pass --env sandbox or docker, or --yolo to allow them."
      )

/** Creates a runtime for each image when the first task needs it. All runtimes are closed when the scope closes. */
const makeRuntimes = Effect.fnUntraced(function* (
  settings: Values,
  { script, seed }: Pick<RunFlags, "script" | "seed">,
  database: string
) {
  const context = yield* Effect.context<Needs>()
  const scope = yield* Effect.scope
  const opened = new Map<string, Effect.Effect<SweRun.Runtime, ConfigError>>()
  let isSeedMentioned = seed === undefined
  const mentionSeed = Effect.fnUntraced(function* ({ router }: Effect.Success<ReturnType<typeof RunnerRuntime.open>>) {
    if (isSeedMentioned) return
    isSeedMentioned = true
    const text = RowSeed.describeIgnoredSeed(yield* router.primary, "it changes nothing")
    if (text !== undefined) yield* printNote(`Note: ${text}`)
  })
  const openOnce = Effect.fnUntraced(function* (image: string) {
    const found = opened.get(image)
    if (found !== undefined) return yield* found
    const terminal = { ...settings.terminal, dockerImage: image }
    const once = yield* Effect.cached(
      RunnerRuntime.open({ ...settings, terminal }, { database, script }).pipe(
        Effect.tap(({ environment }) => mentionRefusals(settings, environment)),
        Effect.tap(mentionSeed),
        Scope.provide(scope),
        Effect.provideContext(context)
      )
    )
    opened.set(image, once)
    return yield* once
  })
  const { backend, dockerBinary, dockerImage } = settings.terminal
  return SweRun.SweRuntime.of({
    open: Effect.fnUntraced(function* ({ build, image }) {
      if (build === undefined || backend !== "docker") return yield* openOnce(image ?? dockerImage)
      const ImageBuild = yield* Effect.promise(() => import("../../places/ImageBuild.ts"))
      const built = yield* ImageBuild.build(dockerBinary, build).pipe(Effect.provideContext(context))
      const path = yield* ImageBuild.extractContents(dockerBinary, built, build.workdir).pipe(
        Effect.provideContext(Context.omit(Scope.Scope)(context))
      )
      return { ...(yield* openOnce(built)), source: { _tag: "Directory", path } } satisfies SweRun.Runtime
    })
  })
})

/** Returns the command that an event reports as started by the tool `terminal`, or an empty array. */
const listCommands = (event: RunEvent): ReadonlyArray<string> =>
  event._tag === "ToolStarted" && event.name === "terminal"
    ? [Json.readString(Json.readFields(event.params)["command"]) ?? ""]
    : []

const resolveOutput = Effect.fnUntraced(function* (path: string) {
  const paths = yield* Path.Path
  return SwePool.nameFiles(paths.resolve(getWorkingDirectory(), path.endsWith(".jsonl") ? path : `${path}.jsonl`))
})

/** A run, with all inputs named by its command line. */
interface SweJob {
  readonly flags: RunFlags
  readonly limits: RunLimits.RunLimits
  readonly tasks: ReadonlyArray<SweTask.SweTask>
  readonly settings: Values
  readonly files: SwePool.Files
}

/** Reads all inputs. The results are locked against other processes until the scope closes. */
const prepareJob = Effect.fnUntraced(function* (flags: RunFlags) {
  const given = yield* RunnerRuntime.loadSettings([
    ...SweTaskFlags.toSettingsFlags(flags),
    { name: "--timeout", key: "terminal.timeout", value: flags.timeout ?? 60 }
  ])
  const tasks = yield* SweTaskFlags.loadTasks(flags, given)
  yield* RunnerRuntime.requireModel(given, flags)
  const settings = yield* SweTaskFlags.hideWithheldFiles(given, tasks, flags)
  yield* WorkingCopy.removeAbandoned()
  const files = yield* resolveOutput(flags.outputFile ?? defaultOutput)
  yield* RunnerRuntime.hold(files.results)
  return { tasks, settings, files }
})

/** Opens the results, and prints which tasks are skipped and which run again. */
const openResults = Effect.fnUntraced(function* ({ files, tasks }: SweJob) {
  const journal = yield* Effect.mapError(SwePool.openJournal(files), ({ message }) => makeUsageFailure(message))
  yield* printWarnings(journal.problems)
  const left = tasks.filter(({ digest, id }) => journal.entries.get(id)?.digest !== digest)
  const finished = tasks.length - left.length
  if (finished > 0)
    yield* printNote(`${finished} of ${tasks.length} tasks have a result in ${files.results} and are left out`)
  const changed = left.filter(({ id }) => journal.entries.has(id)).length
  if (changed > 0)
    yield* printNote(
      changed === 1
        ? "Note: 1 task changed since its result and runs again"
        : `Note: ${changed} tasks changed since their results and run again`
    )
  return { journal, finished }
})

const describeSolved = ({ evaluated, fields }: SweRun.SolvedTask, seconds: number): string => {
  const calls = Json.readWord(fields["api_calls"])
  return [
    SweText.formatStatus(evaluated?.status),
    `${calls} ${calls === "1" ? "call" : "calls"}`,
    SweText.formatSeconds(seconds)
  ].join(", ")
}

/** Creates the settings of the tasks. With `--verbose`, each command that a task runs is reported. */
const makeTaskSettings = (
  { flags, limits, settings }: SweJob,
  display: ProgressDisplay.Display,
  isVerbose: boolean
): Parameters<typeof SwePool.run>[0]["settings"] => {
  const { seed } = flags
  return {
    maxIterations: flags.maxIterations ?? 15,
    budget: limits.budget,
    getSeed: seed === undefined ? undefined : ({ id }) => RowSeed.computeSeed(seed, id),
    approvals: settings.approvals.unattendedMode,
    setupSeconds: flags.evalTimeout ?? SweTaskFlags.defaultSeconds,
    onEvent: isVerbose
      ? (task, events) =>
          Effect.forEach(
            events.flatMap(listCommands),
            (command) => display.say(`${task.id}: ${TextCut.shorten(command, 200)}`),
            { discard: true }
          )
      : undefined
  }
}

/** Writes the list of the tasks, so that each counts in comparisons with other results. */
const writeTasks = Effect.fnUntraced(function* ({ files, tasks }: SweJob) {
  const paths = yield* Path.Path
  const list = SweAttempts.listTasks(paths.basename(files.results, ".jsonl"), tasks)
  if (list.tasks.length > 0) yield* OutputFile.write(files.tasks, `${JSON.stringify(list, null, 2)}\n`)
  return list
})

/** Writes the page with all attempts. */
const writePage = Effect.fnUntraced(function* (
  { files }: SweJob,
  list: SweAttempts.TaskList,
  rows: ReadonlyArray<SwePool.ScoredRow>
) {
  const attempts = SweAttempts.toAttempts(list, rows)
  const report = EvalReport.make(list.name, attempts)
  yield* OutputFile.write(files.page, EvalPage.render(`Tasks of ${list.name}`, [{ report, attempts }]))
})

/** Prints the failed tasks and the result of the run. */
const reportRun = Effect.fnUntraced(function* (
  job: SweJob,
  list: SweAttempts.TaskList,
  { rows, summary }: Effect.Success<ReturnType<typeof SwePool.run>>
) {
  const { files, flags } = job
  const { failures, stopped } = summary
  const hasPage = list.tasks.length > 0
  if (hasPage) yield* writePage(job, list, rows)
  yield* RunnerCommand.printFirstWarnings(
    failures.map(({ id, message }) => `task ${id} failed: ${message}`),
    shownFailures,
    (count) => `${count} more tasks failed`
  )
  yield* RunnerCommand.printResult(
    flags.json,
    () => ({
      ...SweText.toTotalsJson(rows),
      failed: failures,
      stopped: stopped ?? null,
      files,
      rows: rows.map(SweText.toRowJson)
    }),
    () =>
      rows.length === 0
        ? undefined
        : [
            SweText.renderRows(rows),
            "",
            SweText.formatTotals(rows),
            `results      ${files.results}`,
            `predictions  ${files.predictions}`,
            ...(hasPage ? [`page         ${files.page}`] : [])
          ].join("\n")
  )
  yield* RunnerCommand.checkOutcome(
    summary,
    (reason) => `stopped before the last task: ${reason}; run the same command to continue`
  )
})

/** Runs tasks. */
export const run = Effect.fn("hermes swe run")(
  function* (flags: RunFlags) {
    yield* RunnerCommand.checkCounts({ "max-iterations": flags.maxIterations, timeout: flags.timeout })
    const limits = yield* RunLimits.read(flags)
    yield* (yield* Output).protect
    const job: SweJob = { flags, limits, ...(yield* prepareJob(flags)) }
    const { files, tasks } = job
    const { finished, journal } = yield* openResults(job)
    const list = yield* writeTasks(job)
    let ended = finished
    const { verbose } = yield* hermes
    const display = yield* ProgressDisplay.make("tasks")
    const work = SwePool.run({
      files,
      journal,
      tasks,
      concurrency: flags.workers ?? 4,
      settings: makeTaskSettings(job, display, verbose),
      limits: limits.limits,
      timeout: limits.timeout,
      onProgress: RunLimits.watchProgress(limits, display),
      onSolved: (solved, seconds) => {
        ended++
        return display.say(`[${ended}/${tasks.length}] ${solved.task.id}: ${describeSolved(solved, seconds)}`)
      }
    }).pipe(
      Effect.provideService(SweRun.SweRuntime, yield* makeRuntimes(job.settings, flags, files.sessions)),
      Effect.mapError(({ message }) => makeWorkFailure(message)),
      Effect.provide(display.log)
    )
    yield* RunnerCommand.superviseWork(work, {
      display,
      describeInterruption: (code) =>
        `Interrupted: ${ended} of ${tasks.length} tasks have a result in ${files.results}. Run the same command to ` +
        `continue (exit code ${code}).`,
      conclude: (result) => reportRun(job, list, result)
    })
  },
  Effect.scoped,
  Effect.provide(surroundings)
)
