/**
 * Installs plugins into the user's `plugins` directory, updates and removes them. Runs no code of a plugin.
 *
 * **Details**
 *
 * A plugin comes from a folder, which is copied, or from a repository, which is cloned. It is checked in a directory
 * next to its destination, and moved there if it is valid: it has a manifest and a valid name, and no symbolic links. A
 * file `x.example` is copied to `x` if `x` does not exist. Its dependencies are installed with it after consent, see
 * `Dependencies`.
 *
 * Source: `hermes-contract.md` §3.6.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import type * as Scope from "effect/Scope"
import type { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import type { Candidate } from "./Candidate.ts"
import * as Dependencies from "./Dependencies.ts"
import type { DependencyPlan } from "./Dependencies.ts"
import * as Directories from "./Directories.ts"
import * as Git from "./Git.ts"
import * as Manifest from "./Manifest.ts"
import * as NpmInstall from "./NpmInstall.ts"
import { PluginError } from "./PluginError.ts"

/** Asks for consent to install the packages of a plugin, or fails. */
export type Consent<E, R> = (plugin: string, plan: DependencyPlan) => Effect.Effect<void, E, R>

/** Source and destination of an installation. */
interface Request {
  /** A folder, the address of a repository, or `owner/repo` on GitHub. */
  readonly source: string
  /** Base directory for a relative folder. */
  readonly cwd: string
  /** The user's plugin directory: `HERMES_HOME/plugins`. */
  readonly plugins: string
  /** True if an existing plugin with the same name is replaced. */
  readonly force: boolean
}

type Platform = FileSystem.FileSystem | Path.Path

const makeRefusal = (plugin: string, message: string): PluginError => new PluginError({ plugin, message, input: true })

const toRefusal =
  (plugin: string) =>
  <A, R>(self: Effect.Effect<A, PlatformError, R>): Effect.Effect<A, PluginError, R> =>
    Effect.mapError(self, (error) => new PluginError({ plugin, message: error.message }))

/** Tests whether a name can be a single directory below `plugins`. */
const isDirectoryName = (name: string): boolean => /^[A-Za-z0-9][\w.-]{0,99}$/.test(name) && name !== "node_modules"

const deriveNameFromSource = (source: string): string =>
  source
    .replace(/\/+$/, "")
    .replace(/\.git$/, "")
    .replace(/^.*[/:\\]/, "")

interface Entry {
  readonly path: string
  readonly type: FileSystem.File.Type
}

/** Lists all entries below a directory, except the named ones in the directory itself. */
const listEntries = (
  root: string,
  skipped: ReadonlyArray<string> = [".git"]
): Effect.Effect<ReadonlyArray<Entry>, PlatformError, Platform> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    const walkDirectory: (directory: string) => Effect.Effect<ReadonlyArray<Entry>, PlatformError> = Effect.fnUntraced(
      function* (directory) {
        const entries = yield* fs.readDirectoryEntries(directory)
        const found = yield* Effect.forEach(entries, ({ name, type }) => {
          const path = paths.join(directory, name)
          if (directory === root && skipped.includes(name)) return Effect.succeed([])
          return type === "Directory" ? walkDirectory(path) : Effect.succeed([{ path, type }])
        })
        return found.flat()
      }
    )
    return yield* walkDirectory(root)
  })

/** Rejects entries that are neither files nor directories: a link may lead anywhere, now or after the next update. */
const refuseLinks = Effect.fnUntraced(function* (source: string, root: string, skipped?: ReadonlyArray<string>) {
  const paths = yield* Path.Path
  const foreign = (yield* toRefusal(source)(listEntries(root, skipped))).find(({ type }) => type !== "File")
  if (foreign === undefined) return
  const what = foreign.type === "SymbolicLink" ? "symbolic link" : "special file"
  return yield* makeRefusal(
    source,
    `it has a ${what}, "${paths.relative(root, foreign.path)}": only files and directories are installed`
  )
})

/**
 * Copies a folder without its git repository, and without packages that its lock file names: these are installed from
 * the lock file.
 */
const copyFolder = Effect.fnUntraced(function* (source: string, from: string, to: string) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const names = yield* toRefusal(source)(fs.readDirectory(from))
  const isLocked = Dependencies.lockFiles.some((name) => names.includes(name))
  const skipped = [".git", ...(isLocked ? [Dependencies.packagesFolder] : [])]
  yield* refuseLinks(source, from, skipped)
  yield* toRefusal(source)(
    Effect.gen(function* () {
      yield* fs.makeDirectory(to)
      for (const name of names.filter((one) => !skipped.includes(one)))
        yield* fs.copy(paths.join(from, name), paths.join(to, name))
    })
  )
})

/** Fetches the folder or repository at the address `source` into `directory`. */
const fetchSource = Effect.fnUntraced(function* ({ cwd, source }: Request, directory: string) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  if (Git.isUrl(source)) return yield* Git.cloneRepository(source, source, directory)
  const folder = Option.getOrUndefined(yield* Effect.option(fs.realPath(paths.resolve(cwd, source))))
  if (folder !== undefined) {
    const names = yield* toRefusal(source)(fs.readDirectory(folder))
    if (Manifest.fileNames.some((name) => names.includes(name))) return yield* copyFolder(source, folder, directory)
    // A folder without a manifest may be a bare repository. Otherwise git reports the error.
    const url = yield* Effect.mapError(paths.toFileUrl(folder), () => makeRefusal(source, `${folder} is not a path`))
    return yield* Git.cloneRepository(source, url.href, directory)
  }
  if (/^[A-Za-z0-9][\w-]*\/[\w.-]+$/.test(source))
    return yield* Git.cloneRepository(source, `https://github.com/${source}.git`, directory)
  return yield* makeRefusal(
    source,
    `"${source}" is not a folder, not an address of a repository (https, ssh, file), and not owner/repo`
  )
})

/** Copies each `x.example` to `x` if `x` does not exist. */
const copyExamples = Effect.fnUntraced(function* (directory: string) {
  const fs = yield* FileSystem.FileSystem
  for (const { path } of yield* listEntries(directory)) {
    const real = path.replace(/\.example$/, "")
    if (real !== path && !(yield* fs.exists(real))) yield* fs.copyFile(path, real)
  }
})

/** Validates a fetched directory and returns its plugin. */
const inspectFetched = Effect.fnUntraced(function* (source: string, directory: string) {
  const read = Effect.mapError(Directories.readPluginDirectory(directory, "user", undefined), ({ message }) =>
    makeRefusal(source, message)
  )
  const found = Option.getOrUndefined(yield* read)
  if (found === undefined) return yield* makeRefusal(source, "not a plugin: plugin.yaml is missing")
  const { manifest } = found.candidate
  if (manifest.manifestVersion > Manifest.latestVersion) {
    return yield* makeRefusal(
      source,
      `its manifest_version ${manifest.manifestVersion} is not supported (latest: ` +
        `${Manifest.latestVersion}): update hermes`
    )
  }
  const problem = Manifest.findContractProblem(manifest.apiVersion)
  if (problem !== undefined) return yield* makeRefusal(source, problem)
  const name = manifest.name ?? deriveNameFromSource(source)
  if (!isDirectoryName(name))
    return yield* makeRefusal(source, `its name ${JSON.stringify(name)} cannot be the name of a directory`)
  return { candidate: found.candidate, name, warnings: found.warnings }
})

/** Installs the packages that a fetched plugin needs, after consent. A plugin with `node_modules` contains them. */
const addPackages = Effect.fnUntraced(function* <E, R>(
  plugin: string,
  { fetched, staging }: { readonly fetched: string; readonly staging: string },
  consent: Consent<E, R>
) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const destination = paths.join(fetched, Dependencies.packagesFolder)
  if (yield* toRefusal(plugin)(fs.exists(destination))) return
  const plan = yield* Dependencies.planDependencies(plugin, Dependencies.readFrom(plugin, fetched))
  if (plan === undefined) return
  yield* consent(plugin, plan)
  const installed = yield* NpmInstall.installPackages(plugin, plan, paths.join(staging, "packages"))
  yield* toRefusal(plugin)(fs.rename(installed, destination))
})

/** An installed plugin. */
interface InstalledPlugin {
  readonly name: string
  readonly directory: string
  readonly manifest: Manifest.Manifest
  readonly warnings: ReadonlyArray<string>
}

/** Installs a plugin without enabling it. Its dependencies are installed if `consent` succeeds. */
export const installPlugin = Effect.fn("Installer.installPlugin")(function* <E, R>(
  request: Request,
  consent: Consent<E, R>
): Effect.fn.Return<InstalledPlugin, PluginError | E, Platform | ChildProcessSpawner | Scope.Scope | R> {
  const { force, plugins, source } = request
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const tidy = toRefusal(source)
  yield* tidy(fs.makeDirectory(plugins, { recursive: true, mode: 0o700 }))
  // The staging directory is next to the destination, so that a single move installs the plugin, and hidden, so that it
  // is not discovered as a plugin.
  const staging = yield* tidy(fs.makeTempDirectoryScoped({ directory: plugins, prefix: ".install-" }))
  const fetched = paths.join(staging, "new")
  yield* fetchSource(request, fetched)
  yield* refuseLinks(source, fetched)
  const { candidate, name, warnings } = yield* inspectFetched(source, fetched)
  const directory = paths.join(plugins, name)
  const isThere = yield* tidy(fs.exists(directory))
  if (isThere && !force) {
    return yield* makeRefusal(source, `plugin "${name}" is already installed (${directory}): replace it with --force`)
  }
  yield* tidy(copyExamples(fetched))
  yield* addPackages(name, { fetched, staging }, consent)
  yield* tidy(
    Effect.uninterruptible(
      Effect.gen(function* () {
        if (isThere) yield* fs.rename(directory, paths.join(staging, "old"))
        yield* fs.rename(fetched, directory)
      })
    )
  )
  return { name, directory, manifest: candidate.manifest, warnings }
})

/**
 * Updates a checkout to its latest commit. If its dependencies changed, or are not installed, they are installed first:
 * if that fails, or if `consent` fails, the plugin keeps its version and its packages.
 */
export const updatePlugin = Effect.fn("Installer.updatePlugin")(function* <E, R>(
  plugin: string,
  directory: string,
  consent: Consent<E, R>
) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const tidy = toRefusal(plugin)
  const current = paths.join(directory, Dependencies.packagesFolder)
  const hasPackages = yield* tidy(fs.exists(current))
  const readCurrent = Dependencies.readFrom(plugin, directory)
  const staging = yield* tidy(fs.makeTempDirectoryScoped({ directory: paths.dirname(directory), prefix: ".update-" }))
  let installed: string | undefined

  const isCurrent = (files: Readonly<Record<string, string>>) =>
    Effect.map(
      Effect.forEach(Object.entries(files), ([name, text]) => Effect.map(readCurrent(name), (now) => now === text)),
      (same) => hasPackages && same.every(Boolean)
    )

  const preparePackages = Effect.fnUntraced(function* (version: Git.FetchedVersion) {
    // Packages in the repository are updated with it.
    if (Array.from(version.paths).some((path) => path.startsWith(`${Dependencies.packagesFolder}/`))) return
    const plan = yield* Dependencies.planDependencies(plugin, version.read)
    if (plan === undefined || (yield* isCurrent(plan.files))) return
    yield* consent(plugin, plan)
    installed = yield* NpmInstall.installPackages(plugin, plan, paths.join(staging, "packages"))
  })

  const replacePackages = Effect.gen(function* () {
    if (installed === undefined) return
    if (hasPackages) yield* tidy(fs.rename(current, paths.join(staging, "old")))
    yield* tidy(fs.rename(installed, current))
  })

  return yield* Effect.uninterruptibleMask((restore) =>
    Effect.tap(restore(Git.updateCheckout(plugin, directory, preparePackages)), () => replacePackages)
  )
}, Effect.scoped)

/** Removes an installed plugin: its directory, or the link to it. */
export const removePlugin = Effect.fn("Installer.removePlugin")(function* (
  candidate: Candidate
): Effect.fn.Return<string, PluginError, Platform> {
  const { key, origin, source } = candidate
  if (origin._tag === "Value" || (source !== "user" && source !== "git")) {
    return yield* makeRefusal(
      key,
      `plugin "${key}" was not installed by \`hermes plugins install\` (${source}): disable it instead`
    )
  }
  const fs = yield* FileSystem.FileSystem
  const isLink = Option.isSome(yield* Effect.option(fs.readLink(origin.directory)))
  yield* toRefusal(key)(fs.remove(origin.directory, isLink ? {} : { recursive: true }))
  return origin.directory
})
