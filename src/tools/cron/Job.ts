/**
 * A scheduled job: its work, schedule, tools and model, and the results of its runs.
 *
 * **Details**
 *
 * Field names match the file and the output of tools and commands. Times are ISO 8601. Provider and model are fixed
 * when the job is created, so that a configuration change does not affect unattended runs.
 *
 * Source: `hermes-product.md` §2.5.
 */
import * as Schema from "effect/Schema"
import * as JobSchedule from "./JobSchedule.ts"

/** State of a job: waiting for its time, paused, or completed. */
const State = Schema.Literals(["scheduled", "paused", "completed"])
/** See {@link State}. */
type State = typeof State.Type

/**
 * Status of a run. `silent` means that there was nothing to report, `blocked` that the run did not begin, and `waiting`
 * that it waits for an answer.
 */
const RunStatus = Schema.Literals(["ok", "silent", "error", "blocked", "waiting"])
/** See {@link RunStatus}. */
type RunStatus = typeof RunStatus.Type

/** Model of a job; absent fields come from the configuration. */
export const Model = Schema.Struct({
  provider: Schema.optionalKey(Schema.String),
  model: Schema.optionalKey(Schema.String),
  base_url: Schema.optionalKey(Schema.String)
})
/** See {@link Model}. */
export type Model = typeof Model.Type

/** Lease of the current run. It is renewed during the run; an expired lease belongs to a process that died. */
const Running = Schema.Struct({
  token: Schema.String,
  since: Schema.String,
  lease_until: Schema.String,
  /** `schedule` if the job was due, `request` if a user started it. Only scheduled runs count as runs of the job. */
  why: Schema.Literals(["schedule", "request"])
})

/** A run that waits for answers. It continues when they are there, and the job does not run again before it ended. */
const Waiting = Schema.Struct({
  session_id: Schema.String,
  since: Schema.String,
  /** Time for which the run was scheduled. */
  meant: Schema.String,
  why: Running.fields.why
})

/** Due times at which the job did not run because a run of it waited for an answer. */
const Skipped = Schema.Struct({ count: Schema.Natural, last_at: Schema.String, reason: Schema.String })

/** Fields that describe the work of a job. */
const work = {
  name: Schema.String,
  /** Prompt for the agent; empty if a script or a skill is sufficient. */
  prompt: Schema.String,
  skills: Schema.Array(Schema.String),
  /** A file below `scripts/` of the home directory. Its output is inserted before the prompt. */
  script: Schema.optionalKey(Schema.String),
  /** True if the script's output is the result and no model is asked. */
  no_agent: Schema.Boolean,
  workdir: Schema.optionalKey(Schema.String),
  /** Jobs whose latest output is inserted before the prompt. */
  context_from: Schema.Array(Schema.String),
  toolsets: Schema.optionalKey(Schema.Array(Schema.String)),
  /** Tenant for which the job works. */
  tenant: Schema.optionalKey(Schema.String),
  model: Model
} as const

/** Maximum number of missed due times that a job lists. */
const listedMissed = 20

/** A scheduled job. */
export const Job = Schema.Struct({
  id: Schema.NonEmptyString,
  ...work,
  schedule: JobSchedule.Schedule,
  /** Number of runs after which the job is completed; `null` for no limit. */
  times: Schema.NullOr(Schema.Int.check(Schema.isGreaterThan(0))),
  state: State,
  created_at: Schema.String,
  next_run_at: Schema.NullOr(Schema.String),
  /** Number of scheduled runs so far. */
  runs: Schema.Natural,
  /** Number of due times missed while the scheduler was not running. */
  missed: Schema.Natural,
  /** The last {@link listedMissed} of these due times, oldest first. */
  missed_at: Schema.optionalKey(Schema.Array(Schema.String)),
  /** Number of consecutive failed runs. */
  failures: Schema.Natural,
  last_run_at: Schema.NullOr(Schema.String),
  last_status: Schema.NullOr(RunStatus),
  last_error: Schema.NullOr(Schema.String),
  last_output: Schema.NullOr(Schema.String),
  last_session_id: Schema.NullOr(Schema.String),
  running: Schema.NullOr(Running),
  /** The run that waits for answers, if one does. */
  waiting: Schema.optional(Waiting),
  skipped: Schema.optionalKey(Skipped),
  /** Message for the user that explains why the job cannot run. */
  alert: Schema.NullOr(Schema.String)
})
/** A scheduled job. */
export type Job = typeof Job.Type

/** Error raised when a job's request is invalid, or refers to something that is missing or not allowed. */
export class CronRefused extends Schema.TaggedError<CronRefused>("hermes-effect/CronRefused")("CronRefused", {
  message: Schema.String
}) {}

/** Error raised when the jobs cannot be read or written. */
export class CronStoreError extends Schema.TaggedError<CronStoreError>("hermes-effect/CronStoreError")(
  "CronStoreError",
  { message: Schema.String, cause: Schema.optional(Schema.Defect()) }
) {}

/** See {@link CronRefused} and {@link CronStoreError}. */
export type CronError = CronRefused | CronStoreError

/** Creates a refusal as the error of an Effect. */
export const makeRefusal = (message: string): CronRefused => new CronRefused({ message })

// Formats jobs for tools and commands.

/** Returns the job's activity: its state, or that it is currently running or waits for an answer. */
export const describeState = ({ running, state, waiting }: Job): string =>
  running !== null ? "running" : waiting !== undefined && state !== "paused" ? "waiting" : state

/** Formats the command that answers a question of a session. */
export const formatAnswerCommand = (sessionId: string): string =>
  `hermes sessions answer ${sessionId} QUESTION yes|no|JSON`

/** Describes the run of a job that waits, and the command that answers it; `undefined` if no run waits. */
export const formatWaiting = ({ schedule, waiting }: Job): string | undefined => {
  if (waiting === undefined) return undefined
  const at = JobSchedule.toMillis(waiting.since)
  const since = at === undefined ? waiting.since : JobSchedule.formatTime(at, schedule.timezone)
  return (
    `waits for an answer in session ${waiting.session_id} since ${since}: see \`hermes sessions waiting\`, ` +
    `answer with \`${formatAnswerCommand(waiting.session_id)}\``
  )
}

/** Formats the due times at which the job did not run, with the reason; `undefined` if there are no such times. */
export const formatSkipped = ({ schedule: { timezone }, skipped }: Job): string | undefined => {
  if (skipped === undefined) return undefined
  const at = JobSchedule.toMillis(skipped.last_at)
  const last = at === undefined ? skipped.last_at : JobSchedule.formatTime(at, timezone)
  return `skipped ${skipped.count}, last ${last}: ${skipped.reason}`
}

/** Formats the number of completed runs: `2/5`, or `2` without a limit. */
export const formatProgress = ({ runs, times }: Job): string => (times === null ? String(runs) : `${runs}/${times}`)

/** Formats the time of the next run in the job's time zone; `undefined` if there is no next run. */
export const formatNextRun = ({ next_run_at, schedule, state }: Job): string | undefined => {
  const at = next_run_at === null || state !== "scheduled" ? undefined : JobSchedule.toMillis(next_run_at)
  return at === undefined ? undefined : JobSchedule.formatTime(at, schedule.timezone)
}

/** Formats the number of missed due times, with the last one; `undefined` if none was missed. */
export const formatMissed = ({ missed, missed_at: times = [], schedule: { timezone } }: Job): string | undefined => {
  if (missed === 0) return undefined
  const at = JobSchedule.toMillis(times.at(-1) ?? "")
  return at === undefined ? `missed ${missed}` : `missed ${missed}, last ${JobSchedule.formatTime(at, timezone)}`
}

/** Converts a job to JSON, without empty optional fields. */
export const toRecord = (job: Job) => ({
  job_id: job.id,
  name: job.name,
  state: describeState(job),
  schedule: JobSchedule.describe(job.schedule),
  timezone: job.schedule.timezone,
  next_run_at: job.state === "scheduled" ? job.next_run_at : null,
  repeat: formatProgress(job),
  ...(job.prompt === "" ? {} : { prompt: job.prompt }),
  ...(job.skills.length === 0 ? {} : { skills: job.skills }),
  ...(job.script === undefined ? {} : { script: job.script }),
  ...(job.no_agent ? { no_agent: true } : {}),
  ...(job.workdir === undefined ? {} : { workdir: job.workdir }),
  ...(job.context_from.length === 0 ? {} : { context_from: job.context_from }),
  ...(job.toolsets === undefined ? {} : { toolsets: job.toolsets }),
  ...(job.tenant === undefined ? {} : { tenant: job.tenant }),
  ...job.model,
  last_run_at: job.last_run_at,
  last_status: job.last_status,
  ...(job.last_error === null ? {} : { last_error: job.last_error }),
  ...(job.last_output === null ? {} : { last_output: job.last_output }),
  ...(job.last_session_id === null ? {} : { last_session_id: job.last_session_id }),
  ...(job.failures === 0 ? {} : { failures_in_a_row: job.failures }),
  ...(job.missed === 0 ? {} : { missed: job.missed }),
  ...(job.missed_at === undefined ? {} : { missed_at: job.missed_at }),
  ...(job.skipped === undefined ? {} : { skipped: job.skipped }),
  ...(job.waiting === undefined
    ? {}
    : {
        waiting: {
          session_id: job.waiting.session_id,
          since: job.waiting.since,
          answer_with: formatAnswerCommand(job.waiting.session_id)
        }
      })
})

// Claims of jobs. A run acquires, renews and releases a claim. Pure: every function returns a new job.

/** Time for which a claim is valid without renewal. */
export const leaseMillis = 180_000

/** A claimed job. */
export interface Claim {
  /** The job as it was when it was claimed. */
  readonly job: Job
  readonly token: string
  /** The time for which the run was scheduled. */
  readonly meant: number
}

/** End of a run. */
export interface FinishedRun {
  readonly status: RunStatus
  readonly error?: string | undefined
  /** Path of the file with the complete output. */
  readonly output?: string | undefined
  readonly sessionId?: string | undefined
}

/** Outcome of recording the end of a run. */
export type Settlement =
  /** The job was removed in the meantime, or another process claimed it. */
  | { readonly _tag: "Lost" }
  | {
      readonly _tag: "Settled"
      readonly job: Job
      /**
       * True if the user has not been notified of the result yet, or requested it. Only reasons why a job cannot run
       * are reported once.
       */
      readonly isNews: boolean
    }

const readTime = (text: string | null): number | undefined => (text === null ? undefined : JobSchedule.toMillis(text))

/** Returns `true` if the job is due and not claimed, and no run of it waits for an answer. */
export const isDue = ({ next_run_at, running, state, waiting }: Job, now: number): boolean =>
  state === "scheduled" &&
  running === null &&
  waiting === undefined &&
  (readTime(next_run_at) ?? Number.POSITIVE_INFINITY) <= now

/** Returns `true` if a run of the job waits for answers and is not claimed. A paused job does not continue. */
export const isWaiting = ({ running, state, waiting }: Job): boolean =>
  waiting !== undefined && running === null && state !== "paused"

const computeNextRun = ({ schedule }: Job, now: number): string | null => {
  const at = JobSchedule.findNextAfter(schedule, now)
  return at === undefined ? null : JobSchedule.toIso(at)
}

/** Time after which a job that could not run and has no next time is retried. */
export const retryMillis = 600_000

const completeIfDone = (job: Job): Job => {
  const isDone = job.next_run_at === null || (job.times !== null && job.runs >= job.times)
  return isDone ? { ...job, state: "completed", next_run_at: null } : job
}

/** Returns the job after a run. A job that could not begin is still to be run, and a run that waits is not counted. */
const advanceJob = (job: Job, status: RunStatus, now: number): Job => {
  if (job.running?.why === "request" || status === "waiting") return job
  // The continuation of a run is retried while it is blocked.
  if (status === "blocked" && job.waiting !== undefined) return job
  if (status !== "blocked") return completeIfDone({ ...job, runs: job.runs + 1 })
  return job.next_run_at === null ? { ...job, next_run_at: JobSchedule.toIso(now + retryMillis) } : job
}

/** Returns the run that waits after the end of a run. One that could not continue waits as before. */
const keepWaiting = (job: Job, { sessionId, status }: FinishedRun, now: number): Job["waiting"] => {
  if (status === "blocked") return job.waiting
  if (status !== "waiting" || sessionId === undefined) return undefined
  return {
    session_id: sessionId,
    since: job.waiting?.session_id === sessionId ? job.waiting.since : JobSchedule.toIso(now),
    meant: job.waiting?.meant ?? job.running?.since ?? JobSchedule.toIso(now),
    why: job.running?.why ?? "schedule"
  }
}

const recordRunEnd = (job: Job, ended: FinishedRun, now: number): Job => {
  const { error, output, sessionId, status } = ended
  const isFailure = status === "error" || status === "blocked"
  return {
    ...advanceJob(job, status, now),
    failures: isFailure ? job.failures + 1 : 0,
    last_run_at: JobSchedule.toIso(now),
    last_status: status,
    last_error: error ?? null,
    last_output: output ?? job.last_output,
    last_session_id: sessionId ?? null,
    running: null,
    waiting: keepWaiting(job, ended, now),
    alert: status === "blocked" ? (error ?? "") : null
  }
}

const died = "the process that ran it ended before the run did"

/** Maximum number of missed due times that are counted at once. */
const countedMissed = 1000

/** Lists the due times from `meant` to `now`. */
const listMissed = ({ schedule }: Job, meant: number, now: number): ReadonlyArray<string> => {
  const times: Array<string> = []
  for (
    let at: number | undefined = meant;
    at !== undefined && at <= now && times.length < countedMissed;
    at = JobSchedule.findNextAfter(schedule, at)
  )
    times.push(JobSchedule.toIso(at))
  return times
}

/**
 * Returns true if a next time was set by a clock that was ahead: it is later than the second time of the schedule. A
 * clock that is set back by a moment does not repeat a time that has run.
 */
const isTooLate = ({ schedule }: Job, meant: number, now: number): boolean => {
  if (schedule.kind === "once") return false
  if (schedule.kind === "interval") return meant > now + 2 * schedule.minutes * 60_000
  const first = JobSchedule.findNextAfter(schedule, now)
  const second = first === undefined ? undefined : JobSchedule.findNextAfter(schedule, first)
  return second !== undefined && meant > second
}

/** Computes the next time of a job again. An interval whose anchor is in the future counts from now. */
const resetNextRun = (job: Job, now: number): Job => {
  const { schedule } = job
  const isAhead = schedule.kind === "interval" && (readTime(schedule.anchor) ?? 0) > now
  const reset: Job = isAhead ? { ...job, schedule: { ...schedule, anchor: JobSchedule.toIso(now) } } : job
  return { ...reset, next_run_at: computeNextRun(reset, now) }
}

/** Updates a running job: a run whose process died is recorded as failed. A lease of a clock that was ahead ends. */
const sweepRunning = (job: Job, running: NonNullable<Job["running"]>, now: number): Job => {
  const until = readTime(running.lease_until) ?? 0
  if (until <= now) return recordRunEnd(job, { status: "error", error: died }, now)
  return until <= now + leaseMillis ? job : renewClaim(job, now)
}

/** Skips the due times of a job while a run of it waits for an answer. */
const skipTimes = (job: Job, waiting: NonNullable<Job["waiting"]>, meant: number, now: number): Job => {
  const times = listMissed(job, meant, now)
  return {
    ...job,
    next_run_at: computeNextRun(job, now),
    skipped: {
      count: (job.skipped?.count ?? 0) + times.length,
      last_at: times.at(-1) ?? JobSchedule.toIso(meant),
      reason: `a run waited for an answer in session ${waiting.session_id}`
    }
  }
}

/**
 * Updates a job after a time without a scheduler: a run whose process died is recorded as failed, and due times too old
 * to catch up as missed. A next time from a clock that was ahead is computed again, and a due time is skipped while a
 * run of the job waits for an answer. Otherwise returns the same job.
 */
export const sweepJob = (job: Job, now: number): Job => {
  const { next_run_at, running, state, waiting } = job
  if (running !== null) return sweepRunning(job, running, now)
  const meant = readTime(next_run_at)
  if (state !== "scheduled" || meant === undefined) return job
  if (meant > now) return isTooLate(job, meant, now) ? resetNextRun(job, now) : job
  if (waiting !== undefined) return skipTimes(job, waiting, meant, now)
  if (now - meant <= JobSchedule.computeGrace(job.schedule, meant)) return job
  const missed = listMissed(job, meant, now)
  return completeIfDone({
    ...job,
    missed: job.missed + missed.length,
    missed_at: [...(job.missed_at ?? []), ...missed].slice(-listedMissed),
    next_run_at: computeNextRun(job, now)
  })
}

type Why = NonNullable<Job["running"]>["why"]

const markRunning = (job: Job, token: string, why: Why, now: number): Job => ({
  ...job,
  running: { token, since: JobSchedule.toIso(now), lease_until: JobSchedule.toIso(now + leaseMillis), why }
})

/** Claims a due job and sets its next time before it runs. */
export const claimScheduled = (job: Job, token: string, now: number): readonly [Claim, Job] => [
  { job, token, meant: readTime(job.next_run_at) ?? now },
  markRunning({ ...job, next_run_at: computeNextRun(job, now) }, token, "schedule", now)
]

/** Claims a job for an immediate run. */
export const claimImmediately = (job: Job, token: string, now: number): readonly [Claim, Job] => [
  { job, token, meant: now },
  markRunning(job, token, "request", now)
]

/** Claims a job whose run waited for answers, to continue the run. */
export const claimWaiting = (
  job: Job,
  waiting: NonNullable<Job["waiting"]>,
  token: string,
  now: number
): readonly [Claim, Job] => [
  { job, token, meant: readTime(waiting.meant) ?? now },
  markRunning(job, token, waiting.why, now)
]

/** Renews a claim. */
export const renewClaim = (job: Job, now: number): Job =>
  job.running === null
    ? job
    : { ...job, running: { ...job.running, lease_until: JobSchedule.toIso(now + leaseMillis) } }

/** Releases a claim and records the end of its run. */
export const settleRun = (job: Job, how: FinishedRun, now: number): readonly [Settlement, Job] => {
  const after = recordRunEnd(job, how, now)
  const isNews = how.status !== "blocked" || job.alert !== after.alert || job.running?.why === "request"
  return [{ _tag: "Settled", job: after, isNews }, after]
}
