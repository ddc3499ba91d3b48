/**
 * Limits file tools to the workspace of the tenant for which they work: its directory, its long results and the skills,
 * and temporary files if they are separate for each conversation. The files of other tenants are denied to everyone.
 */
import * as Effect from "effect/Effect"
import { CurrentWorkspace } from "../../../base/domain/CallContext.ts"
import { tenantsFolder } from "../../../store/TenantFolder.ts"
import { ResultKeeper } from "../../ResultText.ts"
import type { Service as PathRoots } from "./PathRoots.ts"

/** Refusal of a path, with the reason and an alternative. */
export interface Denial {
  readonly reason: string
  readonly advice: string
}

/** Access to a file. `edit` shows the previous content, so the file must be readable too. */
export type Access = "read" | "write" | "edit"

/** Limits of the tenant for which a fiber works. Paths are absolute and normalized, with `/` as separator. */
interface WorkspaceFence {
  /** Refuses a path outside of the workspace; returns `undefined` for a path that may be accessed. */
  readonly judgePath: (path: string, access: Access) => Denial | undefined
  /**
   * Returns the directories to which the other rules refer. The rules about the home directory of hermes do not apply
   * to a workspace in it.
   */
  readonly selectPlaces: (places: PathRoots, path: string) => PathRoots
}

/** Directories of temporary files that a sandbox replaces with directories of a conversation. */
const replacedTemporary = ["/tmp", "/var/tmp"]

/** Tests whether a path is a directory or below it. */
export const isWithin = (path: string, root: string): boolean =>
  path === root || path.startsWith(root.endsWith("/") ? root : `${root}/`)

/** Reads the limits of the current fiber. `isConfined` tells whether a sandbox separates temporary files. */
export const readFence = (places: PathRoots, isConfined: boolean): Effect.Effect<WorkspaceFence> =>
  Effect.gen(function* () {
    const workspace = yield* CurrentWorkspace
    const ofTenants = places.agentHomes.map((home) => `${home}/${tenantsFolder}`.toLowerCase())
    if (workspace === undefined)
      return {
        selectPlaces: (given) => given,
        judgePath: (path) =>
          ofTenants.some((folder) => isWithin(path.toLowerCase(), folder))
            ? { reason: "it belongs to a tenant", advice: "Work with other files." }
            : undefined
      } satisfies WorkspaceFence
    const kept = yield* (yield* ResultKeeper).kept ?? Effect.undefined
    const skills = places.agentHomes.map((home) => `${home}/skills`)
    const roots = [workspace.directory, ...(isConfined ? replacedTemporary : [])]
    const readable = [...roots, ...(kept?.directories ?? []), ...skills]
    return {
      selectPlaces: (given, path) => (isWithin(path, workspace.directory) ? { ...given, agentHomes: [] } : given),
      judgePath: (path, access) =>
        (access === "read" ? readable : roots).some((root) => isWithin(path, root))
          ? undefined
          : { reason: "it is outside of the workspace", advice: `Work with files below ${workspace.directory}.` }
    } satisfies WorkspaceFence
  })
