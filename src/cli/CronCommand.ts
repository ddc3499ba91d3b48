/**
 * `hermes cron`: jobs that run at their times, each in a conversation of its own.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Flags from "./Flags.ts"
import { hermes, perform } from "./Hermes.ts"

type Actions = typeof import("./CronActions.ts")
type Runs = typeof import("./CronRuns.ts")

const act = <A, E, R>(work: (actions: Actions, shared: Flags.Globals) => Effect.Effect<A, E, R>) =>
  Effect.flatMap(hermes, (shared) => perform(shared, () => import("./CronActions.ts"), (actions) => work(actions, shared)))

const run = <A, E, R>(work: (runs: Runs, shared: Flags.Globals) => Effect.Effect<A, E, R>) =>
  Effect.flatMap(hermes, (shared) => perform(shared, () => import("./CronRuns.ts"), (runs) => work(runs, shared)))

const job = Argument.String("job").pipe(Argument.withDescription("Its id, the beginning of it, or its name"))
const json = Flags.yes("json", "One JSON document")
const scenario = { script: Flags.text("script", "PATH", "Let the answers come from a scenario, without a model") }

const many = (flag: string, metavar: string, description: string) =>
  Flag.String(flag).pipe(Flag.withMetavar(metavar), Flag.withDescription(description), Flag.atLeast(0))

const draft = {
  name: Flags.text("name", "NAME", "What to call it"),
  skill: many("skill", "NAME", "A skill that it follows; may be given again"),
  script: Flags.text("script", "PATH", "A file below scripts/ of the home directory; what it prints is given to the agent"),
  noAgent: Flags.yes("no-agent", "What the script prints is the result; no model is asked"),
  workdir: Flags.text("workdir", "DIRECTORY", "Where it works"),
  repeat: Flags.last(Flag.Int("repeat").pipe(Flag.withMetavar("N")), "Runs until it is done"),
  contextFrom: many("context-from", "JOB", "A job whose latest output is given to it; may be given again"),
  timezone: Flags.text("timezone", "ZONE", "Such as Europe/Berlin; of the settings, or the machine's, when not given")
}

const listFlags = { all: Flags.yes("all", "Those that are done, too"), json }

const list = Command.make("list", listFlags, (flags) => act((actions, shared) => actions.list(shared, flags))).pipe(
  Command.withAlias("ls"),
  Command.withDescription("The jobs, and when they run")
)

const create = Command.make(
  "create",
  {
    schedule: Argument.String("schedule").pipe(
      Argument.withDescription("30m (once), 'every 2h', '0 9 * * mon-fri', or 2026-03-01T09:00")
    ),
    prompt: Argument.optional(Argument.String("prompt").pipe(Argument.withDescription("What it does"))),
    ...draft
  },
  (flags) => act((actions, shared) => actions.create(shared, flags))
).pipe(Command.withAlias("add"), Command.withDescription("Make a job; --model, --provider and --toolsets are kept with it"))

const edit = Command.make(
  "edit",
  {
    job,
    schedule: Flags.text("schedule", "WHEN", "A new schedule"),
    prompt: Flags.text("prompt", "TEXT", "A new prompt"),
    ...draft
  },
  (flags) => act((actions, shared) => actions.edit(shared, flags))
).pipe(Command.withDescription("Change what is given, and keep the rest"))

const pause = Command.make("pause", { job }, (flags) => act((actions) => actions.pause(flags))).pipe(
  Command.withDescription("Let it wait until it is resumed")
)
const resume = Command.make("resume", { job }, (flags) => act((actions) => actions.resume(flags))).pipe(
  Command.withDescription("Go on with its next time")
)
const remove = Command.make("remove", { job }, (flags) => act((actions) => actions.remove(flags))).pipe(
  Command.withAlias("rm"),
  Command.withDescription("Forget it; the files with its results stay")
)
const status = Command.make("status", { json }, (flags) => act((actions) => actions.status(flags))).pipe(
  Command.withDescription("Whether anybody looks for due jobs, and what comes next")
)
const resnap = Command.make("resnap", { job: Argument.optional(job) }, (flags) => act((actions, shared) => actions.resnap(shared, flags)))
  .pipe(Command.withDescription("Let a job, or all of them, use the provider and model of now"))

const runNow = Command.make("run", { job, ...scenario }, (flags) => run((runs, shared) => runs.runNow(shared, flags))).pipe(
  Command.withDescription("Run it now, whatever its schedule says, and show the result")
)
const tick = Command.make("tick", scenario, (flags) => run((runs, shared) => runs.tick(shared, flags))).pipe(
  Command.withDescription("Run what is due, and leave; for a system's cron, every minute")
)
const serve = Command.make("serve", scenario, (flags) => run((runs, shared) => runs.serve(shared, flags))).pipe(
  Command.withDescription("Run what is due, every minute, until it is stopped")
)

/** See the module. Without a word behind it: the list. */
export const cronCommand = Command.make("cron", listFlags, (flags) => act((actions, shared) => actions.list(shared, flags))).pipe(
  Command.withDescription("Make, list and run jobs that run at their times"),
  Command.withSubcommands([list, create, edit, pause, resume, remove, status, resnap, runNow, tick, serve])
)
