/**
 * `hermes rl`: rollouts for training, and training runs.
 *
 * Source: `hermes-product.md` §5.5, `hermes-llm.md` §20.4.
 */
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { makeUsageFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"

const script = Flags.makeText("script", "PATH", "Answer from a scenario file instead of a model")
const json = Flags.makeSwitch("json", "Print JSON")
const rollouts = Flags.makeText("rollouts", "DIR", "Directory of episodes, or the output of a run")
const atropos = Flags.makeText("atropos", "URL", "Atropos API, such as http://127.0.0.1:8000")

const loadRuns = Effect.promise(() => import("./RolloutRuns.ts"))
const loadReports = Effect.promise(() => import("./RolloutReports.ts"))

const rollout = Command.make(
  "rollout",
  {
    environment: Argument.String("environment").pipe(
      Argument.withDescription("Name, dataset file, or module (./env.ts#name)")
    ),
    groups: Flags.makeInteger("groups", "N", "Groups at most (8)"),
    groupSize: Flags.makeInteger("group-size", "N", "Rollouts of each item (4)"),
    concurrency: Flags.makeInteger("concurrency", "N", "Rollouts at once (4)"),
    maxTurns: Flags.makeInteger("max-agent-turns", "N", "Model calls of one rollout (30)"),
    temperature: Flags.takeLast(Flag.Finite("temperature").pipe(Flag.withMetavar("N")), "Sampling temperature (1.0)"),
    distribution: Flags.makeText("distribution", "NAME", "Toolset distribution of each group"),
    parser: Flags.makeText("parser", "NAME", "Parser of tool calls in raw text (such as qwen)"),
    failedReward: Flags.makeChoice("failed-reward", ["masked", "zero"], "Reward of a failed run or verifier (masked)"),
    evaluateEvery: Flags.makeInteger("evaluate-every", "N", "Groups between two evaluations"),
    weightsVersion: Flags.makeText("weights-version", "TEXT", "Version of the weights, stored with every episode"),
    atropos,
    output: Flags.makeText("output", "DIR", "Output; default: data/rl/ENVIRONMENT", "o"),
    cluster: Flags.makeSwitch("cluster", "Roll out on the runners of the cluster"),
    noTrajectories: Flags.makeSwitch("no-save-trajectories", "Save only episodes and groups"),
    script
  },
  (flags) => Effect.flatMap(loadRuns, (module) => module.runRollout(flags))
).pipe(
  Command.withDescription("Roll out an environment in groups and score every rollout"),
  Command.withExamples([
    {
      command: "hermes lab rl rollout arithmetic --base-url http://127.0.0.1:8000/v1 -m Qwen/Qwen3-8B",
      description: "Against a vLLM server"
    },
    {
      command: "hermes lab rl rollout tasks.jsonl --atropos http://127.0.0.1:8000",
      description: "For a trainer behind Atropos"
    }
  ])
)

const environments = Command.make("environments", { json }, (flags) =>
  Effect.flatMap(loadReports, (module) => module.listEnvironments(flags))
).pipe(Command.withDescription("List environments"))

const check = Command.make("check", { atropos, script }, (flags) =>
  Effect.flatMap(loadReports, (module) => module.check(flags))
).pipe(Command.withDescription("Check the model's server for tokens, an Atropos API, and keys"))

const list = Command.make("list", { rollouts, json }, (flags) =>
  Effect.flatMap(loadReports, (module) => module.list(flags))
).pipe(Command.withDescription("List rollouts"))

const formats = ["groups", "episodes", "messages"] as const

const exportEpisodes = Command.make(
  "export",
  {
    rollouts,
    format: Flags.makeText("format", "KIND", `One of ${formats.join(", ")}; default: groups`),
    output: Flags.makeText("output", "PATH", "File; default: stdout", "o")
  },
  ({ format, ...flags }) => {
    const known = formats.find((one) => one === format)
    return format !== undefined && known === undefined
      ? Effect.fail(makeUsageFailure(`--format "${format}" is invalid: use groups, episodes or messages`))
      : Effect.flatMap(loadReports, (module) => module.exportRollouts({ ...flags, format: known }))
  }
).pipe(Command.withDescription("Export tokens, masks, scores and messages for a trainer"))

const train = Command.make(
  "train",
  {
    task: Argument.optional(Argument.String("task").pipe(Argument.withDescription("What to train"))),
    interactive: Flags.makeSwitch("interactive", "Start a conversation instead of one task", "i"),
    maxIterations: Flags.makeInteger("max-iterations", "N", "Model calls of a task (200)"),
    script
  },
  (flags) =>
    Effect.flatMap(
      Effect.promise(() => import("./TrainerChat.ts")),
      (module) => module.train(flags)
    )
).pipe(Command.withDescription("Let an agent prepare, start and judge training runs"))

/** `hermes rl`: rollouts, their environments, exports and training runs. */
export const command = Command.make("rl").pipe(
  Command.withSubcommands([rollout, environments, check, list, exportEpisodes, train])
)
