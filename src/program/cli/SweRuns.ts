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
import type * as RowJournal from "../../research/batch/RowJournal.ts"
import * as RowSeed from "../../research/batch/RowSeed.ts"
import * as EvalPage from "../../research/eval/EvalPage.ts"
import * as EvalReport from "../../research/eval/EvalReport.ts"
import * as SweAttempts from "../../research/swe/SweAttempts.ts"
import * as SwePool from "../../research/swe/SwePool.ts"
import * as SweRun from "../../research/swe/SweRun.ts"
import type * as SweTask from "../../research/swe/SweTask.ts"
import * as WorkingCopy from "../../research/swe/WorkingCopy.ts"
import * as ClusterSettings from "./ClusterSettings.ts"
import { surroundings } from "./CommandSettings.ts"
import * as EvalResults from "./EvalResults.ts"
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
  readonly runs: number
  readonly passCounts: ReadonlyArray<number> | undefined
  readonly limits: RunLimits.RunLimits
  readonly tasks: ReadonlyArray<SweTask.SweTask>
  readonly settings: Values
  readonly files: SwePool.Files
}

/** Formats a number of tasks, or of attempts if there are several at each task. */
const formatAttempts = (count: number, runs: number): string => (runs === 1 ? `${count} tasks` : `${count} attempts`)

/** Reads all inputs. The results are locked against other processes until the scope closes. */
const prepareJob = Effect.fnUntraced(function* (flags: RunFlags) {
  const given = yield* RunnerRuntime.loadSettings([
    ...SweTaskFlags.toSettingsFlags(flags),
    { name: "--timeout", key: "terminal.timeout", value: flags.timeout ?? 60 }
  ])
  const tasks = yield* SweTaskFlags.loadTasks(flags, given)
  if (flags.cluster) yield* checkClusterFlags(flags)
  else yield* RunnerRuntime.requireModel(given, flags)
  const settings = yield* SweTaskFlags.hideWithheldFiles(given, tasks, flags)
  yield* WorkingCopy.removeAbandoned()
  const files = yield* resolveOutput(flags.outputFile ?? defaultOutput)
  yield* RunnerRuntime.hold(files.results)
  return { tasks, settings, files }
})

/** Fails if a flag works only on this machine, but the tasks are run by the runners of a cluster. */
const checkClusterFlags = Effect.fnUntraced(function* (flags: RunFlags) {
  yield* RunnerCommand.checkRemoteFlags(flags)
  if (flags.env !== undefined)
    return yield* makeUsageFailure(
      "--env has no effect on the runners of --cluster: set terminal.backend there, or leave out --cluster"
    )
})

/** Opens the results, and prints which tasks are skipped and which run again. */
const openResults = Effect.fnUntraced(function* ({ files, runs, tasks }: SweJob) {
  const journal = yield* Effect.mapError(SwePool.openJournal(files), ({ message }) => makeUsageFailure(message))
  yield* printWarnings(journal.problems)
  const attempts = SwePool.listAttempts(tasks, runs)
  const left = attempts.filter(({ digest, id }) => journal.entries.get(id)?.digest !== digest)
  const finished = attempts.length - left.length
  if (finished > 0)
    yield* printNote(
      `${finished} of ${formatAttempts(attempts.length, runs)} have a result in ${files.results} and are left out`
    )
  const changed = left.filter(({ id }) => journal.entries.has(id)).length
  if (changed > 0)
    yield* printNote(
      changed === 1
        ? "Note: 1 task changed since its result and runs again"
        : `Note: ${changed} tasks changed since their results and run again`
    )
  return { journal, finished }
})

const describeSolved = ({ calls, seconds, status }: SwePool.ScoredRow): string =>
  [SweText.formatStatus(status), `${calls} ${calls === 1 ? "call" : "calls"}`, SweText.formatSeconds(seconds)].join(
    ", "
  )

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
const writeTasks = Effect.fnUntraced(function* ({ files, runs, tasks }: SweJob) {
  const paths = yield* Path.Path
  const list = SweAttempts.listTasks(paths.basename(files.results, ".jsonl"), tasks, runs)
  if (list.tasks.length > 0) yield* OutputFile.write(files.tasks, `${JSON.stringify(list, null, 2)}\n`)
  return list
})

/** Writes the page with all attempts, and returns their report. */
const writePage = Effect.fnUntraced(function* (
  { files, passCounts }: SweJob,
  list: SweAttempts.TaskList,
  rows: ReadonlyArray<SwePool.ScoredRow>
) {
  const attempts = SweAttempts.toAttempts(list, rows)
  const report = EvalReport.make(list.name, attempts, passCounts)
  yield* EvalResults.warnAboutPassCounts(passCounts, report)
  yield* OutputFile.write(files.page, EvalPage.render(`Tasks of ${list.name}`, [{ report, attempts }]))
  return report
})

/** Formats pass@k of tasks with several attempts. */
const renderPassCounts = (report: EvalReport.Report | undefined): ReadonlyArray<string> =>
  report === undefined
    ? []
    : EvalPage.listFacts(report).flatMap(([name, value]) => (name.startsWith("pass@") ? [`${name}  ${value}`] : []))

/** Prints the failed tasks and the result of the run. */
const reportRun = Effect.fnUntraced(function* (
  job: SweJob,
  list: SweAttempts.TaskList,
  { rows, summary }: Effect.Success<ReturnType<typeof SwePool.run>>
) {
  const { files, flags } = job
  const { failures, stopped } = summary
  const hasPage = list.tasks.length > 0
  const report = hasPage ? yield* writePage(job, list, rows) : undefined
  yield* RunnerCommand.printFirstWarnings(
    failures.map(({ id, message }) => `task ${id} failed: ${message}`),
    shownFailures,
    (count) => `${count} more tasks failed`
  )
  yield* RunnerCommand.printResult(
    flags.json,
    () => ({
      ...SweText.toTotalsJson(rows),
      ...(report === undefined || job.runs === 1 ? {} : { pass_at_k: EvalReport.toWire(report).pass_at_k }),
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
            ...renderPassCounts(report),
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

/** Prepares the runtimes of this process for the tasks, or the submission to the runners of the cluster. */
const prepareRuntimes = Effect.fnUntraced(function* (job: SweJob, journal: RowJournal.Journal) {
  const { files, flags, settings, tasks } = job
  if (!flags.cluster)
    return {
      runtimes: yield* makeRuntimes(settings, flags, files.sessions),
      elsewhere: undefined,
      cancelOpen: undefined
    }
  const paths = yield* Path.Path
  const url = yield* ClusterSettings.requireDatabaseUrl(settings)
  const [{ makeRowSubmitter }, { kind, makeTaskRunner, noRuntime }] = yield* Effect.promise(() =>
    Promise.all([import("./ClusterSubmission.ts"), import("./ClusterSwe.ts")])
  )
  const name = paths.basename(files.results, ".jsonl").replaceAll(/[^\w.-]+/g, "-")
  const submitter = yield* makeRowSubmitter({
    url,
    settings,
    agentFile: undefined,
    kind,
    batch: `swe ${name}`,
    name: `swe-${name.slice(0, 60)}`,
    keyFile: files.cluster,
    isFresh: journal.entries.size === 0 && journal.attempts.size === 0,
    timeoutSeconds: flags.rowTimeout
  })
  return { runtimes: noRuntime, elsewhere: makeTaskRunner(submitter, tasks), cancelOpen: submitter.cancelOpen }
})

/** Runs tasks. */
export const run = Effect.fn("hermes swe run")(
  function* (flags: RunFlags) {
    yield* RunnerCommand.checkCounts({
      "max-iterations": flags.maxIterations,
      timeout: flags.timeout,
      runs: flags.runs
    })
    const passCounts = yield* EvalResults.parsePassCounts(flags.k)
    const limits = yield* RunLimits.read(flags)
    yield* (yield* Output).protect
    const runs = flags.runs ?? 1
    const job: SweJob = { flags, runs, passCounts, limits, ...(yield* prepareJob(flags)) }
    const { files, tasks } = job
    const total = tasks.length * runs
    const { finished, journal } = yield* openResults(job)
    const list = yield* writeTasks(job)
    let ended = finished
    const { verbose } = yield* hermes
    const display = yield* ProgressDisplay.make("tasks")
    const { cancelOpen = Effect.void, elsewhere, runtimes } = yield* prepareRuntimes(job, journal)
    const work = SwePool.run({
      files,
      journal,
      tasks,
      runs,
      elsewhere,
      concurrency: flags.workers ?? 4,
      settings: makeTaskSettings(job, display, verbose),
      limits: limits.limits,
      // A runner applies the time limit of an attempt, so that the wait for a runner does not count.
      timeout: flags.cluster ? undefined : limits.timeout,
      onProgress: RunLimits.watchProgress(limits, display),
      onSolved: (row) => {
        ended++
        return display.say(`[${ended}/${total}] ${SwePool.formatAttemptId(row.id, row.run)}: ${describeSolved(row)}`)
      }
    }).pipe(
      // The tasks in flight at a limit stop on their runners, too.
      Effect.tap(({ summary: { stopped } }) => (stopped === undefined ? Effect.void : cancelOpen)),
      Effect.provideService(SweRun.SweRuntime, runtimes),
      Effect.mapError(({ message }) => makeWorkFailure(message)),
      Effect.provide(display.log)
    )
    yield* RunnerCommand.superviseWork(work, {
      display,
      describeInterruption: (code) =>
        `Interrupted: ${ended} of ${formatAttempts(total, runs)} have a result in ${files.results}. ` +
        `${flags.cluster ? RunnerCommand.continuesOnRunners : "Run the same command to continue"} (exit code ${code}).`,
      conclude: (result) => reportRun(job, list, result)
    })
  },
  Effect.scoped,
  Effect.provide(surroundings)
)
