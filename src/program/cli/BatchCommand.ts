/**
 * `hermes batch`: runs datasets through the agent, and works on their trajectories.
 *
 * The flags have the names that the specification defines. Underscores in their names are also accepted as dashes
 * (`--dataset_file`).
 *
 * Source: `hermes-product.md` §5.1 and §5.4, `hermes-llm.md` §20.1.
 */
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flags from "./Flags.ts"
import * as RunLimits from "./RunLimits.ts"

/** Flags of `hermes batch run`. */
export const runFlags = {
  datasetFile: Flags.makeText("dataset-file", "PATH", "JSONL, JSON, CSV or Parquet file, or a folder of them"),
  batchSize: Flags.makeInteger("batch-size", "N", "Rows per batch; they run one after another"),
  runName: Flags.makeText("run-name", "NAME", "Name of the run and of its directory in data/"),
  distribution: Flags.makeText("distribution", "NAME", "Random toolsets: a name, or terminal=90,web=40"),
  listDistributions: Flags.makeSwitch("list-distributions", "Print the distributions and exit"),
  numWorkers: Flags.makeInteger("num-workers", "N", "Batches at a time (4)"),
  maxSamples: Flags.makeInteger("max-samples", "N", "Only the first N rows"),
  maxTurns: Flags.makeInteger("max-turns", "N", "Model calls of a row (10)"),
  maxTokens: Flags.makeInteger("max-tokens", "N", "Tokens of one answer"),
  retries: Flags.makeInteger("retries", "N", "Retries of a row that fails (2)"),
  ...RunLimits.makeFlags("row", "Seed for toolset draws (the run's name) and models"),
  format: Flags.makeChoice("format", ["sharegpt", "atif", "both"], "Format of the merged trajectories (sharegpt)"),
  keepWithoutReasoning: Flags.makeSwitch("keep-without-reasoning", "Keep rows without any reasoning"),
  reasoningEffort: Flags.makeChoice(
    "reasoning-effort",
    ["minimal", "low", "medium", "high", "xhigh"],
    "Reasoning effort of the model"
  ),
  reasoningDisabled: Flags.makeSwitch("reasoning-disabled", "Disable reasoning, and keep rows without it"),
  ephemeralSystemPrompt: Flags.makeText(
    "ephemeral-system-prompt",
    "TEXT",
    "Text added to the system prompt; not saved in rows"
  ),
  prefillMessagesFile: Flags.makeText("prefill-messages-file", "PATH", "Example messages for every call (JSON array)"),
  apiKey: Flags.makeText("api-key", "KEY", "API key; other users can see it, prefer a variable"),
  providersAllowed: Flags.makeText("providers-allowed", "A,B", "OpenRouter: only these providers"),
  providersIgnored: Flags.makeText("providers-ignored", "A,B", "OpenRouter: none of these providers"),
  providersOrder: Flags.makeText("providers-order", "A,B", "OpenRouter: providers in this order"),
  providerSort: Flags.makeChoice("provider-sort", ["price", "throughput", "latency"], "OpenRouter: order of providers"),
  agent: Flags.makeText("agent", "FILE", "Agent file, or its name"),
  image: Flags.makeText("image", "NAME", "Container image of rows without one"),
  idField: Flags.makeText("id-field", "NAME", "Field with the id of a row (id, row_id, task_id, …)"),
  promptField: Flags.makeText("prompt-field", "NAME", "Field with the prompt (prompt)"),
  split: Flags.makeText("split", "NAME", "Split of a folder (train)"),
  outputDir: Flags.makeText("output-dir", "PATH", "Directory of runs (data)"),
  cluster: Flags.makeSwitch("cluster", "Run the rows on the runners of the cluster"),
  keepWorkspaces: Flags.makeSwitch("keep-workspaces", "Keep the working directories of rows"),
  logPrefixChars: Flags.makeInteger(
    "log-prefix-chars",
    "N",
    "With --verbose: characters of answers in log lines (100)"
  ),
  script: Flags.makeText("script", "PATH", "Answer from a scenario file instead of a model"),
  replay: Flags.makeText("replay", "PATH", "Answer from a recording instead of a model")
}

/** Values of {@link runFlags}. */
export type RunFlags = Flags.Parsed<typeof runFlags>

const loadRuns = Effect.promise(() => import("./BatchRuns.ts"))
const loadReports = Effect.promise(() => import("./BatchReports.ts"))

const run = Command.make("run", runFlags, (flags) => Effect.flatMap(loadRuns, ({ run }) => run(flags))).pipe(
  Command.withDescription("Run the agent on every row of a dataset; continue a run with --resume"),
  Command.withExamples([
    {
      command: "hermes lab batch run --dataset_file=data.jsonl --batch_size=10 --run_name=first",
      description: "Begin a run"
    },
    {
      command: "hermes lab batch run --dataset_file=data.jsonl --batch_size=10 --run_name=first --resume",
      description: "Run missing and failed rows"
    }
  ])
)

const directory = Argument.String("run").pipe(Argument.withDescription("Directory of a run, or its name in data/"))
const json = Flags.makeSwitch("json", "Print JSON")

const stats = Command.make("stats", { directory, json }, (flags) =>
  Effect.flatMap(loadReports, ({ showStatistics }) => showStatistics(flags))
).pipe(Command.withDescription("Show rows, exits, tools, reasoning, tokens and cost of a run"))
const merge = Command.make(
  "merge",
  {
    directory,
    keepWithoutReasoning: Flags.makeSwitch("keep-without-reasoning", "Include rows discarded for missing reasoning")
  },
  (flags) => Effect.flatMap(loadReports, ({ merge }) => merge(flags))
).pipe(Command.withDescription("Rebuild the merged files and the statistics from the rows"))
const show = Command.make(
  "show",
  { directory, row: Argument.String("row").pipe(Argument.withDescription("Id or index of a row")), json },
  (flags) => Effect.flatMap(loadReports, ({ show }) => show(flags))
).pipe(Command.withDescription("Show a row's turns, calls, times and error"))
const diff = Command.make(
  "diff",
  {
    directory,
    other: Argument.String("other").pipe(Argument.withDescription("Directory or name of another run")),
    json
  },
  (flags) => Effect.flatMap(loadReports, ({ diff }) => diff(flags))
).pipe(Command.withDescription("Compare two runs row by row"))
const view = Command.make(
  "view",
  { directory, port: Flags.makeInteger("port", "N", "Port on 127.0.0.1; default: any free port") },
  (flags) => Effect.flatMap(loadReports, ({ view }) => view(flags))
).pipe(Command.withDescription("Serve the studio for the sessions of a run, until Ctrl+C"))

/** Flags of `hermes batch compress`. */
export const compressFlags = {
  input: Argument.String("input").pipe(Argument.withDescription("Trajectory file, or a directory of such files")),
  output: Flags.makeText(
    "output",
    "PATH",
    "File or directory to write; default: beside the input, with -compressed",
    "o"
  ),
  targetTokens: Flags.makeInteger("target-tokens", "N", "Tokens of a trajectory (15250)"),
  summaryTokens: Flags.makeInteger("summary-tokens", "N", "Tokens of a summary (750)"),
  protectLast: Flags.makeInteger("protect-last", "N", "Last turns that are not compressed (4)"),
  concurrency: Flags.makeInteger("concurrency", "N", "Trajectories at a time (50)"),
  timeout: Flags.makeNumber("timeout", "SECONDS", "Time limit of a trajectory (300)"),
  samplePercent: Flags.makeNumber("sample-percent", "N", "Only a part of the trajectories"),
  seed: Flags.makeInteger("seed", "N", "Seed of the sample (42)"),
  dryRun: Flags.makeSwitch("dry-run", "Count without writing anything"),
  script: Flags.makeText("script", "PATH", "Answer from a scenario file instead of a model")
}

/** Values of {@link compressFlags}. */
export type CompressFlags = Flags.Parsed<Omit<typeof compressFlags, "input">> & { readonly input: string }

const compress = Command.make("compress", compressFlags, (flags) =>
  Effect.flatMap(
    Effect.promise(() => import("./BatchCompress.ts")),
    ({ compress }) => compress(flags)
  )
).pipe(Command.withDescription("Shorten trajectories to a token target by summarising their middle"))

const check = Command.make(
  "check",
  {
    trajectories: Argument.String("trajectories").pipe(
      Argument.withDescription("Directory of a run, its name in data/, or a file of trajectories")
    ),
    trainer: Flags.makeChoice("for", ["llama-factory", "axolotl", "trl"], "Trainer that reads the rows"),
    json
  },
  (flags) =>
    Effect.flatMap(
      Effect.promise(() => import("./BatchCheck.ts")),
      ({ checkTrajectories }) => checkTrajectories(flags)
    )
).pipe(Command.withDescription("Find rows that a trainer would drop; exit code 1 if there are any"))

/** The command `hermes batch`. */
export const command = Command.make("batch").pipe(
  Command.withSubcommands([run, stats, merge, show, diff, view, compress, check])
)
