/**
 * Context of a tool call with respect to jobs: the defaults of new jobs, and the job that is running, if any.
 *
 * **Example** (Defaults of new jobs)
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

/** Default values of a new job. */
export interface Defaults {
  /** Time zone; the default is the machine's time zone. */
  readonly timezone?: string | undefined
  /** Current provider and model. */
  readonly model?: Model | undefined
}

/** See {@link Defaults}. */
export const CronDefaults = Context.Reference<Defaults>("hermes-effect/tool/CronDefaults", { defaultValue: () => ({}) })

/** The job that this fiber runs, if any. It may not create further jobs unless `maySchedule` is set. */
export const InsideJob = Context.Reference<{ readonly id: string; readonly maySchedule: boolean } | undefined>(
  "hermes-effect/tool/InsideJob",
  { defaultValue: () => undefined }
)

/** Environment variable that tells programs started by a job, including this program, that they may not create jobs. */
export const insideVariable = "HERMES_CRON_JOB"

/** Additional environment variables for programs of jobs. */
export const variables: Effect.Effect<Readonly<Record<string, string>>> = Effect.map(InsideJob, (inside) =>
  inside === undefined || inside.maySchedule ? {} : { [insideVariable]: inside.id }
)
