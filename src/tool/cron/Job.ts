/**
 * A scheduled job: what it does, when, with what, and how its runs went.
 *
 * **Details**
 *
 * Names are those of the file and of what tools and commands print. Times are ISO 8601. Provider and model are those of the
 * moment when the job was made, so that a change of the configuration does not change what runs at night.
 *
 * Source: `hermes-product.md` §2.5.
 */
import * as Schema from "effect/Schema"
import * as JobSchedule from "./JobSchedule.ts"

/** State of a job: waiting for its time, paused, or without anything left to do. */
export const State = Schema.Literals(["scheduled", "paused", "completed"])
/** See {@link State}. */
export type State = typeof State.Type

/** Status of a run; `silent` had nothing to say, `blocked` was not begun. */
export const RunStatus = Schema.Literals(["ok", "silent", "error", "blocked"])
/** See {@link RunStatus}. */
export type RunStatus = typeof RunStatus.Type

/** Model of a job; absent parts are the configuration's. */
export const Model = Schema.Struct({
  provider: Schema.optionalKey(Schema.String),
  model: Schema.optionalKey(Schema.String),
  base_url: Schema.optionalKey(Schema.String)
})
/** See {@link Model}. */
export type Model = typeof Model.Type

/** Lease of the run in progress. It is renewed while the run lives; one that is over belongs to a process that died. */
export const Running = Schema.Struct({
  token: Schema.String,
  since: Schema.String,
  lease_until: Schema.String,
  /** True when its time had come, or somebody wanted it now; only the first counts as one of its runs. */
  why: Schema.Literals(["schedule", "request"])
})

/** Fields of the work of a job. */
export const work = {
  name: Schema.String,
  /** Prompt for the agent; empty where a script or a skill says it all. */
  prompt: Schema.String,
  skills: Schema.Array(Schema.String),
  /** A file below `scripts/` of the home directory; what it prints goes before the prompt. */
  script: Schema.optionalKey(Schema.String),
  /** True when the script's output is the result; no model is asked. */
  no_agent: Schema.Boolean,
  workdir: Schema.optionalKey(Schema.String),
  /** Jobs whose latest output goes before the prompt. */
  context_from: Schema.Array(Schema.String),
  toolsets: Schema.optionalKey(Schema.Array(Schema.String)),
  model: Model
} as const

/** A scheduled job. */
export const Job = Schema.Struct({
  id: Schema.NonEmptyString,
  ...work,
  schedule: JobSchedule.Schedule,
  /** Runs until it is done; null is never. */
  times: Schema.NullOr(Schema.Int.check(Schema.isGreaterThan(0))),
  state: State,
  created_at: Schema.String,
  next_run_at: Schema.NullOr(Schema.String),
  /** Runs that its schedule asked for. */
  runs: Schema.Natural,
  /** Moments that passed while nobody looked. */
  missed: Schema.Natural,
  /** Runs in a row that failed. */
  failures: Schema.Natural,
  last_run_at: Schema.NullOr(Schema.String),
  last_status: Schema.NullOr(RunStatus),
  last_error: Schema.NullOr(Schema.String),
  last_output: Schema.NullOr(Schema.String),
  last_session_id: Schema.NullOr(Schema.String),
  running: Schema.NullOr(Running),
  /** Message shown to the user about what keeps the job from running. */
  alert: Schema.NullOr(Schema.String)
})
/** A scheduled job. */
export type Job = typeof Job.Type

/** A part that a job asks for and that is not there, or may not be used. */
export class CronRefused extends Schema.TaggedError<CronRefused>("hermes-effect/CronRefused")("CronRefused", {
  message: Schema.String
}) {}

/** The jobs can not be read or written. */
export class CronStoreError extends Schema.TaggedError<CronStoreError>("hermes-effect/CronStoreError")("CronStoreError", {
  message: Schema.String,
  cause: Schema.optional(Schema.Defect())
}) {}

/** See {@link CronRefused} and {@link CronStoreError}. */
export type CronError = CronRefused | CronStoreError

/** A refusal as a failed Effect's error. */
export const refused = (message: string): CronRefused => new CronRefused({ message })

// A job as tools and commands show it.

/** Names the job's activity: its state, or that it runs at the moment. */
export const stateOf = ({ running, state }: Job): string => running === null ? state : "running"

/** Number of of its runs are behind it: `2/5`, `2` where there is no end. */
export const progress = ({ runs, times }: Job): string => times === null ? String(runs) : `${runs}/${times}`

/** When it runs next, in its own time zone; undefined for one that does not. */
export const nextText = ({ next_run_at, schedule, state }: Job): string | undefined => {
  const at = next_run_at === null || state !== "scheduled" ? undefined : JobSchedule.millisOf(next_run_at)
  return at === undefined ? undefined : JobSchedule.atText(at, schedule.timezone)
}

/** For JSON: what there is to say, and nothing that is not. */
export const record = (job: Job) => ({
  job_id: job.id,
  name: job.name,
  state: stateOf(job),
  schedule: JobSchedule.describe(job.schedule),
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
