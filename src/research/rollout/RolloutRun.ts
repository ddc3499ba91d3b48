/**
 * Runs an environment. Groups of rollouts are run one after another, measured and delivered to a trainer, with
 * evaluations in between.
 *
 * **Details**
 *
 * The environment supplies items until it has no more items or the requested number of groups is done. Every group is
 * delivered to the {@link TrainingSink} before the next group begins, so that an interruption loses only the current
 * group. An evaluation rolls out each of the environment's evaluation items once, at temperature 0. Its rollouts are
 * not delivered to the sink. With `STOP_TRAIN`, groups wait during an evaluation; with `NONE`, evaluations are skipped.
 *
 * **Example** (One group of an environment)
 *
 * ```ts
 * import * as NodeServices from "@effect/platform-node/NodeServices"
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { Runtime } from "hermes-effect"
 * import { Compaction } from "hermes-effect/prompt"
 * import {
 *   EpisodeStore,
 *   Episodes,
 *   RolloutCapture,
 *   RolloutEnvironment,
 *   RolloutRun,
 *   RolloutSettings,
 *   TrainingOutput
 * } from "hermes-effect/rollouts"
 *
 * const environment = RolloutEnvironment.make({
 *   name: "echo",
 *   toolsets: [],
 *   nextItem: Effect.succeed({ id: "hello" }),
 *   formatPrompt: ({ id }) => `Reply exactly ${id}`,
 *   computeReward: ({ id }, { text }) => Effect.succeed(text === id ? 1 : 0)
 * })
 *
 * const program = Effect.gen(function*() {
 *   const capture = yield* RolloutCapture.make()
 *   const runtime = Runtime.layer({ middleware: [capture.middleware] }).pipe(
 *     Layer.provide(Layer.succeed(Compaction.CompactionSettings, "off"))
 *   )
 *   const options = { ...RolloutSettings.defaults, capture, groups: 1, groupSize: 2 }
 *   return yield* Effect.provide(RolloutRun.run(environment, options), runtime)
 * }).pipe(
 *   Effect.provide([Episodes.layer, TrainingOutput.layerFiles("data"), TrainingOutput.layerMetrics("data")]),
 *   Effect.provide(EpisodeStore.layerMemory),
 *   Effect.provide(NodeServices.layer)
 * )
 *
 * console.log((await Effect.runPromise(program)).meanReward)
 * // => 1
 * ```
 *
 * Source: `hermes-product.md` §5.5.
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type * as Path from "effect/Path"
import type { Agent } from "../../agent/Agent.ts"
import type { RolloutRefused } from "../../base/domain/RolloutPort.ts"
import type { ModelRouter } from "../../models/routing/ModelRouter.ts"
import type { ToolRegistry } from "../../tools/ToolRegistry.ts"
import type { Episodes } from "./Episodes.ts"
import type { AnyItem, EnvironmentError, RolloutEnvironment } from "./RolloutEnvironment.ts"
import * as RolloutGroup from "./RolloutGroup.ts"
import { toDelivery, ExperimentTracker, type Metrics, type OutputError, TrainingSink } from "./TrainingOutput.ts"

/** Settings of a run. */
export interface Options extends RolloutGroup.Options {
  /** Maximum number of groups. If absent, all items are rolled out. */
  readonly groups?: number | undefined
  /** Number of groups that an earlier process delivered. They count in the summary, and are not delivered again. */
  readonly delivered?: number | undefined
  /** Called with each delivered group. */
  readonly onGroup?: ((report: GroupReport) => Effect.Effect<void>) | undefined
}

/** Report about a delivered group. */
export interface GroupReport {
  /** From 1. */
  readonly number: number
  readonly group: RolloutGroup.ScoredRollouts
  readonly metrics: Metrics
  /** Members of the group that cannot be used for training, each with the reason. */
  readonly leftOut: ReadonlyArray<{ readonly rolloutId: string; readonly reason: string }>
}

/** Number of failures by kind. */
export type Failures = Readonly<Record<(typeof failureKinds)[number], number>>

/** Kinds of failures of a rollout. */
export const failureKinds = ["model_failure", "limit", "infrastructure"] as const

const countFailures = (members: ReadonlyArray<RolloutGroup.ScoredRollout>): Failures => {
  const countKind = (kind: (typeof failureKinds)[number]) => members.filter(({ failure }) => failure === kind).length
  return {
    model_failure: countKind("model_failure"),
    limit: countKind("limit"),
    infrastructure: countKind("infrastructure")
  }
}

const addFailures = (one: Failures, other: Failures): Failures => ({
  model_failure: one.model_failure + other.model_failure,
  limit: one.limit + other.limit,
  infrastructure: one.infrastructure + other.infrastructure
})

/** Totals of a run. */
export interface Summary {
  readonly groups: number
  readonly rollouts: number
  /** Number of failed rollouts. Each counts as 0 in the mean reward. */
  readonly failed: number
  /** Number of rollouts by the kind of their failure. */
  readonly failures: Failures
  /** Number of failed rollouts without a reward, which are not trained on. */
  readonly masked: number
  readonly trainable: number
  readonly meanReward: number | undefined
  /** Mean of the rewards without masked rollouts. */
  readonly meanScoredReward: number | undefined
  readonly evaluation: Metrics | undefined
}

/** Errors that end a run. */
export type RunError = EnvironmentError | RolloutRefused | OutputError

const mean = (values: ReadonlyArray<number>): number =>
  values.reduce((sum, one) => sum + one, 0) / Math.max(1, values.length)

/** Returns the reward of a rollout. A masked one counts as 0. */
const getReward = ({ score }: RolloutGroup.ScoredRollout): number => score.reward ?? 0

/**
 * Computes the metrics of scored rollouts. A failed rollout counts as 0 in every mean, except in `reward/mean_scored`,
 * the mean of the rewards that were computed.
 */
export const computeMetrics = (members: ReadonlyArray<RolloutGroup.ScoredRollout>): Metrics => {
  const rewards = members.map(getReward)
  const scored = members.filter(({ score }) => score.reward !== undefined)
  const average = mean(rewards)
  const names = new Set(members.flatMap(({ score }) => Object.keys(score.components ?? {})))
  const components = Array.from(
    names,
    (name) => [`reward/${name}`, mean(members.map(({ score }) => score.components?.[name] ?? 0))] as const
  )
  return {
    "reward/mean": average,
    "reward/mean_scored": mean(scored.map(getReward)),
    "reward/std": Math.sqrt(mean(rewards.map((reward) => (reward - average) ** 2))),
    "reward/max": Math.max(...rewards),
    "reward/min": Math.min(...rewards),
    "rollouts/failed": members.filter(({ score }) => score.cause !== undefined).length,
    "rollouts/masked": members.length - scored.length,
    ...Object.fromEntries(
      Object.entries(countFailures(members)).map(([kind, count]) => [`rollouts/${kind}`, count] as const)
    ),
    "rollouts/turns": mean(members.map(({ run }) => run?.steps ?? 0)),
    "tokens/sequence": mean(members.map(({ episode }) => episode.nodes.at(-1)?.tokens?.length ?? 0)),
    "tokens/trained": mean(
      members.map(
        ({ episode }) => episode.nodes.at(-1)?.answers.reduce((sum, { tokens }) => sum + (tokens?.length ?? 0), 0) ?? 0
      )
    ),
    ...Object.fromEntries(components)
  }
}

type Needs =
  | Agent
  | Episodes
  | ExperimentTracker
  | FileSystem.FileSystem
  | ModelRouter
  | Path.Path
  | ToolRegistry
  | TrainingSink

/**
 * Rolls out each evaluation item once. `place` identifies the evaluation in its run. Returns `undefined` if the
 * environment has no evaluation items.
 */
export const evaluate = Effect.fn("RolloutRun.evaluate")(function* <Item extends AnyItem, R>(
  environment: RolloutEnvironment<Item, R>,
  options: RolloutGroup.Options,
  place = "once"
): Effect.fn.Return<Metrics | undefined, EnvironmentError | RolloutRefused, Needs | R> {
  const items = yield* environment.evaluation
  if (items.length === 0) return undefined
  const settings = { ...options, groupSize: 1, sampling: { ...options.sampling, temperature: 0 }, onScored: undefined }
  const groups = yield* Effect.forEach(
    items,
    (item, index) => RolloutGroup.run(environment, item, settings, `evaluation ${place} ${index}`),
    { concurrency: options.concurrency }
  )
  const metrics = computeMetrics(groups.flatMap(({ members }) => members))
  return Object.fromEntries(Object.entries(metrics).map(([name, value]) => [`eval/${name}`, value]))
})

/** Runs an environment until it has no more items or the requested number of groups is done. */
export const run = Effect.fn("RolloutRun.run")(function* <Item extends AnyItem, R>(
  environment: RolloutEnvironment<Item, R>,
  options: Options
): Effect.fn.Return<Summary, RunError, Needs | R> {
  const sink = yield* TrainingSink
  const tracker = yield* ExperimentTracker
  const { delivered = 0, evalHandling, groups = Number.POSITIVE_INFINITY, stepsPerEvaluation } = options
  yield* environment.setup
  let summary: Summary = {
    groups: 0,
    rollouts: 0,
    failed: 0,
    failures: countFailures([]),
    masked: 0,
    trainable: 0,
    meanReward: undefined,
    meanScoredReward: undefined,
    evaluation: undefined
  }
  let rewards = 0
  while (summary.groups < groups) {
    const item = yield* environment.nextItem
    if (item === undefined) break
    const number = summary.groups + 1
    const group = yield* RolloutGroup.run(environment, item, options, `group ${number}`)
    const given = toDelivery(group)
    const isDelivered = number <= delivered
    if (!isDelivered) yield* sink.submit(given)
    const metrics = computeMetrics(group.members)
    rewards += group.members.reduce((sum, member) => sum + getReward(member), 0)
    const masked = summary.masked + group.members.filter(({ score }) => score.reward === undefined).length
    const rollouts = summary.rollouts + group.members.length
    const isEvaluated =
      !isDelivered && evalHandling !== "NONE" && stepsPerEvaluation > 0 && number % stepsPerEvaluation === 0
    const evaluation = isEvaluated ? yield* evaluate(environment, options, `group ${number}`) : undefined
    if (!isDelivered) yield* tracker.log(number, { ...metrics, ...evaluation })
    summary = {
      groups: number,
      rollouts,
      failed: summary.failed + group.members.filter(({ score }) => score.cause !== undefined).length,
      failures: addFailures(summary.failures, countFailures(group.members)),
      masked,
      trainable: summary.trainable + group.members.length - given.leftOut.length,
      meanReward: rewards / rollouts,
      meanScoredReward: rollouts === masked ? undefined : rewards / (rollouts - masked),
      evaluation: evaluation ?? summary.evaluation
    }
    if (!isDelivered) yield* options.onGroup?.({ number, group, metrics, leftOut: given.leftOut }) ?? Effect.void
  }
  return summary
})
