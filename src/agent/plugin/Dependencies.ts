/**
 * Dependencies of a plugin: the packages that its `package.json` needs, in the exact versions of its lock file. Runs no
 * code of a plugin or of a package.
 *
 * **Details**
 *
 * Packages are installed only from a lock file, `npm-shrinkwrap.json` or `package-lock.json`. Each package must come
 * from a registry and have a SHA-2 hash, which npm verifies. Links, folders and git repositories are refused. A plugin
 * that already contains `node_modules` needs no installation.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Json from "../../base/domain/Json.ts"
import { PluginError } from "./PluginError.ts"

/** Names of lock files. The first existing file is used, as npm does. */
export const lockFiles = ["npm-shrinkwrap.json", "package-lock.json"] as const

/** Folder that contains installed packages. */
export const packagesFolder = "node_modules"

/** A package in its exact version. */
export interface LockedPackage {
  readonly name: string
  readonly version: string
}

/** The packages of a plugin that are to be installed. */
export interface DependencyPlan {
  /** Packages without those for development, sorted by name. */
  readonly packages: ReadonlyArray<LockedPackage>
  /** Hosts from which the lock file takes the packages, sorted. */
  readonly hosts: ReadonlyArray<string>
  /** Content of `package.json` and of the lock file, by name. */
  readonly files: Readonly<Record<string, string>>
}

/** Reads a file of a plugin by name; `undefined` if it does not exist. */
export type ReadFile<R> = (name: string) => Effect.Effect<string | undefined, PluginError, R>

const makeRefusal = (plugin: string, message: string): PluginError => new PluginError({ plugin, message, input: true })

/** Reads files in a directory. */
export const readFrom =
  (plugin: string, directory: string): ReadFile<FileSystem.FileSystem | Path.Path> =>
  (name) =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const paths = yield* Path.Path
      return yield* fs.readFileString(paths.join(directory, name))
    }).pipe(
      Effect.catchIf(
        ({ reason }: PlatformError) => reason._tag === "NotFound",
        () => Effect.succeed(undefined)
      ),
      Effect.mapError(({ message }) => new PluginError({ plugin, message }))
    )

const parseFile = (plugin: string, name: string, text: string): Effect.Effect<Json.Fields, PluginError> => {
  const value = Option.getOrUndefined(Json.parse(text))
  return Json.isFields(value) && !Array.isArray(value)
    ? Effect.succeed(value)
    : Effect.fail(makeRefusal(plugin, `its ${name} is not a JSON object: ask its author to correct it`))
}

const readText = (fields: Json.Fields, name: string): string => {
  const value = fields[name]
  return typeof value === "string" ? value : ""
}

const needsPackages = (json: Json.Fields): boolean =>
  ["dependencies", "optionalDependencies"].some((name) => Object.keys(Json.readFields(json[name])).length > 0)

/** Returns the problem of a package in a lock file, if it cannot be installed safely. */
const findProblem = (entry: Json.Fields): string | undefined => {
  if (entry["link"] === true) return "is a link to a folder"
  if (entry["inBundle"] === true) return undefined
  const source = readText(entry, "resolved")
  if (source !== "" && !/^https?:\/\//.test(source)) return `comes from ${source.split(":")[0]}:, not from a registry`
  if (!/(?:^|\s)sha(?:256|384|512)-/.test(readText(entry, "integrity"))) return "has no SHA-2 hash (integrity)"
  return undefined
}

/** Tests whether npm would skip a package, because it is for development or provided by the program. */
const isOmitted = (entry: Json.Fields): boolean =>
  entry["dev"] === true || entry["devOptional"] === true || entry["peer"] === true

const readLock = Effect.fnUntraced(function* (plugin: string, name: string, lock: Json.Fields) {
  const entries = lock["packages"]
  if (!Json.isFields(entries)) {
    return yield* makeRefusal(
      plugin,
      `its ${name} has no list of packages: write it again with \`npm install\` of npm 7`
    )
  }
  const packages = new Map<string, LockedPackage>()
  const hosts = new Set<string>()
  for (const [path, value] of Object.entries(entries)) {
    const entry = Json.readFields(value)
    if (path === "" || isOmitted(entry)) continue
    const found = readText(entry, "name") || path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length)
    const problem = path.startsWith("node_modules/") ? findProblem(entry) : "is a folder of the plugin"
    if (problem !== undefined) return yield* makeRefusal(plugin, `in its ${name}, package "${found}" ${problem}`)
    const version = readText(entry, "version")
    packages.set(`${found}@${version}`, { name: found, version })
    const host = URL.parse(readText(entry, "resolved"))?.host
    if (host !== undefined) hosts.add(host)
  }
  return {
    packages: Array.from(packages.values()).toSorted((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0)),
    hosts: Array.from(hosts).toSorted()
  }
})

/**
 * Plans the installation of a plugin's packages; `undefined` if it needs none. Fails if it has no lock file, or if a
 * package of the lock file cannot be verified.
 */
export const planDependencies = Effect.fnUntraced(function* <R>(
  plugin: string,
  read: ReadFile<R>
): Effect.fn.Return<DependencyPlan | undefined, PluginError, R> {
  const text = yield* read("package.json")
  if (text === undefined || !needsPackages(yield* parseFile(plugin, "package.json", text))) return undefined
  for (const name of lockFiles) {
    const lock = yield* read(name)
    if (lock === undefined) continue
    const { hosts, packages } = yield* readLock(plugin, name, yield* parseFile(plugin, name, lock))
    return packages.length === 0 ? undefined : { hosts, packages, files: { "package.json": text, [name]: lock } }
  }
  return yield* makeRefusal(
    plugin,
    "it has dependencies, but no lock file: run `npm install --package-lock-only` in the folder of the plugin, " +
      "commit package-lock.json, and install the plugin again"
  )
})
