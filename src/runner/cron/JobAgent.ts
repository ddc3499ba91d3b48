/**
 * The port through which a job reaches an agent: one that is there, or one that is made for the job's provider and model.
 *
 * **Example** (The agent of the application does the jobs)
 *
 * ```ts
 * import * as Layer from "effect/Layer"
 * import { CronAgent, Files, Runtime } from "hermes-effect"
 *
 * export const agent = CronAgent.JobAgent.layer().pipe(Layer.provide(Runtime.layer({ tools: [Files.toolset] })))
 * ```
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { Agent } from "../../agent/Agent.ts"
import type { AgentError } from "../../domain/AgentError.ts"
import type { RunResult } from "../../domain/RunEvent.ts"
import type { Job } from "../../tool/cron/Job.ts"
import { ToolRegistry } from "../../tool/ToolRegistry.ts"
import type { JobBlocked } from "./JobBlocked.ts"
import * as JobTools from "./JobTools.ts"

/** Question to the agent of a job. */
export interface JobRequest {
  readonly prompt: string
  /** Of the new session that the run is. */
  readonly source: "cron"
}

/** Asks the agent of a job, in a session of its own. */
export type Ask = (asked: JobRequest) => Effect.Effect<RunResult, AgentError>

/** Opens the agent of a job. */
export interface Service {
  /** The agent of a job, or what of the configuration keeps it from running; no model is asked yet. */
  readonly open: (job: Job) => Effect.Effect<Ask, JobBlocked, Scope.Scope>
}

/** Service that opens the agent of a job. */
export class JobAgent extends Context.Service<JobAgent, Service>()("hermes-effect/runner/JobAgent") {
  /** The agent of the surroundings, whatever provider and model a job remembers. */
  static readonly layer = (options: JobTools.Options = {}): Layer.Layer<JobAgent, never, Agent | ToolRegistry> =>
    Layer.effect(
      JobAgent,
      Effect.gen(function*() {
        const agent = yield* Agent
        const registry = yield* ToolRegistry
        return {
          open: (job) =>
            Effect.map(JobTools.select(job, registry, options), (tools): Ask => ({ prompt, source }) =>
              agent.run({ prompt, source, cwd: job.workdir, tools }))
        }
      })
    )
}
