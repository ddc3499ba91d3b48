/**
 * Folders for files of tenants: each tenant has its own folder below the folder of the application's files.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import { CurrentTenant, formatTenantFolder } from "./TenantScope.ts"

/** Name of the folder with the folders of tenants. */
export const tenantsFolder = "tenants"

/** Returns the folder of a tenant below a folder. */
export const locateTenantFolder = (paths: Path.Path, folder: string, tenant: string): string =>
  paths.join(folder, tenantsFolder, formatTenantFolder(tenant))

/** Returns the default workspace of a tenant below a folder: the directory of the files that its tools use. */
export const locateWorkspace = (paths: Path.Path, folder: string, tenant: string): string =>
  paths.join(locateTenantFolder(paths, folder, tenant), "workspace")

/** Returns the folder of the tenant for which a fiber works, or the folder itself without a tenant. */
export const locateCurrentFolder = (paths: Path.Path, folder: string): Effect.Effect<string> =>
  Effect.map(CurrentTenant, (tenant) => (tenant === undefined ? folder : locateTenantFolder(paths, folder, tenant)))

/** Lists the folders of tenants below a folder. */
export const listTenantFolders = Effect.fnUntraced(function* (folder: string) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const place = paths.join(folder, tenantsFolder)
  const names = yield* Effect.orElseSucceed(fs.readDirectory(place), () => [])
  return names.map((name) => paths.join(place, name))
})

/** Removes the folder of a tenant below a folder. Returns the number of its files. */
export const removeTenantFolder = Effect.fnUntraced(function* (
  folder: string,
  tenant: string
): Effect.fn.Return<number, PlatformError, FileSystem.FileSystem | Path.Path> {
  const fs = yield* FileSystem.FileSystem
  const place = locateTenantFolder(yield* Path.Path, folder, tenant)
  const names = yield* Effect.orElseSucceed(fs.readDirectory(place, { recursive: true }), () => [])
  const paths = yield* Path.Path
  const files = yield* Effect.filter(names, (name) =>
    Effect.orElseSucceed(
      Effect.map(fs.stat(paths.join(place, name)), ({ type }) => type !== "Directory"),
      () => false
    )
  )
  yield* fs.remove(place, { recursive: true, force: true })
  return files.length
})
