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

/** Creates the service, with the trust list stored in the home directory. */
export const make: Effect.Effect<Service, never, Home | FileSystem.FileSystem | Path.Path> = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const home = yield* Home
  const variables = yield* ProcessVariables
  const context = yield* Effect.context<FileSystem.FileSystem | Path.Path>()
  const file = paths.join(home.root, fileName)

  const makeUnusableError = (error: { readonly message: string }): ConfigError =>
    new ConfigError({
      path: file,
      message: `${file} cannot be used; correct or remove it: ${error.message.replaceAll(/\s+/g, " ")}`
    })

  const decodeFolders = (text: string): Effect.Effect<ReadonlyArray<TrustedFolder>, ConfigError> =>
    text.trim() === ""
      ? Effect.succeed([])
      : Effect.mapBoth(Schema.decodeUnknownEffect(TrustList)(text), {
          onFailure: makeUnusableError,
          onSuccess: ({ folders }) => folders
        })

  const stored = Effect.flatMap(readText(file), (text) => decodeFolders(Option.getOrElse(text, () => ""))).pipe(
    Effect.provideContext(context)
  )

  const updateFolders = <A>(
    next: (folders: ReadonlyArray<TrustedFolder>) => readonly [ReadonlyArray<TrustedFolder>, A]
  ) =>
    Effect.andThen(
      home.ensure,
      updateText(home.database, file, (text) =>
        Effect.map(decodeFolders(text), (folders) => {
          const [kept, result] = next(folders)
          return { text: kept === folders ? text : `${JSON.stringify({ folders: kept }, null, 2)}\n`, result }
        })
      )
    ).pipe(Effect.provideContext(context))

  const resolveRealPath = (folder: string) => fs.realPath(paths.resolve(folder))

  const findOwner = (folder: string) => Effect.map(fs.stat(folder), ({ uid }) => Option.getOrNull(uid))

  /** Returns a folder and its ancestors, innermost first. */
  const listAncestors = (folder: string): ReadonlyArray<string> => {
    const parent = paths.dirname(folder)
    return parent === folder ? [folder] : [folder, ...listAncestors(parent)]
  }

  /** Any entry named `.git` ends trust, even if git would not recognize it as a repository. */
  const isMarked = (folder: string) => Effect.orElseSucceed(fs.exists(paths.join(folder, ".git")), () => true)

  const isRepository = (folder: string) =>
    Effect.orElseSucceed(Effect.provideContext(GitDirectory.isRepository(folder), context), () => true)

  const isWithin = (folder: string, outer: string): boolean => folder === outer || folder.startsWith(outer + paths.sep)

  const ownRoot = Effect.orElseSucceed(resolveRealPath(home.root), () => home.root)

  /**
   * The user's home directory; `undefined` if unknown. This directory and its parents cannot be trusted, because they
   * contain many unrelated folders.
   */
  const outermost = Effect.suspend(() => {
    const user = variables["HOME"] || variables["USERPROFILE"]
    return user === undefined ? Effect.undefined : Effect.orElseSucceed(resolveRealPath(user), () => user)
  })
  const hasOtherFolders = (path: string) =>
    Effect.map(outermost, (user) => paths.dirname(path) === path || (user !== undefined && isWithin(user, path)))

  /** The folder that {@link variable} contains, with its current owner. */
  const ofVariable = Effect.suspend(() => {
    const named = variables[variable]
    return named === undefined || !paths.isAbsolute(named)
      ? Effect.succeed([])
      : Effect.gen(function* () {
          const path = yield* resolveRealPath(named)
          return (yield* hasOtherFolders(path)) ? [] : [{ path, owner: yield* findOwner(path) }]
        }).pipe(Effect.orElseSucceed(() => []))
  })

  const isTrusted = Effect.fnUntraced(function* (folder: string) {
    const at = yield* resolveRealPath(folder)
    if (isWithin(at, yield* ownRoot)) return true
    const known = new Map([...(yield* ofVariable), ...(yield* stored)].map((one) => [one.path, one]))
    if (known.size === 0) return false
    const owners: Array<number | null> = []
    for (const above of listAncestors(at)) {
      const entry = known.get(above)
      owners.push(yield* findOwner(above))
      if (entry !== undefined) return owners.every((owner) => owner === entry.owner)
      if (yield* isMarked(above)) return false
    }
    return false
  })

  const checkTrust: Service["isTrusted"] = (folder) =>
    Effect.catch(isTrusted(folder), (error) =>
      Effect.as(error._tag === "ConfigError" ? Effect.logWarning(error.message) : Effect.void, false)
    )

  const findProject: Service["findOwnProject"] = Effect.fnUntraced(function* (folder) {
    const at = yield* Effect.orElseSucceed(resolveRealPath(folder), () => paths.resolve(folder))
    for (const above of listAncestors(at)) {
      if (yield* isRepository(above)) return above
    }
    return at
  })

  const listWithheld: Service["withheld"] = Effect.fnUntraced(function* (folder) {
    const own = yield* ownRoot
    const at = yield* Effect.orElseSucceed(resolveRealPath(folder), () => paths.resolve(folder))
    const folders = yield* Effect.filter(Array.from(new Set([at, yield* findProject(at)])), (one) =>
      Effect.zipWith(checkTrust(one), hasOtherFolders(one), (isTrusted, holds) => !isTrusted && !holds)
    )
    const parts = folders.flatMap((one) =>
      [ownParts.agents, ownParts.plugins, ...ownParts.skills].map((name) => paths.join(one, name))
    )
    return yield* Effect.filter(parts, (part) =>
      isWithin(part, own) ? Effect.succeed(false) : Effect.orElseSucceed(fs.exists(part), () => true)
    )
  })

  return {
    isTrusted: checkTrust,
    mayStartIn: (folder) =>
      Effect.flatMap(checkTrust(folder), (trusted) =>
        trusted
          ? Effect.succeed(true)
          : Effect.orElseSucceed(Effect.flatMap(resolveRealPath(folder), hasOtherFolders), () => false)
      ),
    trust: Effect.fnUntraced(function* (folder) {
      const makeRefusal = (reason: string) => new ConfigError({ path: folder, message: `${folder}: ${reason}` })
      const path = yield* Effect.mapError(resolveRealPath(folder), (error) =>
        makeRefusal(`cannot be trusted: ${describeReason(error)}`)
      )
      const { type, uid } = yield* Effect.mapError(fs.stat(path), (error) =>
        makeRefusal(`cannot be trusted: ${describeReason(error)}`)
      )
      if (type !== "Directory")
        return yield* makeRefusal(`this is not a folder: trust the folder that it lies in, ${paths.dirname(path)}`)
      if (yield* hasOtherFolders(path)) {
        return yield* makeRefusal("this folder holds everything else too: trust the folder of the project")
      }
      const entry: TrustedFolder = {
        path,
        owner: Option.getOrNull(uid),
        trusted_at: DateTime.formatIso(yield* DateTime.now)
      }
      return yield* updateFolders((folders) => [[...folders.filter((one) => one.path !== path), entry], entry])
    }),
    forget: Effect.fnUntraced(function* (folder) {
      const path = paths.resolve(folder)
      const names = new Set([path, yield* Effect.orElseSucceed(resolveRealPath(folder), () => path)])
      return yield* updateFolders((folders) => {
        const kept = folders.filter((one) => !names.has(one.path))
        return kept.length === folders.length ? [folders, false] : [kept, true]
      })
    }),
    list: Effect.map(stored, (folders) => folders.toSorted((a, b) => (a.path < b.path ? -1 : 1))),
    findOwnProject: findProject,
    withheld: listWithheld
  }
})

/** Provides the service with the trust list stored in the home directory. */
export const layer: Layer.Layer<FolderTrust, never, Home | FileSystem.FileSystem | Path.Path> = Layer.effect(
  FolderTrust,
  make
)
