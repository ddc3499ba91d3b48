/**
 * `hermes cron`: scheduled jobs, each run in a separate conversation.
 *
 * Source: `hermes-product.md` §1.6 and §2.5.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { Environment, Home } from "../../base/config/Environment.ts"
import { Settings } from "../../base/config/Settings.ts"
import * as JobFiles from "../../research/cron/JobFiles.ts"
import { insideVariable } from "../../tools/cron/CronContext.ts"
import * as CronJobs from "../../tools/cron/CronJobs.ts"
import * as JobView from "../../tools/cron/Job.ts"
import type { CronError, Job } from "../../tools/cron/Job.ts"
import * as JobDraft from "../../tools/cron/JobDraft.ts"
import type { Draft } from "../../tools/cron/JobDraft.ts"
import { scheduledJobs } from "./ClusterSettings.ts"
import * as CommandSettings from "./CommandSettings.ts"
import { type Failure, makeUnknownNameFailure, makeUsageFailure, makeWorkFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { hermes } from "./Hermes.ts"
import { getWorkingDirectory } from "../../base/platform/CurrentProcess.ts"
import { printLine, printNote, printWarnings } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"

const job = Argument.String("job").pipe(Argument.withDescription("Job id, id prefix, or name"))
const json = Flags.makeSwitch("json", "Print JSON")
const listFlags = { all: Flags.makeSwitch("all", "Include completed jobs"), json }

const draft = {
  name: Flags.makeText("name", "NAME", "Name of the job"),
  skill: Flags.makeTexts("skill", "NAME", "Skill to load; repeatable"),
  script: Flags.makeText(
    "script",
    "PATH",
    "Script below scripts/ of the home directory; its output is added to the prompt"
  ),
  noAgent: Flags.makeSwitch("no-agent", "Use the output of the script as the result, without a model"),
  workdir: Flags.makeText("workdir", "DIRECTORY", "Working directory"),
  repeat: Flags.takeLast(
    Flag.Int("repeat").pipe(Flag.withMetavar("N")),
    "Number of runs after which the job is complete"
  ),
  contextFrom: Flags.makeTexts("context-from", "JOB", "Job whose latest output is added to the prompt; repeatable"),
  tenant: Flags.makeText("tenant", "NAME", "Tenant (tenants.NAME) whose limits bound the job"),
  timezone: Flags.makeText(
    "timezone",
    "ZONE",
    "Time zone such as Europe/Berlin; default: from the settings, then the system"
  )
}

/** Converts an error of the scheduled jobs to a failure of the command: a mistake by the user, or a file error. */
export const toCronFailure = (error: CronError): Failure =>
  error._tag === "CronRefused" ? makeUsageFailure(error.message) : makeWorkFailure(error.message)

/** Runs an effect with the scheduled jobs. */
const withJobs = <A>(work: (jobs: CronJobs.Service) => Effect.Effect<A, CronError>) =>
  CronJobs.CronJobs.use(work).pipe(Effect.mapError(toCronFailure), Effect.provide(scheduledJobs))

const describeJob = (job: Job): string => {
  const next = JobView.formatNextRun(job)
  const facts = [
    JobView.toRecord(job).schedule,
    next === undefined ? undefined : `next ${next}`,
    job.last_status === null ? undefined : `last ${job.last_status}`,
    `runs ${JobView.formatProgress(job)}`,
    JobView.formatMissed(job),
    JobView.formatSkipped(job),
    job.model.model ?? undefined
  ]
  const lines = [
    `${job.id}  ${JobView.describeState(job)}  ${job.name}`,
    `  ${facts.filter((fact) => fact !== undefined).join(" · ")}`
  ]
  const waiting = JobView.formatWaiting(job)
  return [
    ...lines,
    ...(waiting === undefined ? [] : [`  ${waiting}`]),
    ...(job.last_error === null ? [] : [`  ${job.last_error}`])
  ]
    .map((text) => SafeText.sanitise(text).replaceAll("\n", " "))
    .join("\n")
}

/** Prints the scheduled jobs. */
const listJobs = Effect.fn("hermes cron list")(function* ({ all, json }: Flags.Parsed<typeof listFlags>) {
  const listed = yield* withJobs(({ list }) => list)
  const jobs = listed.jobs.filter((job) => all || JobView.describeState(job) !== "completed")
  yield* printWarnings(listed.problems.map(SafeText.toLine))
  if (json) return yield* printLine(SafeText.toJson(jobs.map(JobView.toRecord), 2))
  if (jobs.length === 0) return yield* printLine("No jobs. Create one with `hermes cron create 'every 2h' 'PROMPT'`.")
  yield* printLine(jobs.map(describeJob).join("\n"))
}, Effect.provide(CommandSettings.surroundings))

const list = Command.make("list", listFlags, listJobs).pipe(Command.withDescription("List jobs and their next runs"))

/** Fails if the settings do not have the tenant of a job, which would be refused at each of its times. */
const checkTenant = Effect.fnUntraced(function* (tenant: string | undefined) {
  const { tenants } = yield* Settings
  if (tenant !== undefined && !Object.hasOwn(tenants, tenant))
    return yield* makeUnknownNameFailure("tenant", SafeText.toLine(tenant), {
      known: Object.keys(tenants),
      list: "hermes tenants list"
    })
})

const readDraft = Effect.fnUntraced(function* (given: Flags.Parsed<typeof draft>) {
  yield* checkTenant(given.tenant)
  const paths = yield* Path.Path
  const { toolsets } = yield* hermes
  return {
    name: given.name,
    skills: given.skill.length === 0 ? undefined : given.skill,
    script: given.script,
    noAgent: given.noAgent ? true : undefined,
    workdir: given.workdir === undefined ? undefined : paths.resolve(getWorkingDirectory(), given.workdir),
    times: given.repeat,
    contextFrom: given.contextFrom.length === 0 ? undefined : given.contextFrom,
    tenant: given.tenant,
    timezone: given.timezone,
    toolsets: toolsets === undefined ? undefined : Flags.splitNames(toolsets)
  } satisfies Draft
})

const formatNextRun = (job: Job): string => {
  const next = JobView.formatNextRun(job)
  return `${job.id} ${job.name}: ${next === undefined ? "no next run" : `next run ${next}`}`
}

/** Fails if a process started by a scheduled job tries to change jobs. */
const outsideOfJobs = Effect.flatMap(Environment, ({ process }) =>
  process[insideVariable] === undefined
    ? Effect.void
    : makeUsageFailure("a scheduled job cannot change jobs: do the work now, or report what should be scheduled")
)

/** Prints a note if no scheduler is running. */
const mentionTicker = Effect.gen(function* () {
  const home = yield* Home
  const last = yield* JobFiles.readLastLook(home)
  const now = yield* Clock.currentTimeMillis
  if (last === undefined || now - last > staleMillis) yield* printNote(`Note: ${notRunning}`)
})

const staleMillis = 180_000
const notRunning =
  "The scheduler is not running. Start it with `hermes cron serve`, or run `hermes cron tick` every minute."

const create = Command.make(
  "create",
  {
    schedule: Argument.String("schedule").pipe(
      Argument.withDescription("30m (once), 'every 2h', '0 9 * * mon-fri', or 2026-03-01T09:00")
    ),
    prompt: Argument.optional(Argument.String("prompt").pipe(Argument.withDescription("Prompt of the job"))),
    ...draft
  },
  Effect.fn("hermes cron create")(function* ({ prompt, schedule, ...given }) {
    yield* outsideOfJobs
    const settings = yield* Settings
    const model = JobDraft.readCurrentModel(settings, yield* Environment)
    const draft = yield* readDraft(given)
    const whole: Draft = {
      ...draft,
      schedule,
      prompt: Option.getOrUndefined(prompt),
      model,
      timezone: draft.timezone ?? settings.cron.timezone
    }
    const job = yield* withJobs((jobs) => jobs.create(whole))
    yield* printLine(`created ${formatNextRun(job)}`)
    yield* mentionTicker
  }, CommandSettings.provide)
).pipe(Command.withDescription("Create a job; --model, --provider and --toolsets are stored with it"))

/** Stores the provider and model in the current settings with one job, or with all jobs. */
const updateModel = Effect.fnUntraced(function* (reference: string | undefined) {
  const model = JobDraft.readCurrentModel(yield* Settings, yield* Environment)
  const changed = yield* withJobs((jobs) =>
    reference === undefined
      ? Effect.flatMap(jobs.list, ({ jobs: all }) => Effect.forEach(all, ({ id }) => jobs.update(id, { model })))
      : Effect.map(jobs.update(reference, { model }), (one) => [one])
  )
  const name = model.model ?? "the configured model"
  yield* printLine(
    `${changed.length === 1 ? "1 job uses" : `${changed.length} jobs use`} ` +
      `${name}${model.provider === undefined ? "" : ` of ${model.provider}`}`
  )
})

const edit = Command.make(
  "edit",
  {
    job: Argument.optional(job),
    currentModel: Flags.makeSwitch(
      "current-model",
      "Store the current provider and model with the job; without a job, with all jobs"
    ),
    schedule: Flags.makeText("schedule", "WHEN", "New schedule"),
    prompt: Flags.makeText("prompt", "TEXT", "New prompt"),
    ...draft
  },
  Effect.fn("hermes cron edit")(function* ({ currentModel, job, prompt, schedule, ...given }) {
    yield* outsideOfJobs
    const reference = Option.getOrUndefined(job)
    if (currentModel) return yield* updateModel(reference)
    if (reference === undefined) return yield* makeUsageFailure("<job> is missing: run `hermes cron edit --help`")
    const shared = yield* hermes
    const isModelGiven = shared.model !== undefined || shared.provider !== undefined || shared.baseUrl !== undefined
    const model = isModelGiven ? JobDraft.readCurrentModel(yield* Settings, yield* Environment) : undefined
    const draft: Draft = { ...(yield* readDraft(given)), schedule, prompt, model }
    if (Object.values(draft).every((value) => value === undefined))
      return yield* makeUsageFailure("nothing to change: pass at least one option, see `hermes cron edit --help`")
    yield* printLine(`changed ${formatNextRun(yield* withJobs((jobs) => jobs.update(reference, draft)))}`)
  }, CommandSettings.provide)
).pipe(Command.withDescription("Change the given fields of a job"))

const pause = Command.make(
  "pause",
  { job },
  Effect.fn("hermes cron pause")(function* ({ job }) {
    yield* printLine(`paused ${formatNextRun(yield* withJobs((jobs) => jobs.pause(job)))}`)
  }, Effect.provide(CommandSettings.surroundings))
).pipe(Command.withDescription("Pause a job"))

const resume = Command.make(
  "resume",
  { job },
  Effect.fn("hermes cron resume")(function* ({ job }) {
    yield* printLine(`resumed ${formatNextRun(yield* withJobs((jobs) => jobs.resume(job)))}`)
  }, Effect.provide(CommandSettings.surroundings))
).pipe(Command.withDescription("Resume a paused job"))

const remove = Command.make(
  "remove",
  { job },
  Effect.fn("hermes cron remove")(function* ({ job }) {
    const { id, name } = yield* withJobs((jobs) => jobs.remove(job))
    yield* printLine(`removed ${id} ${name}`)
  }, Effect.provide(CommandSettings.surroundings))
).pipe(Command.withDescription("Remove a job; its result files are kept"))

/** Prints whether a scheduler is running, and the next job. */
const status = Command.make(
  "status",
  { json },
  Effect.fn("hermes cron status")(function* ({ json }) {
    const { jobs, problems } = yield* withJobs(({ list }) => list)
    const now = yield* Clock.currentTimeMillis
    const last = yield* JobFiles.readLastLook(yield* Home)
    const countJobs = (state: string): number => jobs.filter((job) => JobView.describeState(job) === state).length
    const counts = {
      scheduled: countJobs("scheduled"),
      running: countJobs("running"),
      waiting: countJobs("waiting"),
      paused: countJobs("paused"),
      completed: countJobs("completed")
    }
    const waits = jobs.filter(JobView.isWaiting)
    const next = jobs
      .filter((job) => JobView.formatNextRun(job) !== undefined)
      .toSorted((a, b) => (a.next_run_at ?? "").localeCompare(b.next_run_at ?? ""))[0]
    const seconds = last === undefined ? undefined : Math.round((now - last) / 1000)
    if (json) {
      return yield* printLine(
        SafeText.toJson(
          {
            last_look_seconds_ago: seconds ?? null,
            ...counts,
            next: next === undefined ? null : JobView.toRecord(next),
            waits: waits.map(JobView.toRecord),
            problems
          },
          2
        )
      )
    }
    yield* printLine(
      [
        last === undefined || now - last > staleMillis ? notRunning : `The scheduler last checked ${seconds} s ago.`,
        Object.entries(counts)
          .map(([name, count]) => `${count} ${name}`)
          .join(", "),
        ...(next === undefined ? [] : [`next: ${SafeText.toLine(formatNextRun(next))}`]),
        ...waits.map((job) => SafeText.toLine(`${job.id} ${job.name} ${JobView.formatWaiting(job) ?? ""}`)),
        ...problems.map((problem) => `Warning: ${SafeText.toLine(problem)}`)
      ].join("\n")
    )
  }, Effect.provide(CommandSettings.surroundings))
).pipe(Command.withDescription("Show the state of the scheduler and the next job"))

const loadRuns = Effect.promise(() => import("./CronRuns.ts"))
const scenario = { script: Flags.makeText("script", "PATH", "Answer from a scenario file instead of a model") }

const runNow = Command.make("run", { job, ...scenario }, (flags) =>
  Effect.flatMap(loadRuns, ({ runNow }) => runNow(flags))
).pipe(Command.withDescription("Run a job now and print its result"))
const tick = Command.make("tick", scenario, (flags) => Effect.flatMap(loadRuns, ({ tick }) => tick(flags))).pipe(
  Command.withDescription("Run due jobs once and exit; call it from the system's cron every minute")
)
const serve = Command.make("serve", scenario, (flags) => Effect.flatMap(loadRuns, ({ serve }) => serve(flags))).pipe(
  Command.withDescription("Run due jobs every minute until stopped")
)

/** Without a subcommand, lists the jobs. */
export const command = Command.make("cron", listFlags, listJobs).pipe(
  Command.withSubcommands([list, create, edit, pause, resume, remove, status, runNow, tick, serve])
)
