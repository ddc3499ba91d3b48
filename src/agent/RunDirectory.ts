/** The directory in which the tools of a run work: in the workspace of its tenant, if the tenant has one. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import { TenantRefused } from "../base/domain/AgentError.ts"
import { CurrentWorkspace, isInWorkspace, type Workspace } from "../base/domain/CallContext.ts"
import { formatTenant } from "../base/domain/Tenant.ts"
import * as ChildProcesses from "../base/platform/ChildProcesses.ts"
import { getWorkingDirectory } from "../base/platform/CurrentProcess.ts"
import { CurrentTenant } from "../store/TenantScope.ts"

/**
 * Directory of runs that name none, in place of the agent's, outside of workspaces. A server sets it for the runs of
 * its clients.
 */
export const DefaultDirectory = Context.Reference<string | undefined>("hermes-effect/agent/DefaultDirectory", {
  defaultValue: () => undefined
})

/** Returns a directory in a workspace, after links are followed. */
const admitDirectory = Effect.fnUntraced(function* (workspace: Workspace, given: string) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const literal = paths.resolve(workspace.directory, given)
  // A directory that does not exist is reported by the tools.
  const real = yield* Effect.orElseSucceed(fs.realPath(literal), () => literal)
  if (isInWorkspace(workspace, real)) return real
  const tenant = yield* Effect.map(CurrentTenant, (id) => id ?? "")
  return yield* new TenantRefused({
    tenant,
    reason: "workspace",
    message:
      `the directory ${given} is not in the workspace of tenant ${formatTenant(tenant)}: name one below ` +
      `${workspace.directory}, or none`
  })
}, Effect.provide(ChildProcesses.layerDefault()))

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
    return given === undefined ? Effect.succeed(workspace.directory) : admitDirectory(workspace, given)
  })
