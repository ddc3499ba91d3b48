/** The directory in which the tools of a run work: in the workspace of its tenant, if the tenant has one. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { TenantRefused } from "../base/domain/AgentError.ts"
import { CurrentWorkspace } from "../base/domain/CallContext.ts"
import { getWorkingDirectory } from "../base/platform/CurrentProcess.ts"

/**
 * Directory of runs that name none, in place of the agent's, outside of workspaces. A server sets it for the runs of
 * its clients.
 */
export const DefaultDirectory = Context.Reference<string | undefined>("hermes-effect/agent/DefaultDirectory", {
  defaultValue: () => undefined
})

/**
 * Returns the absolute directory in which tools work. In the workspace of a tenant, a relative directory is below it,
 * and a directory outside of it is refused. `own` is the directory of the agent.
 */
export const resolveDirectory = (
  given: string | undefined,
  own: string | undefined
): Effect.Effect<string, TenantRefused> =>
  Effect.withFiber((fiber): Effect.Effect<string, TenantRefused> => {
    const workspace = fiber.getRef(CurrentWorkspace)
    if (workspace === undefined)
      return Effect.succeed(given ?? fiber.getRef(DefaultDirectory) ?? own ?? getWorkingDirectory())
    if (given === undefined) return Effect.succeed(workspace.directory)
    return Effect.flatMap(
      Effect.promise(() => import("./TenantWorkspaces.ts")),
      ({ admitDirectory }) => admitDirectory(workspace, given)
    )
  })
