/**
 * The port through which a job reaches an agent: one that is there, or one that is made for the job's provider and model.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { Agent } from "../../agent/Agent.ts"
import type { AgentError } from "../../domain/AgentError.ts"
import type { RunResult } from "../../domain/RunEvent.ts"
import type { Job } from "../../tool/cron/Job.ts"
import { ToolRegistry } from "../../tool/ToolRegistry.ts"
import * as JobTools from "./JobTools.ts"

/** Why a job can not be begun; the line says what to correct. */
export class JobBlocked extends Schema.TaggedError<JobBlocked>("hermes-effect/runner/JobBlocked")("JobBlocked", {
  message: Schema.String
}) {}

/** What an agent is asked for a job. */
export interface Asked {
  readonly job: Job
  readonly prompt: string
  /** Of the new session that the run is. */
  readonly source: "cron"
}

/** See the module. */
export interface Service {
  /** Says what of the configuration keeps the job from running, without asking a model. */
  readonly preflight: (job: Job) => Effect.Effect<void, JobBlocked>
  /** Runs in a session of its own. */
  readonly ask: (asked: Asked) => Effect.Effect<RunResult, AgentError>
}

/** See the module. */
export class JobAgent extends Context.Service<JobAgent, Service>()("hermes-effect/runner/JobAgent") {
  /** The agent of the surroundings, whatever provider and model a job remembers. */
  static readonly layer = (options: JobTools.Options = {}): Layer.Layer<JobAgent, never, Agent | ToolRegistry> =>
    Layer.effect(
      JobAgent,
      Effect.gen(function*() {
        const agent = yield* Agent
        const registry = yield* ToolRegistry
        return {
          preflight: () => Effect.void,
          ask: ({ job, prompt, source }) =>
            Effect.flatMap(JobTools.select(job, registry, options), ({ selection }) =>
              agent.run({ prompt, source, cwd: job.workdir, tools: selection }))
        }
      })
    )
}
