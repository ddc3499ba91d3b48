/**
 * Actions of `hermes eval run`, `show` and `compare`.
 *
 * A results directory contains `results.jsonl` (the attempts), `evaluation.json` (the configuration), `report.json` and
 * `report.html`. The same command resumes with the missing attempts; other rules, or another model, need another
 * directory.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import type { AgentFile } from "../../base/config/AgentFile.ts"
import * as Json from "../../base/domain/Json.ts"
import { CommandEnvironment } from "../../places/CommandEnvironment.ts"
import { getWorkingDirectory } from "../../base/platform/CurrentProcess.ts"
import * as Offline from "../../models/provider/Offline.ts"
import * as Dataset from "../../research/batch/Dataset.ts"
import * as BatchRow from "../../research/batch/BatchRow.ts"
import * as RowJournal from "../../research/batch/RowJournal.ts"
import * as RowPool from "../../research/batch/RowPool.ts"
import * as RowSeed from "../../research/batch/RowSeed.ts"
import * as EvalPage from "../../research/eval/EvalPage.ts"
import * as EvalReport from "../../research/eval/EvalReport.ts"
import * as EvalRun from "../../research/eval/EvalRun.ts"
import * as JudgeScorer from "../../research/eval/JudgeScorer.ts"
import * as Scorer from "../../research/eval/Scorer.ts"
import { InteractiveMode, makeUnattended } from "../../tools/approval/InteractiveMode.ts"
import { ToolRegistry } from "../../tools/ToolRegistry.ts"
import { surroundings } from "./CommandSettings.ts"
import type { RunFlags } from "./EvalCommand.ts"
import { failed, type Failure, InterruptCode, makeWorkFailure, makeSilentFailure, makeUsageFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { hermes } from "./Hermes.ts"
import * as OutputFile from "./OutputFile.ts"
import { printLine, printNote, Output, renderTable, printWarnings } from "./ProgramOutput.ts"
import * as ProgressDisplay from "./ProgressDisplay.ts"
import * as BatchProgress from "./render/BatchProgress.ts"
import * as SafeText from "./render/SafeText.ts"
import * as RunLimits from "./RunLimits.ts"
import * as RunnerRuntime from "./RunnerRuntime.ts"
import * as RunOptions from "./RunOptions.ts"

const folder = "eval-results"
const files = {
  results: "results.jsonl",
  evaluation: "evaluation.json",
  report: "report.json",
  page: "report.html",
  sessions: "sessions.db"
}

/** Contents of `evaluation.json`. */
interface Evaluation {
  readonly name: string
  readonly dataset: string
  readonly digest: string
  /** Model, agent file and rules: two attempts with different ones are not of one configuration. */
  readonly configuration: Json.Fields
  readonly attempts: ReadonlyArray<RowJournal.RowKey>
}

const checkPositive = (name: string, value: number | undefined) =>
  value !== undefined && value < 1 ? makeUsageFailure(`--${name} ${value} is too small: pass 1 or more`) : Effect.void

const parsePassCounts = (text: string | undefined) => {
  if (text === undefined) return Effect.undefined
  const values = Flags.splitNames(text).map(Number)
  return values.length > 0 && values.every((value) => Number.isInteger(value) && value > 0)
    ? Effect.succeed(values)
    : Effect.fail(makeUsageFailure(`--k "${text}" is invalid: pass whole numbers such as 1,5`))
}

/** Warns of values of k for which no row has enough attempts. */
const warnAboutPassCounts = (ks: ReadonlyArray<number> | undefined, { passAtK }: EvalReport.Report) =>
  printWarnings(
    (ks ?? [])
      .filter((k) => passAtK.every((found) => found.k !== k))
      .map((k) => `pass@${k} needs ${k} attempts at a row, and none has so many: pass --runs ${k}`)
  )

/** The rules that the flags name. */
const readRules = Effect.fnUntraced(function* (flags: RunFlags): Effect.fn.Return<EvalRun.Rules, Failure> {
  yield* Effect.all([
    checkPositive("runs", flags.runs),
    checkPositive("workers", flags.workers),
    checkPositive("limit", flags.limit),
    checkPositive("command-timeout", flags.commandTimeout),
    checkPositive("max-turns", flags.maxTurns)
  ])
  if (flags.scorer.length === 0) return yield* makeUsageFailure(`name a scorer by --scorer: ${Scorer.kinds.join(", ")}`)
  const scorers: Array<Scorer.Spec> = []
  for (const text of flags.scorer) {
    const parsed = Scorer.parse(text)
    if (Result.isFailure(parsed)) return yield* makeUsageFailure(parsed.failure)
    scorers.push(parsed.success)
  }
  const isJudged = scorers.some(({ kind }) => kind === "judge")
  if (!isJudged && (flags.judge.length > 0 || flags.criteria !== undefined))
    return yield* makeUsageFailure("--judge and --criteria are for the scorer judge: add --scorer judge")
  const named: Array<JudgeScorer.Judge> = []
  for (const text of flags.judge) {
    const parsed = JudgeScorer.parse(text)
    if (Result.isFailure(parsed)) return yield* makeUsageFailure(`--judge: ${parsed.failure}`)
    named.push(parsed.success)
  }
  return {
    scorers,
    judges:
      named.length === 0
        ? [JudgeScorer.configured]
        : named.map((judge, index) =>
            named.findIndex(({ name }) => name === judge.name) === index
              ? judge
              : { ...judge, name: `${judge.name} (${index + 1})` }
          ),
    criteria: flags.criteria,
    promptField: flags.promptField ?? "prompt",
    referenceField: flags.referenceField,
    labelField: flags.labelField ?? "label",
    runs: flags.runs ?? 1,
    commandSeconds: flags.commandTimeout ?? 60
  }
})

const toSafeName = (name: string): string => name.replaceAll(/[^\w.-]+/g, "-").replaceAll(/^[-.]+|-+$/g, "") || "model"

/** The directory of a name: one that exists, else the one in the folder of results. */
const findResultsDirectory = Effect.fnUntraced(function* (name: string) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const own = paths.resolve(getWorkingDirectory(), name)
  const isOwn = yield* Effect.orElseSucceed(fs.exists(paths.join(own, files.evaluation)), () => false)
  return isOwn ? own : paths.resolve(getWorkingDirectory(), folder, name)
})

/** Reads an attempt of an evaluation. Evaluations of earlier versions name attempts by their ids alone. */
const toAttemptKey = (value: unknown): RowJournal.RowKey => {
  const { digest, id } = Json.readFields(value)
  return typeof id === "string"
    ? { id, digest: Json.readString(digest) }
    : { id: Json.readWord(value), digest: undefined }
}

const readEvaluation = Effect.fnUntraced(function* (directory: string) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const text = yield* Effect.option(fs.readFileString(paths.join(directory, files.evaluation)))
  const fields = Json.readFields(Option.getOrUndefined(Option.flatMap(text, Json.parse)))
  const [name, dataset, digest] = [
    Json.readString(fields["name"]),
    Json.readString(fields["dataset"]),
    Json.readString(fields["digest"])
  ]
  if (name === undefined || dataset === undefined || digest === undefined) return undefined
  const evaluation: Evaluation = {
    name,
    dataset,
    digest,
    configuration: Json.readFields(fields["configuration"]),
    attempts: Json.readItems(fields["attempts"]).map(toAttemptKey)
  }
  return evaluation
})

/** Attempts of a directory that belong to its last run: those that have a result, and all of them. */
const readAttempts = Effect.fnUntraced(
  function* (
    journal: RowJournal.Journal,
    { attempts }: Pick<Evaluation, "attempts">,
    failures: ReadonlyArray<RowPool.FailedRow> = []
  ) {
    const lines = new Map((yield* Stream.runCollect(journal.results)).map((found) => [found.id, found]))
    const causes = new Map(failures.map(({ id, message }) => [id, message]))
    const finished = attempts.flatMap((attempt) => {
      const found = causes.has(attempt.id) ? undefined : lines.get(attempt.id)
      return found === undefined || !RowPool.isSameRow(found, attempt) ? [] : (EvalReport.parseAttempt(found) ?? [])
    })
    return {
      finished,
      all: EvalReport.addMissing(
        finished,
        attempts.map(({ id }) => id),
        causes
      )
    }
  },
  Effect.mapError(({ message }) => makeWorkFailure(message))
)

const openJournal = (directory: string) =>
  Effect.mapError(RowJournal.open({ directory }), ({ message }) => makeUsageFailure(message))

/** Names of the values that two configurations do not share. */
const findDifferences = (before: Json.Fields, now: Json.Fields): ReadonlyArray<string> =>
  Array.from(new Set([...Object.keys(before), ...Object.keys(now)])).filter(
    (key) => JSON.stringify(before[key]) !== JSON.stringify(now[key])
  )

/** A directory has results of one configuration. */
const requireSameConfiguration = Effect.fnUntraced(function* (directory: string, now: Json.Fields) {
  const before = yield* readEvaluation(directory)
  const changed = before === undefined ? [] : findDifferences(before.configuration, now)
  if (changed.length > 0)
    return yield* makeUsageFailure(
      `${directory} has results that differ in ${changed.join(", ")}: pass another --name or --output-dir`
    )
  return before
})

const renderFacts = (report: EvalReport.Report): string =>
  renderTable(EvalPage.listFacts(report).map(([name, value]) => [name, SafeText.toLine(value)]))

const formatPath = (path: string, paths: Path.Path): string => {
  const relative = paths.relative(getWorkingDirectory(), path)
  return relative.startsWith("..") ? path : relative
}

const loadAgentFile = (reference: string | undefined) =>
  reference === undefined
    ? Effect.undefined
    : Effect.flatMap(
        Effect.promise(() => import("./AgentChoice.ts")),
        ({ choose }) => choose(reference, true)
      )

/** Maximum number of unusable rows reported individually. */
const shownProblems = 10

/** Runs an evaluation. */
export const run = Effect.fn("hermes eval run")(
  function* (flags: RunFlags) {
    const output = yield* Output
    yield* output.protect
    const paths = yield* Path.Path
    const fs = yield* FileSystem.FileSystem
    const interruptCode = yield* InterruptCode
    const shared = yield* hermes
    const rules = yield* readRules(flags)
    const { budget, limits, timeout } = yield* RunLimits.read(flags)
    const ks = yield* parsePassCounts(flags.k)
    const read = yield* Effect.mapError(
      Dataset.read(flags.dataset, { idField: flags.idField, limit: flags.limit, split: flags.split }),
      ({ message }) => makeUsageFailure(message)
    )
    yield* printWarnings(Dataset.renderProblems(read.problems).map((text) => SafeText.toLine(text)))
    const { problems, rows: usable } = EvalRun.selectUsable(read.rows, rules)
    if (usable.length === 0 && problems[0] !== undefined) return yield* makeUsageFailure(SafeText.toLine(problems[0]))
    yield* printWarnings(problems.slice(0, shownProblems).map((problem) => SafeText.toLine(`${problem}; left out`)))
    if (problems.length > shownProblems)
      yield* printWarnings([`${problems.length - shownProblems} further rows are left out`])
    const dataset = { ...read, rows: usable }
    const agentFile: AgentFile | undefined = yield* loadAgentFile(flags.agent)
    const settings = yield* RunnerRuntime.loadSettings(
      [{ name: "--max-turns", key: "agent.max_turns", value: flags.maxTurns }],
      agentFile
    )

    if (settings.terminal.backend === "ssh" && rules.scorers.some(({ kind }) => kind === "command")) {
      return yield* makeUsageFailure(
        "the scorer command needs files of this machine, and terminal.backend is ssh: set it to sandbox, docker or local"
      )
    }
    yield* RunnerRuntime.requireModel(settings, flags)
    const name = flags.name ?? toSafeName(settings.model.default ?? Offline.route.model)
    const directory = paths.resolve(getWorkingDirectory(), flags.outputDir ?? paths.join(folder, toSafeName(name)))
    yield* Effect.mapError(fs.makeDirectory(directory, { recursive: true, mode: 0o700 }), ({ message }) =>
      makeUsageFailure(`--output-dir: ${message}`)
    )
    const database = paths.join(directory, files.sessions)
    const runtime = yield* RunnerRuntime.open(settings, {
      agentFile,
      script: flags.script,
      replay: flags.replay,
      database
    })
    const route = yield* runtime.router.primary
    const { seed } = flags
    const configuration: Json.Fields = {
      model: `${route.provider}/${route.model}`,
      agent: flags.agent ?? null,
      toolsets: shared.toolsets ?? null,
      max_turns: flags.maxTurns ?? null,
      scorers: rules.scorers.map(Scorer.formatName),
      judges: rules.scorers.some(({ kind }) => kind === "judge") ? rules.judges.map((judge) => judge.name) : [],
      criteria: rules.criteria ?? null,
      // Absent if not requested, as in results written before these flags existed.
      ...Object.fromEntries(
        Object.entries({
          seed,
          row_tokens: flags.rowTokens,
          row_cost: flags.rowCost,
          row_timeout: flags.rowTimeout
        }).filter(([, value]) => value !== undefined)
      )
    }
    const before = yield* requireSameConfiguration(directory, configuration)
    if (rules.scorers.some(({ kind }) => kind === "judge")) {
      yield* Effect.forEach(
        rules.judges,
        ({ name, route }) =>
          runtime.auxiliary
            .resolve("judge", route)
            .pipe(
              Effect.flatMap((found) =>
                found === undefined
                  ? makeUsageFailure(
                      `no model for the judge ${name}: set auxiliary.judge.provider, or pass --judge provider=NAME,model=NAME`
                    )
                  : Effect.void
              )
            ),
        { discard: true }
      )
    }
    yield* RunnerRuntime.hold(directory)
    const journal = yield* openJournal(directory)
    yield* printWarnings(journal.problems)
    const attemptsOfRules = EvalRun.listAttempts(dataset.rows, rules)
    if (before !== undefined && before.digest !== dataset.digest) {
      const missing = RowPool.selectRemaining(attemptsOfRules, journal).length
      yield* printNote(
        `Note: The rows are not those of the last run: ${missing} ${missing === 1 ? "attempt is" : "attempts are"} new or of changed rows; results of rows that are gone do not count.`
      )
    }
    const evaluation: Evaluation = {
      name,
      dataset: flags.dataset,
      digest: dataset.digest,
      configuration,
      attempts: attemptsOfRules.map(({ digest, id }) => ({ id, digest }))
    }
    yield* OutputFile.write(paths.join(directory, files.evaluation), `${JSON.stringify(evaluation, null, 2)}\n`)

    const tools =
      (yield* RunOptions.selectAgentTools(agentFile, yield* runtime.registry.list, settings)) ??
      (yield* Effect.provideService(RunOptions.selectTools(shared, settings), ToolRegistry, runtime.registry))
    const seedNote = seed === undefined ? undefined : RowSeed.describeIgnoredSeed(route, "it changes nothing")
    if (seedNote !== undefined) yield* printNote(`Note: ${seedNote}`)
    const runAttempt: EvalRun.Subject["ask"] = (prompt, attempt, tell) =>
      Effect.gen(function* () {
        const seedOfAttempt = seed === undefined ? undefined : RowSeed.computeSeed(seed, attempt.id)
        const told = BatchRow.makeUsageReporter(tell)
        // Attempts do not see each other's files.
        const cwd = yield* Effect.orDie(
          Effect.flatMap(fs.makeTempDirectoryScoped({ prefix: "hermes-eval-" }), fs.realPath)
        )
        const result = yield* Effect.provideService(
          runtime.agent
            .run({
              prompt,
              source: "eval",
              platform: "eval",
              cwd,
              tools,
              maxIterations: settings.agent.maxTurns,
              budget,
              seed: seedOfAttempt,
              streaming: false,
              readsText: false,
              onEvent: told.onEvent
            })
            .pipe(Effect.onError(() => told.rest)),
          InteractiveMode,
          makeUnattended("eval run", settings.approvals.unattendedMode)
        )
        const { cost, exit, model, sessionId, text, usage } = result
        return { text, model, exit, sessionId, usage, cost, seed: seedOfAttempt }
      }).pipe(Effect.scoped)

    const shown = yield* ProgressDisplay.make("attempts")
    const summary = yield* EvalRun.run({
      subject: { ask: runAttempt, auxiliary: runtime.auxiliary },
      rows: dataset.rows,
      rules,
      journal,
      concurrency: flags.workers ?? 4,
      limits,
      timeout,
      onProgress: RunLimits.watchProgress({ limits }, shown)
    }).pipe(
      Effect.provideService(CommandEnvironment, runtime.environment),
      Effect.mapError(({ message }) => makeWorkFailure(message)),
      Effect.provide(shown.log),
      Effect.onExit((exit) => {
        if (!Exit.hasInterrupts(exit)) return shown.clear
        const last = shown.last()
        const done = last === undefined ? "nothing" : (BatchProgress.listFacts(last, "attempts")[0] ?? "")
        return Effect.andThen(
          shown.clear,
          output.err(
            `interrupted: ${done} done, the results are in ${directory}; the same command goes on (exit code ${interruptCode()})\n`
          )
        )
      })
    )
    const { failures, stopped } = summary
    const shownFailures = failures.slice(0, 20)
    yield* printWarnings(shownFailures.map(({ id, message }) => SafeText.toLine(`attempt ${id} failed: ${message}`)))
    if (failures.length > shownFailures.length)
      yield* printWarnings([`${failures.length - shownFailures.length} further attempts failed`])
    const { all: attempts } = yield* readAttempts(journal, evaluation, failures)
    const report = EvalReport.make(name, attempts, ks)
    yield* warnAboutPassCounts(ks, report)
    yield* OutputFile.write(
      paths.join(directory, files.report),
      `${SafeText.toJson({ ...EvalReport.toWire(report), dataset: flags.dataset, failed: failures.length }, 2)}\n`
    )
    yield* OutputFile.write(
      paths.join(directory, files.page),
      EvalPage.render(`Evaluation of ${name}`, [{ report, attempts }])
    )
    if (flags.json)
      yield* printLine(
        SafeText.toJson({ ...EvalReport.toWire(report), failed: failures, stopped: stopped ?? null, directory }, 2)
      )
    else if (attempts.length > 0)
      yield* printLine(
        [
          renderFacts(report),
          "",
          `results  ${formatPath(directory, paths)}`,
          `page     ${formatPath(paths.join(directory, files.page), paths)}`
        ].join("\n")
      )
    if (stopped !== undefined)
      return yield* makeWorkFailure(`stopped: ${SafeText.toLine(stopped)}; the same command goes on`)
    if (failures.length > 0) return yield* makeSilentFailure(failed)
  },
  Effect.scoped,
  Effect.provide(surroundings)
)

/** Reads the results with the given name. */
const readResults = Effect.fnUntraced(function* (name: string) {
  const directory = yield* findResultsDirectory(name)
  const evaluation = yield* readEvaluation(directory)
  if (evaluation === undefined)
    return yield* makeUsageFailure(
      `no results in ${directory}: run \`hermes eval run\` first, or name another directory`
    )
  const { all: attempts, finished } = yield* readAttempts(yield* openJournal(directory), evaluation)
  if (finished.length === 0)
    return yield* makeUsageFailure(`${directory} has no finished attempt: run \`hermes eval run\` again`)
  return { attempts, evaluation, name: evaluation.name }
})

const warnOfMissingResults = ({ attempts, name, withoutResult }: EvalReport.Report) =>
  withoutResult === 0
    ? Effect.void
    : printWarnings([
        `${SafeText.toLine(name)}: ${withoutResult} of ${attempts} attempts have no result yet, and count as not passed`
      ])

/** Shows results. */
export const show = Effect.fn("hermes eval show")(function* ({
  json,
  k,
  results
}: {
  readonly results: string
  readonly k: string | undefined
  readonly json: boolean
}) {
  const ks = yield* parsePassCounts(k)
  const { attempts, name } = yield* readResults(results)
  const report = EvalReport.make(name, attempts, ks)
  yield* warnAboutPassCounts(ks, report)
  yield* warnOfMissingResults(report)
  yield* printLine(json ? SafeText.toJson(EvalReport.toWire(report), 2) : renderFacts(report))
})

/** Compares results. */
export const compare = Effect.fn("hermes eval compare")(function* (flags: {
  readonly first: string
  readonly second: string
  readonly page: string | undefined
  readonly json: boolean
}) {
  const [first, second] = [yield* readResults(flags.first), yield* readResults(flags.second)]
  const [a, b] =
    first.name === second.name
      ? [
          { ...first, name: flags.first },
          { ...second, name: flags.second }
        ]
      : [first, second]
  if (a.evaluation.digest !== b.evaluation.digest)
    yield* printWarnings(["the datasets are not the same: rows that both have are compared"])
  if (
    findDifferences({ s: a.evaluation.configuration["scorers"] }, { s: b.evaluation.configuration["scorers"] }).length >
    0
  )
    yield* printWarnings(["the scorers are not the same: what passed means something else in each"])
  const comparison = EvalReport.compare(a, b)
  yield* Effect.forEach([comparison.first, comparison.second], warnOfMissingResults, { discard: true })
  if (comparison.commonItems === 0)
    return yield* makeUsageFailure("the two have no row in common: compare results of one dataset")
  if (flags.page !== undefined) {
    const parts = [a, b].map(({ attempts, name }) => ({ attempts, report: EvalReport.make(name, attempts) }))
    yield* OutputFile.write(flags.page, EvalPage.render(`${b.name} against ${a.name}`, parts, comparison))
  }
  if (flags.json) return yield* printLine(SafeText.toJson(EvalReport.toWireComparison(comparison), 2))
  const facts = [comparison.first, comparison.second].map((report) => new Map(EvalPage.listFacts(report)))
  const names = Array.from(new Set(facts.flatMap((one) => Array.from(one.keys()))))
  const formatCells = (name: string) =>
    facts.map((one) => SafeText.toLine(one.get(name) ?? "").replace(/ \(95 %.*\)$/, ""))
  yield* printLine(
    [
      renderTable([
        ["", SafeText.toLine(a.name), SafeText.toLine(b.name)],
        ...names.map((name) => [name, ...formatCells(name)])
      ]),
      "",
      EvalPage.describeComparison(comparison).replaceAll("; ", "\n")
    ].join("\n")
  )
})
