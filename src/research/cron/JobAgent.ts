/**
 * The port through which a job reaches an agent: one that is there, or one that is made for the job's provider and
 * model.
 *
 * **Example** (The agent of the application does the jobs)
 *
 * ```ts
 * import * as Layer from "effect/Layer"
 * import { FileTools, Runtime } from "hermes-effect"
 * import { JobAgent } from "hermes-effect/jobs"
 *
 * export const agent = JobAgent.layer().pipe(Layer.provide(Runtime.layer({ tools: [FileTools.toolset] })))
 * ```
 *
 * Source: `hermes-product.md` §2.5.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { Agent } from "../../agent/Agent.ts"
import type { AgentError } from "../../base/domain/AgentError.ts"
import type { RunResult } from "../../base/domain/RunEvent.ts"
import type { Job } from "../../tools/cron/Job.ts"
import { type Selection, type Service as Registry, ToolRegistry } from "../../tools/ToolRegistry.ts"
import * as Toolsets from "../../tools/Toolsets.ts"
import { JobBlocked } from "./JobFiles.ts"

/** Settings of a job's tools from the configuration. */
export interface ToolOptions {
  /** Toolsets of a job that names none; `hermes-cli` when absent. */
  readonly toolsets?: ReadonlyArray<string> | undefined
  readonly disabled?: ReadonlyArray<string> | undefined
  /** True when a job may make jobs; no when absent. */
  readonly maySchedule?: boolean | undefined
}

/**
 * Selects the tools of a scheduled run: its own or the configured toolsets, without tools that need a user or create
 * jobs.
 */
export const selectTools = (
  job: Pick<Job, "toolsets">,
  registry: Registry,
  { disabled = [], maySchedule = false, toolsets = ["hermes-cli"] }: ToolOptions
): Effect.Effect<Selection, JobBlocked> =>
  Effect.flatMap(registry.list, (sets) => {
    const foreign = sets.map(({ toolset }) => toolset).filter((name) => !Object.hasOwn(Toolsets.catalogue, name))
    const withheld = maySchedule ? ["clarify"] : ["clarify", "cronjob"]
    const { names, selection, unknown } = Toolsets.resolve({
      toolsets: job.toolsets ?? toolsets,
      disabled: [...disabled, ...withheld],
      foreign
    })
    const unknowns = unknown.map(({ name }) => `"${name}"`).join(", ")
    if (names.length === 0)
      return Effect.fail(new JobBlocked({ message: `the toolset ${unknowns} is unknown: \`hermes tools\` lists them` }))
    const told =
      unknown.length === 0 ? Effect.void : Effect.logWarning(`the job's toolset ${unknowns} is unknown and left out`)
    return Effect.as(told, selection)
  })

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
export class JobAgent extends Context.Service<JobAgent, Service>()("hermes-effect/runner/JobAgent") {}

/** The agent in the context, whatever provider and model a job remembers. */
export const layer = (options: ToolOptions = {}): Layer.Layer<JobAgent, never, Agent | ToolRegistry> =>
  Layer.effect(
    JobAgent,
    Effect.gen(function* () {
      const agent = yield* Agent
      const registry = yield* ToolRegistry
      return {
        open: (job) =>
          Effect.map(
            selectTools(job, registry, options),
            (tools): Ask =>
              ({ prompt, source }) =>
                agent.run({ prompt, source, platform: source, cwd: job.workdir, tools })
          )
      }
    })
  )
