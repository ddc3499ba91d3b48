/**
 * Results of evaluations on disk, and the actions of `hermes eval show` and `compare`.
 *
 * A results directory contains `results.jsonl` (the attempts), `evaluation.json` (the configuration), `report.json` and
 * `report.html`.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Stream from "effect/Stream"
import * as Json from "../../base/domain/Json.ts"
import { getWorkingDirectory } from "../../base/platform/CurrentProcess.ts"
import * as Dataset from "../../research/batch/Dataset.ts"
import * as RowJournal from "../../research/batch/RowJournal.ts"
import * as RowPool from "../../research/batch/RowPool.ts"
import * as EvalPage from "../../research/eval/EvalPage.ts"
import * as EvalReport from "../../research/eval/EvalReport.ts"
import * as Experiment from "../../research/eval/Experiment.ts"
import * as SweAttempts from "../../research/swe/SweAttempts.ts"
import * as SwePool from "../../research/swe/SwePool.ts"
import { type Failure, makeUsageFailure, makeWorkFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import * as OutputFile from "./OutputFile.ts"
import { printLine, printWarnings, renderTable } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"

/** Folder of results, relative to the working directory. */
export const folder = "eval-results"
/** Files of a results directory. */
export const files = {
  results: "results.jsonl",
  evaluation: "evaluation.json",
  report: "report.json",
  page: "report.html",
  sessions: "sessions.db",
  /** Key of the names of attempts that runners of a cluster execute. */
  cluster: "cluster.json"
}

/** Contents of `evaluation.json`. */
export interface Evaluation {
  readonly name: string
  readonly dataset: string
  readonly digest: string
  /** Model, agent file and rules. Attempts with different values belong to different configurations. */
  readonly configuration: Json.Fields
  readonly attempts: ReadonlyArray<RowJournal.RowKey>
  /** Prompts and expected answers of rows with an attempt without a result, for pages. */
  readonly unanswered: ReadonlyArray<EvalReport.RowText>
}

/** Parses the values of `--k`, for which pass@k is computed. */
export const parsePassCounts = (text: string | undefined) => {
  if (text === undefined) return Effect.undefined
  const values = Flags.splitNames(text).map(Number)
  return values.length > 0 && values.every((value) => Number.isInteger(value) && value > 0)
    ? Effect.succeed(values)
    : Effect.fail(makeUsageFailure(`--k "${text}" is invalid: pass whole numbers such as 1,5`))
}

/** Prints a warning about values of k for which no row has enough attempts. */
export const warnAboutPassCounts = (ks: ReadonlyArray<number> | undefined, { passAtK }: EvalReport.Report) =>
  printWarnings(
    (ks ?? [])
      .filter((k) => passAtK.every((found) => found.k !== k))
      .map((k) => `pass@${k} needs ${k} attempts per row, but no row has that many: pass --runs ${k}`)
  )

/**
 * Finds the results directory with the given name: an existing path, otherwise a directory in the folder of results.
 */
const findResultsDirectory = Effect.fnUntraced(function* (name: string) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const own = paths.resolve(getWorkingDirectory(), name)
  const isOwn = yield* Effect.orElseSucceed(fs.exists(paths.join(own, files.evaluation)), () => false)
  return isOwn ? own : paths.resolve(getWorkingDirectory(), folder, name)
})

/** Reads an attempt of an evaluation. Earlier versions identify attempts only by their ids. */
const toAttemptKey = (value: unknown): RowJournal.RowKey => {
  const { digest, id } = Json.readFields(value)
  return typeof id === "string"
    ? { id, digest: Json.readString(digest) }
    : { id: Json.readWord(value), digest: undefined }
}

/** Reads the evaluation of a directory; returns `undefined` if it cannot be read. */
export const readEvaluation = Effect.fnUntraced(function* (directory: string) {
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
    attempts: Json.readItems(fields["attempts"]).map(toAttemptKey),
    unanswered: Json.readItems(fields["unanswered"])
      .map(Json.readFields)
      .map(({ expected, item, prompt }) => ({
        item: Json.readWord(item),
        prompt: Json.readString(prompt) ?? "",
        expected: Json.readString(expected) ?? ""
      }))
  }
  return evaluation
})

/** Writes the evaluation of a directory. */
export const writeEvaluation = Effect.fnUntraced(function* (directory: string, evaluation: Evaluation) {
  const paths = yield* Path.Path
  yield* OutputFile.write(paths.join(directory, files.evaluation), `${JSON.stringify(evaluation, null, 2)}\n`)
})

/** Reads the attempts of the last run in a directory: the attempts with a result, and all attempts. */
export const readAttempts = Effect.fnUntraced(
  function* (
    journal: RowJournal.Journal,
    { attempts, unanswered }: Pick<Evaluation, "attempts" | "unanswered">,
    failures: ReadonlyArray<RowPool.FailedRow> = []
  ) {
    const lines = new Map((yield* Stream.runCollect(journal.results)).map((found) => [found.id, found]))
    // Failures of earlier runs count until their attempts run again.
    const causes = new Map<string, RowJournal.AttemptFailure>()
    for (const attempt of attempts) {
      const last = journal.attempts.get(attempt.id)
      if (last?.failure !== undefined && RowPool.isSameRow(last, attempt)) causes.set(attempt.id, last.failure)
    }
    for (const failure of failures) causes.set(failure.id, failure)
    const failed = new Set(failures.map(({ id }) => id))
    const finished = attempts.flatMap((attempt) => {
      const found = failed.has(attempt.id) ? undefined : lines.get(attempt.id)
      return found === undefined || !RowPool.isSameRow(found, attempt) ? [] : (EvalReport.parseAttempt(found) ?? [])
    })
    return {
      finished,
      all: EvalReport.addMissing(
        finished,
        attempts.map(({ id }) => id),
        causes,
        new Map(unanswered.map((row) => [row.item, row]))
      )
    }
  },
  Effect.mapError(({ message }) => makeWorkFailure(message))
)

/** Opens the journal of attempts in a directory. */
export const openJournal = (directory: string) =>
  Effect.mapError(RowJournal.open({ directory }), ({ message }) => makeUsageFailure(message))

/** Returns the names of the values that differ between two configurations. */
export const findDifferences = (before: Json.Fields, now: Json.Fields): ReadonlyArray<string> =>
  Array.from(new Set([...Object.keys(before), ...Object.keys(now)])).filter(
    (key) => JSON.stringify(before[key]) !== JSON.stringify(now[key])
  )

/** Renders the figures of a report as a table. */
export const renderFacts = (report: EvalReport.Report): string =>
  renderTable(EvalPage.listFacts(report).map(([name, value]) => [name, SafeText.toLine(value)]))

/** Results of an evaluation or of software engineering tasks. */
interface StoredResults {
  readonly name: string
  readonly attempts: ReadonlyArray<EvalReport.AttemptResult>
  /** Digest of the dataset. */
  readonly digest: string
  /** Names of the scorers, as JSON. */
  readonly scorers: string
}

/** Reads the results of `hermes swe run` at a path. Returns `undefined` if the file has no list of tasks. */
const readSweResults = Effect.fnUntraced(function* (path: string) {
  const files = SwePool.nameFiles(path)
  const list = yield* SweAttempts.readTasks(files)
  if (list === undefined) return undefined
  const attempts = yield* Effect.mapError(SweAttempts.readAttempts(files, list), ({ message }) =>
    makeUsageFailure(message)
  )
  const results: StoredResults = {
    name: list.name,
    attempts,
    digest: Dataset.computeDigest(list.tasks.map(({ digest = "", id }) => ({ id, digest }))),
    scorers: JSON.stringify([SweAttempts.scorerName])
  }
  return results
})

/** Reads the results with the given name: a directory of an evaluation, or a results file of `hermes swe run`. */
const readResults = Effect.fnUntraced(function* (
  name: string
): Effect.fn.Return<StoredResults, Failure, FileSystem.FileSystem | Path.Path> {
  const paths = yield* Path.Path
  const path = paths.resolve(getWorkingDirectory(), name)
  const solved = name.endsWith(".jsonl") ? yield* readSweResults(path) : undefined
  if (solved !== undefined) return solved
  const directory = yield* findResultsDirectory(name)
  const evaluation = yield* readEvaluation(directory)
  if (evaluation === undefined)
    return yield* makeUsageFailure(
      name.endsWith(".jsonl")
        ? `no tasks beside ${path}: run \`hermes lab swe run\` first, or pass another file`
        : `no results in ${directory}: run \`hermes lab eval run\` first, or pass another directory`
    )
  const { all: attempts, finished } = yield* readAttempts(yield* openJournal(directory), evaluation)
  if (finished.length === 0)
    return yield* makeUsageFailure(`${directory} has no finished attempt: run \`hermes lab eval run\` again`)
  return {
    attempts,
    name: evaluation.name,
    digest: evaluation.digest,
    scorers: JSON.stringify(evaluation.configuration["scorers"])
  }
})

const warnOfMissingResults = ({ attempts, name, withoutResult }: EvalReport.Report) =>
  withoutResult === 0
    ? Effect.void
    : printWarnings([
        `${SafeText.toLine(name)}: ${withoutResult} of ${attempts} attempts have no result yet and count as failed`
      ])

/** Prints results. */
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

/** Values of the flags of `hermes eval compare`. */
interface CompareFlags {
  readonly first: string
  readonly second: string
  readonly others: ReadonlyArray<string>
  readonly page: string | undefined
  readonly json: boolean
}

/** Ranks three or more results. */
const rankResults = Effect.fnUntraced(function* (flags: CompareFlags) {
  const paths = [flags.first, flags.second, ...flags.others]
  const found = yield* Effect.forEach(paths, readResults)
  const areNamesDistinct = new Set(found.map(({ name }) => name)).size === found.length
  const named = found.map((results, index) => ({
    ...results,
    name: areNamesDistinct ? results.name : (paths[index] ?? results.name)
  }))
  if (new Set(named.map(({ name }) => name)).size < named.length)
    return yield* makeUsageFailure("the same results are given twice: name each configuration once")
  if (new Set(found.map(({ scorers }) => scorers)).size > 1)
    yield* printWarnings(['the scorers differ: "passed" does not mean the same in all of them'])
  const experiment = Experiment.makeExperiment(named)
  yield* Effect.forEach(experiment.standings, ({ report }) => warnOfMissingResults(report), { discard: true })
  if (experiment.tasks.length === 0)
    return yield* makeUsageFailure("the results have no rows in common: compare results of the same dataset")
  if (flags.page !== undefined) {
    const parts = named.map(({ attempts, name }) => ({ attempts, report: EvalReport.make(name, attempts) }))
    yield* OutputFile.write(flags.page, EvalPage.renderLeaderboard("Leaderboard", experiment, parts))
  }
  if (flags.json) return yield* printLine(SafeText.toJson(Experiment.toWire(experiment), 2))
  yield* printLine(
    [
      renderTable([
        EvalPage.leaderboardColumns,
        ...experiment.standings.map((standing) => EvalPage.listStanding(standing).map(SafeText.toLine))
      ]),
      "",
      ...EvalPage.listLeaderboardNotes(experiment)
    ].join("\n")
  )
})

/** Compares results. */
export const compare = Effect.fn("hermes eval compare")(function* (flags: CompareFlags) {
  if (flags.others.length > 0) return yield* rankResults(flags)
  const [first, second] = [yield* readResults(flags.first), yield* readResults(flags.second)]
  const [a, b] =
    first.name === second.name
      ? [
          { ...first, name: flags.first },
          { ...second, name: flags.second }
        ]
      : [first, second]
  if (a.digest !== b.digest) yield* printWarnings(["the datasets differ: only common rows are compared"])
  if (a.scorers !== b.scorers) yield* printWarnings(['the scorers differ: "passed" does not mean the same in both'])
  const comparison = EvalReport.compare(a, b)
  yield* Effect.forEach([comparison.first, comparison.second], warnOfMissingResults, { discard: true })
  if (comparison.commonItems === 0)
    return yield* makeUsageFailure("the two results have no rows in common: compare results of the same dataset")
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
