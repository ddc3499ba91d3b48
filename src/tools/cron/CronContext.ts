/**
 * Context of a tool call with respect to jobs: the defaults of new jobs, and the job that is running, if any.
 *
 * **Example** (What new jobs are given)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent } from "hermes-effect"
 * import { CronContext } from "hermes-effect/jobs"
 *
 * export const program = Agent.run({ prompt: "Remind me of the report every Friday at four." }).pipe(
 *   Effect.provideService(CronContext.CronDefaults, { timezone: "Europe/Oslo" })
 * )
 * ```
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { Model } from "./Job.ts"

/** Values of a new job for everything that was not stated. */
export interface Defaults {
  /** The machine's when absent. */
  readonly timezone?: string | undefined
  /** Provider and model of the moment. */
  readonly model?: Model | undefined
}

/** See {@link Defaults}. */
export const CronDefaults = Context.Reference<Defaults>("hermes-effect/tool/CronDefaults", { defaultValue: () => ({}) })

/** The job that this fiber runs, if any. It may not create further jobs unless `maySchedule` is set. */
export const InsideJob = Context.Reference<{ readonly id: string; readonly maySchedule: boolean } | undefined>(
  "hermes-effect/tool/InsideJob",
  { defaultValue: () => undefined }
)

/** Tells the programs that a job starts, this one too, that they may make no jobs. */
export const insideVariable = "HERMES_CRON_JOB"

/** Variables that programs of jobs get besides their own environment. */
export const variables: Effect.Effect<Readonly<Record<string, string>>> = Effect.map(InsideJob, (inside) =>
  inside === undefined || inside.maySchedule ? {} : { [insideVariable]: inside.id }
)
