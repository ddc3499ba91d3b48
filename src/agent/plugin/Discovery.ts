/**
 * Finds plugins in the four sources below, in order. If two plugins have the same key, the later one replaces the
 * earlier one at its position.
 *
 * **Details**
 *
 * 1. The plugins of this program, or of the directory in `HERMES_BUNDLED_PLUGINS`.
 * 2. `HERMES_HOME/plugins`.
 * 3. `./.hermes/plugins` of the working directory, only if `HERMES_ENABLE_PROJECT_PLUGINS` is set and the folder is
 *    trusted, because the author of a project is often not its user.
 * 4. npm packages named in the configuration, see `Packages`.
 *
 * With `HERMES_SAFE_MODE` no plugins are found. No code of a plugin runs here, and no variable of the environment
 * enables one.
 *
 * Source: `hermes-contract.md` §3.1.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as FolderTrust from "../../base/config/FolderTrust.ts"
import { type Candidate, findDirectory } from "./Candidate.ts"
import type { DiscoveredPlugins, Root } from "./Directories.ts"
import * as Directories from "./Directories.ts"
import { findHostDirectory } from "../../base/platform/PluginModules.ts"
import * as Manifest from "./Manifest.ts"
import * as Packages from "./Packages.ts"
import type { Plugin } from "./Plugin.ts"

/** A plugin of this program, described here and loaded when it is enabled. */
export interface Bundled {
  /** Key of the plugin: `category/name`, or a name. */
  readonly key: string
  readonly version: string
  readonly description: string
  /** Kind of the plugin. Defaults to `standalone`, which is loaded when the user enables it. */
  readonly kind?: Manifest.Kind | undefined
  readonly load: Effect.Effect<Plugin<unknown>, unknown>
}

/** Places in which plugins are searched. */
export interface Places {
  readonly bundled: ReadonlyArray<Bundled>
  /** The user's plugin directory: `HERMES_HOME/plugins`. */
  readonly user: string
  /** The working directory. */
  readonly cwd: string
  /** Service that knows whether the working directory is trusted. */
  readonly trust: Pick<FolderTrust.Service, "isTrusted" | "findOwnProject">
  /** Value of `plugins.packages` in the configuration. */
  readonly packages: ReadonlyArray<string>
  readonly variable: (name: string) => string | undefined
}

/** Directories below a bundled directory that contain other kinds of plugins. */
const without = ["memory", "context_engine", "model-providers", "platforms"]

/** Returns true if the value of a variable means yes. */
export const isTruthy = (value: string | undefined): boolean =>
  value !== undefined && ["1", "true", "yes", "on"].includes(value.trim().toLowerCase())

const toBundledCandidate = ({ description, key, kind, load, version }: Bundled): Candidate => {
  const name = key.slice(key.lastIndexOf("/") + 1)
  return {
    key,
    name,
    names: Array.from(new Set([key, name])),
    source: "bundled",
    kind: kind ?? "standalone",
    manifest: { ...Manifest.empty, name, version, description },
    origin: { _tag: "Value", load }
  }
}

const describePlace = (candidate: Candidate): string =>
  findDirectory(candidate) ?? (candidate.source === "application" ? "the application" : "the program")

/**
 * Removes duplicate keys: the later candidate replaces the earlier one at its position, and a warning names the places
 * of both.
 */
export const mergeByKey = (candidates: ReadonlyArray<Candidate>): DiscoveredPlugins => {
  const merged = new Map<string, Candidate>()
  const warnings: Array<string> = []
  for (const candidate of candidates) {
    const before = merged.get(candidate.key)
    const places = [before, candidate].flatMap((one) => (one === undefined ? [] : [describePlace(one)]))
    if (new Set(places).size > 1)
      warnings.push(
        `two plugins have the name "${candidate.key}": ${places.join(" and ")}. The second one counts; ` +
          "rename or remove one of them."
      )
    merged.set(candidate.key, candidate)
  }
  return { candidates: Array.from(merged.values()), warnings }
}

const nothing: DiscoveredPlugins = { candidates: [], warnings: [] }

/** Finds the plugins of all four sources. Fails if a plugin directory exists but cannot be read. */
export const discover = Effect.fnUntraced(function* ({
  bundled,
  cwd,
  packages,
  trust,
  user,
  variable
}: Places): Effect.fn.Return<DiscoveredPlugins, PlatformError, FileSystem.FileSystem | Path.Path> {
  if (isTruthy(variable("HERMES_SAFE_MODE"))) return nothing
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const own = variable("HERMES_BUNDLED_PLUGINS")
  const project = paths.join(cwd, FolderTrust.ownParts.plugins)
  const isWanted = isTruthy(variable("HERMES_ENABLE_PROJECT_PLUGINS"))
  const isProject = isWanted && (yield* trust.isTrusted(cwd))
  const refused =
    isWanted && !isProject && (yield* Effect.orElseSucceed(fs.exists(project), () => true))
      ? [FolderTrust.makeUntrustedError(project, yield* trust.findOwnProject(cwd)).message]
      : []
  const roots: ReadonlyArray<Root> = [
    ...(own === undefined ? [] : [{ path: paths.resolve(cwd, own), source: "bundled", without } as const]),
    { path: user, source: "user" },
    ...(isProject ? [{ path: project, source: "project" } as const] : [])
  ]
  const found = [
    own === undefined ? { candidates: bundled.map(toBundledCandidate), warnings: [] } : nothing,
    ...(yield* Effect.forEach(roots, Directories.scanRoot)),
    yield* Packages.findPackages(packages, [user, ...(isProject ? [cwd] : []), findHostDirectory()])
  ]
  const { candidates, warnings } = mergeByKey(found.flatMap(({ candidates }) => candidates))
  return { candidates, warnings: [...refused, ...found.flatMap(({ warnings }) => warnings), ...warnings] }
})
