/**
 * `hermes swe`: software engineering tasks, each in a separate workspace, with the patch and its score.
 *
 * Source: `hermes-product.md` §5.3.
 */
import * as Effect from "effect/Effect"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Flags from "./Flags.ts"
import * as RunLimits from "./RunLimits.ts"

const tasks = {
  promptsFile: Flags.makeText("prompts-file", "PATH", "Prompts, SWE-bench instances, or task folders"),
  cwd: Flags.makeText("cwd", "DIRECTORY", "Directory for tasks without one (default: empty)"),
  workspace: Flags.takeLast(
    Flag.Literals("workspace", ["clone", "copy"]),
    "Use the last commit of a directory, or copy it"
  ),
  repos: Flags.makeText("repos", "DIRECTORY", "Directory of repositories named owner/name"),
  env: Flags.takeLast(Flag.Literals("env", ["local", "sandbox", "docker", "ssh"]), "Where commands run"),
  image: Flags.makeText("image", "NAME", "Container image of tasks without one"),
  setup: Flags.makeText("setup", "COMMAND", "Runs before the agent and before the evaluation"),
  evalCommand: Flags.makeText("eval-command", "COMMAND", "Evaluation command for tasks without one"),
  evalTimeout: Flags.makeInteger("eval-timeout", "N", "Seconds for a setup or an evaluation (600)"),
  workers: Flags.makeInteger("workers", "N", "Tasks at a time (4)"),
  limit: Flags.makeInteger("limit", "N", "Only the first N tasks"),
  json: Flags.makeSwitch("json", "Print JSON")
}

const run = {
  task: Flags.makeText("task", "TEXT", "One task"),
  ...tasks,
  outputFile: Flags.makeText("output-file", "PATH", "Results file; tasks with a result are skipped"),
  apiKey: Flags.makeText("api-key", "KEY", "API key; other users can see it, prefer a variable"),
  maxIterations: Flags.makeInteger("max-iterations", "N", "Model calls of a task (15)"),
  timeout: Flags.makeInteger("timeout", "N", "Seconds for a command of the agent (60)"),
  runs: Flags.makeInteger("runs", "N", "Attempts at each task (1)"),
  k: Flags.makeText("k", "1,5", "Values of k for pass@k (default: powers of two)"),
  ...RunLimits.makeFlags("task", "Seed for models; each task gets its own"),
  cluster: Flags.makeSwitch("cluster", "Run the tasks on the runners of the cluster"),
  script: Flags.makeText("script", "PATH", "Answer from a scenario file instead of a model")
}

const evaluate = {
  ...tasks,
  predictions: Flags.makeText("predictions", "PATH", "JSONL with instance_id and model_patch")
}

/** Values of the flags of `hermes swe run`. */
export type RunFlags = Flags.Parsed<typeof run>

/** Values of the flags of `hermes swe evaluate`. */
export type EvaluateFlags = Flags.Parsed<typeof evaluate>

/** Values of the flags that select the tasks and the environment in which they run. */
export type TaskFlags = Flags.Parsed<typeof tasks>

const loadRuns = Effect.promise(() => import("./SweRuns.ts"))
const loadScores = Effect.promise(() => import("./SweScores.ts"))

const runCommand = Command.make("run", run, (flags) => Effect.flatMap(loadRuns, ({ run }) => run(flags))).pipe(
  Command.withDescription("Solve tasks, and write patches, predictions and scores"),
  Command.withExamples([
    {
      command: "hermes lab swe run --task 'Fix the bug' --cwd . --eval-command 'npm test'",
      description: "One task, on a copy"
    },
    {
      command: "hermes lab swe run --prompts-file instances.jsonl --repos ~/clones",
      description: "SWE-bench instances"
    }
  ])
)

const evaluateCommand = Command.make("evaluate", evaluate, (flags) =>
  Effect.flatMap(loadScores, ({ evaluate }) => evaluate(flags))
).pipe(Command.withDescription("Score existing patches, without a model"))

/** The command `hermes swe`. */
export const command = Command.make("swe").pipe(Command.withSubcommands([runCommand, evaluateCommand]))
