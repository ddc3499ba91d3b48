/**
 * Service that trains models: it manages environments and training runs with their state and results. An application
 * provides a layer for a service such as Tinker. The default implementation only records rollouts on this machine and
 * does not train weights.
 *
 * **Details**
 *
 * {@link layerRecorder} runs the environment of a training run in the background for the lifetime of its scope, and
 * stores groups, metrics and episodes in a directory of the run. It reports that it does not train, so that readers
 * know that the rewards come from unchanged weights.
 *
 * **Example** (A service provided by an application)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { Runtime } from "hermes-effect"
 * import { TrainingService, TrainingTools } from "hermes-effect/rollouts"
 *
 * const service = TrainingService.layerRecorder({
 *   directory: "training",
 *   environments: [{ name: "sums", description: "Adds two numbers" }],
 *   rollOut: ({ total_steps: groups }) =>
 *     Effect.succeed({
 *       groups,
 *       rollouts: 0,
 *       failed: 0,
 *       failures: { model_failure: 0, limit: 0, infrastructure: 0 },
 *       masked: 0,
 *       trainable: 0,
 *       meanReward: undefined,
 *       meanScoredReward: undefined,
 *       evaluation: undefined
 *     })
 * })
 *
 * export const runtime = Runtime.layer({ tools: [TrainingTools.toolset] }).pipe(Layer.provide(service))
 *
 * console.log(TrainingService.makeDefaultConfig("sums").group_size)
 * // => 4
 * ```
 *
 * Source: `hermes-product.md` §5.5, `hermes-llm.md` §20.4.
 */
import type * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Ids from "../../base/domain/Ids.ts"
import type { ListedEnvironment } from "./EnvironmentCatalogue.ts"
import type { GroupReport, Summary } from "./RolloutRun.ts"
import { defaults } from "./RolloutSettings.ts"
import type { Metrics } from "./TrainingOutput.ts"

/** Error raised when a training run is not available. The message states the cause and the remedy. */
export class TrainingError extends Schema.TaggedError<TrainingError>("hermes-effect/runner/TrainingError")(
  "TrainingError",
  { message: Schema.String }
) {}

const positive = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 100_000 }))

/** Configuration of a training run. */
export const TrainingConfig = Schema.Struct({
  environment: Schema.String,
  total_steps: positive,
  group_size: positive,
  max_agent_turns: positive,
  temperature: Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 2 })),
  steps_per_eval: Schema.Natural
})
/** See {@link TrainingConfig}. */
export type TrainingConfig = typeof TrainingConfig.Type

/** Makes the default configuration for an environment, which is a small run. */
export const makeDefaultConfig = (environment: string): TrainingConfig => ({
  environment,
  total_steps: 8,
  group_size: defaults.groupSize,
  max_agent_turns: defaults.maxAgentTurns,
  temperature: 1,
  steps_per_eval: 0
})

/** A training run, as it is displayed. */
export interface TrainingRun {
  readonly run_id: string
  readonly environment: string
  readonly status: "running" | "finished" | "failed" | "stopped"
  readonly steps: number
  readonly total_steps: number
  /** Metrics of the newest step. */
  readonly metrics: Metrics
  readonly directory: string
  readonly problem: string | undefined
}

/** Results of a training run. */
export interface TrainingResults extends TrainingRun {
  readonly mean_reward: number | undefined
  /** Mean reward of each step. */
  readonly rewards: ReadonlyArray<number>
  readonly evaluation: Metrics | undefined
}

/** Service that trains models. */
export class TrainingService extends Context.Service<
  TrainingService,
  {
    readonly name: string
    /** Limitations of the service that are important for interpreting its results. May be empty. */
    readonly notice: string
    /** Names of missing API keys. */
    readonly missingKeys: Effect.Effect<ReadonlyArray<string>>
    readonly environments: Effect.Effect<ReadonlyArray<ListedEnvironment>, TrainingError>
    /** Rolls out a few items without training. */
    readonly test: (config: TrainingConfig) => Effect.Effect<Summary, TrainingError>
    readonly start: (config: TrainingConfig) => Effect.Effect<TrainingRun, TrainingError>
    readonly status: (runId: string) => Effect.Effect<TrainingRun, TrainingError>
    readonly stop: (runId: string) => Effect.Effect<TrainingRun, TrainingError>
    readonly results: (runId: string) => Effect.Effect<TrainingResults, TrainingError>
    readonly runs: Effect.Effect<ReadonlyArray<TrainingRun>>
  }
>()("hermes-effect/runner/TrainingService") {}

/** Runs the rollouts of an environment and stores them in a directory. */
export type RollOut = (
  config: TrainingConfig,
  directory: string,
  onGroup: (report: GroupReport) => Effect.Effect<void>
) => Effect.Effect<Summary, { readonly message: string }>

/** Options of the recorder. */
export interface RecorderOptions {
  /** Directory in which the runs are stored. */
  readonly directory: string
  readonly environments: ReadonlyArray<ListedEnvironment>
  readonly rollOut: RollOut
}

interface RecordedRun {
  run: TrainingRun
  summary: Summary | undefined
  readonly rewards: Array<number>
  fiber: Fiber.Fiber<void> | undefined
}

const notice =
  "This service records rollouts on this machine and trains no weights: rewards are those of the model as it is."

const beginRecord = (config: TrainingConfig, id: string, directory: string): RecordedRun => ({
  run: {
    run_id: id,
    environment: config.environment,
    status: "running",
    steps: 0,
    total_steps: config.total_steps,
    metrics: {},
    directory,
    problem: undefined
  },
  summary: undefined,
  rewards: [],
  fiber: undefined
})

const recordGroup = (entry: RecordedRun, { metrics, number }: GroupReport): void => {
  entry.rewards.push(metrics["reward/mean"] ?? 0)
  entry.run = { ...entry.run, steps: number, metrics }
}

const findProblem = (cause: Cause.Cause<{ readonly message: string }>): string =>
  cause.reasons.flatMap((reason) => ("error" in reason ? [reason.error.message] : []))[0] ?? "it ended early"

const recordEnd = (entry: RecordedRun, exit: Exit.Exit<Summary, { readonly message: string }>): void => {
  if (Exit.isSuccess(exit)) {
    entry.summary = exit.value
    entry.run = { ...entry.run, status: "finished", problem: undefined }
    return
  }
  entry.run = Exit.hasInterrupts(exit)
    ? { ...entry.run, status: "stopped", problem: undefined }
    : { ...entry.run, status: "failed", problem: findProblem(exit.cause) }
}

const makeRecorder = Effect.fnUntraced(function* ({ directory, environments, rollOut }: RecorderOptions) {
  const scope = yield* Effect.scope
  const kept = new Map<string, RecordedRun>()
  const findRun = (runId: string): Effect.Effect<RecordedRun, TrainingError> => {
    const found = kept.get(runId)
    return found === undefined
      ? Effect.fail(
          new TrainingError({
            message:
              `There is no training run ${JSON.stringify(runId)}. ` +
              `There are: ${Array.from(kept.keys()).join(", ") || "none"}.`
          })
        )
      : Effect.succeed(found)
  }
  const toTrainingError = ({ message }: { readonly message: string }): TrainingError => new TrainingError({ message })
  return TrainingService.of({
    name: "local recorder",
    notice,
    missingKeys: Effect.succeed([]),
    environments: Effect.succeed(environments),
    test: (config) =>
      Effect.mapError(
        rollOut(
          {
            ...config,
            total_steps: Math.min(2, config.total_steps),
            group_size: Math.min(2, config.group_size),
            steps_per_eval: 0
          },
          `${directory}/test`,
          () => Effect.void
        ),
        toTrainingError
      ),
    start: Effect.fnUntraced(function* (config) {
      const id = `run_${(yield* Clock.currentTimeMillis).toString(36)}_${yield* Ids.makeHex(4)}`
      const entry = beginRecord(config, id, `${directory}/${id}`)
      kept.set(id, entry)
      const work = rollOut(config, entry.run.directory, (report) => Effect.sync(() => recordGroup(entry, report)))
      entry.fiber = yield* Effect.forkIn(
        Effect.map(Effect.exit(work), (exit) => recordEnd(entry, exit)),
        scope
      )
      return entry.run
    }),
    status: (runId) => Effect.map(findRun(runId), ({ run }) => run),
    stop: (runId) =>
      Effect.flatMap(findRun(runId), (entry) =>
        Effect.as(entry.fiber === undefined ? Effect.void : Fiber.interrupt(entry.fiber), undefined).pipe(
          Effect.map(() => {
            if (entry.run.status === "running") entry.run = { ...entry.run, status: "stopped" }
            return entry.run
          })
        )
      ),
    results: (runId) =>
      Effect.map(findRun(runId), ({ rewards, run, summary }) => ({
        ...run,
        mean_reward: rewards.length === 0 ? undefined : rewards.reduce((sum, one) => sum + one, 0) / rewards.length,
        rewards,
        evaluation: summary?.evaluation
      })),
    runs: Effect.sync(() => Array.from(kept.values(), ({ run }) => run))
  })
})

/** Provides a service that records rollouts on this machine without training weights. */
export const layerRecorder = (options: RecorderOptions): Layer.Layer<TrainingService> =>
  Layer.effect(TrainingService, makeRecorder(options))
