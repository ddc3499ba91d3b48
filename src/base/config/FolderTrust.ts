/**
 * Trusted folders. Agent files, skills, plugins and middleware take effect only if the user trusts their folder.
 *
 * **Details**
 *
 * Trust is stored in `trusted-folders.json` of the home directory, `{ folders: [{ path, owner, trusted_at }] }`: the
 * real path of a folder and the user id of its owner. A folder is trusted if it, or a folder that contains it, is in
 * this list and
 *
 * - the listed folder still has the recorded owner,
 * - every folder between the two has the same owner,
 * - no folder between the two is a separate repository (has `.git`), so that a repository cloned into a trusted folder
 *   is not trusted.
 *
 * While the variable `HERMES_TRUST_FOLDER` contains an absolute path, that folder is trusted in the same way. The
 * variable is intended for build and test machines that use a new folder each time.
 *
 * The home directory of the program and its contents are always trusted. `/` and the user's home directory cannot be
 * trusted, because they contain many unrelated folders. If the list cannot be read, no listed folder is trusted.
 *
 * **Gotchas**
 *
 * On a system without owners (Windows), only the path is compared. Trust also applies to later versions of the files:
 * the files that `git pull` brings into a trusted folder are trusted.
 *
 * **Example** (Checking trust before a file of a project is used)
 *
 * ```ts
 * import { FolderTrust } from "hermes-effect/config"
 * import * as Effect from "effect/Effect"
 *
 * export const skillsOf = Effect.fn("skillsOf")(function*(folder: string) {
 *   const trust = yield* FolderTrust.FolderTrust
 *   return (yield* trust.isTrusted(folder)) ? [`${folder}/.hermes/skills`] : []
 * })
 * ```
 *
 * Source: `ARCHITECTURE.md` §7.
 */
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Schema from "effect/Schema"
import { ConfigError } from "../domain/AgentError.ts"
import { describeReason } from "../domain/PathProblem.ts"
import * as GitDirectory from "../platform/GitDirectory.ts"
import { Home, ProcessVariables, readText, updateText } from "./Environment.ts"

/** A folder that the user trusted. Fields that another program added are preserved. */
const TrustedFolder = Schema.StructWithRest(
  Schema.Struct({
    /** Real path of the folder. */
    path: Schema.String,
    /** User id of the owner; `null` on a system without user ids. */
    owner: Schema.NullOr(Schema.Int),
    /** ISO 8601. */
    trusted_at: Schema.String
  }),
  [Schema.Record(Schema.String, Schema.Json)]
)

/**
 * A folder that the user trusted: its real `path`, the user id of its `owner`, and the time of trust as `trusted_at`.
 */
export type TrustedFolder = typeof TrustedFolder.Type

const TrustList = Schema.fromJsonString(Schema.Struct({ folders: Schema.Array(TrustedFolder) }))

/** Name of the file in the home directory. */
export const fileName = "trusted-folders.json"

/**
 * Directories of a project that take effect only if the project is trusted. They are relative to the working directory
 * or to the root of its repository.
 */
export const ownParts = {
  agents: ".hermes/agents",
  plugins: ".hermes/plugins",
  skills: [".hermes/skills", ".agents/skills"]
} as const

/** Environment variable that contains the path of one trusted folder. */
export const variable = "HERMES_TRUST_FOLDER"

/** Tests and changes the trust in folders. A folder is an absolute path or a path relative to the working directory. */
export interface Service {
  /** Tests whether files of a folder may take effect; `false` if the folder cannot be examined. */
  readonly isTrusted: (folder: string) => Effect.Effect<boolean>
  /**
   * Tests whether the user's programs may start in a folder: a trusted folder, the user's home directory, or a parent
   * of it.
   */
  readonly mayStartIn: (folder: string) => Effect.Effect<boolean>
  /**
   * Trusts a folder and its contents from now on. Fails if the path is not a folder, or if it is `/`, the user's home
   * directory or a parent of it.
   */
  readonly trust: (folder: string) => Effect.Effect<TrustedFolder, ConfigError>
  /**
   * Removes a folder from the list. Returns `false` if the list did not contain it. A folder that no longer exists is
   * removed by its path.
   */
  readonly forget: (folder: string) => Effect.Effect<boolean, ConfigError>
  /** The trusted folders in the list, ordered by path. */
  readonly list: Effect.Effect<ReadonlyArray<TrustedFolder>, ConfigError>
  /**
   * Returns the folder that a question about trust should name: the repository that contains `folder`, or `folder`
   * itself.
   */
  readonly findOwnProject: (folder: string) => Effect.Effect<string>
  /**
   * Returns the directories ({@link ownParts}) that exist in a folder or its repository but are ignored because they
   * are not trusted.
   */
  readonly withheld: (folder: string) => Effect.Effect<ReadonlyArray<string>>
}

/** Returns the command line that trusts a folder. */
export const renderRemedy = (project: string): string =>
  `hermes trust add ${/^[\w./~-]+$/.test(project) ? project : JSON.stringify(project)}`

/** Creates the error for a file of an untrusted folder: one line with the command that trusts the folder. */
export const makeUntrustedError = (file: string, project: string): ConfigError =>
  new ConfigError({
    path: file,
    message: `${file} is not used: its folder is not trusted. Look at it, then run \`${renderRemedy(project)}\``
  })

/**
 * Service for trusted folders.
 *
 * @see {@link Service} for its members.
 */
export class FolderTrust extends Context.Service<FolderTrust, Service>()("hermes-effect/config/FolderTrust") {}

/** The list of trusted folders, and the services that examine folders. */
interface TrustPlaces {
  readonly fs: FileSystem.FileSystem
  readonly paths: Path.Path
  readonly home: Home["Service"]
  readonly variables: Readonly<Record<string, string | undefined>>
  readonly context: Context.Context<FileSystem.FileSystem | Path.Path>
  /** File of the list. */
  readonly file: string
}

const makeUnusableError = ({ file }: TrustPlaces, error: { readonly message: string }): ConfigError =>
  new ConfigError({
    path: file,
    message: `${file} cannot be used; correct or remove it: ${error.message.replaceAll(/\s+/g, " ")}`
  })

const decodeFolders = (places: TrustPlaces, text: string): Effect.Effect<ReadonlyArray<TrustedFolder>, ConfigError> =>
  text.trim() === ""
    ? Effect.succeed([])
    : Effect.mapBoth(Schema.decodeUnknownEffect(TrustList)(text), {
        onFailure: (error) => makeUnusableError(places, error),
        onSuccess: ({ folders }) => folders
      })

const readStored = (places: TrustPlaces) =>
  Effect.flatMap(readText(places.file), (text) =>
    decodeFolders(
      places,
      Option.getOrElse(text, () => "")
    )
  ).pipe(Effect.provideContext(places.context))

const updateFolders = <A>(
  places: TrustPlaces,
  next: (folders: ReadonlyArray<TrustedFolder>) => readonly [ReadonlyArray<TrustedFolder>, A]
) =>
  Effect.andThen(
    places.home.ensure,
    updateText(places.home.database, places.file, (text) =>
      Effect.map(decodeFolders(places, text), (folders) => {
        const [kept, result] = next(folders)
        return { text: kept === folders ? text : `${JSON.stringify({ folders: kept }, null, 2)}\n`, result }
      })
    )
  ).pipe(Effect.provideContext(places.context))

const resolveRealPath = ({ fs, paths }: TrustPlaces, folder: string) => fs.realPath(paths.resolve(folder))

const findOwner = ({ fs }: TrustPlaces, folder: string) =>
  Effect.map(fs.stat(folder), ({ uid }) => Option.getOrNull(uid))

/** Returns a folder and its ancestors, innermost first. */
const listAncestors = (places: TrustPlaces, folder: string): ReadonlyArray<string> => {
  const parent = places.paths.dirname(folder)
  return parent === folder ? [folder] : [folder, ...listAncestors(places, parent)]
}

/** Any entry named `.git` ends trust, even if git would not recognize it as a repository. */
const isMarked = ({ fs, paths }: TrustPlaces, folder: string) =>
  Effect.orElseSucceed(fs.exists(paths.join(folder, ".git")), () => true)

const isRepository = ({ context }: TrustPlaces, folder: string) =>
  Effect.orElseSucceed(Effect.provideContext(GitDirectory.isRepository(folder), context), () => true)

const isWithin = ({ paths }: TrustPlaces, folder: string, outer: string): boolean =>
  folder === outer || folder.startsWith(outer + paths.sep)

const findOwnRoot = (places: TrustPlaces) =>
  Effect.orElseSucceed(resolveRealPath(places, places.home.root), () => places.home.root)

/**
 * The user's home directory; `undefined` if unknown. This directory and its parents cannot be trusted, because they
 * contain many unrelated folders.
 */
const findUserHome = (places: TrustPlaces) =>
  Effect.suspend(() => {
    const user = places.variables["HOME"] || places.variables["USERPROFILE"]
    return user === undefined ? Effect.undefined : Effect.orElseSucceed(resolveRealPath(places, user), () => user)
  })

const hasOtherFolders = (places: TrustPlaces, path: string) =>
  Effect.map(
    findUserHome(places),
    (user) => places.paths.dirname(path) === path || (user !== undefined && isWithin(places, user, path))
  )

/** The folder that {@link variable} contains, with its current owner. */
const readVariable = (places: TrustPlaces) =>
  Effect.suspend(() => {
    const named = places.variables[variable]
    return named === undefined || !places.paths.isAbsolute(named)
      ? Effect.succeed([])
      : Effect.gen(function* () {
          const path = yield* resolveRealPath(places, named)
          return (yield* hasOtherFolders(places, path)) ? [] : [{ path, owner: yield* findOwner(places, path) }]
        }).pipe(Effect.orElseSucceed(() => []))
  })

const isTrusted = Effect.fnUntraced(function* (places: TrustPlaces, folder: string) {
  const at = yield* resolveRealPath(places, folder)
  if (isWithin(places, at, yield* findOwnRoot(places))) return true
  const known = new Map(
    [...(yield* readVariable(places)), ...(yield* readStored(places))].map((one) => [one.path, one])
  )
  if (known.size === 0) return false
  const owners: Array<number | null> = []
  for (const above of listAncestors(places, at)) {
    const entry = known.get(above)
    owners.push(yield* findOwner(places, above))
    if (entry !== undefined) return owners.every((owner) => owner === entry.owner)
    if (yield* isMarked(places, above)) return false
  }
  return false
})

const checkTrust =
  (places: TrustPlaces): Service["isTrusted"] =>
  (folder) =>
    Effect.catch(isTrusted(places, folder), (error) =>
      Effect.as(error._tag === "ConfigError" ? Effect.logWarning(error.message) : Effect.void, false)
    )

const findProject = (places: TrustPlaces): Service["findOwnProject"] =>
  Effect.fnUntraced(function* (folder) {
    const at = yield* Effect.orElseSucceed(resolveRealPath(places, folder), () => places.paths.resolve(folder))
    for (const above of listAncestors(places, at)) {
      if (yield* isRepository(places, above)) return above
    }
    return at
  })

const listWithheld = (places: TrustPlaces): Service["withheld"] =>
  Effect.fnUntraced(function* (folder) {
    const own = yield* findOwnRoot(places)
    const at = yield* Effect.orElseSucceed(resolveRealPath(places, folder), () => places.paths.resolve(folder))
    const folders = yield* Effect.filter(Array.from(new Set([at, yield* findProject(places)(at)])), (one) =>
      Effect.zipWith(checkTrust(places)(one), hasOtherFolders(places, one), (isTrusted, holds) => !isTrusted && !holds)
    )
    const parts = folders.flatMap((one) =>
      [ownParts.agents, ownParts.plugins, ...ownParts.skills].map((name) => places.paths.join(one, name))
    )
    return yield* Effect.filter(parts, (part) =>
      isWithin(places, part, own) ? Effect.succeed(false) : Effect.orElseSucceed(places.fs.exists(part), () => true)
    )
  })

/** Adds a folder to the list. */
const trustFolder = Effect.fnUntraced(function* (
  places: TrustPlaces,
  folder: string
): Effect.fn.Return<TrustedFolder, ConfigError> {
  const { fs, paths } = places
  const makeRefusal = (reason: string) => new ConfigError({ path: folder, message: `${folder}: ${reason}` })
  const makeFailure = (error: PlatformError) => makeRefusal(`cannot be trusted: ${describeReason(error)}`)
  const path = yield* Effect.mapError(resolveRealPath(places, folder), makeFailure)
  const { type, uid } = yield* Effect.mapError(fs.stat(path), makeFailure)
  if (type !== "Directory")
    return yield* makeRefusal(`this is not a folder: trust the folder that it lies in, ${paths.dirname(path)}`)
  if (yield* hasOtherFolders(places, path))
    return yield* makeRefusal("this folder holds everything else too: trust the folder of the project")
  const entry: TrustedFolder = {
    path,
    owner: Option.getOrNull(uid),
    trusted_at: DateTime.formatIso(yield* DateTime.now)
  }
  return yield* updateFolders(places, (folders) => [[...folders.filter((one) => one.path !== path), entry], entry])
})

/** Removes a folder from the list. */
const forgetFolder = Effect.fnUntraced(function* (
  places: TrustPlaces,
  folder: string
): Effect.fn.Return<boolean, ConfigError> {
  const path = places.paths.resolve(folder)
  const names = new Set([path, yield* Effect.orElseSucceed(resolveRealPath(places, folder), () => path)])
  return yield* updateFolders(places, (folders) => {
    const kept = folders.filter((one) => !names.has(one.path))
    return kept.length === folders.length ? [folders, false] : [kept, true]
  })
})

/** Creates the service, with the trust list stored in the home directory. */
export const make: Effect.Effect<Service, never, Home | FileSystem.FileSystem | Path.Path> = Effect.gen(function* () {
  const paths = yield* Path.Path
  const home = yield* Home
  const places: TrustPlaces = {
    fs: yield* FileSystem.FileSystem,
    paths,
    home,
    variables: yield* ProcessVariables,
    context: yield* Effect.context<FileSystem.FileSystem | Path.Path>(),
    file: paths.join(home.root, fileName)
  }
  return {
    isTrusted: checkTrust(places),
    mayStartIn: (folder) =>
      Effect.flatMap(checkTrust(places)(folder), (trusted) =>
        trusted
          ? Effect.succeed(true)
          : Effect.orElseSucceed(
              Effect.flatMap(resolveRealPath(places, folder), (path) => hasOtherFolders(places, path)),
              () => false
            )
      ),
    trust: (folder) => trustFolder(places, folder),
    forget: (folder) => forgetFolder(places, folder),
    list: Effect.map(readStored(places), (folders) => folders.toSorted((a, b) => (a.path < b.path ? -1 : 1))),
    findOwnProject: findProject(places),
    withheld: listWithheld(places)
  }
})

/** Provides the service with the trust list stored in the home directory. */
export const layer: Layer.Layer<FolderTrust, never, Home | FileSystem.FileSystem | Path.Path> = Layer.effect(
  FolderTrust,
  make
)
