/**
 * `hermes cron`: jobs that run at their times, each in a conversation of its own.
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

const job = Argument.String("job").pipe(Argument.withDescription("Job id, id prefix, or name"))
const json = Flags.yes("json", "Print JSON")
const scenario = { script: Flags.text("script", "PATH", "Answer from a scenario file instead of a model") }

const many = (flag: string, metavar: string, description: string) =>
  Flag.String(flag).pipe(Flag.withMetavar(metavar), Flag.withDescription(description), Flag.atLeast(0))

const draft = {
  name: Flags.text("name", "NAME", "Name of the job"),
  skill: many("skill", "NAME", "Skill to load; repeatable"),
  script: Flags.text("script", "PATH", "Script below scripts/ of the home directory; its output is added to the prompt"),
  noAgent: Flags.yes("no-agent", "Use the output of the script as the result, without a model"),
  workdir: Flags.text("workdir", "DIRECTORY", "Working directory"),
  repeat: Flags.last(Flag.Int("repeat").pipe(Flag.withMetavar("N")), "Number of runs after which the job is complete"),
  contextFrom: many("context-from", "JOB", "Job whose latest output is added to the prompt; repeatable"),
  timezone: Flags.text("timezone", "ZONE", "Time zone such as Europe/Berlin; default: the configured one, else that of the machine")
}

const listFlags = { all: Flags.yes("all", "Include completed jobs"), json }

const list = Command.make("list", listFlags, (flags) => act((actions, shared) => actions.list(shared, flags))).pipe(
  Command.withAlias("ls"),
  Command.withDescription("List jobs and their next runs")
)

const create = Command.make(
  "create",
  {
    schedule: Argument.String("schedule").pipe(
      Argument.withDescription("30m (once), 'every 2h', '0 9 * * mon-fri', or 2026-03-01T09:00")
    ),
    prompt: Argument.optional(Argument.String("prompt").pipe(Argument.withDescription("Prompt of the job"))),
    ...draft
  },
  (flags) => act((actions, shared) => actions.create(shared, flags))
).pipe(Command.withAlias("add"), Command.withDescription("Create a job; --model, --provider and --toolsets are stored with it"))

const edit = Command.make(
  "edit",
  {
    job,
    schedule: Flags.text("schedule", "WHEN", "New schedule"),
    prompt: Flags.text("prompt", "TEXT", "New prompt"),
    ...draft
  },
  (flags) => act((actions, shared) => actions.edit(shared, flags))
).pipe(Command.withDescription("Change the given fields of a job"))

const pause = Command.make("pause", { job }, (flags) => act((actions) => actions.pause(flags))).pipe(
  Command.withDescription("Pause a job")
)
const resume = Command.make("resume", { job }, (flags) => act((actions) => actions.resume(flags))).pipe(
  Command.withDescription("Resume a paused job")
)
const remove = Command.make("remove", { job }, (flags) => act((actions) => actions.remove(flags))).pipe(
  Command.withAlias("rm"),
  Command.withDescription("Remove a job; its result files are kept")
)
const status = Command.make("status", { json }, (flags) => act((actions) => actions.status(flags))).pipe(
  Command.withDescription("Show if the scheduler is running, and the next job")
)
const resnap = Command.make("resnap", { job: Argument.optional(job) }, (flags) => act((actions, shared) => actions.resnap(shared, flags)))
  .pipe(Command.withDescription("Store the current provider and model with a job, or with all jobs"))

const runNow = Command.make("run", { job, ...scenario }, (flags) => run((runs, shared) => runs.runNow(shared, flags))).pipe(
  Command.withDescription("Run a job now and print its result")
)
const tick = Command.make("tick", scenario, (flags) => run((runs, shared) => runs.tick(shared, flags))).pipe(
  Command.withDescription("Run due jobs once and exit; call it from the system's cron every minute")
)
const serve = Command.make("serve", scenario, (flags) => run((runs, shared) => runs.serve(shared, flags))).pipe(
  Command.withDescription("Run due jobs every minute until stopped")
)

/** Without a word behind it: the list. */
export const cronCommand = Command.make("cron", listFlags, (flags) => act((actions, shared) => actions.list(shared, flags))).pipe(
  Command.withDescription("Create, list and run scheduled jobs"),
  Command.withSubcommands([list, create, edit, pause, resume, remove, status, resnap, runNow, tick, serve])
)
