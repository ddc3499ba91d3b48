/**
 * `hermes cluster`: several runner processes over one Postgres database.
 */
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Flags from "./Flags.ts"

const loadRuns = Effect.promise(() => import("./ClusterRuns.ts"))

/** Flags of `hermes cluster runner`. */
export const runnerFlags = {
  concurrency: Flags.takeLast(
    Flag.Int("concurrency").pipe(Flag.withMetavar("N")),
    "Runs at a time (cluster.concurrency)"
  ),
  script: Flags.makeText("script", "PATH", "Answer from a scenario file instead of a model")
}

/** Values of {@link runnerFlags}. */
export type RunnerFlags = Flags.Parsed<typeof runnerFlags>

const runner = Command.make("runner", runnerFlags, (flags) =>
  Effect.flatMap(loadRuns, ({ startRunner }) => startRunner(flags))
).pipe(
  Command.withDescription("Do the runs that are submitted, until Ctrl+C hands them over or it is drained"),
  Command.withExamples([{ command: "hermes cluster runner --concurrency 16", description: "Be one of the runners" }])
)

const json = Flags.makeSwitch("json", "Print JSON")

const status = Command.make(
  "status",
  {
    runner: Argument.optional(
      Argument.String("runner").pipe(
        Argument.withDescription("Only test that this runner, or one of this host, is at work: exit code 0 or 1")
      )
    ),
    json
  },
  (flags) => Effect.flatMap(loadRuns, ({ showStatus }) => showStatus(flags))
).pipe(Command.withDescription("Show the runners, the runs by batch, and what is used of the budget"))

const drain = Command.make(
  "drain",
  {
    runner: Argument.optional(
      Argument.String("runner").pipe(Argument.withDescription("Name of a runner or its beginning, or a host"))
    ),
    all: Flags.makeSwitch("all", "Drain every runner")
  },
  (flags) => Effect.flatMap(loadRuns, ({ drain }) => drain(flags))
).pipe(Command.withDescription("Ask runners to finish what is under way, hand over the rest, and end"))

/** Flags of `hermes cluster submit`. */
export const submitFlags = {
  prompt: Argument.String("prompt").pipe(Argument.withDescription("Prompt for the agent")),
  id: Flags.makeText("id", "NAME", "Name of the run; one name is run once, however often it is submitted"),
  agent: Flags.makeText("agent", "FILE", "Agent file, or the name of one; goes along by content"),
  session: Flags.makeText("session", "ID", "Session to go on with; default: a new one"),
  wait: Flags.makeSwitch("wait", "Wait for the end, and print the answer")
}

/** Values of {@link submitFlags}. */
export type SubmitFlags = Flags.Parsed<Omit<typeof submitFlags, "prompt">> & { readonly prompt: string }

const submit = Command.make("submit", submitFlags, (flags) =>
  Effect.flatMap(loadRuns, ({ submit }) => submit(flags))
).pipe(
  Command.withDescription("Submit a prompt to the runners"),
  Command.withExamples([
    { command: "hermes cluster submit --wait 'Summarise README.md'", description: "Have a runner answer" }
  ])
)

/** The command. */
export const command = Command.make("cluster").pipe(Command.withSubcommands([runner, status, drain, submit]))
