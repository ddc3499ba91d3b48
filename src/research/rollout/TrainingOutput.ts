/**
 * Receivers of rollout output: scored groups for a trainer, and metrics for an experiment tracker.
 *
 * **Details**
 *
 * Both receivers are services. The local implementations write files that any tool can read. An application provides
 * its own layer for a tracker such as Weights & Biases or a trainer such as Tinker. `layerAtropos` submits groups to
 * the Atropos API.
 *
 * | file | line |
 * | --- | --- |
 * | `groups.jsonl` | a group in the Atropos API format, with the members that can be used for training |
 * | `trajectories.jsonl` | messages and score of every rollout, for evaluation and supervised fine-tuning |
 * | `metrics.jsonl` | `step`, `at` and the metrics of that step |
 *
 * **Example** (Groups and metrics in a directory)
 *
 * ```ts
 * import * as Layer from "effect/Layer"
 * import { TrainingOutput } from "hermes-effect/rollouts"
 *
 * export const output = Layer.merge(TrainingOutput.layerFiles("data/rl"), TrainingOutput.layerMetrics("data/rl"))
 *
 * console.log(TrainingOutput.toDelivery({ groupId: "g", tools: [], members: [] }).group)
 * // => undefined
 * ```
 *
 * Source: `hermes-product.md` §5.5, `hermes-llm.md` §20.4.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { describeReason } from "../../base/domain/PathProblem.ts"
import * as Atropos from "./Atropos.ts"
import * as EpisodeExport from "./EpisodeExport.ts"
import type { ScoredRollouts } from "./RolloutGroup.ts"

/** Error raised when a receiver does not accept a group or metrics. */
export class OutputError extends Schema.TaggedError<OutputError>("hermes-effect/runner/OutputError")("OutputError", {
  message: Schema.String
}) {}

/** A group in the form in which it is delivered. */
export interface Delivery {
  readonly groupId: string
  /** The members that can be used for training, or `undefined` if there are no such members. */
  readonly group: EpisodeExport.ScoredGroup | undefined
  /** Trajectories of all members, without tokens. */
  readonly trajectories: ReadonlyArray<unknown>
  /** Members that cannot be used for training, each with the reason. */
  readonly leftOut: ReadonlyArray<{ readonly rolloutId: string; readonly reason: string }>
}

/** Separates the members of a group that can be used for training from the others. */
export const toDelivery = ({ groupId, members }: ScoredRollouts): Delivery => {
  const results = members.map(({ episode, rolloutId }) => ({
    rolloutId,
    result: EpisodeExport.toScoredEpisode(episode)
  }))
  const trainable = results.flatMap(({ result }) => (Result.isSuccess(result) ? [result.success] : []))
  return {
    groupId,
    group: trainable.length === 0 ? undefined : EpisodeExport.toGroup(trainable),
    trajectories: members.map(({ episode }) => EpisodeExport.toSupervised(episode)),
    leftOut: results.flatMap(({ result, rolloutId }) =>
      Result.isFailure(result) ? [{ rolloutId, reason: result.failure.message }] : []
    )
  }
}

/** Service that receives scored groups. */
export class TrainingSink extends Context.Service<
  TrainingSink,
  { readonly submit: (delivery: Delivery) => Effect.Effect<void, OutputError> }
>()("hermes-effect/runner/TrainingSink") {}

/** Metric values of one step, by name (`reward/mean`). */
export type Metrics = Readonly<Record<string, number>>

/** Service that receives the metrics of an experiment. */
export class ExperimentTracker extends Context.Service<
  ExperimentTracker,
  { readonly log: (step: number, metrics: Metrics) => Effect.Effect<void, OutputError> }
>()("hermes-effect/runner/ExperimentTracker") {}

const makeAppender = Effect.fnUntraced(function* (directory: string) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const encoder = new TextEncoder()
  const toOutputError = (error: PlatformError): OutputError =>
    new OutputError({
      message: `${directory} cannot be written: ${describeReason(error)}. Make room, or name another directory.`
    })
  return (name: string, lines: ReadonlyArray<unknown>): Effect.Effect<void, OutputError> =>
    lines.length === 0
      ? Effect.void
      : Effect.scoped(
          Effect.gen(function* () {
            yield* fs.makeDirectory(directory, { recursive: true, mode: 0o700 })
            const file = yield* fs.open(paths.join(directory, name), { flag: "a", mode: 0o600 })
            const size = Number((yield* file.stat).size)
            yield* Effect.andThen(
              file.writeAll(encoder.encode(lines.map((line) => `${JSON.stringify(line)}\n`).join(""))),
              file.sync
            ).pipe(
              // A partial line would corrupt the next line. Truncating the file requires no disk space.
              Effect.onError(() => Effect.ignore(fs.truncate(paths.join(directory, name), size)))
            )
          })
        ).pipe(Effect.mapError(toOutputError))
})

/** Provides a sink that writes groups and trajectories to files in a directory. */
export const layerFiles = (
  directory: string,
  options: { readonly trajectories?: boolean | undefined } = {}
): Layer.Layer<TrainingSink, never, FileSystem.FileSystem | Path.Path> =>
  Layer.effect(
    TrainingSink,
    Effect.map(makeAppender(directory), (append) => ({
      submit: ({ group, trajectories }) =>
        Effect.andThen(
          append("groups.jsonl", group === undefined ? [] : [group]),
          append("trajectories.jsonl", options.trajectories === false ? [] : trajectories)
        )
    }))
  )

/** Provides a tracker that writes metrics to a file in a directory. */
export const layerMetrics = (
  directory: string
): Layer.Layer<ExperimentTracker, never, FileSystem.FileSystem | Path.Path> =>
  Layer.effect(
    ExperimentTracker,
    Effect.map(makeAppender(directory), (append) => ({
      log: (step, metrics) =>
        Effect.flatMap(Clock.currentTimeMillis, (at) =>
          append("metrics.jsonl", [{ step, at: new Date(at).toISOString(), ...metrics }])
        )
    }))
  )

/** Provides a sink that submits groups to an Atropos API and also delivers them to the sink in the context. */
export const layerAtropos = (
  address: string,
  facts: Atropos.EnvironmentFacts
): Layer.Layer<TrainingSink, OutputError, TrainingSink> =>
  Layer.effect(
    TrainingSink,
    Effect.gen(function* () {
      const files = yield* TrainingSink
      const told = Effect.mapError(({ message }: Atropos.AtroposError) => new OutputError({ message }))
      const client = yield* Atropos.make(address).pipe(told)
      const connection = yield* Atropos.connectEnvironment(client, facts).pipe(told)
      return {
        submit: (given) =>
          Effect.andThen(
            files.submit(given),
            given.group === undefined ? Effect.void : Effect.asVoid(connection.submit(given.group).pipe(told))
          )
      }
    })
  )
