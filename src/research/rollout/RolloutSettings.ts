/**
 * Settings of rollouts and of the training agent, with the defaults from the specification.
 *
 * **Example** (Defaults of the contract)
 *
 * ```ts
 * import { RolloutSettings } from "hermes-effect/rollouts"
 *
 * console.log(RolloutSettings.defaults.maxAgentTurns, RolloutSettings.defaults.sampling)
 * // => 30 { temperature: 1 }
 * ```
 *
 * Source: `hermes-product.md` §5.5, `hermes-llm.md` §20.4.
 */
import * as Schema from "effect/Schema"
import { Sampling } from "../../base/domain/RolloutPort.ts"
import { names as parserNames } from "./ToolCallParser.ts"

const atLeastOne = Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))

/** Settings of rollouts. */
export const RolloutSettings = Schema.Struct({
  /** Toolsets for environments that do not name any. */
  toolsets: Schema.Array(Schema.String),
  /** Number of rollouts of each item. */
  groupSize: atLeastOne,
  /** Maximum number of concurrent rollouts in a group. */
  concurrency: atLeastOne,
  /** Maximum number of model calls in one rollout. */
  maxAgentTurns: atLeastOne,
  sampling: Sampling,
  toolCallParser: Schema.optional(Schema.Literals(["hermes", ...parserNames])),
  weightsVersion: Schema.optional(Schema.String),
  /** Time limit for computing the reward of one rollout, in seconds. The reward may run a test suite. */
  rewardTimeoutSeconds: atLeastOne,
  /**
   * Reward of a rollout whose run or verifier failed: with `masked`, it has no reward, and is neither trained on nor
   * compared with its group; with `zero`, its reward is 0, as in the specification. A rollout without output has a
   * reward of 0 in any case.
   */
  failedReward: Schema.Literals(["masked", "zero"]),
  /** Number of groups between two evaluations, or 0 for no evaluations. */
  stepsPerEvaluation: Schema.Natural,
  /**
   * Handling of evaluations: with `STOP_TRAIN`, groups wait during an evaluation; with `NONE`, evaluations are skipped.
   * Atropos has a third value, `LIMIT_TRAIN`, for trainers that continue during an evaluation.
   */
  evalHandling: Schema.Literals(["STOP_TRAIN", "NONE"])
})
/** See {@link RolloutSettings}. */
export type RolloutSettings = typeof RolloutSettings.Type

/** Default settings, as defined by the specification, except for `failedReward`. */
export const defaults: RolloutSettings = {
  toolsets: ["terminal", "file"],
  groupSize: 4,
  concurrency: 4,
  maxAgentTurns: 30,
  sampling: { temperature: 1 },
  rewardTimeoutSeconds: 1_800,
  failedReward: "masked",
  stepsPerEvaluation: 0,
  evalHandling: "STOP_TRAIN"
}

/** Maximum number of model calls of the training agent. */
export const trainerIterations = 200

/** Toolsets of the training agent. */
export const trainerToolsets = ["terminal", "web", "rl"] as const

/**
 * Time limit for a command of the training agent, in seconds. Tests of environments and downloads of data take a long
 * time.
 */
export const trainerTimeoutSeconds = 600

/** Milliseconds between two status checks of a training run. */
export const statusIntervalMillis = 30 * 60 * 1_000

/** Instructions of the training agent. */
export const trainerPrompt = [
  "You train language models by reinforcement learning. You choose or write an environment, " +
    "check that its rewards mean what they should, start a training run, and judge its results.",
  "",
  "Work in this order:",
  "1. rl_list_environments shows the environments there are. " +
    "Read the file of one that is close to the task before you use it: its data, its prompt, its reward.",
  "2. Look at the data yourself with the terminal. A reward on data that you have not seen is a guess.",
  "3. rl_select_environment, then rl_get_current_config and rl_edit_config: start small (few steps, small groups).",
  "4. rl_test_inference before every start. Rewards that are all the same teach nothing; " +
    "rewards that a wrong answer gets teach the wrong thing. Fix the environment first.",
  "5. rl_start_training. Then leave it alone: rl_check_status answers once in 30 minutes. Wait in between, " +
    "or do other work.",
  "6. rl_get_results: compare mean reward and evaluation with the start. " +
    "Stop early (rl_stop_training) where it gets worse or stands still, and say what you would change.",
  "",
  "Say what you found with numbers, and what you did not check. Never print keys. " +
    "Training costs money and hours: when the task leaves a choice that matters open, " +
    "take the smaller run and say so."
].join("\n")
