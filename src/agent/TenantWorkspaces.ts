/**
 * Workspaces of tenants: the directory to which the tools of a tenant's runs are limited.
 *
 * **Details**
 *
 * A workspace is an existing directory that the tenant names, or a directory that is created for it below the folder of
 * the default workspaces. A directory that would show more than the tenant's files is refused with the reason
 * `workspace`: one that holds the directory of the runtime, the user's home or data of hermes, and one that is the
 * workspace of another tenant, is inside of one, or holds one. Links are followed before directories are compared.
 *
 * **Gotchas**
 *
 * Workspaces are compared with the workspaces of the tenants that this process knows: tenants of a list, and tenants
 * that a lookup has returned before.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import { TenantRefused } from "../base/domain/AgentError.ts"
import { isInWorkspace, type Workspace } from "../base/domain/CallContext.ts"
import { describeReason } from "../base/domain/PathProblem.ts"
import { formatTenant, type Tenant } from "../base/domain/Tenant.ts"
import * as ChildProcesses from "../base/platform/ChildProcesses.ts"
import { getWorkingDirectory } from "../base/platform/CurrentProcess.ts"
import { ProcessEnvironment } from "../base/platform/ProcessVariables.ts"
import { locateWorkspace, tenantsFolder } from "../store/TenantFolder.ts"
import { CurrentTenant } from "../store/TenantScope.ts"

/** Places of workspaces. */
export interface Options {
  /** Folder in whose `tenants` folder each tenant without a workspace gets one. By default it gets none. */
  readonly folder?: string | undefined
  /** Directories that no workspace may hold or be in, such as the home directory of hermes. */
  readonly apart?: ReadonlyArray<string> | undefined
  /** Tenants that are known from the start. */
  readonly known?: ReadonlyArray<Tenant> | undefined
}

/** Workspaces of tenants. */
export interface Service {
  /** Returns the workspace of a tenant, or `undefined` if it works in the directory of the runtime. */
  readonly resolve: (tenant: Tenant) => Effect.Effect<Workspace | undefined, TenantRefused>
}

/** Value of `workspace` for the directory of the runtime. */
export const sharedDirectory = "shared"

interface KnownWorkspace {
  readonly directory: string
  readonly isShared: boolean
}

type Files = FileSystem.FileSystem | Path.Path

const isWithin = (path: string, root: string): boolean =>
  root === "/" || path === root || path.startsWith(root.endsWith("/") ? root : `${root}/`)

/** Directories that a sandbox replaces or that every program needs. They are not hidden from commands. */
const neededDirectories = new Set([
  "/",
  "/bin",
  "/dev",
  "/etc",
  "/lib",
  "/lib64",
  "/opt",
  "/proc",
  "/tmp",
  "/usr",
  "/var",
  "/var/tmp"
])

/** Follows the links of a directory. A directory that does not exist is returned as it is. */
const followLinks = (directory: string): Effect.Effect<string, never, FileSystem.FileSystem> =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => Effect.orElseSucceed(fs.realPath(directory), () => directory))

const refusePlace = ({ id }: Tenant, problem: string): Effect.Effect<never, TenantRefused> =>
  Effect.fail(
    new TenantRefused({
      tenant: id,
      reason: "workspace",
      message: `the workspace of tenant ${formatTenant(id)} ${problem}`
    })
  )

/** Replaces `~` at the beginning of a directory by the home directory of the user. */
const expandHome = (named: string): Effect.Effect<string> =>
  Effect.map(ProcessEnvironment, (variables) => {
    const home = variables()["HOME"]
    return home === undefined ? named : named.replace(/^~(?=\/|$)/u, () => home)
  })

/** Returns the real path of a directory that a tenant names. */
const findNamed = Effect.fnUntraced(function* (tenant: Tenant, named: string) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const place = yield* expandHome(named)
  if (!paths.isAbsolute(place))
    return yield* refusePlace(tenant, `is not an absolute directory: ${named}. Name one, or ${sharedDirectory}`)
  const real = yield* Effect.matchEffect(fs.realPath(place), {
    onFailure: (error) => refusePlace(tenant, `cannot be used: ${named}: ${describeReason(error)}. Create it first`),
    onSuccess: Effect.succeed
  })
  const type = yield* Effect.orElseSucceed(
    Effect.map(fs.stat(real), (info) => info.type),
    () => undefined
  )
  return type === "Directory" ? real : yield* refusePlace(tenant, `is not a directory: ${named}`)
})

/** Creates the default workspace of a tenant, and returns its real path. */
const makeDefault = Effect.fnUntraced(function* (tenant: Tenant, folder: string) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const place = locateWorkspace(paths, folder, tenant.id)
  const made = fs.makeDirectory(place, { recursive: true, mode: 0o700 })
  const real = yield* Effect.matchEffect(Effect.andThen(made, fs.realPath(place)), {
    onFailure: (error) => refusePlace(tenant, `cannot be created: ${place}: ${describeReason(error)}`),
    onSuccess: Effect.succeed
  })
  const expected = locateWorkspace(paths, yield* followLinks(folder), tenant.id)
  return real === expected ? real : yield* refusePlace(tenant, `is a link: ${place} leads to ${real}. Remove the link`)
})

/** Fails if a directory shows more than the files of a tenant. */
const checkPlace = Effect.fnUntraced(function* (tenant: Tenant, directory: string, apart: ReadonlyArray<string>) {
  const home = (yield* ProcessEnvironment)()["HOME"]
  const runtime = yield* followLinks(getWorkingDirectory())
  if (isWithin(runtime, directory))
    return yield* refusePlace(
      tenant,
      `holds the directory of the runtime: ${directory}. Name another one, or ${sharedDirectory} to share that ` +
        "directory"
    )
  if (home !== undefined && home !== "" && isWithin(yield* followLinks(home), directory))
    return yield* refusePlace(tenant, `holds the home directory of the user: ${directory}`)
  for (const one of apart) {
    const place = yield* followLinks(one)
    if (isWithin(place, directory) || (tenant.workspace !== undefined && isWithin(directory, place)))
      return yield* refusePlace(tenant, `is not apart from the data of hermes: ${directory}`)
  }
})

/** Creates the workspaces of tenants. */
export const makeWorkspaces = Effect.fnUntraced(function* ({
  apart = [],
  folder,
  known = []
}: Options): Effect.fn.Return<Service> {
  const workspaces = new Map<string, KnownWorkspace>()
  const noteWorkspace = ({ id, sharesWorkspace = false }: Tenant, directory: string): void =>
    void workspaces.set(id, { directory, isShared: sharesWorkspace })
  const withFiles = <A, E>(effect: Effect.Effect<A, E, Files>): Effect.Effect<A, E> =>
    Effect.provide(effect, ChildProcesses.layerDefault())

  /** Fails if another tenant has the directory, or a directory inside of it or around it. */
  const checkOthers = (tenant: Tenant, directory: string): Effect.Effect<void, TenantRefused> => {
    for (const [id, other] of workspaces) {
      if (id === tenant.id) continue
      const isEqual = other.directory === directory
      if (isEqual && other.isShared && tenant.sharesWorkspace === true) continue
      const name = formatTenant(id)
      if (isEqual)
        return refusePlace(
          tenant,
          `is the workspace of tenant ${name}, too: both must state that they share it: ${directory}`
        )
      if (isWithin(directory, other.directory))
        return refusePlace(tenant, `is inside of the workspace of tenant ${name}: ${directory}`)
      if (isWithin(other.directory, directory))
        return refusePlace(tenant, `holds the workspace of tenant ${name}: ${directory}`)
    }
    return Effect.void
  }

  /** Lists the directories that commands of a tenant do not see. */
  const listHidden = Effect.fnUntraced(function* (tenant: Tenant, directory: string) {
    const paths = yield* Path.Path
    const others = Array.from(workspaces).flatMap(([id, one]) =>
      id === tenant.id || one.directory === directory ? [] : [one.directory]
    )
    const folders = folder === undefined ? [] : [paths.join(yield* followLinks(folder), tenantsFolder)]
    const around = [paths.dirname(directory), yield* followLinks(getWorkingDirectory())]
    return Array.from(new Set([...others, ...folders, ...around])).filter((one) => !neededDirectories.has(one))
  })

  for (const tenant of known)
    if (tenant.workspace !== undefined && tenant.workspace !== sharedDirectory)
      noteWorkspace(tenant, yield* withFiles(Effect.flatMap(expandHome(tenant.workspace), followLinks)))

  const findWorkspace = Effect.fnUntraced(function* (tenant: Tenant) {
    const { workspace } = tenant
    if (workspace !== undefined && typeof workspace !== "string")
      return yield* refusePlace(tenant, "is not a path: correct it where tenants are stored")
    if (workspace === sharedDirectory || (workspace === undefined && folder === undefined)) {
      workspaces.delete(tenant.id)
      return undefined
    }
    const directory =
      workspace === undefined ? yield* makeDefault(tenant, folder ?? "") : yield* findNamed(tenant, workspace)
    yield* checkPlace(tenant, directory, apart)
    yield* checkOthers(tenant, directory)
    noteWorkspace(tenant, directory)
    return { directory, hidden: yield* listHidden(tenant, directory) }
  })
  return { resolve: (tenant) => withFiles(findWorkspace(tenant)) }
})

/**
 * Returns the real path of a directory for a run in a workspace. A relative one is below the workspace, and one outside
 * of it is refused.
 */
export const admitDirectory = Effect.fnUntraced(function* (workspace: Workspace, given: string) {
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
