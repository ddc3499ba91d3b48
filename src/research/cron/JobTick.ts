/**
 * Checks for due jobs and runs them, once or every minute.
 *
 * **Details**
 *
 * Several processes may check the same jobs at the same time. Each due time of a job is handled by exactly one of them.
 * A long run delays other runs only if the number of concurrent runs is limited.
 *
 * **Example** (Running due jobs)
 *
 * ```ts
 * import * as NodeServices from "@effect/platform-node/NodeServices"
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { Runtime } from "hermes-effect"
 * import { CronJobs, JobAgent, JobTick } from "hermes-effect/jobs"
 *
 * const services = JobAgent.layer().pipe(
 *   Layer.provideMerge(Layer.mergeAll(Runtime.layer(), CronJobs.layerMemory, NodeServices.layer))
 * )
 *
 * const ran = JobTick.runOnce({
 *   places: { cron: "cron", scripts: "cron/scripts" },
 *   approvals: "deny",
 *   preflight: true,
 *   maySchedule: false,
 *   scriptTimeoutSeconds: 60,
 *   runTimeoutSeconds: 600,
 *   maxParallel: 2
 * })
 *
 * console.log((await Effect.runPromise(Effect.provide(ran, services))).length)
 * // => 0
 * ```
 *
 * Source: `hermes-product.md` §2.5 (a 60 s tick with a file lock), case 94.
 */
import * as Effect from "effect/Effect"
import * as FiberMap from "effect/FiberMap"
import * as Schedule from "effect/Schedule"
import * as Semaphore from "effect/Semaphore"
import { CronJobs } from "../../tools/cron/CronJobs.ts"
import type { CronStoreError, Job } from "../../tools/cron/Job.ts"
import { JobAgent } from "./JobAgent.ts"
import * as JobRun from "./JobRun.ts"

/** Time between two checks. */
export const every = "1 minute"

/** Schedule of the checks for due jobs. */
const checks = Schedule.spaced(every)

/** Settings for checking and running jobs. */
export interface Settings extends JobRun.Settings {
  /** Maximum number of concurrent runs. `undefined` if no limit applies. */
  readonly maxParallel: number | undefined
}

/** Claims and runs a due job. Returns `undefined` if another process claimed the job first. */
const runDueJob = Effect.fnUntraced(function* (id: string, settings: Settings) {
  const jobs = yield* CronJobs
  const claim = yield* jobs.claim(id)
  return claim === undefined ? undefined : yield* JobRun.run(claim, settings)
})

/**
 * Continues the run of a job that waited for answers. Returns `undefined` if it still waits, or another process claimed
 * the job first.
 */
const runWaitingJob = Effect.fnUntraced(function* (job: Job, settings: Settings) {
  if (job.waiting === undefined) return undefined
  const state = yield* (yield* JobAgent).readWait(job, job.waiting.session_id)
  if (state._tag === "Open") return undefined
  const claim = yield* (yield* CronJobs).claimWaiting(job.id)
  return claim === undefined ? undefined : yield* JobRun.continueRun(claim, settings, state)
})

/** Continues a job in a check. Its session is read again in the next check if it cannot be read. */
const checkWaitingJob = (job: Job, settings: Settings) =>
  Effect.catchTag(runWaitingJob(job, settings), "JobBlocked", ({ message }) =>
    Effect.as(
      Effect.logWarning(`The job ${job.name} waits for an answer, and its session is not readable: ${message}`),
      undefined
    )
  )

/** Runs the jobs that are due now, continues those that waited for answers, and returns their outcomes. */
export const runOnce = Effect.fnUntraced(function* (settings: Settings) {
  const jobs = yield* CronJobs
  const rests = (yield* jobs.waiting).map((job) => checkWaitingJob(job, settings))
  const runs = (yield* jobs.due).map(({ id }) => runDueJob(id, settings))
  const ended = yield* Effect.all([...rests, ...runs], { concurrency: settings.maxParallel ?? "unbounded" })
  return ended.filter((run) => run !== undefined)
})

/** Runs a job now, selected by its name or id. A run that waited for answers and has them continues instead. */
export const runNow = Effect.fnUntraced(function* (reference: string, settings: Settings) {
  const jobs = yield* CronJobs
  const rest = yield* runWaitingJob(yield* jobs.find(reference), settings)
  return rest ?? (yield* JobRun.run(yield* jobs.take(reference), settings))
})

/**
 * Checks for due jobs every minute until it is interrupted, and runs `looked` after each check. Interruption also
 * interrupts running jobs.
 */
export const runForever = Effect.fnUntraced(function* (settings: Settings, looked: Effect.Effect<void>) {
  const jobs = yield* CronJobs
  const turns = settings.maxParallel === undefined ? undefined : yield* Semaphore.make(settings.maxParallel)
  const running = yield* FiberMap.make<string>()
  const startWork = <R>(id: string, work: Effect.Effect<unknown, CronStoreError, R>) => {
    const run = Effect.catch(work, ({ message }) => Effect.logError(message))
    // A job that waits for a permit is still due, and is not started twice.
    return FiberMap.run(running, id, turns === undefined ? run : turns.withPermit(run), { onlyIfMissing: true })
  }
  const look = Effect.gen(function* () {
    for (const job of yield* jobs.waiting) yield* startWork(job.id, checkWaitingJob(job, settings))
    for (const { id } of yield* jobs.due) yield* startWork(id, runDueJob(id, settings))
  }).pipe(Effect.catch(({ message }) => Effect.logError(message)))
  return yield* Effect.repeat(Effect.andThen(look, looked), checks)
}, Effect.scoped)
