/**
 * Service that provides the agent for a job: an existing agent, or an agent that is created for the job's provider and
 * model.
 *
 * **Example** (The application's agent runs the jobs)
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
import type { QuestionError } from "../../base/domain/Question.ts"
import type { RunResult } from "../../base/domain/RunEvent.ts"
import type { Job } from "../../tools/cron/Job.ts"
import { type Selection, type Service as Registry, ToolRegistry } from "../../tools/ToolRegistry.ts"
import * as Toolsets from "../../tools/Toolsets.ts"
import { SessionStore } from "../../store/SessionStore.ts"
import { JobBlocked } from "./JobFiles.ts"
import { readWaitState, type WaitState } from "./JobWait.ts"

/** Settings for the tools that jobs may use. */
export interface ToolOptions {
  /** Toolsets for a job that does not name any. Defaults to `hermes-cli`. */
  readonly toolsets?: ReadonlyArray<string> | undefined
  readonly disabled?: ReadonlyArray<string> | undefined
  /** True if a job may create jobs. Defaults to false. */
  readonly maySchedule?: boolean | undefined
}

/**
 * Selects the tools for a scheduled run: the toolsets of the job, or else of the configuration. Tools that require a
 * user are excluded, as are tools that create jobs unless `maySchedule` is set.
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

/** Request to the agent of a job. */
export interface JobRequest {
  readonly prompt: string
  /** Source tag of the session that the run creates. */
  readonly source: "cron"
}

/** Runs the agent of a job in a separate session. */
export type Ask = (asked: JobRequest) => Effect.Effect<RunResult, AgentError>

/** Continues the run of a job that waited for answers in a session, with the answers that are stored. */
export type Resume = (sessionId: string) => Effect.Effect<RunResult, AgentError | QuestionError>

/** Operations for opening the agent of a job. */
export interface Service {
  /** Opens the agent of a job. Fails if the configuration prevents the job from running. Makes no model call. */
  readonly open: (job: Job) => Effect.Effect<Ask, JobBlocked, Scope.Scope>
  /** Reads the state of the run that waits for answers in a session. Makes no model call. */
  readonly readWait: (job: Job, sessionId: string) => Effect.Effect<WaitState, JobBlocked>
  /** Opens the agent of a job to continue a run that waited. Makes no model call. */
  readonly openWaiting: (job: Job) => Effect.Effect<Resume, JobBlocked, Scope.Scope>
}

/** Service that opens the agent of a job. */
export class JobAgent extends Context.Service<JobAgent, Service>()("hermes-effect/runner/JobAgent") {}

/**
 * Provides a {@link JobAgent} that uses the agent in the context for every job, regardless of the job's stored provider
 * and model.
 */
export const layer = (options: ToolOptions = {}): Layer.Layer<JobAgent, never, Agent | SessionStore | ToolRegistry> =>
  Layer.effect(
    JobAgent,
    Effect.gen(function* () {
      const agent = yield* Agent
      const registry = yield* ToolRegistry
      const store = yield* SessionStore
      return {
        readWait: (_, sessionId) =>
          readWaitState(sessionId).pipe(
            Effect.provideService(SessionStore, store),
            Effect.mapError(({ message }) => new JobBlocked({ message }))
          ),
        openWaiting: (job) =>
          Effect.map(
            selectTools(job, registry, options),
            (tools): Resume =>
              (sessionId) =>
                agent.resume({ sessionId, platform: "cron", cwd: job.workdir, tools, tenant: job.tenant })
          ),
        open: (job) =>
          Effect.map(
            selectTools(job, registry, options),
            (tools): Ask =>
              ({ prompt, source }) =>
                agent.run({ prompt, source, platform: source, cwd: job.workdir, tools, tenant: job.tenant })
          )
      }
    })
  )
