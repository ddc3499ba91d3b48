/** `hermes cluster`: several runner processes that share one Postgres database. */
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
  Command.withDescription("Execute submitted runs, until Ctrl+C hands them over or the runner is drained"),
  Command.withExamples([{ command: "hermes cluster runner --concurrency 16", description: "Start a runner" }])
)

const json = Flags.makeSwitch("json", "Print JSON")

const status = Command.make(
  "status",
  {
    runner: Argument.optional(
      Argument.String("runner").pipe(
        Argument.withDescription("Test if this runner, or one of this host, is active: exit code 0 or 1")
      )
    ),
    json
  },
  (flags) => Effect.flatMap(loadRuns, ({ showStatus }) => showStatus(flags))
).pipe(Command.withDescription("Show runners, runs by batch, and the budget used"))

const drain = Command.make(
  "drain",
  {
    runner: Argument.optional(
      Argument.String("runner").pipe(Argument.withDescription("Name of a runner or its beginning, or a host"))
    ),
    all: Flags.makeSwitch("all", "Drain every runner")
  },
  (flags) => Effect.flatMap(loadRuns, ({ drain }) => drain(flags))
).pipe(Command.withDescription("Ask runners to finish their runs, hand over the rest, and stop"))

/** Flags of `hermes cluster submit`. */
export const submitFlags = {
  prompt: Argument.String("prompt").pipe(Argument.withDescription("Prompt for the agent")),
  id: Flags.makeText("id", "NAME", "Name of the run; a name runs only once"),
  agent: Flags.makeText("agent", "FILE", "Agent file, or its name; sent with the run"),
  session: Flags.makeText("session", "ID", "Session to continue; default: a new one"),
  seed: Flags.makeInteger("seed", "N", "Seed for the model calls"),
  maxTotalTokens: Flags.makeInteger("max-total-tokens", "N", "Token limit of the run"),
  maxCost: Flags.makeNumber("max-cost", "DOLLARS", "Cost limit of the run"),
  maxTime: Flags.makeNumber("max-time", "SECONDS", "Time limit of the run, from its start on a runner"),
  wait: Flags.makeSwitch("wait", "Wait for the answer and print it")
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

const loadWatch = Effect.promise(() => import("./ClusterWatch.ts"))

const run = Argument.String("run").pipe(Argument.withDescription("Id of the run, which `hermes cluster submit` prints"))

const watch = Command.make("watch", { run, json }, (flags) =>
  Effect.flatMap(loadWatch, ({ watchRun }) => watchRun(flags))
).pipe(Command.withDescription("Follow a run on any runner until it is over"))

const cancel = Command.make("cancel", { run }, (flags) =>
  Effect.flatMap(loadWatch, ({ cancelRun }) => cancelRun(flags))
).pipe(Command.withDescription("Cancel a run, waiting or running on any runner"))

const steer = Command.make(
  "steer",
  {
    session: Argument.String("session").pipe(Argument.withDescription("Session whose turn is running")),
    text: Argument.String("text").pipe(Argument.withDescription("Message for the model"))
  },
  (flags) => Effect.flatMap(loadWatch, ({ steerRun }) => steerRun(flags))
).pipe(
  Command.withDescription("Send a message to the running turn of a session, on any runner"),
  Command.withExamples([{ command: "hermes cluster steer SESSION 'Use Postgres'", description: "Correct a turn" }])
)

const answer = Command.make(
  "answer",
  {
    run,
    question: Argument.optional(Argument.String("question").pipe(Argument.withDescription("Id of the question"))),
    answer: Argument.optional(
      Argument.String("answer").pipe(Argument.withDescription("The answer, as JSON; a text needs no quotes"))
    )
  },
  (flags) => Effect.flatMap(loadWatch, ({ answerRun }) => answerRun(flags))
).pipe(
  Command.withDescription("Answer a question of a run that waits, or list its open questions"),
  Command.withExamples([
    { command: `hermes cluster answer RUN QUESTION '{"choice":"once"}'`, description: "Approve a call" }
  ])
)

const retry = Command.make("retry", { run }, (flags) =>
  Effect.flatMap(loadWatch, ({ retryRun }) => retryRun(flags))
).pipe(Command.withDescription("Start a failed run again, and print the id of the new one"))

const failed = Command.make(
  "failed",
  { limit: Flags.takeLast(Flag.Int("limit").pipe(Flag.withMetavar("N")), "Number of runs to list; default: 50"), json },
  (flags) => Effect.flatMap(loadRuns, ({ listFailed }) => listFailed(flags))
).pipe(Command.withDescription("List the runs that failed for good, with their reasons, the most recent first"))

/** The command `hermes cluster`. */
export const command = Command.make("cluster").pipe(
  Command.withSubcommands([runner, status, drain, submit, watch, cancel, steer, answer, failed, retry])
)
