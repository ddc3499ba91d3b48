/**
 * A job as tools and commands show it.
 *
 * @since 0.1.0
 */
import type { Job } from "./Job.ts"
import * as When from "./When.ts"

/** What a job is doing: its state, or that it runs at the moment. */
export const stateOf = ({ running, state }: Job): string => running === null ? state : "running"

/** How many of its runs are behind it: `2/5`, `2` where there is no end. */
export const progress = ({ runs, times }: Job): string => times === null ? String(runs) : `${runs}/${times}`

/** When it runs next, in its own time zone; undefined for one that does not. */
export const nextText = ({ next_run_at, schedule, state }: Job): string | undefined => {
  const at = next_run_at === null || state !== "scheduled" ? undefined : When.millisOf(next_run_at)
  return at === undefined ? undefined : When.atText(at, schedule.timezone)
}

/** For JSON: what there is to say, and nothing that is not. */
export const record = (job: Job) => ({
  job_id: job.id,
  name: job.name,
  state: stateOf(job),
  schedule: When.describe(job.schedule),
  timezone: job.schedule.timezone,
  next_run_at: job.state === "scheduled" ? job.next_run_at : null,
  repeat: progress(job),
  ...(job.prompt === "" ? {} : { prompt: job.prompt }),
  ...(job.skills.length === 0 ? {} : { skills: job.skills }),
  ...(job.script === undefined ? {} : { script: job.script }),
  ...(job.no_agent ? { no_agent: true } : {}),
  ...(job.workdir === undefined ? {} : { workdir: job.workdir }),
  ...(job.context_from.length === 0 ? {} : { context_from: job.context_from }),
  ...(job.toolsets === undefined ? {} : { toolsets: job.toolsets }),
  ...job.model,
  last_run_at: job.last_run_at,
  last_status: job.last_status,
  ...(job.last_error === null ? {} : { last_error: job.last_error }),
  ...(job.last_output === null ? {} : { last_output: job.last_output }),
  ...(job.last_session_id === null ? {} : { last_session_id: job.last_session_id }),
  ...(job.failures === 0 ? {} : { failures_in_a_row: job.failures }),
  ...(job.missed === 0 ? {} : { missed: job.missed })
})
