/**
 * Actions of `hermes swe run` and `hermes swe evaluate`.
 *
 * A line for each task on stderr as it ends, the table or JSON on stdout. Exit code 0: every task has a result, solved
 * or not; 1: some could not be run. A run that is interrupted keeps its results, and the same command goes on.
 *
 * Source: `hermes-product.md` §5.3.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Scope from "effect/Scope"
import type { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import type * as Config from "../../base/config/Config.ts"
import type { Environment, Home } from "../../base/config/Environment.ts"
import type { Values } from "../../base/config/Settings.ts"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import * as Json from "../../base/domain/Json.ts"
import type { RunEvent } from "../../base/domain/RunEvent.ts"
import * as TextCut from "../../base/domain/TextCut.ts"
import { CommandEnvironment } from "../../places/CommandEnvironment.ts"
import { getWorkingDirectory } from "../../base/platform/CurrentProcess.ts"
import * as Dataset from "../../research/batch/Dataset.ts"
import * as RowSeed from "../../research/batch/RowSeed.ts"
import * as SweEvaluation from "../../research/swe/SweEvaluation.ts"
import * as SwePool from "../../research/swe/SwePool.ts"
import * as SweRun from "../../research/swe/SweRun.ts"
import * as SweTask from "../../research/swe/SweTask.ts"
import * as TaskFolder from "../../research/swe/TaskFolder.ts"
import * as TestReport from "../../research/swe/TestReport.ts"
import * as WorkingCopy from "../../research/swe/WorkingCopy.ts"
import { surroundings } from "./CommandSettings.ts"
import { failed, InterruptCode, makeWorkFailure, makeSilentFailure, makeUsageFailure } from "./Failure.ts"
import type { Program } from "./Program.ts"
import { hermes } from "./Hermes.ts"
import * as ProgressDisplay from "./ProgressDisplay.ts"
import { printLine, printNote, Output, renderTable, printWarnings } from "./ProgramOutput.ts"
import * as RunLimits from "./RunLimits.ts"
import * as RunnerRuntime from "./RunnerRuntime.ts"
import * as SafeText from "./render/SafeText.ts"
import type { EvaluateFlags, RunFlags, TaskFlags } from "./SweCommand.ts"

const defaultOutput = "swe-results/results.jsonl"
const defaultSeconds = 600
/** Maximum number of failures reported individually. */
const shownFailures = 20

const checkPositive = (name: string, value: number | undefined) =>
  value !== undefined && value < 1 ? makeUsageFailure(`--${name} ${value} is too small: pass 1 or more`) : Effect.void

/** Converts the flags of a command to settings. */
const toSettingsFlags = ({
  apiKey,
  env,
  image
}: TaskFlags & { readonly apiKey?: string | undefined }): ReadonlyArray<Config.Flag> => [
  { name: "--env", key: "terminal.backend", value: env },
  { name: "--image", key: "terminal.docker_image", value: image },
  { name: "--api-key", key: "model.api_key", value: apiKey }
]

const readDefaults = Effect.fnUntraced(function* (flags: TaskFlags, { terminal: { backend } }: Values) {
  yield* Effect.all([
    checkPositive("workers", flags.workers),
    checkPositive("limit", flags.limit),
    checkPositive("eval-timeout", flags.evalTimeout)
  ])
  const paths = yield* Path.Path
  const fs = yield* FileSystem.FileSystem
  const toAbsolute = (path: string | undefined) =>
    path === undefined ? undefined : paths.resolve(getWorkingDirectory(), path)
  for (const [name, path] of [
    ["--cwd", toAbsolute(flags.cwd)],
    ["--repos", toAbsolute(flags.repos)]
  ] as const) {
    const isThere =
      path === undefined ||
      (yield* Effect.orElseSucceed(
        Effect.map(fs.stat(path), ({ type }) => type === "Directory"),
        () => false
      ))
    if (!isThere) return yield* makeUsageFailure(`${name} ${path} is not a directory`)
  }
  return {
    cwd: toAbsolute(flags.cwd),
    workspace: flags.workspace ?? "clone",
    repositories: toAbsolute(flags.repos),
    image: flags.image,
    inContainers: backend === "docker",
    setup: flags.setup,
    evaluation: flags.evalCommand,
    evaluationSeconds: flags.evalTimeout ?? defaultSeconds
  } satisfies SweTask.Defaults as SweTask.Defaults
})

/** Mentions files of the user's that are not in the commit that a workspace begins with. */
const mentionUncommitted = Effect.fnUntraced(function* ({ source }: Pick<SweTask.SweTask, "source">) {
  if (source._tag !== "Commit" || source.commit !== "HEAD") return
  const isUncommitted = yield* Effect.orElseSucceed(WorkingCopy.hasUncommitted(source.repository), () => false)
  if (isUncommitted)
    yield* printNote(
      `${source.repository} has changes that are not committed; the workspace is its last commit. Pass --workspace copy to include them.`
    )
})

/** The tasks of the flags; those that cannot be run are told. */
const loadTasks = Effect.fnUntraced(function* (
  flags: TaskFlags & { readonly task?: string | undefined },
  settings: Values
) {
  const defaults = yield* readDefaults(flags, settings)
  const { promptsFile, task } = flags
  if ((task === undefined) === (promptsFile === undefined)) {
    if (task !== undefined) return yield* makeUsageFailure("pass --task or --prompts-file, not both")
    return yield* makeUsageFailure(
      `name the tasks by --prompts-file PATH${"task" in flags ? ", or one by --task TEXT" : ""}`
    )
  }
  if (task !== undefined) {
    const one = yield* SweTask.fromText(task, defaults)
    if (typeof one === "string") return yield* makeUsageFailure(one)
    yield* mentionUncommitted(one)
    return [one]
  }
  const path = promptsFile ?? ""
  const isFolder = yield* TaskFolder.isThere(path)
  const { problems, tasks } = yield* (isFolder ? TaskFolder.read(path, defaults) : SweTask.read(path, defaults)).pipe(
    Effect.mapError(({ message }: Dataset.DatasetError) => makeUsageFailure(message))
  )
  yield* printWarnings(problems.slice(0, shownFailures).map((problem) => SafeText.toLine(problem)))
  if (problems.length > shownFailures)
    yield* printWarnings([`${problems.length - shownFailures} further lines like these`])
  if (tasks.length === 0) return yield* makeUsageFailure(`${path} has no task that can be run`)
  return tasks.slice(0, flags.limit)
})

type Needs = ChildProcessSpawner | Environment | FileSystem.FileSystem | Home | Path.Path | Program | Output

/** Returns the settings with the tasks' withheld files hidden from commands. */
const hideWithheldFiles = Effect.fnUntraced(function* (
  settings: Values,
  tasks: ReadonlyArray<SweTask.SweTask>,
  { promptsFile }: TaskFlags
) {
  const paths = yield* Path.Path
  const { sandbox } = settings.terminal
  const instances = promptsFile === undefined ? [] : [paths.resolve(getWorkingDirectory(), promptsFile)]
  return {
    ...settings,
    terminal: {
      ...settings.terminal,
      sandbox: { ...sandbox, hide: [...sandbox.hide, ...instances, ...SweTask.listWithheldPaths(tasks)] }
    }
  }
})

/** Warns that commands that need an approval will be refused, because the run is unattended and without a sandbox. */
const mentionRefusals = (
  { approvals: { mode, unattendedMode, unknownCommands } }: Values,
  { isConfined, name }: SweRun.Runtime["environment"]
) =>
  isConfined || mode === "off" || unattendedMode === "approve" || unknownCommands === "allow"
    ? Effect.void
    : printNote(
        `Warning: commands run without a sandbox (${name}), so those that need an approval are refused. Pass --env sandbox or docker, or --yolo to allow them.`
      )

/** A runtime for each image, opened by the first task that needs it; all are closed with the scope. */
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

const formatSeconds = (seconds: number): string => `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`

const formatCost = (usd: number | undefined): string =>
  usd === undefined ? "" : `$${usd.toFixed(usd > 0 && usd < 0.01 ? 4 : 2)}`

const formatStatus = (status: string | undefined): string =>
  status === undefined ? "not evaluated" : status.replaceAll("_", " ")

const formatRatio = ({ passed, total }: { readonly passed: number; readonly total: number }): string =>
  total === 0 ? "" : `${passed}/${total}`

const maxName = 32

const renderRows = (rows: ReadonlyArray<SwePool.ScoredRow>): string =>
  renderTable([
    ["TASK", "STATUS", "F2P", "P2P", "CALLS", "TIME", "COST"],
    ...rows.map(({ calls, costUsd, failToPass, id, passToPass, seconds, status }) => [
      SafeText.toLine(id.length > maxName ? `${id.slice(0, maxName - 1)}…` : id),
      formatStatus(status),
      formatRatio(failToPass),
      formatRatio(passToPass),
      String(calls),
      formatSeconds(seconds),
      formatCost(costUsd)
    ])
  ])

const formatPercent = (share: number): string => `${(share * 100).toFixed(1)} %`

/** Tasks without a result by their status, in words. */
const describeUnresolved = (rows: ReadonlyArray<SwePool.ScoredRow>): string => {
  const counts = SwePool.withoutResult.flatMap((status) => {
    const count = rows.filter((row) => row.status === status).length
    return count === 0 ? [] : [`${count} ${formatStatus(status)}`]
  })
  return counts.length === 0 ? "" : `; without a result and not resolved: ${counts.join(", ")}`
}

/** The score of all tasks, in a line. */
const formatTotals = (rows: ReadonlyArray<SwePool.ScoredRow>): string => {
  const { counted, interval, passToPass, failToPass, resolved } = SwePool.sumTotals(rows)
  if (counted === 0)
    return `${rows.length} ${rows.length === 1 ? "task" : "tasks"} done, none evaluated: pass --eval-command`
  const range =
    interval === undefined ? "" : `, 95 % ${formatPercent(interval.low)} to ${formatPercent(interval.high)} (Wilson)`
  const tests =
    failToPass.total + passToPass.total === 0
      ? ""
      : `tests passed: F2P ${formatRatio(failToPass) || "0/0"}, P2P ${formatRatio(passToPass) || "0/0"}`
  return `${resolved} of ${counted} resolved: ${formatPercent(resolved / counted)}${range}${describeUnresolved(rows)}\n${tests}`.trimEnd()
}

const toRowJson = ({
  calls,
  costUsd,
  detail,
  failToPass,
  id,
  model,
  passToPass,
  patch,
  seconds,
  status
}: SwePool.ScoredRow) => ({
  instance_id: id,
  status: status ?? null,
  fail_to_pass: failToPass,
  pass_to_pass: passToPass,
  model,
  api_calls: calls,
  seconds,
  cost_usd: costUsd ?? null,
  patch_bytes: new TextEncoder().encode(patch).length,
  detail
})

const toTotalsJson = (rows: ReadonlyArray<SwePool.ScoredRow>) => {
  const { counted, evaluated, failToPass, interval, passToPass, resolved } = SwePool.sumTotals(rows)
  return {
    tasks: rows.length,
    evaluated,
    without_result: counted - evaluated,
    resolved,
    rate: counted === 0 ? null : resolved / counted,
    interval: interval ?? null,
    fail_to_pass: failToPass,
    pass_to_pass: passToPass
  }
}

/** Command that a run begins. */
const listCommands = (event: RunEvent): ReadonlyArray<string> =>
  event._tag === "ToolStarted" && event.name === "terminal"
    ? [Json.readString(Json.readFields(event.params)["command"]) ?? ""]
    : []

const resolveOutput = Effect.fnUntraced(function* (path: string) {
  const paths = yield* Path.Path
  return SwePool.nameFiles(paths.resolve(getWorkingDirectory(), path.endsWith(".jsonl") ? path : `${path}.jsonl`))
})

/** Runs tasks. */
export const run = Effect.fn("hermes swe run")(
  function* (flags: RunFlags) {
    yield* Effect.all([checkPositive("max-iterations", flags.maxIterations), checkPositive("timeout", flags.timeout)])
    const { budget, limits, timeout } = yield* RunLimits.read(flags)
    const { seed } = flags
    const output = yield* Output
    yield* output.protect
    const interruptCode = yield* InterruptCode
    const given = yield* RunnerRuntime.loadSettings([
      ...toSettingsFlags(flags),
      { name: "--timeout", key: "terminal.timeout", value: flags.timeout ?? 60 }
    ])
    const tasks = yield* loadTasks(flags, given)
    yield* RunnerRuntime.requireModel(given, flags)
    const settings = yield* hideWithheldFiles(given, tasks, flags)
    yield* WorkingCopy.removeAbandoned()
    const files = yield* resolveOutput(flags.outputFile ?? defaultOutput)
    yield* RunnerRuntime.hold(files.results)
    const journal = yield* Effect.mapError(SwePool.openJournal(files), ({ message }) => makeUsageFailure(message))
    yield* printWarnings(journal.problems)
    const left = tasks.filter(({ digest, id }) => journal.entries.get(id)?.digest !== digest)
    if (left.length < tasks.length)
      yield* printNote(
        `${tasks.length - left.length} of ${tasks.length} tasks have a result in ${files.results} and are left out`
      )
    const changed = left.filter(({ id }) => journal.entries.has(id)).length
    if (changed > 0)
      yield* printNote(
        changed === 1
          ? "Note: 1 task changed since its result, and is run again"
          : `Note: ${changed} tasks changed since their results, and are run again`
      )
    let ended = tasks.length - left.length
    const { verbose } = yield* hermes
    const shown = yield* ProgressDisplay.make("tasks")
    const { rows, summary } = yield* SwePool.run({
      files,
      journal,
      tasks,
      concurrency: flags.workers ?? 4,
      settings: {
        maxIterations: flags.maxIterations ?? 15,
        budget,
        seedOf: seed === undefined ? undefined : ({ id }) => RowSeed.computeSeed(seed, id),
        approvals: settings.approvals.unattendedMode,
        setupSeconds: flags.evalTimeout ?? defaultSeconds,
        onEvent: verbose
          ? (task, events) =>
              Effect.forEach(
                events.flatMap(listCommands),
                (command) => shown.say(`${task.id}: ${TextCut.shorten(command, 200)}`),
                { discard: true }
              )
          : undefined
      },
      limits,
      timeout,
      onProgress: RunLimits.watchProgress({ limits }, shown),
      onSolved: ({ evaluated, fields, task }, seconds) => {
        ended++
        const calls = Json.readWord(fields["api_calls"])
        return shown.say(
          `[${ended}/${tasks.length}] ${task.id}: ${formatStatus(evaluated?.status)}, ${calls} ${calls === "1" ? "call" : "calls"}, ${formatSeconds(seconds)}`
        )
      }
    }).pipe(
      Effect.provideService(SweRun.SweRuntime, yield* makeRuntimes(settings, flags, files.sessions)),
      Effect.mapError(({ message }) => makeWorkFailure(message)),
      Effect.provide(shown.log),
      Effect.ensuring(shown.clear),
      Effect.onExit((exit) =>
        Exit.hasInterrupts(exit)
          ? output.err(
              `interrupted: ${ended} of ${tasks.length} tasks have a result in ${files.results}; the same command goes on (exit code ${interruptCode()})\n`
            )
          : Effect.void
      )
    )
    const { failures, stopped } = summary
    yield* printWarnings(
      failures.slice(0, shownFailures).map(({ id, message }) => `task ${id} failed: ${SafeText.toLine(message)}`)
    )
    if (failures.length > shownFailures)
      yield* printWarnings([`${failures.length - shownFailures} further tasks failed`])
    if (flags.json)
      yield* printLine(
        SafeText.toJson(
          { ...toTotalsJson(rows), failed: failures, stopped: stopped ?? null, files, rows: rows.map(toRowJson) },
          2
        )
      )
    else if (rows.length > 0)
      yield* printLine(
        [
          renderRows(rows),
          "",
          formatTotals(rows),
          `results      ${files.results}`,
          `predictions  ${files.predictions}`
        ].join("\n")
      )
    if (stopped !== undefined)
      return yield* makeWorkFailure(
        `stopped, no further task was begun: ${SafeText.toLine(stopped)}; the same command goes on`
      )
    if (failures.length > 0) return yield* makeSilentFailure(failed)
  },
  Effect.scoped,
  Effect.provide(surroundings)
)

/** Patches of a predictions file by the ids of their tasks. */
const readPredictions = Effect.fnUntraced(function* (path: string | undefined) {
  if (path === undefined) return yield* makeUsageFailure("name the patches by --predictions PATH")
  const { problems, rows } = yield* Effect.mapError(
    Dataset.read(path, { required: ["instance_id"], idField: "instance_id" }),
    ({ message }) => makeUsageFailure(message)
  )
  yield* printWarnings(Dataset.renderProblems(problems))
  yield* printWarnings(
    rows.flatMap(({ fields, file, line }) =>
      fields["model_patch"] === undefined && fields["patch"] === undefined
        ? [`${file} line ${line}: "model_patch" is missing; its patch is empty`]
        : []
    )
  )
  return new Map(
    rows.map(({ fields, id }) => [
      id,
      {
        patch: Json.readString(fields["model_patch"] ?? fields["patch"]) ?? "",
        model: Json.readString(fields["model_name_or_path"]) ?? ""
      }
    ])
  )
})

/** Evaluates patches. */
export const evaluate = Effect.fn("hermes swe evaluate")(
  function* (flags: EvaluateFlags) {
    const output = yield* Output
    const settings = yield* RunnerRuntime.loadSettings(toSettingsFlags(flags))
    yield* WorkingCopy.removeAbandoned()
    const tasks = yield* loadTasks(flags, settings)
    const predictions = yield* readPredictions(flags.predictions)
    const unknown = Array.from(predictions.keys()).filter((id) => !tasks.some((task) => task.id === id))
    yield* printWarnings(
      unknown.map((id) => `${SafeText.toLine(id)} is no task of ${flags.promptsFile ?? ""} and is left out`)
    )
    const wanted = tasks.filter(({ id }) => predictions.has(id))
    if (wanted.length === 0) return yield* makeUsageFailure("no prediction is for one of the tasks: check instance_id")
    const folder = wanted.find(({ check }) => check?.folder !== undefined)
    if (folder !== undefined)
      return yield* makeUsageFailure(
        `task ${folder.id} is a folder, whose tests are about more than a patch: use \`hermes swe run\``
      )
    const environment = yield* RunnerRuntime.openEnvironment(settings)
    let ended = 0
    const scored = yield* Effect.forEach(
      wanted,
      Effect.fnUntraced(function* (task): Effect.fn.Return<SwePool.ScoredRow, never, WorkingCopy.Needs> {
        const { model, patch } = predictions.get(task.id) ?? { model: "", patch: "" }
        const evaluated =
          task.check === undefined
            ? undefined
            : yield* Effect.provideService(
                SweEvaluation.evaluatePatch(task, task.check, patch),
                CommandEnvironment,
                environment
              )
        ended++
        yield* output.err(
          `[${ended}/${wanted.length}] ${SafeText.toLine(task.id)}: ${formatStatus(evaluated?.status)}\n`
        )
        const score = evaluated?.score ?? TestReport.makeUnresolvedScore({ failToPass: [], passToPass: [] })
        const { failToPass, passToPass } = score
        return {
          id: task.id,
          model,
          patch,
          status: evaluated?.status,
          failToPass,
          passToPass,
          calls: 0,
          seconds: evaluated?.seconds ?? 0,
          costUsd: undefined,
          detail: evaluated?.detail ?? ""
        }
      }),
      { concurrency: flags.workers ?? 4 }
    )
    const byId = new Map(scored.map((row) => [row.id, row]))
    const rows = tasks.flatMap(
      (task) => byId.get(task.id) ?? SwePool.makeUnresolvedRow(task, "no_prediction", "no prediction was given") ?? []
    )
    if (flags.json) return yield* printLine(SafeText.toJson({ ...toTotalsJson(rows), rows: rows.map(toRowJson) }, 2))
    yield* printLine([renderRows(rows), "", formatTotals(rows)].join("\n"))
  },
  Effect.scoped,
  Effect.provide(surroundings)
)
