/**
 * Action of `hermes batch compress`: shortens trajectories by replacing parts with summaries written by the model of
 * the side task `compression`.
 *
 * Source: `hermes-product.md` §5.4.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import * as Config from "../../base/config/Config.ts"
import { SessionId, TaskId, TurnId } from "../../base/domain/Ids.ts"
import { Auxiliary } from "../../models/routing/Auxiliary.ts"
import * as CompressFiles from "../../research/compress/CompressFiles.ts"
import * as TrajectoryCompressor from "../../research/compress/TrajectoryCompressor.ts"
import type { CompressFlags } from "./BatchCommand.ts"
import * as CommandSettings from "./CommandSettings.ts"
import { makeWorkFailure, makeUsageFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { hermes } from "./Hermes.ts"
import { Output, renderTable } from "./ProgramOutput.ts"
import { Program } from "./Program.ts"
import * as SafeText from "./render/SafeText.ts"
import * as Screen from "./render/Screen.ts"

const withoutModel =
  "no model is set for summaries: set model.provider and model.default, or auxiliary.compression.provider, " +
  "or use --dry-run"

/** The side task in the settings whose model writes summaries. */
const task = "compression"

const context = {
  sessionId: SessionId.make("batch-compress"),
  taskId: TaskId.make("batch-compress"),
  turnId: TurnId.make("batch-compress")
}

/** Creates the function that requests a summary. `overrides` selects a model other than the configured model. */
const makeSummariser = (overrides: { readonly provider?: string }) => (text: string, maxTokens: number) =>
  Effect.map(
    Auxiliary.use(({ call }) =>
      call(task, {
        messages: [
          Prompt.userMessage({
            content: [Prompt.textPart({ text: TrajectoryCompressor.buildQuestion(text, maxTokens) })]
          })
        ],
        // Doubles the limit for a model that exceeds the requested length.
        maxOutputTokens: maxTokens * 2,
        context,
        ...overrides
      })
    ),
    ({ response, text }): TrajectoryCompressor.Summary => ({ text, isCut: response.finishReason === "length" })
  )

const findFlagProblem = ({
  concurrency,
  protectLast,
  samplePercent,
  summaryTokens,
  targetTokens,
  timeout
}: CompressFlags) => {
  const wrong = [
    ["--target-tokens", targetTokens, 1],
    ["--summary-tokens", summaryTokens, 1],
    ["--protect-last", protectLast, 0],
    ["--concurrency", concurrency, 1]
  ] as const
  for (const [name, value, least] of wrong)
    if (value !== undefined && value < least)
      return makeUsageFailure(`${name} ${value} is too small: pass ${least} or more`)
  if (timeout !== undefined && timeout <= 0)
    return makeUsageFailure(`--timeout ${timeout} is too small: pass more than 0`)
  if (samplePercent !== undefined && !(samplePercent > 0 && samplePercent <= 100))
    return makeUsageFailure(`--sample-percent ${samplePercent} is invalid: pass a number above 0, up to 100`)
  return undefined
}

const formatSummary = ({ metrics, outputs, sums }: CompressFiles.Report): string => {
  const { compressed, dropped, overLimit, placeholders, rows, tokensAfter, tokensBefore, unchanged, unreadable } = sums
  const isDry = metrics === undefined
  return [
    `${rows} trajectories: ${compressed} ${isDry ? "would be compressed" : "compressed"}, ${unchanged} unchanged`,
    renderTable([
      [
        "  tokens (estimated)",
        `${tokensBefore.toLocaleString("en-US")} → ${isDry ? "about " : ""}${tokensAfter.toLocaleString("en-US")}`
      ],
      ...(overLimit === 0 ? [] : [["  over the target", String(overLimit)]]),
      ...(placeholders === 0 ? [] : [["  without summary", `${placeholders} (replaced by a placeholder)`]]),
      ...(dropped === 0 ? [] : [["  dropped", `${dropped} (took too long)`]]),
      ...(unreadable === 0 ? [] : [["  left out", `${unreadable} unreadable lines`]])
    ]),
    ...outputs.map((path) => `  ${path}`),
    ...(metrics === undefined ? [] : [`  ${metrics}`])
  ]
    .map(SafeText.toPlainText)
    .join("\n")
}

/** Compresses trajectories. */
export const compress = Effect.fn("hermes batch compress")(
  function* (flags: CompressFlags) {
    const output = yield* Output
    const problem = findFlagProblem(flags)
    if (problem !== undefined) return yield* problem
    yield* output.protect
    const program = yield* Program
    const screen = Screen.make(output.streams)
    let done = 0
    const options = {
      ...TrajectoryCompressor.defaults,
      targetTokens: flags.targetTokens ?? TrajectoryCompressor.defaults.targetTokens,
      summaryTokens: flags.summaryTokens ?? TrajectoryCompressor.defaults.summaryTokens,
      protectLast: flags.protectLast ?? TrajectoryCompressor.defaults.protectLast,
      input: flags.input,
      output: flags.output,
      concurrency: flags.concurrency ?? 50,
      timeout: Duration.seconds(flags.timeout ?? 300),
      samplePercent: flags.samplePercent,
      seed: flags.seed ?? 42,
      onProblem: (text: string) => Effect.sync(() => screen.say(`Warning: ${SafeText.toLine(text)}\n`)),
      onProgress: (count: number) =>
        Effect.sync(() => {
          done = count
          screen.live(() => ({ lines: output.streams.aside.terminal ? [`${done} trajectories done`] : [] }))
        })
    }
    const toFailure = (error: { readonly message: string; readonly isInput: boolean }) =>
      error.isInput ? makeUsageFailure(error.message) : makeWorkFailure(error.message)
    yield* Effect.addFinalizer(() => Effect.sync(() => screen.live(Screen.renderNothing)))
    const work = flags.dryRun
      ? Effect.mapError(CompressFiles.run<never, never>({ ...options, summarise: undefined }), toFailure)
      : Effect.gen(function* () {
          yield* Effect.mapError(CompressFiles.resolveFiles(flags), toFailure)
          const { settings } = yield* Config.load(Flags.toConfigOptions(yield* hermes))
          const overrides = flags.script === undefined ? {} : { provider: "main" }
          return yield* Effect.gen(function* () {
            if ((yield* Auxiliary.use(({ resolve }) => resolve(task, overrides))) === undefined)
              return yield* makeWorkFailure(withoutModel)
            return yield* Effect.mapError(
              CompressFiles.run({ ...options, summarise: makeSummariser(overrides) }),
              toFailure
            )
            // The side task may have a model even if the agent does not.
          }).pipe(
            Effect.provide(
              program.layer(settings, { unconfigured: "standIn", script: flags.script, ignoreRules: true })
            )
          )
        })
    const report = yield* work
    screen.live(Screen.renderNothing)
    yield* output.out(`${formatSummary(report)}\n`)
  },
  Effect.scoped,
  Effect.provide(CommandSettings.surroundings)
)
