/**
 * Actions of `hermes cron list | create | edit | pause | resume | remove | status | resnap` does.
 *
 * Source: `hermes-product.md` §1.6 and §2.5.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Config from "../config/Config.ts"
import { Environment } from "../config/Environment.ts"
import { Home } from "../config/Home.ts"
import { Settings } from "../config/Settings.ts"
import * as JobFiles from "../runner/cron/JobFiles.ts"
import { insideVariable } from "../tool/cron/CronContext.ts"
import { layer as leasesIn } from "../platform/Leases.ts"
import * as CronJobs from "../tool/cron/CronJobs.ts"
import type { Draft } from "../tool/cron/JobDraft.ts"
import type { CronError, Job } from "../tool/cron/Job.ts"
import * as JobView from "../tool/cron/Job.ts"
import * as JobSnapshot from "../tool/cron/JobSnapshot.ts"
import { type Failure, notDone, usage } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { workingDirectory } from "./internal/machine.ts"
import { line, note } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"

interface Named {
  readonly job: string
}

/** Flags shared by `create` and `edit`. */
interface JobFlags {
  readonly name: string | undefined
  readonly skill: ReadonlyArray<string>
  readonly script: string | undefined
  readonly noAgent: boolean
  readonly workdir: string | undefined
  readonly repeat: number | undefined
  readonly contextFrom: ReadonlyArray<string>
  readonly timezone: string | undefined
}

/** A mistake of the user, or of the files. */
export const told = (error: CronError): Failure =>
  error._tag === "CronRefused" ? usage(error.message) : notDone(error.message)

/** The jobs of the home directory. */
export const jobsOfHome = Layer.unwrap(Effect.map(Home, ({ cron, database }) => Layer.provide(CronJobs.layer(cron), leasesIn(database))))

/** Works on the jobs of the home directory. */
const onJobs = <A>(work: (jobs: CronJobs.Service) => Effect.Effect<A, CronError>) =>
  CronJobs.CronJobs.use(work).pipe(Effect.mapError(told), Effect.provide(jobsOfHome))

const describe = (job: Job): string => {
  const next = JobView.nextText(job)
  const facts = [
    JobView.record(job).schedule,
    next === undefined ? undefined : `next ${next}`,
    job.last_status === null ? undefined : `last ${job.last_status}`,
    `runs ${JobView.progress(job)}`,
    job.model.model ?? undefined
  ]
  const lines = [`${job.id}  ${JobView.stateOf(job)}  ${job.name}`, `  ${facts.filter((fact) => fact !== undefined).join(" · ")}`]
  return [...lines, ...job.last_error === null ? [] : [`  ${job.last_error}`]].map((text) => SafeText.text(text).replaceAll("\n", " ")).join("\n")
}

/** Prints the jobs. */
export const list = Effect.fn("hermes cron list")(function*(_flags: Flags.Globals, { all, json }: { readonly all: boolean; readonly json: boolean }) {
  const listed = yield* onJobs(({ list }) => list)
  const jobs = listed.jobs.filter(({ state }) => all || state !== "completed")
  for (const problem of listed.problems) yield* note(`Warning: ${SafeText.line(problem)}`)
  if (json) return yield* line(SafeText.json(jobs.map(JobView.record), 2))
  if (jobs.length === 0) return yield* line("No jobs. Create one with `hermes cron create 'every 2h' 'PROMPT'`.")
  yield* line(jobs.map(describe).join("\n"))
}, Effect.provide(Home.layer))

const draftOf = Effect.fnUntraced(function*(shared: Flags.Globals, given: JobFlags): Effect.fn.Return<Draft, never, Path.Path> {
  const paths = yield* Path.Path
  return {
    name: given.name,
    skills: given.skill.length === 0 ? undefined : given.skill,
    script: given.script,
    noAgent: given.noAgent ? true : undefined,
    workdir: given.workdir === undefined ? undefined : paths.resolve(workingDirectory(), given.workdir),
    times: given.repeat,
    contextFrom: given.contextFrom.length === 0 ? undefined : given.contextFrom,
    timezone: given.timezone,
    toolsets: shared.toolsets === undefined ? undefined : Flags.names(shared.toolsets)
  }
})

const withSettings = <A, E, R>(
  flags: Flags.Globals,
  work: Effect.Effect<A, E, R>
) => Effect.provide(work, Config.layerAll(Flags.configOptions(flags)))

const soon = (job: Job): string => {
  const next = JobView.nextText(job)
  return `${job.id} ${job.name}: ${next === undefined ? "no next run" : `next run ${next}`}`
}

/** Refuses changes of jobs by a process that a job started. */
const outsideOfJobs = Effect.flatMap(Environment, ({ process }) =>
  process[insideVariable] === undefined
    ? Effect.void
    : usage("a scheduled job cannot change jobs: do the work now, or report what should be scheduled"))

/** Says so where nobody would run it. */
const mentionTicker = Effect.gen(function*() {
  const home = yield* Home
  const last = yield* JobFiles.lastLook(home)
  const now = yield* Clock.currentTimeMillis
  if (last === undefined || now - last > staleMillis) yield* note(`Note: ${nobody}`)
})

const staleMillis = 180_000
const nobody = "The scheduler is not running. Start it with `hermes cron serve`, or run `hermes cron tick` every minute."

/** Makes a job. */
export const create = Effect.fn("hermes cron create")(function*(
  shared: Flags.Globals,
  { prompt, schedule, ...given }: JobFlags & { readonly schedule: string; readonly prompt: Option.Option<string> }
) {
  yield* withSettings(shared, Effect.gen(function*() {
    yield* outsideOfJobs
    const settings = yield* Settings
    const model = JobSnapshot.take(settings, yield* Environment)
    const draft = yield* draftOf(shared, given)
    const whole: Draft = {
      ...draft,
      schedule,
      prompt: Option.getOrUndefined(prompt),
      model,
      timezone: draft.timezone ?? settings.cron.timezone
    }
    const job = yield* onJobs((jobs) => jobs.create(whole))
    yield* line(`created ${soon(job)}`)
    yield* mentionTicker
  }))
})

/** Changes a job. */
export const edit = Effect.fn("hermes cron edit")(function*(
  shared: Flags.Globals,
  { job: reference, prompt, schedule, ...given }: JobFlags & Named & { readonly schedule: string | undefined; readonly prompt: string | undefined }
) {
  yield* withSettings(shared, Effect.gen(function*() {
    yield* outsideOfJobs
    const isModelGiven = shared.model !== undefined || shared.provider !== undefined || shared.baseUrl !== undefined
    const model = isModelGiven ? JobSnapshot.take(yield* Settings, yield* Environment) : undefined
    const draft: Draft = { ...yield* draftOf(shared, given), schedule, prompt, model }
    if (Object.values(draft).every((value) => value === undefined)) return yield* usage("nothing to change: pass at least one option, see `hermes cron edit --help`")
    yield* line(`changed ${soon(yield* onJobs((jobs) => jobs.update(reference, draft)))}`)
  }))
})

/** Lets a job wait. */
export const pause = Effect.fn("hermes cron pause")(function*({ job }: Named) {
  yield* line(`paused ${soon(yield* onJobs((jobs) => jobs.pause(job)))}`)
}, Effect.provide(Home.layer))

/** Lets a job go on. */
export const resume = Effect.fn("hermes cron resume")(function*({ job }: Named) {
  yield* line(`resumed ${soon(yield* onJobs((jobs) => jobs.resume(job)))}`)
}, Effect.provide(Home.layer))

/** Forgets a job. */
export const remove = Effect.fn("hermes cron remove")(function*({ job }: Named) {
  const { id, name } = yield* onJobs((jobs) => jobs.remove(job))
  yield* line(`removed ${id} ${name}`)
}, Effect.provide(Home.layer))

/** Gives jobs the provider and model that the settings mean now. */
export const resnap = Effect.fn("hermes cron resnap")(function*(shared: Flags.Globals, { job }: { readonly job: Option.Option<string> }) {
  yield* withSettings(shared, Effect.gen(function*() {
    const model = JobSnapshot.take(yield* Settings, yield* Environment)
    const changed = yield* onJobs((jobs) =>
      Option.match(job, {
        onSome: (reference) => Effect.map(jobs.update(reference, { model }), (one) => [one]),
        onNone: () => Effect.flatMap(jobs.list, ({ jobs: all }) => Effect.forEach(all, ({ id }) => jobs.update(id, { model })))
      }))
    const name = model.model ?? "the configured model"
    yield* line(`${changed.length === 1 ? "1 job uses" : `${changed.length} jobs use`} ${name}${model.provider === undefined ? "" : ` of ${model.provider}`}`)
  }))
})

/** Says whether anybody looks for due jobs, and what comes next. */
export const status = Effect.fn("hermes cron status")(function*({ json }: { readonly json: boolean }) {
  const { jobs, problems } = yield* onJobs(({ list }) => list)
  const now = yield* Clock.currentTimeMillis
  const last = yield* JobFiles.lastLook(yield* Home)
  const count = (state: string): number => jobs.filter((job) => JobView.stateOf(job) === state).length
  const counts = { scheduled: count("scheduled"), running: count("running"), paused: count("paused"), completed: count("completed") }
  const next = jobs.filter((job) => JobView.nextText(job) !== undefined)
    .toSorted((a, b) => (a.next_run_at ?? "").localeCompare(b.next_run_at ?? ""))[0]
  const seconds = last === undefined ? undefined : Math.round((now - last) / 1000)
  if (json) {
    return yield* line(SafeText.json({ last_look_seconds_ago: seconds ?? null, ...counts, next: next === undefined ? null : JobView.record(next), problems }, 2))
  }
  yield* line([
    last === undefined || now - last > staleMillis ? nobody : `The scheduler last checked ${seconds} s ago.`,
    Object.entries(counts).map(([name, count]) => `${count} ${name}`).join(", "),
    ...next === undefined ? [] : [`next: ${SafeText.line(soon(next))}`],
    ...problems.map((problem) => `Warning: ${SafeText.line(problem)}`)
  ].join("\n"))
}, Effect.provide(Home.layer))
