/**
 * `hermes batch`: runs datasets through the agent, and works on their trajectories.
 *
 * The flags are those that the contract names; underscores in their names are dashes too (`--dataset_file`).
 *
 * Source: `hermes-product.md` §5.1 and §5.4, `hermes-llm.md` §20.1.
 */
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Flags from "./Flags.ts"
import * as RunLimits from "./RunLimits.ts"

const whole = (name: string, metavar: string, description: string) => Flags.last(Flag.Int(name).pipe(Flag.withMetavar(metavar)), description)
const number = (name: string, metavar: string, description: string) => Flags.last(Flag.Finite(name).pipe(Flag.withMetavar(metavar)), description)
const choice = <const Names extends ReadonlyArray<string>>(name: string, names: Names, description: string) =>
  Flags.last(Flag.Literals(name, names), description)

/** Flags of `hermes batch run`. */
export const runFlags = {
  datasetFile: Flags.text("dataset-file", "PATH", "JSONL, JSON, CSV or Parquet file, or a folder of them"),
  batchSize: whole("batch-size", "N", "Rows of a batch, which run one after another"),
  runName: Flags.text("run-name", "NAME", "Name of the run and of its directory in data/"),
  distribution: Flags.text("distribution", "NAME", "Toolsets by chance: a name, or terminal=90,web=40"),
  listDistributions: Flags.yes("list-distributions", "Print the distributions and exit"),
  numWorkers: whole("num-workers", "N", "Batches at a time (4)"),
  maxSamples: whole("max-samples", "N", "Only the first N rows"),
  maxTurns: whole("max-turns", "N", "Model calls of a row (10)"),
  maxTokens: whole("max-tokens", "N", "Tokens of one answer"),
  retries: whole("retries", "N", "Retries of a row that fails (2)"),
  ...RunLimits.flags("row", "Seed of toolset draws (the run's name) and of models"),
  format: choice("format", ["sharegpt", "atif", "both"], "Form of the merged trajectories (sharegpt)"),
  keepWithoutReasoning: Flags.yes("keep-without-reasoning", "Keep rows without reasoning in any turn"),
  reasoningEffort: choice("reasoning-effort", ["minimal", "low", "medium", "high", "xhigh"], "Reasoning effort of the model"),
  reasoningDisabled: Flags.yes("reasoning-disabled", "Ask for no reasoning, and keep rows without"),
  ephemeralSystemPrompt: Flags.text("ephemeral-system-prompt", "TEXT", "Added to the system prompt, not saved in rows"),
  prefillMessagesFile: Flags.text("prefill-messages-file", "PATH", "Example messages of every call (JSON array)"),
  apiKey: Flags.text("api-key", "KEY", "Key of the model; better a variable: others see this"),
  providersAllowed: Flags.text("providers-allowed", "A,B", "OpenRouter: only these providers"),
  providersIgnored: Flags.text("providers-ignored", "A,B", "OpenRouter: none of these providers"),
  providersOrder: Flags.text("providers-order", "A,B", "OpenRouter: providers in this order"),
  providerSort: choice("provider-sort", ["price", "throughput", "latency"], "OpenRouter: order of providers"),
  agent: Flags.text("agent", "FILE", "Agent file, or the name of one"),
  image: Flags.text("image", "NAME", "Container image of rows that name none"),
  idField: Flags.text("id-field", "NAME", "Field with the id of a row (id, row_id, task_id, …)"),
  promptField: Flags.text("prompt-field", "NAME", "Field with the prompt (prompt)"),
  split: Flags.text("split", "NAME", "Split of a folder (train)"),
  outputDir: Flags.text("output-dir", "PATH", "Directory of runs (data)"),
  cluster: Flags.yes("cluster", "Have the runners of the cluster do the rows"),
  keepWorkspaces: Flags.yes("keep-workspaces", "Keep the directories that rows worked in"),
  logPrefixChars: whole("log-prefix-chars", "N", "With --verbose: characters of answers in log lines (100)"),
  script: Flags.text("script", "PATH", "Answer from a scenario file instead of a model"),
  replay: Flags.text("replay", "PATH", "Answer from a recording instead of a model")
}

/** Values of {@link runFlags}. */
export type RunFlags = Flags.Parsed<typeof runFlags>

const loadRuns = Effect.promise(() => import("./BatchRuns.ts"))
const loadReports = Effect.promise(() => import("./BatchReports.ts"))

const run = Command.make("run", runFlags, (flags) => Effect.flatMap(loadRuns, ({ run }) => run(flags))).pipe(
  Command.withDescription("Run the agent on every row of a dataset; with --resume, go on with a run"),
  Command.withExamples([
    { command: "hermes batch run --dataset_file=data.jsonl --batch_size=10 --run_name=first", description: "Begin a run" },
    { command: "hermes batch run --dataset_file=data.jsonl --batch_size=10 --run_name=first --resume", description: "Run what is missing or failed" }
  ])
)

const directory = Argument.String("run").pipe(Argument.withDescription("Directory of a run, or its name in data/"))
const json = Flags.yes("json", "Print JSON")

const stats = Command.make("stats", { directory, json }, (flags) => Effect.flatMap(loadReports, ({ stats }) => stats(flags))).pipe(
  Command.withDescription("Show rows, exits, tools, reasoning, tokens and cost of a run")
)
const merge = Command.make("merge", {
  directory,
  keepWithoutReasoning: Flags.yes("keep-without-reasoning", "Take the rows in that were discarded for their reasoning")
}, (flags) => Effect.flatMap(loadReports, ({ merge }) => merge(flags))).pipe(
  Command.withDescription("Write the merged files and the statistics again from the rows")
)
const show = Command.make("show", {
  directory,
  row: Argument.String("row").pipe(Argument.withDescription("Id or index of a row")),
  json
}, (flags) => Effect.flatMap(loadReports, ({ show }) => show(flags))).pipe(Command.withDescription("Show one row: its turns, calls, times and error"))
const diff = Command.make("diff", {
  directory,
  other: Argument.String("other").pipe(Argument.withDescription("Directory or name of another run")),
  json
}, (flags) => Effect.flatMap(loadReports, ({ diff }) => diff(flags))).pipe(Command.withDescription("Compare two runs row by row"))
const view = Command.make("view", {
  directory,
  port: whole("port", "N", "Port on 127.0.0.1; default: any that is free")
}, (flags) => Effect.flatMap(loadReports, ({ view }) => view(flags))).pipe(
  Command.withDescription("Serve the studio on the sessions of a run, until Ctrl+C")
)

/** Flags of `hermes batch compress`. */
export const compressFlags = {
  input: Argument.String("input").pipe(Argument.withDescription("File of trajectories, or a directory of such files")),
  output: Flags.text("output", "PATH", "File or directory to write; default: beside the input, with -compressed", "o"),
  targetTokens: whole("target-tokens", "N", "Tokens of a trajectory (15250)"),
  summaryTokens: whole("summary-tokens", "N", "Tokens of a summary (750)"),
  protectLast: whole("protect-last", "N", "Turns at the end that stay as they are (4)"),
  concurrency: whole("concurrency", "N", "Trajectories at a time (50)"),
  timeout: number("timeout", "SECONDS", "Time limit of a trajectory (300)"),
  samplePercent: number("sample-percent", "N", "Only a part of the trajectories"),
  seed: whole("seed", "N", "Seed of the sample (42)"),
  dryRun: Flags.yes("dry-run", "Count what would be compressed, and write nothing"),
  script: Flags.text("script", "PATH", "Answer from a scenario file instead of a model")
}

/** Values of {@link compressFlags}. */
export type CompressFlags = Flags.Parsed<Omit<typeof compressFlags, "input">> & { readonly input: string }

const compress = Command.make("compress", compressFlags, (flags) =>
  Effect.flatMap(Effect.promise(() => import("./BatchCompress.ts")), ({ compress }) => compress(flags))).pipe(
  Command.withDescription("Shorten trajectories to a token target by summaries of their middle")
)

/** The command. */
export const command = Command.make("batch").pipe(Command.withSubcommands([run, stats, merge, show, diff, view, compress]))
