/**
 * Compresses files of trajectories: each line a row with `conversations`, written in its order with
 * `compression_metrics` beside it.
 *
 * **Details**
 *
 * Rows that cannot be read are told with their lines and left out. A row that took too long is dropped; one whose
 * compression failed otherwise stays as it was. `compression_metrics.json` beside the output has the sums of all files.
 * A file appears as a whole, when it is done.
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
  /** File, or directory of `.jsonl` files. */
  readonly input: string
  /** Beside the input, with `-compressed` in its name, when absent. */
  readonly output: string | undefined
  readonly concurrency: number
  readonly timeout: Duration.Duration
  /** Part of the rows, from 0 to 100. */
  readonly samplePercent: number | undefined
  readonly seed: number
  /** Absent for a run that only counts. */
  readonly summarise: TrajectoryCompressor.Summariser<E, R> | undefined
  readonly onProgress: (done: number) => Effect.Effect<void>
  readonly onProblem: (text: string) => Effect.Effect<void>
}

/** Sums over all rows. */
export interface Sums {
  rows: number
  compressed: number
  unchanged: number
  overLimit: number
  dropped: number
  unreadable: number
  placeholders: number
  summaryCalls: number
  summaryErrors: number
  tokensBefore: number
  tokensAfter: number
}

/** Result of {@link run}: the sums, and the files that were written. */
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

const makeSums = (): Sums => ({
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
})

const toReadError = (path: string) => (error: Parameters<typeof describeReason>[0]) =>
  new BatchError({ message: `${path} cannot be read: ${describeReason(error)}`, isInput: true })

/** True when a row is in the sample: its own number decides, so that the same rows are taken again. */
const isSampled = (
  file: string,
  number: number,
  { samplePercent, seed }: Pick<Options<never, never>, "samplePercent" | "seed">
): boolean =>
  samplePercent === undefined ||
  (Number.parseInt(Digest.toHex(`${seed} ${file} ${number}`, 8), 16) / 16 ** 8) * 100 < samplePercent

const addMetrics = (
  sums: Sums,
  {
    compressed_tokens: after,
    is_placeholder: isPlaceholder,
    original_tokens: before,
    still_over_limit: isOver,
    summary_calls: calls,
    summary_errors: errors,
    was_compressed: was
  }: TrajectoryCompressor.Metrics
): void => {
  sums[was ? "compressed" : "unchanged"]++
  if (isOver) sums.overLimit++
  if (isPlaceholder) sums.placeholders++
  sums.summaryCalls += calls
  sums.summaryErrors += errors
  sums.tokensBefore += before
  sums.tokensAfter += after
}

const computeRatio = (part: number, whole: number): number =>
  whole === 0 ? 1 : Math.round((part / whole) * 10_000) / 10_000

/** `compression_metrics.json`. */
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

/** Files to read, and the file or directory to write. */
export const resolveFiles = Effect.fnUntraced(function* ({
  input,
  output: wanted
}: Pick<Options<never, never>, "input" | "output">) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const isFolder = (yield* Effect.mapError(fs.stat(input), toReadError(input))).type === "Directory"
  const found = isFolder ? yield* Effect.mapError(fs.readDirectory(input), toReadError(input)) : []
  // A batch run has the rows of its parts once more in the merged file.
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

/** Compresses a file or a directory. */
export const run = Effect.fn("CompressFiles.run")(function* <E, R>(options: Options<E, R>) {
  const { concurrency, onProblem, onProgress, summarise, timeout } = options
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const { files, isFolder, output } = yield* resolveFiles(options)
  const sums = makeSums()

  const readLines = Effect.fnUntraced(function* (file: string) {
    const text = yield* Effect.mapError(fs.readFileString(file), toReadError(file))
    const lines: Array<Line> = []
    for (const [index, line] of text.split("\n").entries()) {
      if (line.trim() === "") continue
      const number = index + 1
      const fields = Json.readFields(Option.getOrUndefined(Json.parse(line)))
      const turns = ShareGpt.read(fields["conversations"])
      if (turns === undefined) {
        sums.unreadable++
        yield* onProblem(`${file} line ${number}: no conversations that can be read; left out`)
      } else if (isSampled(paths.basename(file), number, options)) lines.push({ number, fields, turns })
    }
    return lines
  })

  const compressLine = (file: string, { fields, number, turns }: Line): Effect.Effect<string | undefined, never, R> => {
    if (summarise === undefined) {
      const range = TrajectoryCompressor.planRange(turns, options)
      const before = TrajectoryCompressor.estimateTokens(turns)
      const removed =
        range === undefined
          ? 0
          : TrajectoryCompressor.estimateTokens(turns.slice(range.from, range.to)) - options.summaryTokens
      sums.rows++
      sums[range === undefined ? "unchanged" : "compressed"]++
      sums.tokensBefore += before
      sums.tokensAfter += before - removed
      if (before - removed > options.targetTokens) sums.overLimit++
      return Effect.undefined
    }
    return TrajectoryCompressor.compress(turns, options, summarise).pipe(
      // Whatever failed, the trajectory is still there.
      Effect.catchDefect((defect) =>
        Effect.as(
          onProblem(`${file} line ${number}: not compressed: ${String(defect)}`),
          TrajectoryCompressor.keepUnchanged(turns, options)
        )
      ),
      Effect.timeoutOption(timeout),
      Effect.flatMap((result) =>
        Effect.gen(function* () {
          sums.rows++
          yield* onProgress(sums.rows)
          if (Option.isNone(result)) {
            sums.dropped++
            yield* onProblem(`${file} line ${number}: took longer than ${Duration.format(timeout)}; dropped`)
            return undefined
          }
          addMetrics(sums, result.value.metrics)
          if (result.value.problem !== undefined)
            yield* onProblem(`${file} line ${number}: no summary could be made: ${result.value.problem}`)
          return `${JSON.stringify({ ...fields, conversations: result.value.turns, compression_metrics: result.value.metrics })}\n`
        })
      )
    )
  }

  const outputs: Array<string> = []
  if (isFolder && summarise !== undefined)
    yield* Effect.mapError(
      fs.makeDirectory(output, { recursive: true }),
      (error) => new BatchError({ message: `${output} cannot be written: ${describeReason(error)}`, isInput: true })
    )
  for (const file of files) {
    const lines = yield* readLines(file)
    const results = Stream.fromIterable(lines).pipe(
      Stream.mapEffect((line) => compressLine(file, line), { concurrency }),
      Stream.filter((text) => text !== undefined)
    )
    if (summarise === undefined) yield* Stream.runDrain(results)
    else {
      const path = isFolder ? paths.join(output, paths.basename(file)) : output
      yield* BatchFiles.replaceFile(path, results)
      outputs.push(path)
    }
  }
  const metrics =
    summarise === undefined
      ? undefined
      : paths.join(isFolder ? output : paths.dirname(output), "compression_metrics.json")
  if (metrics !== undefined) yield* BatchFiles.replaceJson(metrics, toMetrics(sums, options))
  return { sums, outputs, metrics } satisfies Report as Report
})
