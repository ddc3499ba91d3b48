/**
 * Claims of jobs: a run takes one, renews it and gives it back. Pure: every function makes a new job out of an old one.
 */
import type { Job, RunStatus } from "./Job.ts"
import * as JobSchedule from "./JobSchedule.ts"

/** Length of time that a claim is good without being renewed. */
export const leaseMillis = 180_000

/** A job that was taken. */
export interface Claim {
  /** As it was when it was taken. */
  readonly job: Job
  readonly token: string
  /** The moment that it was meant to run. */
  readonly meant: number
}

/** End of a run. */
export interface Ended {
  readonly status: RunStatus
  readonly error?: string | undefined
  /** Path of the file with all of it. */
  readonly output?: string | undefined
  readonly sessionId?: string | undefined
}

/** Outcome of recording the end of a run. */
export type Settled =
  /** The job was removed meanwhile, or given to somebody else. */
  | { readonly _tag: "Lost" }
  | {
    readonly _tag: "Settled"
    readonly job: Job
    /** True when the user has not been told of this yet, or asked for it; only what keeps a job from running is told once. */
    readonly isNews: boolean
  }

const timeOf = (text: string | null): number | undefined => text === null ? undefined : JobSchedule.millisOf(text)

/** True when its time has come, and nobody has it. */
export const isDue = ({ next_run_at, running, state }: Job, now: number): boolean =>
  state === "scheduled" && running === null && (timeOf(next_run_at) ?? Number.POSITIVE_INFINITY) <= now

const next = ({ schedule }: Job, now: number): string | null => {
  const at = JobSchedule.nextAfter(schedule, now)
  return at === undefined ? null : JobSchedule.iso(at)
}

/** Time after which a job that could not be run and has no next time is tried again. */
export const retryMillis = 600_000

const stopped = (job: Job): Job => {
  const isDone = job.next_run_at === null || (job.times !== null && job.runs >= job.times)
  return isDone ? { ...job, state: "completed", next_run_at: null } : job
}

/** Computes what remains after a run. A job that could not begin is still to be done. */
const onward = (job: Job, status: RunStatus, now: number): Job => {
  if (job.running?.why === "request") return job
  if (status !== "blocked") return stopped({ ...job, runs: job.runs + 1 })
  return job.next_run_at === null ? { ...job, next_run_at: JobSchedule.iso(now + retryMillis) } : job
}

const ended = (job: Job, { error, output, sessionId, status }: Ended, now: number): Job => {
  const isFailure = status === "error" || status === "blocked"
  return {
    ...onward(job, status, now),
    failures: isFailure ? job.failures + 1 : 0,
    last_run_at: JobSchedule.iso(now),
    last_status: status,
    last_error: error ?? null,
    last_output: output ?? job.last_output,
    last_session_id: sessionId ?? null,
    running: null,
    alert: status === "blocked" ? error ?? "" : null
  }
}

const died = "the process that ran it ended before the run did"

/**
 * The job itself, unless something is left over from the time when nobody looked: a run that died counts as failed, a
 * moment that is too late to make up for as missed.
 */
export const swept = (job: Job, now: number): Job => {
  const { next_run_at, running, state } = job
  if (running !== null) {
    const until = timeOf(running.lease_until) ?? 0
    return until > now ? job : ended(job, { status: "error", error: died }, now)
  }
  const meant = timeOf(next_run_at)
  if (state !== "scheduled" || meant === undefined || now - meant <= JobSchedule.graceMillis(job.schedule, meant)) return job
  return stopped({ ...job, missed: job.missed + 1, next_run_at: next(job, now) })
}

type Why = NonNullable<Job["running"]>["why"]

const holding = (job: Job, token: string, why: Why, now: number): Job => ({
  ...job,
  running: { token, since: JobSchedule.iso(now), lease_until: JobSchedule.iso(now + leaseMillis), why }
})

/** Takes a job that is due: its next time is set before it runs. */
export const scheduled = (job: Job, token: string, now: number): readonly [Claim, Job] => [
  { job, token, meant: timeOf(job.next_run_at) ?? now },
  holding({ ...job, next_run_at: next(job, now) }, token, "schedule", now)
]

/** Takes a job that somebody wants to run now. */
export const immediate = (job: Job, token: string, now: number): readonly [Claim, Job] => [
  { job, token, meant: now },
  holding(job, token, "request", now)
]

/** Keeps a claim good. */
export const renewed = (job: Job, now: number): Job =>
  job.running === null ? job : { ...job, running: { ...job.running, lease_until: JobSchedule.iso(now + leaseMillis) } }

/** Gives a job back. */
export const settled = (job: Job, how: Ended, now: number): readonly [Settled, Job] => {
  const after = ended(job, how, now)
  const isNews = how.status !== "blocked" || job.alert !== after.alert || job.running?.why === "request"
  return [{ _tag: "Settled", job: after, isNews }, after]
}
