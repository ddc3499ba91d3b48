/**
 * The files of a batch run in `data/<run name>/`: rows, checkpoint, statistics, and the merged trajectories.
 *
 * **Details**
 *
 * | file | content |
 * | --- | --- |
 * | `run.json` | parameters of the first start: dataset, rows, distribution, seed, model, known tools |
 * | `batch_<n>.jsonl` | rows, appended and synced one by one; a discarded row is a line with `discarded` |
 * | `attempts.jsonl` | starts and failures of rows |
 * | `state.db` | sessions and run record of all rows, which `hermes batch view` shows |
 * | `checkpoint.json` | indices of completed rows; replaced as a whole after each batch |
 * | `trajectories.jsonl` | rows of all batches, except discarded rows and rows that name unknown tools |
 * | `trajectories.atif.jsonl` | the same rows as ATIF documents, with `--format atif` or `both` |
 * | `statistics.json` | counts, tools, reasoning, usage and cost |
 *
 * Source: `hermes-product.md` §5.1.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Json from "../../base/domain/Json.ts"
import { describeReason } from "../../base/domain/PathProblem.ts"
import type { Journal, JournalError, ResultLine } from "./RowJournal.ts"
import * as ShareGpt from "./ShareGpt.ts"

/** Error raised when a batch run cannot begin or continue. `message` is one line with the remedy. */
export class BatchError extends Schema.TaggedError<BatchError>("hermes-effect/BatchError")("BatchError", {
  message: Schema.String,
  /** True if the input of the run must be changed. */
  isInput: Schema.Boolean
}) {}

/** Formats in which trajectories can be written. */
const formats = ["sharegpt", "atif", "both"] as const
/** One of {@link formats}. */
export type Format = (typeof formats)[number]

/** Description of a run, saved at its first start. */
export const Manifest = Schema.Struct({
  version: Schema.Literal(1),
  run_name: Schema.String,
  created_at: Schema.String,
  dataset: Schema.Struct({
    path: Schema.String,
    digest: Schema.String,
    rows: Schema.Array(Schema.Tuple([Schema.String, Schema.String]))
  }),
  batch_size: Schema.Int,
  distribution: Schema.String,
  seed: Schema.String,
  /** True if the seed is sent to models. If the field is missing, the seed is sent unless it is the run's name. */
  seeds_models: Schema.optionalKey(Schema.Boolean),
  model: Schema.String,
  format: Schema.Literals(formats),
  tools: Schema.Array(Schema.String)
})
/** Type of {@link Manifest}. */
export type Manifest = typeof Manifest.Type

/** Names of the files in a run directory. */
export const names = {
  manifest: "run.json",
  database: "state.db",
  checkpoint: "checkpoint.json",
  statistics: "statistics.json",
  trajectories: "trajectories.jsonl",
  atif: "trajectories.atif.jsonl",
  /** Key of the names of rows that runners of a cluster execute. */
  cluster: "cluster.json",
  batch: (number: number): string => `batch_${number}.jsonl`,
  isBatch: (name: string): boolean => /^batch_\d+\.jsonl$/.test(name)
} as const

const toWriteError =
  (path: string) =>
  (error: PlatformError): BatchError =>
    new BatchError({
      message: `${path} cannot be written: ${describeReason(error)}; finished rows are safe, resume when it can be`,
      isInput: false
    })

/** Replaces a file atomically: readers see either the old or the new content. */
export const replaceFile = Effect.fnUntraced(function* <R>(
  path: string,
  content: Stream.Stream<string, BatchError, R>
) {
  const fs = yield* FileSystem.FileSystem
  const draft = `${path}.new`
  yield* Effect.mapError(fs.writeFileString(draft, "", { mode: 0o600 }), toWriteError(path))
  yield* Stream.run(Stream.encodeText(content), fs.sink(draft, { mode: 0o600 })).pipe(
    Effect.mapError((error) => (error._tag === "BatchError" ? error : toWriteError(path)(error))),
    Effect.onError(() => Effect.ignore(fs.remove(draft)))
  )
  yield* Effect.mapError(fs.rename(draft, path), toWriteError(path))
})

/** Replaces a JSON file atomically. */
export const replaceJson = (path: string, value: unknown) =>
  replaceFile(path, Stream.succeed(`${JSON.stringify(value, null, 2)}\n`))

/** Reads the manifest of a directory. Returns `undefined` if it is missing. */
export const readManifest = Effect.fnUntraced(function* (directory: string) {
  const fs = yield* FileSystem.FileSystem
  const path = (yield* Path.Path).join(directory, names.manifest)
  const text = yield* fs.readFileString(path).pipe(
    Effect.catchIf(
      ({ reason }) => reason._tag === "NotFound",
      () => Effect.undefined
    ),
    Effect.mapError(
      (error) => new BatchError({ message: `${path} cannot be read: ${describeReason(error)}`, isInput: true })
    )
  )
  if (text === undefined) return undefined
  const found = Schema.decodeUnknownOption(Manifest)(Json.parseOrKeep(text))
  if (Option.isSome(found)) return found.value
  return yield* new BatchError({
    message: `${path} is not readable: another version wrote it, or it is damaged. Choose another --run-name`,
    isInput: true
  })
})

/** Finds the names of unknown tools in a row. */
const findUnknownTools = (fields: Json.Fields, known: ReadonlySet<string>): ReadonlyArray<string> =>
  Array.from(
    new Set(
      (ShareGpt.read(fields["conversations"]) ?? [])
        .filter(({ from }) => from === "gpt")
        .flatMap(ShareGpt.parseCalls)
        .map(({ name }) => name)
    )
  ).filter((name) => !known.has(name))

/** Counts of the rows of a run. */
interface RowCounts {
  readonly all: number
  /** Number of rows that are no longer in the dataset or whose content has changed. */
  readonly gone: number
  readonly finished: number
  readonly completed: number
  readonly discarded: number
  readonly withUnknownTools: number
}

/** Usage of the rows of a run, including discarded rows. */
interface RowUsage {
  readonly apiCalls: number
  readonly promptTokens: number
  readonly completionTokens: number
  readonly costUsd: number
}

/** Counts of the model's answers in the finished rows of a run. */
interface TurnCounts {
  readonly all: number
  readonly withReasoning: number
}

/** Totals of the rows of a run. */
export interface Totals {
  rows: RowCounts
  usage: RowUsage
  turns: TurnCounts
  readonly exits: Map<string, number>
  readonly tools: Map<string, { count: number; success: number; failure: number }>
  readonly discards: Map<string, number>
}

/** Returns the totals before the first row. */
export const makeTotals = (): Totals => ({
  rows: { all: 0, gone: 0, finished: 0, completed: 0, discarded: 0, withUnknownTools: 0 },
  usage: { apiCalls: 0, promptTokens: 0, completionTokens: 0, costUsd: 0 },
  turns: { all: 0, withReasoning: 0 },
  exits: new Map(),
  tools: new Map(),
  discards: new Map()
})

const toCount = (value: unknown): number => (typeof value === "number" && Number.isFinite(value) ? value : 0)
const incrementCount = (counts: Map<string, number>, key: string): void =>
  void counts.set(key, (counts.get(key) ?? 0) + 1)

/** Names of the tools and digests of the rows that belong to a run. */
export interface KnownItems {
  readonly tools: ReadonlySet<string>
  /** Row digests by id. */
  readonly rows: ReadonlyMap<string, string>
}

/** Returns the tools and rows that a manifest lists. */
export const collectKnown = ({ dataset, tools }: Pick<Manifest, "dataset" | "tools">): KnownItems => ({
  tools: new Set(tools),
  rows: new Map(dataset.rows)
})

const countRow = (rows: RowCounts, { digest, discarded, fields, id }: ResultLine, known: KnownItems): RowCounts => {
  const now = known.rows.get(id)
  const isGone = now === undefined || (digest !== undefined && digest !== now)
  const counted = { ...rows, all: rows.all + 1, gone: rows.gone + Number(isGone) }
  if (discarded !== undefined) return { ...counted, discarded: rows.discarded + 1 }
  return {
    ...counted,
    finished: rows.finished + 1,
    completed: rows.completed + Number(fields["completed"] === true),
    withUnknownTools: rows.withUnknownTools + Number(findUnknownTools(fields, known.tools).length > 0)
  }
}

const addUsage = (sums: RowUsage, fields: Json.Fields): RowUsage => {
  const run = Json.readFields(fields["run"])
  const usage = Json.readFields(run["usage"])
  return {
    apiCalls: sums.apiCalls + toCount(fields["api_calls"]),
    promptTokens: sums.promptTokens + toCount(usage["prompt_tokens"]),
    completionTokens: sums.completionTokens + toCount(usage["completion_tokens"]),
    costUsd: sums.costUsd + toCount(Json.readFields(run["cost"])["estimated_cost_usd"])
  }
}

const countTurns = ({ all, withReasoning }: TurnCounts, fields: Json.Fields): TurnCounts => {
  const answers = (ShareGpt.read(fields["conversations"]) ?? []).filter(({ from }) => from === "gpt")
  const reasoned = answers.filter(({ value }) => /^<think>\s*[^\s<]/.test(value))
  return { all: all + answers.length, withReasoning: withReasoning + reasoned.length }
}

const addToolStatistics = (tools: Totals["tools"], fields: Json.Fields): void => {
  for (const [name, value] of Object.entries(Json.readFields(fields["tool_stats"]))) {
    const stat = Json.readFields(value)
    const sum = tools.get(name) ?? { count: 0, success: 0, failure: 0 }
    for (const key of ["count", "success", "failure"] as const) sum[key] += toCount(stat[key])
    tools.set(name, sum)
  }
}

/** Adds a row to the totals. A discarded row adds only its usage. */
export const addRow = (totals: Totals, line: ResultLine, known: KnownItems): void => {
  const { discarded, fields } = line
  totals.rows = countRow(totals.rows, line, known)
  totals.usage = addUsage(totals.usage, fields)
  if (discarded !== undefined) return incrementCount(totals.discards, discarded)
  totals.turns = countTurns(totals.turns, fields)
  incrementCount(totals.exits, Json.readWord(Json.readFields(fields["run"])["exit"]) || "unknown")
  addToolStatistics(totals.tools, fields)
}

const computeRate = (part: number, whole: number): number =>
  whole === 0 ? 0 : Math.round((part / whole) * 10_000) / 10_000

/** Facts of a run that its rows do not contain. */
export interface StatisticsContext {
  readonly at: string
  readonly seconds: number
  /** Numbers of rows without a result, by the kind of their last failure. */
  readonly failures: Json.Fields
  /** Number of rows that wait for answers. */
  readonly suspended: number
}

/** Counts the rows without a result by the kind of their last failure. */
export const countFailures = (
  { dataset }: Pick<Manifest, "dataset">,
  { attempts, entries }: Pick<Journal, "attempts" | "entries">
): Json.Fields => {
  const counts = new Map<string, number>()
  for (const [id] of dataset.rows) {
    const failure = entries.has(id) ? undefined : attempts.get(id)?.failure
    if (failure !== undefined) incrementCount(counts, failure.kind)
  }
  return Object.fromEntries(counts)
}

/** Counts the rows that wait for answers. */
export const countSuspended = (
  { dataset }: Pick<Manifest, "dataset">,
  { attempts, entries }: Pick<Journal, "attempts" | "entries">
): number => dataset.rows.filter(([id]) => !entries.has(id) && attempts.get(id)?.suspendedIn !== undefined).length

/** Returns the content of `statistics.json`. */
export const toStatistics = (
  totals: Totals,
  { batch_size: batchSize, dataset, distribution, model, run_name: runName }: Manifest,
  { at, failures, seconds, suspended }: StatisticsContext
) => ({
  run_name: runName,
  distribution,
  total_prompts: dataset.rows.length,
  total_batches: Math.ceil(dataset.rows.length / batchSize),
  batch_size: batchSize,
  model,
  completed_at: at,
  duration_seconds: seconds,
  rows: {
    finished: totals.rows.finished,
    completed: totals.rows.completed,
    discarded: totals.rows.discarded,
    with_unknown_tools: totals.rows.withUnknownTools,
    missing: dataset.rows.length - (totals.rows.all - totals.rows.gone),
    suspended,
    gone: totals.rows.gone
  },
  completion_rate: computeRate(totals.rows.completed, dataset.rows.length + totals.rows.gone),
  failures,
  exits: Object.fromEntries(totals.exits),
  discards: Object.fromEntries(totals.discards),
  usage: {
    api_calls: totals.usage.apiCalls,
    prompt_tokens: totals.usage.promptTokens,
    completion_tokens: totals.usage.completionTokens,
    cost_usd: totals.usage.costUsd
  },
  tool_statistics: Object.fromEntries(
    Array.from(totals.tools, ([name, stat]) => [
      name,
      {
        ...stat,
        success_rate: computeRate(stat.success, stat.count),
        failure_rate: computeRate(stat.failure, stat.count)
      }
    ])
  ),
  reasoning_statistics: {
    total_assistant_turns: totals.turns.all,
    turns_with_reasoning: totals.turns.withReasoning,
    turns_without_reasoning: totals.turns.all - totals.turns.withReasoning
  }
})

/** Reads what the rows do not contain from the previous statistics. It is empty if the statistics are missing. */
export const readPrevious = (
  path: string
): Effect.Effect<Omit<StatisticsContext, "at">, never, FileSystem.FileSystem> =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readFileString(path)).pipe(
    Effect.map((text) => Json.readFields(Json.parseOrKeep(text))),
    Effect.map((fields) => ({
      seconds: toCount(fields["duration_seconds"]),
      failures: Json.readFields(fields["failures"]),
      suspended: toCount(Json.readFields(fields["rows"])["suspended"])
    })),
    Effect.orElseSucceed(() => ({ seconds: 0, failures: {}, suspended: 0 }))
  )

/** Counts that {@link merge} returns. */
export interface MergeCounts {
  readonly written: number
  readonly discarded: number
  readonly withUnknownTools: number
}

const dropAtif = ({ atif: _, ...fields }: Json.Fields): Json.Fields => fields

/** Writes the merged files in the requested formats, and computes the totals of the rows. */
export const merge = Effect.fnUntraced(function* (
  directory: string,
  results: Stream.Stream<ResultLine, JournalError>,
  manifest: Pick<Manifest, "dataset" | "format" | "tools">
) {
  const paths = yield* Path.Path
  const known = collectKnown(manifest)
  const totals = makeTotals()
  const isKept = ({ discarded, fields }: ResultLine): boolean =>
    discarded === undefined && findUnknownTools(fields, known.tools).length === 0
  const lines = Stream.mapError(results, ({ message }) => new BatchError({ message, isInput: false }))
  const toJsonLine = (value: unknown): string => `${JSON.stringify(value)}\n`
  yield* replaceFile(
    paths.join(directory, names.trajectories),
    lines.pipe(
      Stream.filter((line) => {
        addRow(totals, line, known)
        return isKept(line)
      }),
      Stream.map(({ fields, id }) => toJsonLine({ row_id: id, ...dropAtif(fields) }))
    )
  )
  if (manifest.format !== "sharegpt") {
    yield* replaceFile(
      paths.join(directory, names.atif),
      lines.pipe(
        Stream.filter(isKept),
        Stream.flatMap(({ fields }) =>
          fields["atif"] === undefined ? Stream.empty : Stream.succeed(toJsonLine(fields["atif"]))
        )
      )
    )
  }
  const { discarded, finished, withUnknownTools } = totals.rows
  const merged: MergeCounts = { written: finished - withUnknownTools, discarded, withUnknownTools }
  return { merged, totals }
})
