/**
 * Compresses files of trajectories. Each line is a row with `conversations`. The rows are written in the same order,
 * with `compression_metrics` added.
 *
 * **Details**
 *
 * Unreadable rows are omitted and reported with their line numbers. A row that exceeds the time limit is dropped. If
 * its compression fails for another reason, the row is left unchanged. `compression_metrics.json` next to the output
 * contains the totals of all files. An output file appears only when it is complete.
 *
 * Source: `hermes-product.md` §5.4.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Stream from "effect/Stream"
import * as Json from "../../base/domain/Json.ts"
import { describeReason } from "../../base/domain/PathProblem.ts"
import * as Digest from "../../base/platform/Digest.ts"
import * as BatchFiles from "../batch/BatchFiles.ts"
import { BatchError } from "../batch/BatchFiles.ts"
import * as ShareGpt from "../batch/ShareGpt.ts"
import * as TrajectoryCompressor from "./TrajectoryCompressor.ts"

/** Options of {@link run}. */
export interface Options<E, R> extends TrajectoryCompressor.Options {
  /** Input file, or directory of `.jsonl` files. */
  readonly input: string
  /** Output path. Defaults to the input path with `-compressed` added to its name. */
  readonly output: string | undefined
  readonly concurrency: number
  readonly timeout: Duration.Duration
  /** Percentage of the rows to compress, from 0 to 100. */
  readonly samplePercent: number | undefined
  readonly seed: number
  /** Function that writes the summaries. If it is `undefined`, the run only estimates the result. */
  readonly summarise: TrajectoryCompressor.Summariser<E, R> | undefined
  readonly onProgress: (done: number) => Effect.Effect<void>
  readonly onProblem: (text: string) => Effect.Effect<void>
}

/** Totals over all rows. */
export interface Sums {
  readonly rows: number
  readonly compressed: number
  readonly unchanged: number
  readonly overLimit: number
  readonly dropped: number
  readonly unreadable: number
  readonly placeholders: number
  readonly summaryCalls: number
  readonly summaryErrors: number
  readonly tokensBefore: number
  readonly tokensAfter: number
}

/** Result of {@link run}: the totals, and the files that were written. */
export interface Report {
  readonly sums: Sums
  readonly outputs: ReadonlyArray<string>
  readonly metrics: string | undefined
}

interface Line {
  readonly number: number
  readonly fields: Json.Fields
  readonly turns: ReadonlyArray<ShareGpt.Turn>
}

const noSums: Sums = {
  rows: 0,
  compressed: 0,
  unchanged: 0,
  overLimit: 0,
  dropped: 0,
  unreadable: 0,
  placeholders: 0,
  summaryCalls: 0,
  summaryErrors: 0,
  tokensBefore: 0,
  tokensAfter: 0
}

const toReadError = (path: string) => (error: Parameters<typeof describeReason>[0]) =>
  new BatchError({ message: `${path} cannot be read: ${describeReason(error)}`, isInput: true })

/**
 * Returns true if a row belongs to the sample. The decision depends only on the file, the row's number and the seed, so
 * that each run selects the same rows.
 */
const isSampled = (
  file: string,
  number: number,
  { samplePercent, seed }: Pick<Options<never, never>, "samplePercent" | "seed">
): boolean =>
  samplePercent === undefined ||
  (Number.parseInt(Digest.toHex(`${seed} ${file} ${number}`, 8), 16) / 16 ** 8) * 100 < samplePercent

/** Returns the totals with some of them increased. */
const increaseSums = (sums: Sums, added: Partial<Sums>): Sums => ({
  rows: sums.rows + (added.rows ?? 0),
  compressed: sums.compressed + (added.compressed ?? 0),
  unchanged: sums.unchanged + (added.unchanged ?? 0),
  overLimit: sums.overLimit + (added.overLimit ?? 0),
  dropped: sums.dropped + (added.dropped ?? 0),
  unreadable: sums.unreadable + (added.unreadable ?? 0),
  placeholders: sums.placeholders + (added.placeholders ?? 0),
  summaryCalls: sums.summaryCalls + (added.summaryCalls ?? 0),
  summaryErrors: sums.summaryErrors + (added.summaryErrors ?? 0),
  tokensBefore: sums.tokensBefore + (added.tokensBefore ?? 0),
  tokensAfter: sums.tokensAfter + (added.tokensAfter ?? 0)
})

const toSums = (metrics: TrajectoryCompressor.Metrics): Partial<Sums> => ({
  [metrics.was_compressed ? "compressed" : "unchanged"]: 1,
  overLimit: Number(metrics.still_over_limit),
  placeholders: Number(metrics.is_placeholder),
  summaryCalls: metrics.summary_calls,
  summaryErrors: metrics.summary_errors,
  tokensBefore: metrics.original_tokens,
  tokensAfter: metrics.compressed_tokens
})

const computeRatio = (part: number, whole: number): number =>
  whole === 0 ? 1 : Math.round((part / whole) * 10_000) / 10_000

/** Returns the content of `compression_metrics.json`. */
const toMetrics = (sums: Sums, { protectLast, summaryTokens, targetTokens }: TrajectoryCompressor.Options) => ({
  token_estimate: "characters / 4",
  target_tokens: targetTokens,
  summary_tokens: summaryTokens,
  protected_last_turns: protectLast,
  trajectories: sums.rows,
  compressed: sums.compressed,
  unchanged: sums.unchanged,
  still_over_limit: sums.overLimit,
  dropped_by_timeout: sums.dropped,
  unreadable: sums.unreadable,
  placeholders: sums.placeholders,
  summary_calls: sums.summaryCalls,
  summary_errors: sums.summaryErrors,
  tokens_before: sums.tokensBefore,
  tokens_after: sums.tokensAfter,
  tokens_saved: sums.tokensBefore - sums.tokensAfter,
  compression_ratio: computeRatio(sums.tokensAfter, sums.tokensBefore)
})

/** Returns the files to read, and the file or directory to write. */
export const resolveFiles = Effect.fnUntraced(function* ({
  input,
  output: wanted
}: Pick<Options<never, never>, "input" | "output">) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const isFolder = (yield* Effect.mapError(fs.stat(input), toReadError(input))).type === "Directory"
  const found = isFolder ? yield* Effect.mapError(fs.readDirectory(input), toReadError(input)) : []
  // The merged file of a batch run repeats the rows of its batch files.
  const isRun = found.includes(BatchFiles.names.manifest) && found.includes(BatchFiles.names.trajectories)
  const files = isFolder
    ? found
        .filter((name) => (isRun ? name === BatchFiles.names.trajectories : name.endsWith(".jsonl")))
        .toSorted()
        .map((name) => paths.join(input, name))
    : [input]
  if (files.length === 0) return yield* new BatchError({ message: `${input} has no .jsonl file`, isInput: true })
  const output =
    wanted ??
    (isFolder ? `${input.replace(/[/\\]+$/, "")}-compressed` : input.replace(/(\.jsonl)?$/, "-compressed.jsonl"))
  if (paths.resolve(output) === paths.resolve(input))
    return yield* new BatchError({ message: `--output ${output} is the input: name another file`, isInput: true })
  return { files, isFolder, output }
})

/** An active compression. */
interface Compression<E, R> {
  readonly options: Options<E, R>
  sums: Sums
}

const addSums = <E, R>(compression: Compression<E, R>, added: Partial<Sums>): void => {
  compression.sums = increaseSums(compression.sums, added)
}

const readLines = Effect.fnUntraced(function* <E, R>(compression: Compression<E, R>, file: string) {
  const { options } = compression
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const text = yield* Effect.mapError(fs.readFileString(file), toReadError(file))
  const lines: Array<Line> = []
  for (const [index, line] of text.split("\n").entries()) {
    if (line.trim() === "") continue
    const number = index + 1
    const fields = Json.readFields(Option.getOrUndefined(Json.parse(line)))
    const turns = ShareGpt.read(fields["conversations"])
    if (turns === undefined) {
      addSums(compression, { unreadable: 1 })
      yield* options.onProblem(`${file} line ${number}: no conversations that can be read; left out`)
    } else if (isSampled(paths.basename(file), number, options)) lines.push({ number, fields, turns })
  }
  return lines
})

/** Estimates the result for a line without requesting a summary. */
const estimateLine = (options: TrajectoryCompressor.Options, turns: Line["turns"]): Partial<Sums> => {
  const range = TrajectoryCompressor.planRange(turns, options)
  const before = TrajectoryCompressor.estimateTokens(turns)
  const removed =
    range === undefined
      ? 0
      : TrajectoryCompressor.estimateTokens(turns.slice(range.from, range.to)) - options.summaryTokens
  return {
    rows: 1,
    [range === undefined ? "unchanged" : "compressed"]: 1,
    tokensBefore: before,
    tokensAfter: before - removed,
    overLimit: Number(before - removed > options.targetTokens)
  }
}

/** Compresses a line. Returns its new text, or `undefined` if it took too long. */
const compressLine = Effect.fnUntraced(function* <E, R>(
  compression: Compression<E, R>,
  summarise: TrajectoryCompressor.Summariser<E, R>,
  file: string,
  { fields, number, turns }: Line
): Effect.fn.Return<string | undefined, never, R> {
  const { options } = compression
  const { onProblem, onProgress, timeout } = options
  const result = yield* TrajectoryCompressor.compress(turns, options, summarise).pipe(
    // After any failure, the trajectory is left unchanged.
    Effect.catchDefect((defect) =>
      Effect.as(
        onProblem(`${file} line ${number}: not compressed: ${String(defect)}`),
        TrajectoryCompressor.keepUnchanged(turns, options)
      )
    ),
    Effect.timeoutOption(timeout)
  )
  addSums(compression, { rows: 1 })
  yield* onProgress(compression.sums.rows)
  if (Option.isNone(result)) {
    addSums(compression, { dropped: 1 })
    yield* onProblem(`${file} line ${number}: took longer than ${Duration.format(timeout)}; dropped`)
    return undefined
  }
  const { metrics, problem, turns: conversations } = result.value
  addSums(compression, toSums(metrics))
  if (problem !== undefined) yield* onProblem(`${file} line ${number}: no summary could be made: ${problem}`)
  return `${JSON.stringify({ ...fields, conversations, compression_metrics: metrics })}\n`
})

/** Compresses a file or a directory. */
export const run = Effect.fn("CompressFiles.run")(function* <E, R>(options: Options<E, R>) {
  const { concurrency, summarise } = options
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const { files, isFolder, output } = yield* resolveFiles(options)
  const compression: Compression<E, R> = { options, sums: noSums }
  const outputs: Array<string> = []
  if (isFolder && summarise !== undefined)
    yield* Effect.mapError(
      fs.makeDirectory(output, { recursive: true }),
      (error) => new BatchError({ message: `${output} cannot be written: ${describeReason(error)}`, isInput: true })
    )
  for (const file of files) {
    const lines = yield* readLines(compression, file)
    if (summarise === undefined) {
      for (const { turns } of lines) addSums(compression, estimateLine(options, turns))
      continue
    }
    const results = Stream.fromIterable(lines).pipe(
      Stream.mapEffect((line) => compressLine(compression, summarise, file, line), { concurrency }),
      Stream.filter((text) => text !== undefined)
    )
    const path = isFolder ? paths.join(output, paths.basename(file)) : output
    yield* BatchFiles.replaceFile(path, results)
    outputs.push(path)
  }
  const { sums } = compression
  const metrics =
    summarise === undefined
      ? undefined
      : paths.join(isFolder ? output : paths.dirname(output), "compression_metrics.json")
  if (metrics !== undefined) yield* BatchFiles.replaceJson(metrics, toMetrics(sums, options))
  return { sums, outputs, metrics } satisfies Report as Report
})
