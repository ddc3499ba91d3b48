/** `hermes eval`: runs a configuration on the rows of a dataset and scores it, and compares two configurations. */
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flags from "./Flags.ts"
import * as RunLimits from "./RunLimits.ts"

const json = Flags.makeSwitch("json", "Print JSON")

const run = {
  dataset: Argument.String("dataset").pipe(
    Argument.withDescription("JSONL, JSON or CSV file, or a folder of such files")
  ),
  scorer: Flags.makeTexts("scorer", "NAME", "exact, contains, regex, number, command or judge"),
  judge: Flags.makeTexts("judge", "MODEL", "Judge model, or provider=NAME,model=NAME"),
  criteria: Flags.makeText("criteria", "TEXT", "Rules for judges"),
  runs: Flags.makeInteger("runs", "N", "Attempts per row (1)"),
  k: Flags.makeText("k", "1,5", "Values of k for pass@k (default: powers of two)"),
  threshold: Flags.makeNumber("threshold", "RATE", "Least pass rate, 0 to 1; exit code 1 below it"),
  name: Flags.makeText("name", "NAME", "Name of the configuration (its model)"),
  outputDir: Flags.makeText("output-dir", "PATH", "Directory of results (eval-results/NAME)"),
  agent: Flags.makeText("agent", "FILE", "Agent file, or its name"),
  maxTurns: Flags.makeInteger("max-turns", "N", "Model calls of an attempt"),
  ...RunLimits.makeFlags("attempt", "Seed for models; each attempt gets its own"),
  workers: Flags.makeInteger("workers", "N", "Attempts at a time (4)"),
  limit: Flags.makeInteger("limit", "N", "Only the first N rows"),
  promptField: Flags.makeText("prompt-field", "NAME", "Field with the prompt (prompt)"),
  referenceField: Flags.makeText("reference-field", "NAME", "Field with references (reference, answer, …)"),
  labelField: Flags.makeText("label-field", "NAME", "Field with human verdicts (label)"),
  idField: Flags.makeText("id-field", "NAME", "Field with the id of a row"),
  split: Flags.makeText("split", "NAME", "Split of a folder (train)"),
  commandTimeout: Flags.makeInteger("command-timeout", "N", "Seconds for a command scorer (60)"),
  cluster: Flags.makeSwitch("cluster", "Answer and score on the runners of the cluster"),
  json,
  script: Flags.makeText("script", "PATH", "Answer from a scenario file instead of a model"),
  replay: Flags.makeText("replay", "PATH", "Answer from a recording instead of a model")
}

/** Values of the flags of `hermes eval run`. */
export type RunFlags = Flags.Parsed<Omit<typeof run, "dataset">> & { readonly dataset: string }

const makeResultsArgument = (name: string) =>
  Argument.String(name).pipe(Argument.withDescription("Results directory, or its name in eval-results/"))

const loadRuns = Effect.promise(() => import("./EvalRuns.ts"))
const loadResults = Effect.promise(() => import("./EvalResults.ts"))

const runCommand = Command.make("run", run, (flags) => Effect.flatMap(loadRuns, ({ run }) => run(flags))).pipe(
  Command.withDescription("Evaluate a configuration; the same command resumes it"),
  Command.withExamples([
    { command: "hermes lab eval run questions.jsonl --scorer number", description: "One attempt at each row" },
    {
      command: "hermes lab eval run tasks.jsonl --scorer judge --runs 5 --name base",
      description: "pass@k with a judge"
    },
    { command: "hermes lab eval run q.jsonl --scorer exact --threshold 0.9", description: "Fail a CI job below 90 %" }
  ])
)

const showCommand = Command.make("show", { results: makeResultsArgument("results"), k: run.k, json }, (flags) =>
  Effect.flatMap(loadResults, ({ show }) => show(flags))
).pipe(Command.withDescription("Show the results of a configuration"))

const compareCommand = Command.make(
  "compare",
  {
    first: makeResultsArgument("first"),
    second: makeResultsArgument("second"),
    others: makeResultsArgument("others").pipe(Argument.variadic()),
    page: Flags.makeText("page", "PATH", "Write the comparison as one HTML page"),
    json
  },
  (flags) => Effect.flatMap(loadResults, ({ compare }) => compare(flags))
).pipe(Command.withDescription("Compare configurations on common rows; three or more are ranked"))

/** The command `hermes eval`. */
export const command = Command.make("eval").pipe(Command.withSubcommands([runCommand, showCommand, compareCommand]))
