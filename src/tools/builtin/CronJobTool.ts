/**
 * The tool `cronjob`, which lets the model manage the user's scheduled jobs.
 *
 * **Details**
 *
 * A job that is created here stores the current provider and model. Its prompt is checked for injected instructions. A
 * job with a script needs an approval first, because the script runs unattended. Inside a job the tool refuses, so that
 * jobs do not create further jobs, unless the settings allow it (`cron.jobs_may_schedule`).
 *
 * **Example** (An agent that may schedule jobs)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, Runtime } from "hermes-effect"
 * import { CronJobTool, CronJobs } from "hermes-effect/jobs"
 *
 * const runtime = Runtime.layer({ tools: [CronJobTool.toolset] })
 * const program = Agent.run({ prompt: "Reply exactly hello" }).pipe(
 *   Effect.provide(runtime),
 *   Effect.provide(CronJobs.layerMemory)
 * )
 *
 * console.log((await Effect.runPromise(program)).text)
 * // => hello
 * ```
 *
 * Source: `hermes-product.md` §2.3 and §2.5.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { OwnApproval, Timeout } from "../Annotations.ts"
import { CronDefaults, InsideJob } from "../cron/CronContext.ts"
import { CronJobs, type Service } from "../cron/CronJobs.ts"
import { CurrentWorkspace, isInWorkspace } from "../../base/domain/CallContext.ts"
import { CurrentTenant } from "../../store/TenantScope.ts"
import { tidyPath } from "../fence/SensitivePaths.ts"
import type { CronError, Job } from "../cron/Job.ts"
import * as JobView from "../cron/Job.ts"
import * as JobSchedule from "../cron/JobSchedule.ts"
import * as Toolset from "../Toolset.ts"
import * as Problem from "./file/Problem.ts"

const makeTextField = (description: string) => Schema.optionalKey(Schema.String.annotate({ description }))
const makeTextListField = (description: string) =>
  Schema.optionalKey(Schema.Array(Schema.String).annotate({ description }))

/** Parameters of the tool. */
export const Parameters = Schema.Struct({
  action: Schema.Literals(["create", "list", "update", "pause", "resume", "run", "remove"]).annotate({
    description: "run: at the next tick. update: changes what is given. list with job_id: only that job"
  }),
  job_id: makeTextField("Id, its beginning, or name; for all but create and list"),
  name: Schema.optionalKey(Schema.String),
  prompt: makeTextField("Self-contained: the job knows nothing of this conversation"),
  schedule: makeTextField(JobSchedule.forms),
  repeat: Schema.optionalKey(
    Schema.Int.annotate({ description: "Number of runs. Default: 1 for a single time, else no end" })
  ),
  skills: makeTextListField("Skills that the job follows"),
  script: makeTextField("File below scripts/ of the home directory; the agent gets what it prints"),
  no_agent: Schema.optionalKey(Schema.Boolean.annotate({ description: "The output of the script is the result" })),
  workdir: makeTextField("Absolute directory"),
  context_from: makeTextListField("Jobs whose latest output it gets"),
  toolsets: Schema.optionalKey(Schema.Array(Schema.String)),
  timezone: makeTextField("Such as Europe/Berlin")
})
type Parameters = typeof Parameters.Type

/** Result for the model. */
export const Result = Schema.Struct({
  success: Schema.Literal(true),
  job_id: Schema.optionalKey(Schema.String),
  name: Schema.optionalKey(Schema.String),
  schedule: Schema.optionalKey(Schema.String),
  next_run_at: Schema.optionalKey(Schema.NullOr(Schema.String)),
  job: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json)),
  jobs: Schema.optionalKey(Schema.Array(Schema.Record(Schema.String, Schema.Json))),
  message: Schema.String
})
type Result = typeof Result.Type

const description = [
  "Manages scheduled jobs. Each run is a fresh conversation without a user: the prompt has to say everything, and " +
    "dangerous commands are denied in it. Its result is kept in a file and shown to the user, unless it is [SILENT] " +
    "alone. Do not use it to wait within this conversation."
].join("\n")

/** Returns true for a change that adds a script. The script runs unattended, so it needs an approval first. */
const hasScript = ({ action, script }: Parameters): boolean =>
  (action === "create" || action === "update") && script !== undefined

/** The tool `cronjob`. */
export const tool = Tool.make("cronjob", {
  description,
  parameters: Parameters,
  success: Result,
  failure: Problem.Failure,
  failureMode: "return",
  needsApproval: hasScript
})
  .annotate(Tool.Readonly, false)
  .annotate(Tool.Destructive, true)
  .annotate(OwnApproval, true)
  .annotate(Tool.Idempotent, false)
  .annotate(Timeout, Duration.infinity)

const toResult = (job: Job, message: string): Result => ({
  success: true,
  job_id: job.id,
  name: job.name,
  schedule: JobSchedule.describe(job.schedule),
  next_run_at: job.next_run_at,
  job: JobView.toRecord(job),
  message
})

const describeNextRun = (job: Job): string => {
  const next = JobView.formatNextRun(job)
  return next === undefined ? "it has no next run" : `next run ${next}`
}

const toDraft = ({
  context_from,
  name,
  no_agent,
  prompt,
  repeat,
  schedule,
  script,
  skills,
  timezone,
  toolsets,
  workdir
}: Parameters) => ({
  name,
  prompt,
  schedule,
  times: repeat,
  skills,
  script,
  noAgent: no_agent,
  workdir,
  contextFrom: context_from,
  toolsets,
  timezone
})

/** Lists the jobs of the tenant for which the fiber works, or all jobs without a tenant. */
const listJobs = Effect.fnUntraced(function* ({ list }: Service) {
  const tenant = yield* CurrentTenant
  const { jobs, problems } = yield* list
  return tenant === undefined ? { jobs, problems } : { jobs: jobs.filter((job) => job.tenant === tenant), problems: [] }
})

/** Fails for a job of another tenant as for a missing one. A tenant names its jobs by their ids. */
const requireOwnJob = Effect.fnUntraced(function* (jobs: Service, reference: string) {
  if ((yield* CurrentTenant) === undefined) return undefined
  const { jobs: own } = yield* listJobs(jobs)
  if (!own.some(({ id }) => id === reference.trim())) return yield* Problem.fail(`no job "${reference.trim()}"`)
  return undefined
})

/**
 * Limits the data of a job to its tenant: outputs of other tenants' jobs, and with a workspace directories and scripts
 * outside of it, are refused.
 */
const checkBounds = Effect.fnUntraced(function* (jobs: Service, { context_from = [], script, workdir }: Parameters) {
  for (const reference of context_from) yield* requireOwnJob(jobs, reference)
  const workspace = yield* CurrentWorkspace
  if (workspace === undefined) return undefined
  if (script !== undefined)
    return yield* Problem.fail("a script runs outside of the workspace", { hint: "say in the prompt what to do" })
  return workdir === undefined || isInWorkspace(workspace, tidyPath(workdir))
    ? undefined
    : yield* Problem.fail(`the directory ${workdir} is not in the workspace`, {
        hint: `name one below ${workspace.directory}, or none`
      })
})

const runAction = Effect.fnUntraced(function* (
  params: Parameters
): Effect.fn.Return<Result, CronError | Problem.Problem, CronJobs> {
  const jobs = yield* CronJobs
  const { action, job_id: reference } = params
  if (action === "create" || action === "update") yield* checkBounds(jobs, params)
  if (action === "create") {
    const { model, timezone } = yield* CronDefaults
    const draft = toDraft(params)
    const tenant = yield* CurrentTenant
    const job = yield* jobs.create({ ...draft, tenant, timezone: draft.timezone ?? timezone, model })
    return toResult(job, `created ${job.name}: ${describeNextRun(job)}`)
  }
  if (action === "list" && reference === undefined) {
    const { jobs: all, problems } = yield* listJobs(jobs)
    const message = [all.length === 1 ? "1 job" : `${all.length} jobs`, ...problems].join("; ")
    return { success: true, jobs: all.map(JobView.toRecord), message }
  }
  if (reference === undefined)
    return yield* Problem.fail(`${action} needs job_id`, { hint: "call cronjob with action list to see the jobs" })
  yield* requireOwnJob(jobs, reference)
  switch (action) {
    case "list":
      return toResult(yield* jobs.find(reference), "1 job")
    case "update": {
      const job = yield* jobs.update(reference, toDraft(params))
      return toResult(job, `changed ${job.name}: ${describeNextRun(job)}`)
    }
    case "pause": {
      const job = yield* jobs.pause(reference)
      return toResult(job, `paused ${job.name}`)
    }
    case "resume": {
      const job = yield* jobs.resume(reference)
      return toResult(job, `resumed ${job.name}: ${describeNextRun(job)}`)
    }
    case "run": {
      const job = yield* jobs.trigger(reference)
      return toResult(job, `${job.name} runs at the next tick`)
    }
    case "remove": {
      const job = yield* jobs.remove(reference)
      return toResult(job, `removed ${job.name}`)
    }
  }
})

const handleCall = Effect.fnUntraced(function* (params: Parameters) {
  const inside = yield* InsideJob
  if (inside !== undefined && !inside.maySchedule && params.action !== "list") {
    return yield* Problem.fail("a scheduled job cannot change the jobs", {
      hint: "do the work now, or say in your answer what should be scheduled"
    })
  }
  return yield* Effect.catchTag(runAction(params), ["CronRefused", "CronStoreError"], ({ message }) =>
    Problem.fail(message)
  )
}, Problem.mapToFailure)

const toolkit = Toolkit.make(tool)

const handlers = toolkit.toLayer(
  Effect.map(CronJobs, (jobs) => ({ cronjob: (params) => Effect.provideService(handleCall(params), CronJobs, jobs) }))
)

/** The toolset `cronjob`. */
export const toolset: Toolset.Toolset<never, CronJobs> = Toolset.make("cronjob", toolkit, handlers)
