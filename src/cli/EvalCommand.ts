/**
 * `hermes eval`: a configuration on the rows of a dataset, scored, and two configurations against each other.
 */
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Flags from "./Flags.ts"
import * as RunLimits from "./RunLimits.ts"

const count = (name: string, description: string) => Flags.last(Flag.Int(name).pipe(Flag.withMetavar("N")), description)

const json = Flags.yes("json", "Print JSON")

const run = {
  dataset: Argument.String("dataset").pipe(Argument.withDescription("JSONL, JSON or CSV file, or a folder of such files")),
  scorer: Flags.many("scorer", "NAME", "exact, contains, regex, number, command or judge"),
  judge: Flags.many("judge", "MODEL", "Judge model, or provider=NAME,model=NAME"),
  criteria: Flags.text("criteria", "TEXT", "Rules for judges"),
  runs: count("runs", "Attempts at each row (1)"),
  k: Flags.text("k", "1,5", "Values of pass@k (powers of two)"),
  name: Flags.text("name", "NAME", "Name of the configuration (its model)"),
  outputDir: Flags.text("output-dir", "PATH", "Directory of results (eval-results/NAME)"),
  agent: Flags.text("agent", "FILE", "Agent file, or the name of one"),
  maxTurns: count("max-turns", "Model calls of an attempt"),
  ...RunLimits.flags("attempt", "Seed of models, another one for each attempt"),
  workers: count("workers", "Attempts at a time (4)"),
  limit: count("limit", "Only the first N rows"),
  promptField: Flags.text("prompt-field", "NAME", "Field with the prompt (prompt)"),
  referenceField: Flags.text("reference-field", "NAME", "Field with references (reference, answer, …)"),
  labelField: Flags.text("label-field", "NAME", "Field with verdicts of people (label)"),
  idField: Flags.text("id-field", "NAME", "Field with the id of a row"),
  split: Flags.text("split", "NAME", "Split of a folder (train)"),
  commandTimeout: count("command-timeout", "Seconds for a command scorer (60)"),
  json,
  script: Flags.text("script", "PATH", "Answer from a scenario file instead of a model"),
  replay: Flags.text("replay", "PATH", "Answer from a recording instead of a model")
}

/** Flags of `hermes eval run`. */
export type RunFlags = Flags.Parsed<Omit<typeof run, "dataset">> & { readonly dataset: string }

const place = (name: string) => Argument.String(name).pipe(Argument.withDescription("Directory of results, or its name in eval-results/"))

const actions = Effect.promise(() => import("./EvalRuns.ts"))

const runCommand = Command.make("run", run, (flags) => Effect.flatMap(actions, ({ run }) => run(flags))).pipe(
  Command.withDescription("Evaluate a configuration; the same command goes on where it ended"),
  Command.withExamples([
    { command: "hermes eval run questions.jsonl --scorer number", description: "One attempt at each row" },
    { command: "hermes eval run tasks.jsonl --scorer judge --runs 5 --name base", description: "pass@k by a judge" }
  ])
)

const showCommand = Command.make("show", { results: place("results"), k: run.k, json }, (flags) => Effect.flatMap(actions, ({ show }) => show(flags))).pipe(
  Command.withDescription("Show the results of a configuration")
)

const compareCommand = Command.make("compare", {
  first: place("first"),
  second: place("second"),
  page: Flags.text("page", "PATH", "Write the comparison as one HTML page"),
  json
}, (flags) => Effect.flatMap(actions, ({ compare }) => compare(flags))).pipe(
  Command.withDescription("Compare two configurations on common rows, by a paired test")
)

export const command = Command.make("eval").pipe(Command.withSubcommands([runCommand, showCommand, compareCommand]))
