/**
 * The scheduled jobs of a user. Jobs are created, changed, and claimed for a run by one process at a time.
 *
 * **Details**
 *
 * A run is {@link Service.claim}ed before it begins: the job's next time is then set under the file's lease, so that a
 * scheduled time never runs twice, even with two schedulers or after a crash. A claim is a lease that its holder
 * renews; a job whose lease has expired counts as failed. {@link Service.settle} records the result of a run.
 *
 * One run makes up for any number of missed runs, but only within the schedule's grace period (`When.graceMillis`);
 * later, the run is counted as missed.
 *
 * A finished job remains in the list as `completed`; the last {@link keptCompleted} completed jobs are retained.
 *
 * **Example** (A job that runs every morning)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { CronJobs } from "hermes-effect/jobs"
 *
 * const program = Effect.gen(function*() {
 *   const jobs = yield* CronJobs.CronJobs
 *   const { name } = yield* jobs.create({ name: "news", schedule: "0 7 * * *", prompt: "What is new here?" })
 *   return [name, (yield* jobs.list).jobs.length]
 * })
 *
 * console.log(await Effect.runPromise(Effect.provide(program, CronJobs.layerMemory)))
 * // => [ 'news', 1 ]
 * ```
 *
 * Source: `hermes-product.md` §2.5, case 94.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import * as Result from "effect/Result"
import * as Ids from "../../base/domain/Ids.ts"
import type { Leases } from "../../base/platform/Leases.ts"
import * as JobClaim from "./Job.ts"
import { type CronError, type CronRefused, type CronStoreError, type Job, makeRefusal } from "./Job.ts"
import * as JobDraft from "./JobDraft.ts"
import * as JobFile from "./JobFile.ts"
import * as JobSchedule from "./JobSchedule.ts"

/** Maximum number of jobs that are not completed. */
export const maxJobs = 500
/** Maximum number of completed jobs that remain in the list. */
export const keptCompleted = 100

/** All jobs, with the problems of their file. */
export interface JobList {
  /** Jobs in the order of their creation. */
  readonly jobs: ReadonlyArray<Job>
  /** Messages about entries of the file that cannot be read, one line each. */
  readonly problems: ReadonlyArray<string>
}

/** The scheduled jobs of a user. A reference is a job's id, a prefix of the id, or its name. */
export interface Service {
  readonly list: Effect.Effect<JobList, CronStoreError>
  readonly find: (reference: string) => Effect.Effect<Job, CronError>
  /** Creates a job. The default of `draft.timezone` is the machine's time zone. */
  readonly create: (draft: JobDraft.Draft) => Effect.Effect<Job, CronError>
  /** Changes the given fields and preserves the others. */
  readonly update: (reference: string, draft: JobDraft.Draft) => Effect.Effect<Job, CronError>
  readonly pause: (reference: string) => Effect.Effect<Job, CronError>
  /** Resumes a paused job at its next scheduled time. */
  readonly resume: (reference: string) => Effect.Effect<Job, CronError>
  /** Makes the job due immediately. */
  readonly trigger: (reference: string) => Effect.Effect<Job, CronError>
  readonly remove: (reference: string) => Effect.Effect<Job, CronError>
  /**
   * Returns the due jobs. Runs whose process died are settled, and due times that are too old to make up for are
   * skipped.
   */
  readonly due: Effect.Effect<ReadonlyArray<Job>, CronStoreError>
  /** Returns the jobs with a run that waits for answers. Paused jobs are left out. */
  readonly waiting: Effect.Effect<ReadonlyArray<Job>, CronStoreError>
  /** Claims a job to continue its run that waits. Returns `undefined` if it no longer waits, or another process did. */
  readonly claimWaiting: (id: string) => Effect.Effect<JobClaim.Claim | undefined, CronStoreError>
  /** Claims a job for a run. Returns `undefined` if it is no longer due, or another process has claimed it. */
  readonly claim: (id: string) => Effect.Effect<JobClaim.Claim | undefined, CronStoreError>
  /** Claims a job for an immediate run, regardless of its schedule, which does not change. */
  readonly take: (reference: string) => Effect.Effect<JobClaim.Claim, CronError>
  /** Renews the lease of a run. Returns `false` if the caller no longer holds it. */
  readonly renew: (claim: JobClaim.Claim) => Effect.Effect<boolean, CronStoreError>
  /** Records the result of a run. */
  readonly settle: (
    claim: JobClaim.Claim,
    ended: JobClaim.FinishedRun
  ) => Effect.Effect<JobClaim.Settlement, CronStoreError>
}

/** The scheduled jobs of a user. */
export class CronJobs extends Context.Service<CronJobs, Service>()("hermes-effect/tool/CronJobs") {}

const resolveReference = (jobs: ReadonlyArray<Job>, reference: string): Result.Result<Job, CronRefused> => {
  const wanted = reference.trim()
  const exact = jobs.find(({ id }) => id === wanted)
  if (exact !== undefined) return Result.succeed(exact)
  const folded = wanted.toLowerCase()
  const named = jobs.filter(({ name }) => name.toLowerCase() === folded)
  const candidates = named.length > 0 ? named : wanted === "" ? [] : jobs.filter(({ id }) => id.startsWith(folded))
  const [only, ...others] = candidates
  if (only === undefined) return Result.fail(makeRefusal(`no job "${wanted}": list them with \`hermes cron list\``))
  return others.length === 0
    ? Result.succeed(only)
    : Result.fail(
        makeRefusal(`"${wanted}" is not unique: ${candidates.map(({ id, name }) => `${id} (${name})`).join(", ")}`)
      )
}

const refuseWaiting = (job: Job): string => `${job.name} ${JobClaim.formatWaiting(job) ?? ""}`

const replaceJob = (jobs: ReadonlyArray<Job>, job: Job): ReadonlyArray<Job> =>
  jobs.map((other) => (other.id === job.id ? job : other))

/** Removes the oldest completed jobs. */
const dropOldCompleted = (jobs: ReadonlyArray<Job>): ReadonlyArray<Job> => {
  const done = jobs.filter(({ state, waiting }) => state === "completed" && waiting === undefined)
  if (done.length <= keptCompleted) return jobs
  const newest = done.toSorted((a, b) => (b.last_run_at ?? "").localeCompare(a.last_run_at ?? ""))
  const gone = new Set(newest.slice(keptCompleted))
  return jobs.filter((job) => !gone.has(job))
}

/** Changes the job that a reference identifies. */
const editJob = (
  file: JobFile.JobFile,
  reference: string,
  work: (job: Job, now: number, jobs: ReadonlyArray<Job>) => Result.Result<Job, string>
): Effect.Effect<Job, CronError> =>
  Effect.flatMap(Clock.currentTimeMillis, (now) =>
    file.change(({ jobs }) =>
      Effect.fromResult(
        Result.gen(function* () {
          const job = yield* resolveReference(jobs, reference)
          const next = yield* Result.mapError(work(job, now, jobs), makeRefusal)
          return [next, replaceJob(jobs, next)] as const
        })
      )
    )
  )

/** Resolves the jobs whose output is used as context to their ids. */
const resolveContext = (jobs: ReadonlyArray<Job>, draft: JobDraft.Draft): Result.Result<JobDraft.Draft, string> =>
  draft.contextFrom === undefined
    ? Result.succeed(draft)
    : Result.mapBoth(Result.all(draft.contextFrom.map((reference) => resolveReference(jobs, reference))), {
        onFailure: ({ message }) => message,
        onSuccess: (found) => ({ ...draft, contextFrom: found.map(({ id }) => id) })
      })

const create = (file: JobFile.JobFile): Service["create"] =>
  Effect.fnUntraced(function* (draft) {
    const id = yield* Ids.makeHex(12)
    const now = yield* Clock.currentTimeMillis
    return yield* file.change(({ jobs }) =>
      Effect.fromResult(
        Result.mapError(
          Result.gen(function* () {
            if (jobs.filter(({ state }) => state !== "completed").length >= maxJobs) {
              return yield* Result.fail(`there are already ${maxJobs} jobs: remove some`)
            }
            const whole = yield* resolveContext(jobs, draft)
            const job = yield* JobDraft.create(whole, id, {
              now,
              timezone: draft.timezone ?? JobSchedule.readLocalTimezone()
            })
            return [job, dropOldCompleted([...jobs, job])] as const
          }),
          makeRefusal
        )
      )
    )
  })

const update =
  (file: JobFile.JobFile): Service["update"] =>
  (reference, draft) =>
    editJob(file, reference, (job, now, jobs) =>
      Result.flatMap(resolveContext(jobs, draft), (whole) =>
        JobDraft.change(job, whole, { now, timezone: draft.timezone ?? job.schedule.timezone })
      )
    )

const pause =
  (file: JobFile.JobFile): Service["pause"] =>
  (reference) =>
    editJob(file, reference, (job) =>
      job.state === "completed"
        ? Result.fail(`${job.name} is done: there is nothing to pause`)
        : Result.succeed({ ...job, state: "paused" })
    )

const resume =
  (file: JobFile.JobFile): Service["resume"] =>
  (reference) =>
    editJob(file, reference, (job, now) => {
      if (job.state === "scheduled") return Result.succeed(job)
      // A job whose last run waits has no next time, and continues.
      if (job.waiting !== undefined && job.state === "paused" && job.next_run_at === null)
        return Result.succeed({ ...job, state: "scheduled" })
      const next = JobSchedule.findNextAfter(job.schedule, now)
      return next === undefined || job.state === "completed"
        ? Result.fail(`${job.name} has nothing left to do: give it a new schedule with \`hermes cron edit\``)
        : Result.succeed({ ...job, state: "scheduled", next_run_at: JobSchedule.toIso(next) })
    })

const trigger =
  (file: JobFile.JobFile): Service["trigger"] =>
  (reference) =>
    editJob(file, reference, (job, now) =>
      job.state === "paused"
        ? Result.fail(`${job.name} is paused: resume it first`)
        : job.waiting !== undefined
          ? Result.fail(refuseWaiting(job))
          : Result.succeed({ ...job, state: "scheduled", next_run_at: JobSchedule.toIso(now) })
    )

const remove =
  (file: JobFile.JobFile): Service["remove"] =>
  (reference) =>
    file.change(({ jobs }) =>
      Effect.fromResult(
        Result.map(resolveReference(jobs, reference), (job) => [job, jobs.filter((other) => other !== job)] as const)
      )
    )

const listDue = (file: JobFile.JobFile): Service["due"] =>
  Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    const { jobs } = yield* file.read
    const isStale = (job: Job): boolean => JobClaim.sweepJob(job, now) !== job
    // Usually no change needs to be written, so no lock is taken.
    if (!jobs.some(isStale)) return jobs.filter((job) => JobClaim.isDue(job, now))
    return yield* file.change(({ jobs }) => {
      const swept = jobs.map((job) => JobClaim.sweepJob(job, now))
      return Effect.succeed([swept.filter((job) => JobClaim.isDue(job, now)), swept] as const)
    })
  })

const claim = (file: JobFile.JobFile): Service["claim"] =>
  Effect.fnUntraced(function* (id) {
    const token = yield* Ids.makeHex(12)
    const now = yield* Clock.currentTimeMillis
    return yield* file.change(({ jobs }) => {
      const job = jobs.find((job) => job.id === id)
      if (job === undefined || JobClaim.sweepJob(job, now) !== job || !JobClaim.isDue(job, now))
        return Effect.succeed([undefined, undefined] as const)
      const [claim, held] = JobClaim.claimScheduled(job, token, now)
      return Effect.succeed([claim, replaceJob(jobs, held)] as const)
    })
  })

const claimWaiting = (file: JobFile.JobFile): Service["claimWaiting"] =>
  Effect.fnUntraced(function* (id) {
    const token = yield* Ids.makeHex(12)
    const now = yield* Clock.currentTimeMillis
    return yield* file.change(({ jobs }) => {
      const job = jobs.find((job) => job.id === id)
      if (job?.waiting === undefined || !JobClaim.isWaiting(job)) return Effect.succeed([undefined, undefined] as const)
      const [claim, held] = JobClaim.claimWaiting(job, job.waiting, token, now)
      return Effect.succeed([claim, replaceJob(jobs, held)] as const)
    })
  })

const take = (file: JobFile.JobFile): Service["take"] =>
  Effect.fnUntraced(function* (reference) {
    const token = yield* Ids.makeHex(12)
    const now = yield* Clock.currentTimeMillis
    return yield* file.change(({ jobs }) =>
      Effect.fromResult(
        Result.gen(function* () {
          const job = JobClaim.sweepJob(yield* resolveReference(jobs, reference), now)
          if (job.running !== null)
            return yield* Result.fail(makeRefusal(`${job.name} is running since ${job.running.since}: wait for it`))
          if (job.waiting !== undefined) return yield* Result.fail(makeRefusal(refuseWaiting(job)))
          const [claim, held] = JobClaim.claimImmediately(job, token, now)
          return [claim, replaceJob(jobs, held)] as const
        })
      )
    )
  })

/** Changes a job while the claim is valid. */
const changeClaimed = <A>(
  file: JobFile.JobFile,
  { job: { id }, token }: JobClaim.Claim,
  lost: A,
  work: (job: Job, now: number) => readonly [A, Job]
): Effect.Effect<A, CronStoreError> =>
  Effect.flatMap(Clock.currentTimeMillis, (now) =>
    file.change(({ jobs }) => {
      const job = jobs.find((job) => job.id === id)
      if (job?.running?.token !== token) return Effect.succeed([lost, undefined] as const)
      const [result, next] = work(job, now)
      return Effect.succeed([result, dropOldCompleted(replaceJob(jobs, next))] as const)
    })
  )

/** Creates the service for the jobs of a file. */
export const make = (file: JobFile.JobFile): Service => ({
  list: Effect.map(file.read, ({ jobs, problems }) => ({ jobs, problems })),
  find: (reference) => Effect.flatMap(file.read, ({ jobs }) => Effect.fromResult(resolveReference(jobs, reference))),
  create: create(file),
  update: update(file),
  pause: pause(file),
  resume: resume(file),
  trigger: trigger(file),
  remove: remove(file),
  due: listDue(file),
  waiting: Effect.map(file.read, ({ jobs }) => jobs.filter(JobClaim.isWaiting)),
  claimWaiting: claimWaiting(file),
  claim: claim(file),
  take: take(file),
  renew: (claim) => changeClaimed(file, claim, false, (job, now) => [true, JobClaim.renewClaim(job, now)]),
  settle: (claim, ended) =>
    changeClaimed<JobClaim.Settlement>(file, claim, { _tag: "Lost" }, (job, now) => JobClaim.settleRun(job, ended, now))
})

/**
 * Stores jobs in a directory, which need not exist yet. All processes that share the leases change the jobs one at a
 * time.
 */
export const layer = (directory: string): Layer.Layer<CronJobs, never, FileSystem.FileSystem | Leases | Path.Path> =>
  Layer.effect(CronJobs, Effect.map(JobFile.make(directory), make))

/** Stores jobs in memory until the process ends. */
export const layerMemory: Layer.Layer<CronJobs> = Layer.effect(CronJobs, Effect.map(JobFile.memory, make))
