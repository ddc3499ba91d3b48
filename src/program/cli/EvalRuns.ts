/**
 * Action of `hermes eval run`. Running the same command again resumes with the missing attempts. Different rules or a
 * different model require another results directory.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import type * as Redacted from "effect/Redacted"
import type { AgentFile } from "../../base/config/AgentFile.ts"
import type { Values } from "../../base/config/Settings.ts"
import type * as Json from "../../base/domain/Json.ts"
import { getWorkingDirectory } from "../../base/platform/CurrentProcess.ts"
import * as Offline from "../../models/provider/Offline.ts"
import { CommandEnvironment, layerLocal } from "../../places/CommandEnvironment.ts"
import type * as Dataset from "../../research/batch/Dataset.ts"
import type * as RowJournal from "../../research/batch/RowJournal.ts"
import * as RowPool from "../../research/batch/RowPool.ts"
import * as RowSeed from "../../research/batch/RowSeed.ts"
import * as EvalAnswer from "../../research/eval/EvalAnswer.ts"
import * as EvalPage from "../../research/eval/EvalPage.ts"
import * as EvalReport from "../../research/eval/EvalReport.ts"
import * as EvalRun from "../../research/eval/EvalRun.ts"
import * as Scorer from "../../research/eval/Scorer.ts"
import { ToolRegistry } from "../../tools/ToolRegistry.ts"
import * as ClusterSettings from "./ClusterSettings.ts"
import { surroundings } from "./CommandSettings.ts"
import type { RunFlags } from "./EvalCommand.ts"
import * as EvalResults from "./EvalResults.ts"
import * as EvalRules from "./EvalRules.ts"
import { type Failure, makeUsageFailure, makeWorkFailure } from "./Failure.ts"
import { hermes } from "./Hermes.ts"
import * as OutputFile from "./OutputFile.ts"
import { Output, printNote, printWarnings } from "./ProgramOutput.ts"
import * as ProgressDisplay from "./ProgressDisplay.ts"
import * as BatchProgress from "./render/BatchProgress.ts"
import * as SafeText from "./render/SafeText.ts"
import * as RunLimits from "./RunLimits.ts"
import * as RunnerCommand from "./RunnerCommand.ts"
import * as RunnerRuntime from "./RunnerRuntime.ts"
import * as RunOptions from "./RunOptions.ts"

const toSafeName = (name: string): string => name.replaceAll(/[^\w.-]+/g, "-").replaceAll(/^[-.]+|-+$/g, "") || "model"

/** Fails if a directory contains results of another configuration. Returns the existing evaluation. */
const requireSameConfiguration = Effect.fnUntraced(function* (directory: string, now: Json.Fields) {
  const before = yield* EvalResults.readEvaluation(directory)
  const changed = before === undefined ? [] : EvalResults.findDifferences(before.configuration, now)
  if (changed.length > 0)
    return yield* makeUsageFailure(
      `${directory} has results that differ in ${changed.join(", ")}: pass another --name or --output-dir`
    )
  return before
})

const formatPath = (path: string, paths: Path.Path): string => {
  const relative = paths.relative(getWorkingDirectory(), path)
  return relative.startsWith("..") ? path : relative
}

/** Maximum number of unusable rows, and maximum number of failed attempts, that are reported individually. */
const shownProblems = 10
const shownFailures = 20

type Runtime = Effect.Success<ReturnType<typeof RunnerRuntime.open>>

/** An evaluation, with all inputs named by its command line. */
interface EvalJob {
  readonly flags: RunFlags
  readonly rules: EvalRun.Rules
  readonly limits: RunLimits.RunLimits
  readonly passCounts: ReadonlyArray<number> | undefined
  readonly dataset: Dataset.Dataset
  readonly agentFile: AgentFile | undefined
  readonly settings: Values
  readonly name: string
  readonly directory: string
}

/** Reads the rows that can be scored, and prints warnings about the other rows. */
const readRows = Effect.fnUntraced(function* (flags: RunFlags, rules: EvalRun.Rules) {
  const read = yield* RunnerCommand.readDataset(flags.dataset, {
    idField: flags.idField,
    limit: flags.limit,
    split: flags.split
  })
  const { problems, rows } = EvalRun.selectUsable(read.rows, rules)
  if (rows.length === 0 && problems[0] !== undefined) return yield* makeUsageFailure(SafeText.toLine(problems[0]))
  yield* RunnerCommand.printFirstWarnings(
    problems.map((problem) => `${problem}; left out`),
    shownProblems,
    (count) => `${count} further rows are left out`
  )
  return { ...read, rows }
})

const requireLocalFiles = (settings: Values, { scorers }: EvalRun.Rules) =>
  settings.terminal.backend === "ssh" && scorers.some(({ kind }) => kind === "command")
    ? makeUsageFailure(
        "the scorer command needs files of this machine, but terminal.backend is ssh: set it to sandbox, " +
          "docker or local"
      )
    : Effect.void

/** Reads all inputs, and creates the results directory. */
const prepareJob = Effect.fnUntraced(function* (flags: RunFlags) {
  const paths = yield* Path.Path
  const rules = yield* EvalRules.readRules(flags)
  const limits = yield* RunLimits.read(flags)
  const passCounts = yield* EvalResults.parsePassCounts(flags.k)
  const dataset = yield* readRows(flags, rules)
  const agentFile = yield* RunnerCommand.loadAgentFile(flags.agent)
  const settings = yield* RunnerRuntime.loadSettings(
    [{ name: "--max-turns", key: "agent.max_turns", value: flags.maxTurns }],
    agentFile
  )
  if (flags.cluster) yield* RunnerCommand.checkRemoteFlags(flags)
  else {
    yield* requireLocalFiles(settings, rules)
    yield* RunnerRuntime.requireModel(settings, flags)
  }
  const name = flags.name ?? toSafeName(settings.model.default ?? Offline.route.model)
  const directory = paths.resolve(
    getWorkingDirectory(),
    flags.outputDir ?? paths.join(EvalResults.folder, toSafeName(name))
  )
  yield* RunnerCommand.makeResultsDirectory(directory, "--output-dir")
  const job: EvalJob = { flags, rules, limits, passCounts, dataset, agentFile, settings, name, directory }
  return job
})

/** Returns the configuration of an evaluation. Attempts with different configurations cannot share a directory. */
const describeConfiguration = (
  { flags, rules }: EvalJob,
  model: string,
  toolsets: string | undefined
): Json.Fields => ({
  model,
  agent: flags.agent ?? null,
  toolsets: toolsets ?? null,
  max_turns: flags.maxTurns ?? null,
  scorers: rules.scorers.map(Scorer.formatName),
  judges: EvalRules.hasJudge(rules) ? rules.judges.map((judge) => judge.name) : [],
  criteria: rules.criteria ?? null,
  // Omitted if not requested, as in results written before these flags existed.
  ...Object.fromEntries(
    Object.entries({
      seed: flags.seed,
      row_tokens: flags.rowTokens,
      row_cost: flags.rowCost,
      row_timeout: flags.rowTimeout
    }).filter(([, value]) => value !== undefined)
  )
})

/** Fails if a judge has no model, before the first attempt is paid for. */
const requireJudges = ({ rules }: EvalJob, { auxiliary }: Runtime) =>
  Effect.forEach(
    EvalRules.hasJudge(rules) ? rules.judges : [],
    ({ name, route }) =>
      Effect.flatMap(auxiliary.resolve("judge", route), (found) =>
        found === undefined
          ? makeUsageFailure(
              `no model for the judge ${name}: set auxiliary.judge.provider, or pass --judge provider=NAME,model=NAME`
            )
          : Effect.void
      ),
    { discard: true }
  )

/** Writes `evaluation.json` in the results directory, and reports rows that changed since the last run. */
const writeEvaluation = Effect.fnUntraced(function* (
  { dataset, directory, flags, name, rules }: EvalJob,
  configuration: Json.Fields,
  before: EvalResults.Evaluation | undefined,
  journal: RowJournal.Journal
) {
  const attempts = EvalRun.listAttempts(dataset.rows, rules)
  if (before !== undefined && before.digest !== dataset.digest) {
    const missing = RowPool.selectRemaining(attempts, journal).length
    yield* printNote(
      `Note: The dataset changed since the last run. ${RunnerCommand.formatCount(missing, "attempt")} will run for ` +
        "new or changed rows. Results of removed rows do not count."
    )
  }
  const evaluation: EvalResults.Evaluation = {
    name,
    dataset: flags.dataset,
    digest: dataset.digest,
    configuration,
    attempts: attempts.map(({ digest, id }) => ({ id, digest })),
    unanswered: []
  }
  yield* EvalResults.writeEvaluation(directory, evaluation)
  return evaluation
})

const selectTools = Effect.fnUntraced(function* ({ agentFile, settings }: EvalJob, { registry }: Runtime) {
  return (
    (yield* RunOptions.selectAgentTools(agentFile, yield* registry.list, settings)) ??
    (yield* Effect.provideService(RunOptions.selectTools(yield* hermes, settings), ToolRegistry, registry))
  )
})

/** Creates the function that runs one attempt in this process. */
const makeAttemptRunner = Effect.fnUntraced(function* (job: EvalJob, runtime: Runtime) {
  const { seed } = job.flags
  const { settings } = job
  const tools = yield* selectTools(job, runtime)
  const fs = yield* FileSystem.FileSystem
  const services = Context.add(runtime.services, FileSystem.FileSystem, fs)
  const runAttempt: EvalRun.Subject["ask"] = (prompt, attempt, tell) =>
    EvalAnswer.ask(
      [prompt, ...attempt.turns],
      {
        tools,
        maxIterations: settings.agent.maxTurns,
        budget: job.limits.budget,
        seed: seed === undefined ? undefined : RowSeed.computeSeed(seed, attempt.id),
        approvals: settings.approvals.unattendedMode
      },
      tell
    ).pipe(Effect.provideContext(services))
  return runAttempt
})

/**
 * Fails if the pass rate of a finished evaluation is below `--threshold`. Attempts without a result count as not
 * passed.
 */
const checkThreshold = (
  { threshold }: RunFlags,
  { passRate }: EvalReport.Report,
  { stopped }: Pick<RowPool.Summary, "stopped">
) =>
  threshold === undefined || stopped !== undefined || passRate.value >= threshold
    ? Effect.void
    : Effect.fail(
        makeWorkFailure(`the pass rate ${passRate.value.toFixed(3)} is below the threshold ${threshold} (--threshold)`)
      )

/** Adds prompts and expected answers of rows with an attempt without a result to the evaluation. */
const addUnanswered = Effect.fnUntraced(function* (
  { dataset, directory, rules }: EvalJob,
  evaluation: EvalResults.Evaluation,
  journal: RowJournal.Journal
) {
  const left = new Set(
    evaluation.attempts.flatMap(({ id }) => (journal.entries.has(id) ? [] : [id.slice(0, id.lastIndexOf("#"))]))
  )
  if (left.size === 0) return evaluation
  const unanswered = dataset.rows.filter(({ id }) => left.has(id)).map((row) => EvalRun.describeRow(row, rules))
  const complete: EvalResults.Evaluation = { ...evaluation, unanswered }
  yield* EvalResults.writeEvaluation(directory, complete)
  return complete
})

/** Reports failed attempts, and writes the report and its HTML page. */
const reportSummary = Effect.fnUntraced(function* (
  job: EvalJob,
  evaluation: EvalResults.Evaluation,
  journal: RowJournal.Journal,
  { failures, stopped }: RowPool.Summary
) {
  const { directory, flags, name, passCounts } = job
  const paths = yield* Path.Path
  const { files } = EvalResults
  yield* RunnerCommand.printFirstWarnings(
    failures.map(({ id, message }) => `attempt ${id} failed: ${message}`),
    shownFailures,
    (count) => `${count} more attempts failed`
  )
  const { all: attempts } = yield* EvalResults.readAttempts(
    journal,
    yield* addUnanswered(job, evaluation, journal),
    failures
  )
  const report = EvalReport.make(name, attempts, passCounts)
  yield* EvalResults.warnAboutPassCounts(passCounts, report)
  const wire = EvalReport.toWire(report)
  yield* OutputFile.write(
    paths.join(directory, files.report),
    `${SafeText.toJson({ ...wire, dataset: flags.dataset, failed: failures.length }, 2)}\n`
  )
  yield* OutputFile.write(
    paths.join(directory, files.page),
    EvalPage.render(`Evaluation of ${name}`, [{ report, attempts }])
  )
  yield* RunnerCommand.printResult(
    flags.json,
    () => ({ ...wire, failed: failures, stopped: stopped ?? null, directory }),
    () =>
      attempts.length === 0
        ? undefined
        : [
            EvalResults.renderFacts(report),
            "",
            `results  ${formatPath(directory, paths)}`,
            `page     ${formatPath(paths.join(directory, files.page), paths)}`
          ].join("\n")
  )
  yield* checkThreshold(flags, report, { stopped })
  yield* RunnerCommand.checkOutcome(
    { failures, stopped },
    (reason) => `stopped: ${reason}; run the same command to continue`
  )
})

/** A prepared subject: its name in the configuration, and the environment of the commands of scorers. */
interface PreparedSubject {
  readonly model: string
  readonly environment: CommandEnvironment["Service"]
  readonly prepare: (
    journal: RowJournal.Journal
  ) => Effect.Effect<
    { readonly subject: EvalRun.RemoteSubject | EvalRun.Subject; readonly cancelOpen?: Effect.Effect<void> },
    Failure,
    Effect.Services<ReturnType<typeof openSubmitter>> | Output
  >
}

/** Opens the submitter of attempts for the runners of the cluster. */
const openSubmitter = Effect.fnUntraced(function* (
  { agentFile, directory, flags, name, settings }: EvalJob,
  url: Redacted.Redacted,
  journal: RowJournal.Journal
) {
  const paths = yield* Path.Path
  const [{ makeRowSubmitter }, { kind }] = yield* Effect.promise(() =>
    Promise.all([import("./ClusterSubmission.ts"), import("./ClusterEval.ts")])
  )
  return yield* makeRowSubmitter({
    url,
    settings,
    agentFile,
    kind,
    batch: `eval ${name}`,
    name: `eval-${toSafeName(name).slice(0, 60)}`,
    keyFile: paths.join(directory, EvalResults.files.cluster),
    isFresh: journal.entries.size === 0 && journal.attempts.size === 0,
    timeoutSeconds: flags.rowTimeout
  })
})

/** Prepares the subject whose attempts run on the runners of the cluster. */
const prepareRemoteSubject = Effect.fnUntraced(function* (job: EvalJob) {
  const { flags, limits, settings } = job
  const { seed } = flags
  const url = yield* ClusterSettings.requireDatabaseUrl(settings)
  const subject: PreparedSubject = {
    model: `${settings.model.provider}/${settings.model.default ?? "its default"}`,
    environment: Context.get(yield* Layer.build(layerLocal), CommandEnvironment),
    prepare: Effect.fnUntraced(function* (journal) {
      const submitter = yield* openSubmitter(job, url, journal)
      const { makeSubject } = yield* Effect.promise(() => import("./ClusterEval.ts"))
      return {
        cancelOpen: submitter.cancelOpen,
        subject: makeSubject(submitter, {
          budget: limits.budget,
          getSeed: seed === undefined ? undefined : ({ id }) => RowSeed.computeSeed(seed, id)
        })
      }
    })
  }
  return subject
})

/** Prepares the subject whose attempts run in this process. */
const prepareLocalSubject = Effect.fnUntraced(function* (job: EvalJob) {
  const { directory, flags, settings } = job
  const paths = yield* Path.Path
  const runtime = yield* RunnerRuntime.open(settings, {
    agentFile: job.agentFile,
    script: flags.script,
    replay: flags.replay,
    database: paths.join(directory, EvalResults.files.sessions)
  })
  const route = yield* runtime.router.primary
  const ask = yield* makeAttemptRunner(job, runtime)
  const subject: PreparedSubject = {
    model: `${route.provider}/${route.model}`,
    environment: runtime.environment,
    prepare: Effect.fnUntraced(function* () {
      const seedNote = flags.seed === undefined ? undefined : RowSeed.describeIgnoredSeed(route, "it changes nothing")
      if (seedNote !== undefined) yield* printNote(`Note: ${seedNote}`)
      return { subject: { ask, auxiliary: runtime.auxiliary } }
    })
  }
  yield* requireJudges(job, runtime)
  return subject
})

/** Runs an evaluation. */
export const run = Effect.fn("hermes eval run")(
  function* (flags: RunFlags) {
    yield* (yield* Output).protect
    const job = yield* prepareJob(flags)
    const { directory, limits, rules } = job
    const prepared = yield* flags.cluster ? prepareRemoteSubject(job) : prepareLocalSubject(job)
    const configuration = describeConfiguration(job, prepared.model, (yield* hermes).toolsets)
    const before = yield* requireSameConfiguration(directory, configuration)
    yield* RunnerRuntime.hold(directory)
    const journal = yield* EvalResults.openJournal(directory)
    yield* printWarnings(journal.problems)
    const evaluation = yield* writeEvaluation(job, configuration, before, journal)
    const { cancelOpen = Effect.void, subject } = yield* prepared.prepare(journal)
    const display = yield* ProgressDisplay.make("attempts")
    const work = EvalRun.run({
      subject,
      rows: job.dataset.rows,
      rules,
      journal,
      concurrency: flags.workers ?? 4,
      limits: limits.limits,
      // A runner applies the time limit of an attempt, so that the wait for a runner does not count.
      timeout: flags.cluster ? undefined : limits.timeout,
      onProgress: RunLimits.watchProgress(limits, display)
    }).pipe(
      // The attempts in flight at a limit stop on their runners, too.
      Effect.tap(({ stopped }) => (stopped === undefined ? Effect.void : cancelOpen)),
      Effect.provideService(CommandEnvironment, prepared.environment),
      Effect.mapError(({ message }) => makeWorkFailure(message)),
      Effect.provide(display.log)
    )
    yield* RunnerCommand.superviseWork(work, {
      display,
      describeInterruption: (code) => {
        const last = display.last()
        const done = last === undefined ? "no attempts" : BatchProgress.listFacts(last, "attempts")[0]
        return (
          `Interrupted: ${done} done. The results are in ${directory}. ` +
          `${flags.cluster ? RunnerCommand.continuesOnRunners : "Run the same command to continue"} (exit code ${code}).`
        )
      },
      conclude: (summary) => reportSummary(job, evaluation, journal, summary)
    })
  },
  Effect.scoped,
  Effect.provide(surroundings)
)
