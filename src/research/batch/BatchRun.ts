/**
 * Runs every row of a dataset through one agent, with results in `data/<run name>/`. A run can be resumed.
 *
 * **Details**
 *
 * Rows are split into batches. Batches run concurrently up to a limit; the rows of a batch run one after another. All
 * rows share one runtime: its router with key pools and rate limits, its tools, its session store. A row is done when
 * its line is synced to the file of its batch. The checkpoint is written after each batch. The merged files and the
 * statistics are written at the end. A resumed run repeats failed rows and changed rows.
 *
 * Source: `hermes-product.md` §5.1, `hermes-llm.md` §20.1.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Path from "effect/Path"
import type { Limits } from "../../agent/Budget.ts"
import { SessionId } from "../../base/domain/Ids.ts"
import * as Json from "../../base/domain/Json.ts"
import { SessionStore } from "../../store/SessionStore.ts"
import { ToolRegistry } from "../../tools/ToolRegistry.ts"
import * as Toolsets from "../../tools/Toolsets.ts"
import * as BatchCheckpoint from "./BatchCheckpoint.ts"
import * as BatchFiles from "./BatchFiles.ts"
import { BatchError } from "./BatchFiles.ts"
import * as BatchRow from "./BatchRow.ts"
import * as Dataset from "./Dataset.ts"
import * as Distributions from "./Distributions.ts"
import * as RowJournal from "./RowJournal.ts"
import * as RowPool from "./RowPool.ts"
import * as RowSeed from "./RowSeed.ts"

/** Options of {@link run}. */
export interface Options {
  readonly directory: string
  readonly runName: string
  readonly dataset: Dataset.Dataset
  readonly promptField: string
  readonly batchSize: number
  readonly workers: number
  /**
   * Distribution of toolsets: a name in the table of `Distributions`, or a list of percentages. Defaults to the
   * distribution of the first run, or `default`.
   */
  readonly distribution: string | undefined
  /** Toolsets and single tools for every row, used instead of a random draw. */
  readonly toolsets: ReadonlyArray<string> | undefined
  readonly disabledToolsets: ReadonlyArray<string>
  /**
   * Seed for the random draws, and for models that accept a seed. Defaults to the first run's seed, or to the run's
   * name. The name is not sent to models.
   */
  readonly seed: string | undefined
  readonly resumes: boolean
  /** Format of the trajectories. Defaults to the first run's format, or ShareGPT. */
  readonly format: BatchFiles.Format | undefined
  readonly needsReasoning: boolean
  readonly keepsWorkspaces: boolean
  readonly ephemeralSystemPrompt: string | undefined
  readonly maxIterations: number | undefined
  readonly retries: number | undefined
  readonly rowTimeout: Duration.Input | undefined
  /** Limits of the agent in a row, besides the number of model calls. */
  readonly rowBudget?: Limits | undefined
  /** Limits of the whole run. */
  readonly limits?: RowPool.Limits | undefined
  readonly model: string
  /** Model route of the rows, if it is known in advance. */
  readonly route?: RowSeed.AskedRoute | undefined
  /** If set, rows run in other processes instead of this one. */
  readonly elsewhere?:
    | ((
        row: Dataset.Row,
        attempt: RowPool.Attempt,
        options: BatchRow.Options
      ) => Effect.Effect<RowPool.Result, BatchRow.RowRefused | Error>)
    | undefined
  readonly prepare: BatchRow.Options["prepare"]
  readonly onProgress: (progress: RowPool.Progress) => Effect.Effect<void>
  /** Called with the fields of each answered row. */
  readonly onAnswer?: ((row: Dataset.Row, fields: Json.Fields) => Effect.Effect<void>) | undefined
  /** Called with notices for the user, one line each. */
  readonly onNote: (text: string) => Effect.Effect<void>
}

/** Result of a batch run. */
export interface Report extends RowPool.Summary {
  readonly merged: BatchFiles.MergeCounts
  readonly statistics: ReturnType<typeof BatchFiles.toStatistics>
}

/** The user is warned if this number of rows was discarded before any row was finished. */
const suspicious = 5

/** The remaining rows are not run if this number of rows failed before any row was finished. */
const hopeless = 10

const formatCount = (count: number, one: string): string => `${count} ${one}${count === 1 ? "" : "s"}`

const describeDifference = ({ added, changed, removed }: Dataset.Difference): string =>
  [
    [added, "new"],
    [changed, "changed"],
    [removed, "gone"]
  ]
    .flatMap(([ids, word]) => (ids !== undefined && ids.length > 0 ? [`${ids.length} ${String(word)}`] : []))
    .join(", ")

/** Options of the first run that a resumed run keeps. */
type KeptChoices = Pick<BatchFiles.Manifest, "distribution" | "format" | "seed"> &
  Required<Pick<BatchFiles.Manifest, "seeds_models">>

const chooseKeptOptions = (
  { distribution, format, runName, seed, toolsets }: Options,
  before: BatchFiles.Manifest | undefined
): KeptChoices => ({
  distribution:
    toolsets === undefined ? (distribution ?? before?.distribution ?? "default") : `${fixed}${toolsets.join(",")}`,
  format: format ?? before?.format ?? "sharegpt",
  seed: seed ?? before?.seed ?? runName,
  seeds_models:
    seed !== undefined || (before?.seeds_models ?? (before !== undefined && before.seed !== before.run_name))
})

const makeManifest = (
  options: Options,
  kept: KeptChoices,
  tools: ReadonlyArray<string>,
  at: string
): BatchFiles.Manifest => ({
  ...kept,
  version: 1,
  run_name: options.runName,
  created_at: at,
  dataset: {
    path: options.dataset.path,
    digest: options.dataset.digest,
    rows: options.dataset.rows.map(({ digest, id }) => [id, digest] as const)
  },
  batch_size: options.batchSize,
  model: options.model,
  tools
})

/** Reports the differences from the first run with this name, and their consequences. */
const reportChanges = Effect.fnUntraced(function* (
  before: BatchFiles.Manifest,
  now: BatchFiles.Manifest,
  { dataset, onNote }: Options
) {
  if (before.dataset.digest !== dataset.digest) {
    const difference = Dataset.compareRows(new Map(before.dataset.rows), dataset.rows)
    yield* onNote(
      `The dataset changed since this run began: ${describeDifference(difference)}. ` +
        "New and changed rows are run, finished ones of rows that are gone stay."
    )
  }
  for (const key of ["distribution", "seed", "model", "batch_size"] as const) {
    const current = key === "batch_size" ? `this value too, not ${now[key]}` : now[key]
    if (before[key] !== now[key])
      yield* onNote(`The run began with ${key.replace("_", " ")} ${before[key]}; rows from now on have ${current}.`)
  }
})

/** Toolsets with at least one available tool. */
const usable = Effect.map(
  ToolRegistry.use(({ list }) => list),
  (sets) => {
    const tools = sets.flatMap(({ tools }) => tools.map(({ tool }) => tool.name))
    const foreign = new Set(sets.map(({ toolset }) => toolset))
    return {
      tools,
      has: (name: string) =>
        foreign.has(name) || Array.from(Toolsets.listTools(name)).some((tool) => tools.includes(tool))
    }
  }
)

/** Prefix of a list of toolsets that all rows share. */
const fixed = "toolsets:"

/** Resolves the toolsets and tools that all rows share. */
const resolveFixedToolsets = Effect.fnUntraced(function* (names: ReadonlyArray<string>, { disabledToolsets }: Options) {
  const {
    unknown: [first]
  } = Toolsets.choose(names, yield* ToolRegistry.use(({ list }) => list), disabledToolsets)
  if (first === undefined) return names
  const remedy = first.nearest === undefined ? "`hermes tools` lists them" : `did you mean "${first.nearest}"?`
  return yield* new BatchError({ message: `there is no toolset or tool "${first.name}": ${remedy}`, isInput: true })
})

/** Prepares the selection of toolsets for rows, and finds toolsets in the distribution that are not available. */
const prepareToolsets = Effect.fnUntraced(function* (options: Options, { distribution, seed }: KeptChoices) {
  const { onNote } = options
  const { has, tools } = yield* usable
  if (distribution.startsWith(fixed)) {
    const names = yield* resolveFixedToolsets(distribution.slice(fixed.length).split(","), options)
    return { tools, of: () => names }
  }
  const found = Distributions.find(distribution)
  if (typeof found === "string") return yield* new BatchError({ message: found, isInput: true })
  const missing = Object.keys(found).filter((name) => !has(name))
  if (missing.length === Object.keys(found).length) {
    return yield* new BatchError({
      message:
        `distribution ${distribution}: none of its toolsets has tools here (${missing.join(", ")}): ` +
        "choose another from --list-distributions",
      isInput: true
    })
  }
  if (missing.length > 0) yield* onNote(`Toolsets without tools in this version are not drawn: ${missing.join(", ")}.`)
  return { tools, of: (row: Dataset.Row) => Distributions.draw(found, seed, row.id, has) }
})

/** Returns the routes that the model calls of a row used. */
const listAskedRoutes = (fields: Json.Fields): ReadonlyArray<RowSeed.AskedRoute> =>
  Json.readItems(Json.readFields(fields["run"])["model_calls"])
    .map(Json.readFields)
    .flatMap(({ api_mode: apiMode, model, provider }) =>
      typeof apiMode === "string" ? [{ apiMode, model: Json.readWord(model), provider: Json.readWord(provider) }] : []
    )

/** Makes a function that notifies the user, at most once, that a model of the run does not receive the seed. */
const makeSeedNotice = ({ onNote }: Options, kept: KeptChoices) => {
  let isDone = !kept.seeds_models
  return (routes: () => ReadonlyArray<RowSeed.AskedRoute>): Effect.Effect<void> =>
    Effect.suspend(() => {
      const [note] = isDone
        ? []
        : routes().flatMap((route) => RowSeed.describeIgnoredSeed(route, "only the draws of toolsets follow it") ?? [])
      if (note === undefined) return Effect.void
      isDone = true
      return onNote(note)
    })
}

/** Acquires the lease of the run for the lifetime of the scope. Fails if another process holds it. */
const acquireRun = Effect.fnUntraced(function* ({ runName }: Options) {
  const store = yield* SessionStore
  const taken = yield* Effect.result(store.acquire(SessionId.make("batch run")))
  if (taken._tag !== "Failure" || taken.failure._tag !== "SessionBusy") return
  const { pid = 0 } = taken.failure
  const place = pid === 0 ? "" : ` in process ${pid}`
  return yield* new BatchError({
    message: `run "${runName}" is under way${place}: wait for it, or choose another --run-name`,
    isInput: true
  })
})

const toJournalError =
  (directory: string) =>
  ({ message }: { readonly message: string }): RowJournal.JournalError =>
    new RowJournal.JournalError({ path: directory, message, canResume: true })

/** Opens the journal of a run. A result is written only after the session of its row is stored. */
const openJournal = Effect.fnUntraced(function* (
  { dataset, directory, onNote }: Options,
  getBatch: (row: Dataset.Row) => number
) {
  const store = yield* SessionStore
  const batches = new Map(dataset.rows.map((row) => [row.id, getBatch(row)]))
  const journal = yield* RowJournal.open({
    directory,
    getFile: (id) => BatchFiles.names.batch(batches.get(id) ?? 0),
    isResults: BatchFiles.names.isBatch,
    before: Effect.mapError(store.committed ?? Effect.void, toJournalError(directory))
  })
  for (const problem of journal.problems) yield* onNote(problem)
  return journal
})

/** Fails if the run was started before and the user did not ask to resume it. */
const checkResumption = (
  { resumes, runName }: Options,
  before: BatchFiles.Manifest,
  { attempts, entries }: RowJournal.Journal
): Effect.Effect<void, BatchError> => {
  if (resumes || (entries.size === 0 && attempts.size === 0)) return Effect.void
  const { rows } = before.dataset
  const done = rows.filter(([id]) => entries.has(id)).length
  return Effect.fail(
    new BatchError({
      message:
        `run "${runName}" exists, ${done} of ${rows.length} rows done: ` +
        "add --resume to go on, or choose another --run-name",
      isInput: true
    })
  )
}

/** Notifies the user if fewer batches remain than there are workers. */
const noteFewBatches = (
  { dataset, onNote, workers }: Options,
  journal: RowJournal.Journal,
  getBatch: (row: Dataset.Row) => number
): Effect.Effect<void> => {
  const groups = new Set(RowPool.selectRemaining(dataset.rows, journal).map(getBatch)).size
  return groups > 0 && groups < workers && dataset.rows.length > groups
    ? onNote(
        `Rows of a batch run one after another: ${formatCount(groups, "batch")}`.replace("batchs", "batches") +
          ` for ${formatCount(workers, "worker")}. Use a smaller --batch-size to run more at a time.`
      )
    : Effect.void
}

/** Makes the progress reporter. It notifies the user once if all of the first rows were discarded. */
const makeProgressReport = ({ onNote, onProgress, runName }: Options): Options["onProgress"] => {
  let isMentioned = false
  return (progress) => {
    const isStrange = !isMentioned && progress.discarded >= suspicious && progress.finished === 0
    if (!isStrange) return onProgress(progress)
    isMentioned = true
    return Effect.andThen(
      onNote(
        `The first ${progress.discarded} rows are discarded: no turn has reasoning. ` +
          "Keep such rows with --keep-without-reasoning; " +
          `\`hermes lab batch merge ${runName} --keep-without-reasoning\` restores the rows discarded so far.`
      ),
      onProgress(progress)
    )
  }
}

/** Runs a batch until all rows are done or it is stopped. */
export const run = Effect.fn("BatchRun.run")(function* (options: Options) {
  const { dataset, directory, workers } = options
  const paths = yield* Path.Path
  const began = yield* Clock.currentTimeMillis
  yield* acquireRun(options)
  const before = yield* BatchFiles.readManifest(directory)
  const kept = chooseKeptOptions(options, before)
  const { of, tools } = yield* prepareToolsets(options, kept)
  const batchSize = before?.batch_size ?? options.batchSize
  const fresh = makeManifest(options, kept, tools, new Date(began).toISOString())
  const manifest: BatchFiles.Manifest = {
    ...fresh,
    batch_size: batchSize,
    created_at: before?.created_at ?? fresh.created_at
  }
  const computeBatchNumber = ({ index }: Dataset.Row): number => Math.floor(index / batchSize)
  const journal = yield* openJournal(options, computeBatchNumber)
  if (before !== undefined) {
    yield* checkResumption(options, before, journal)
    yield* reportChanges(before, fresh, options)
  }
  const tellSeed = makeSeedNotice(options, kept)
  yield* tellSeed(() => (options.route === undefined ? [] : [options.route]))
  yield* BatchFiles.replaceJson(paths.join(directory, BatchFiles.names.manifest), manifest)
  yield* noteFewBatches(options, journal, computeBatchNumber)
  const checkpoint = yield* BatchCheckpoint.make(
    paths.join(directory, BatchFiles.names.checkpoint),
    options,
    journal,
    computeBatchNumber
  )
  const row: BatchRow.Options = {
    directory,
    promptField: options.promptField,
    getToolsets: of,
    disabledToolsets: options.disabledToolsets,
    getRowBatch: computeBatchNumber,
    knownTools: tools,
    ephemeralSystemPrompt: options.ephemeralSystemPrompt,
    maxIterations: options.maxIterations,
    budget: options.rowBudget,
    getSeed: kept.seeds_models ? (one) => RowSeed.computeSeed(kept.seed, one.id) : undefined,
    needsReasoning: options.needsReasoning,
    withAtif: kept.format !== "sharegpt",
    keepsWorkspaces: options.keepsWorkspaces,
    prepare: options.prepare
  }
  const summary = yield* RowPool.run({
    rows: dataset.rows,
    journal,
    concurrency: workers,
    sequentialBy: computeBatchNumber,
    retries: options.retries,
    timeout: options.rowTimeout,
    limits: options.limits,
    run: (one, attempt, tell) =>
      Effect.tap(options.elsewhere?.(one, attempt, row) ?? BatchRow.run(one, attempt, row, tell), ({ fields }) =>
        Effect.andThen(
          tellSeed(() => listAskedRoutes(fields)),
          options.onAnswer?.(one, fields) ?? Effect.void
        )
      ),
    onFailure: BatchRow.decideOnFailure,
    onProgress: makeProgressReport(options),
    onRow: (one, end) => Effect.mapError(checkpoint.settled(one, end), toJournalError(directory)),
    stopWhen: ({ discarded, failed, finished }) =>
      failed >= hopeless && finished + discarded === 0 ? `the first ${failed} rows failed` : undefined
  })
  yield* checkpoint.write
  const seconds = Math.round(((yield* Clock.currentTimeMillis) - began) / 1000)
  const { merged, statistics } = yield* finish(directory, journal, manifest, seconds)
  return { ...summary, merged, statistics } satisfies Report as Report
}, Effect.scoped)

/**
 * Writes the merged files and the statistics of the existing rows. The previous statistics provide the duration if
 * `seconds` is absent, and the failures if the journal has no attempts.
 */
export const finish = Effect.fnUntraced(function* (
  directory: string,
  journal: Pick<RowJournal.Journal, "results"> & Partial<Pick<RowJournal.Journal, "attempts" | "entries">>,
  manifest: BatchFiles.Manifest,
  seconds?: number
) {
  const paths = yield* Path.Path
  const { merged, totals } = yield* BatchFiles.merge(directory, journal.results, manifest)
  const path = paths.join(directory, BatchFiles.names.statistics)
  const previous = yield* BatchFiles.readPrevious(path)
  const { attempts, entries } = journal
  const known = attempts === undefined || entries === undefined ? undefined : { attempts, entries }
  const statistics = BatchFiles.toStatistics(totals, manifest, {
    at: new Date(yield* Clock.currentTimeMillis).toISOString(),
    seconds: seconds ?? previous.seconds,
    failures: known === undefined ? previous.failures : BatchFiles.countFailures(manifest, known),
    suspended: known === undefined ? previous.suspended : BatchFiles.countSuspended(manifest, known)
  })
  yield* BatchFiles.replaceJson(path, statistics)
  return { merged, statistics }
})
