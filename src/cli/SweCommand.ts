/**
 * `hermes swe`: tasks of software engineering, each in a workspace of its own, with the patch and its score.
 *
 * Source: `hermes-product.md` §5.3.
 */
import * as Effect from "effect/Effect"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Flags from "./Flags.ts"
import * as RunLimits from "./RunLimits.ts"

const count = (name: string, description: string) => Flags.last(Flag.Int(name).pipe(Flag.withMetavar("N")), description)

const tasks = {
  promptsFile: Flags.text("prompts-file", "PATH", "Prompts, SWE-bench instances, or task folders"),
  cwd: Flags.text("cwd", "DIRECTORY", "Directory of tasks that name none (empty)"),
  workspace: Flags.last(Flag.Literals("workspace", ["clone", "copy"]), "Of a directory: its last commit, or as it is"),
  repos: Flags.text("repos", "DIRECTORY", "Place of repositories named owner/name"),
  env: Flags.last(Flag.Literals("env", ["local", "sandbox", "docker", "ssh"]), "Where commands run"),
  image: Flags.text("image", "NAME", "Container image of tasks that name none"),
  setup: Flags.text("setup", "COMMAND", "Runs before the agent and before the evaluation"),
  evalCommand: Flags.text("eval-command", "COMMAND", "Evaluation of tasks that name none"),
  evalTimeout: count("eval-timeout", "Seconds for a setup or an evaluation (600)"),
  workers: count("workers", "Tasks at a time (4)"),
  limit: count("limit", "Only the first N tasks"),
  json: Flags.yes("json", "Print JSON")
}

const run = {
  task: Flags.text("task", "TEXT", "One task"),
  ...tasks,
  outputFile: Flags.text("output-file", "PATH", "Results; tasks that have one are left out"),
  apiKey: Flags.text("api-key", "KEY", "Key of the model; better a variable: others see this"),
  maxIterations: count("max-iterations", "Model calls of a task (15)"),
  timeout: count("timeout", "Seconds for a command of the agent (60)"),
  ...RunLimits.flags("task", "Seed of models, another one for each task"),
  script: Flags.text("script", "PATH", "Answer from a scenario file instead of a model")
}

const evaluate = {
  ...tasks,
  predictions: Flags.text("predictions", "PATH", "JSONL with instance_id and model_patch")
}

/** Flags of `hermes swe run`. */
export type RunFlags = Flags.Parsed<typeof run>

/** Flags of `hermes swe evaluate`. */
export type EvaluateFlags = Flags.Parsed<typeof evaluate>

/** Flags that say which tasks there are, and where they run. */
export type TaskFlags = Flags.Parsed<typeof tasks>

const actions = Effect.promise(() => import("./SweRuns.ts"))

const runCommand = Command.make("run", run, (flags) => Effect.flatMap(actions, ({ run }) => run(flags))).pipe(
  Command.withDescription("Solve tasks, and write patches, predictions and scores"),
  Command.withExamples([
    { command: "hermes swe run --task 'Fix the bug' --cwd . --eval-command 'npm test'", description: "One task, on a copy" },
    { command: "hermes swe run --prompts-file instances.jsonl --repos ~/clones", description: "SWE-bench instances" }
  ])
)

const evaluateCommand = Command.make("evaluate", evaluate, (flags) => Effect.flatMap(actions, ({ evaluate }) => evaluate(flags))).pipe(
  Command.withDescription("Score patches that there are, without a model")
)

export const command = Command.make("swe").pipe(Command.withSubcommands([runCommand, evaluateCommand]))
