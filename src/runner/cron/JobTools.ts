/**
 * The tools of a scheduled run: its own toolsets or those of the configuration, without what needs a user, and without the
 * tool that makes jobs.
 *
 * Source: `hermes-product.md` §2.5.
 */
import * as Effect from "effect/Effect"
import type { Job } from "../../tool/cron/Job.ts"
import type { Selection, Service as ToolRegistry } from "../../tool/ToolRegistry.ts"
import * as Toolsets from "../../tool/Toolsets.ts"
import { JobBlocked } from "./JobBlocked.ts"

/** Settings from the configuration. */
export interface Options {
  /** Toolsets of a job that names none; `hermes-cli` when absent. */
  readonly toolsets?: ReadonlyArray<string> | undefined
  readonly disabled?: ReadonlyArray<string> | undefined
  /** True when a job may make jobs; no when absent. */
  readonly maySchedule?: boolean | undefined
}

/** Selects the tools of a scheduled run. */
export const select = (
  job: Pick<Job, "toolsets">,
  registry: ToolRegistry,
  { disabled = [], maySchedule = false, toolsets = ["hermes-cli"] }: Options
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
    if (names.length === 0) return Effect.fail(new JobBlocked({ message: `the toolset ${unknowns} is unknown: \`hermes tools\` lists them` }))
    const told = unknown.length === 0 ? Effect.void : Effect.logWarning(`the job's toolset ${unknowns} is unknown and left out`)
    return Effect.as(told, selection)
  })
