/**
 * Finds the programs that this process starts for itself, outside of any sandbox: `git`, `ssh`, `docker`, the command
 * scanner, the clipboard. Nothing that a sandboxed command can write is ever found.
 *
 * **Details**
 *
 * A launcher puts directories of the working tree on `PATH` (`npm run` and `npx` put `node_modules/.bin` there, a
 * virtual environment its `bin`), and some users have `.` on it. A sandboxed command that writes
 * `node_modules/.bin/git` would be run with the rights of the user by the next look at the tree. So a bare name is
 * looked up here, and the result is an absolute path. An entry of `PATH` is skipped if it
 *
 * - is not absolute: an empty entry, `.`, `bin`;
 * - has a directory `node_modules` in its path;
 * - lies in the start directory, its repository, or a place that {@link distrustPlaces} named, by its path or by its
 *   real path;
 * - can be written by every user.
 *
 * A file is skipped if it cannot be executed, can be written by every user, or leads into such a place by a link. If no
 * entry of `PATH` is left, the directories of the system are searched. A program that was found is used until the
 * process ends.
 *
 * **Gotchas**
 *
 * The owner of a file is not checked: a sandboxed command has the same user as this process, package managers install
 * for other users, and in a user namespace the files of root belong to `nobody`. The system directories are used even
 * if this process works in `/`.
 */
import * as Effect from "effect/Effect"
import { type PlatformError, systemError } from "effect/PlatformError"
import { accessSync, constants, existsSync, realpathSync, statSync } from "node:fs"
import { delimiter, dirname, isAbsolute, join, resolve, sep } from "node:path"
import { StartDirectory } from "./CurrentProcess.ts"
import { ProcessEnvironment } from "./ProcessVariables.ts"

/** Directories in which an operating system and its package manager install programs. */
const systemDirectories: ReadonlyArray<string> = [
  "/usr/local/sbin",
  "/usr/local/bin",
  "/usr/sbin",
  "/usr/bin",
  "/sbin",
  "/bin",
  "/opt/homebrew/bin",
  "/run/current-system/sw/bin"
]

const isWindows = process.platform === "win32"
const everybodyWrites = 0o002

/**
 * Directories of this process that commands may write. It only grows: a place that was written once is never trusted
 * again.
 */
const writablePlaces = new Set<string>()
/** Programs that were found, by name, search path and start directory. */
const foundPrograms = new Map<string, string>()
/** Search paths for children, by the search path that they were made from and the start directory. */
const safePaths = new Map<string, string>()

/** The directory that this process was started in; it may have been removed meanwhile. */
const workingDirectories = (() => {
  try {
    return [process.cwd()]
  } catch {
    // The directory does not exist, so it contains no program.
    return []
  }
})()

const isWithin = (path: string, place: string): boolean =>
  path === place || path.startsWith(place.endsWith(sep) ? place : place + sep)

const toRealPath = (path: string): string => {
  try {
    return realpathSync(path)
  } catch {
    // It does not exist: its own path is all that is known.
    return resolve(path)
  }
}

/**
 * Names directories, absolute, whose programs are never run outside of a sandbox from now on: a command may write them.
 */
export const distrustPlaces = (directories: Iterable<string>): void => {
  for (const directory of directories) {
    if (writablePlaces.has(directory)) continue
    for (const place of [resolve(directory), toRealPath(directory), directory]) writablePlaces.add(place)
    foundPrograms.clear()
    safePaths.clear()
  }
}

/** Returns the root of the repository that holds a directory, or the directory. */
const findRoot = (directory: string): string => {
  for (let at = directory; ; at = dirname(at)) {
    if (existsSync(join(at, ".git"))) return at
    if (at === dirname(at)) return directory
  }
}

/** Returns the places that a start directory adds to those that commands may write. */
const collectPlaces = (start: string): ReadonlyArray<string> => {
  const starts = [resolve(start), toRealPath(start), ...workingDirectories]
  return [...new Set([...starts, ...starts.map(findRoot), ...writablePlaces])]
}

/**
 * True for a path in a place. The root directory holds everything, and the programs of the system are run nevertheless.
 */
const isInPlaces = (path: string, places: ReadonlyArray<string>): boolean =>
  places.some((place) =>
    place === dirname(place) ? !systemDirectories.some((directory) => isWithin(path, directory)) : isWithin(path, place)
  )

const isTrustedDirectory = (directory: string, places: ReadonlyArray<string>): boolean => {
  if (!isAbsolute(directory) || resolve(directory).split(sep).includes("node_modules")) return false
  const real = toRealPath(directory)
  if (isInPlaces(resolve(directory), places) || isInPlaces(real, places)) return false
  const found = statSync(real, { throwIfNoEntry: false })
  return found !== undefined && found.isDirectory() && (isWindows || (found.mode & everybodyWrites) === 0)
}

const isTrustedFile = (file: string, places: ReadonlyArray<string>): boolean => {
  try {
    const real = realpathSync(file)
    if (isInPlaces(real, places)) return false
    const { mode } = statSync(real)
    accessSync(real, constants.X_OK)
    return statSync(real).isFile() && (isWindows || (mode & everybodyWrites) === 0)
  } catch {
    // It is not there, or is not a program of this user.
    return false
  }
}

/**
 * Returns the trusted directories of a search path; the directories of the system if none of its entries is trusted.
 */
const selectDirectories = (searchPath: string | undefined, start: string): ReadonlyArray<string> => {
  const places = collectPlaces(start)
  const isTrusted = (directory: string): boolean => {
    try {
      return isTrustedDirectory(directory, places)
    } catch {
      // A directory that cannot be examined has no program for this process.
      return false
    }
  }
  const listed = (searchPath ?? "").split(delimiter).filter(isTrusted)
  return listed.length > 0 ? listed : systemDirectories.filter(isTrusted)
}

const lookUp = (name: string, searchPath: string | undefined, start: string): string | undefined => {
  const places = collectPlaces(start)
  // A path was written down by the user, who says with it which file is meant; one that is not absolute names a file of
  // the working tree.
  if (/[/\\]/.test(name)) return isAbsolute(name) ? name : undefined
  const names = isWindows ? [name, `${name}.exe`, `${name}.cmd`] : [name]
  return selectDirectories(searchPath, start)
    .flatMap((directory) => names.map((each) => join(directory, each)))
    .find((file) => isTrustedFile(file, places))
}

const searchPathOfProcess = Effect.map(Effect.all([ProcessEnvironment, StartDirectory]), ([environment, start]) => ({
  searchPath: environment()["PATH"],
  start: start()
}))

/**
 * Finds a program of this machine by its name, and returns its absolute path. It fails with `NotFound`, as the start of
 * a program that is not installed does. An absolute path is returned as it is.
 */
export const find = (name: string): Effect.Effect<string, PlatformError> =>
  Effect.flatMap(searchPathOfProcess, ({ searchPath, start }) => {
    const key = `${name}\0${searchPath ?? ""}\0${start}`
    const found = foundPrograms.get(key) ?? lookUp(name, searchPath, start)
    if (found === undefined) {
      return Effect.fail(
        systemError({
          _tag: "NotFound",
          module: "ChildProcess",
          method: "spawn",
          pathOrDescriptor: name,
          description: "not installed"
        })
      )
    }
    foundPrograms.set(key, found)
    return Effect.succeed(found)
  })

/**
 * `PATH` for a program that this process starts outside of any sandbox: programs that it starts also come from trusted
 * directories.
 */
export const safePath: Effect.Effect<string> = Effect.map(searchPathOfProcess, ({ searchPath, start }) => {
  const key = `${searchPath ?? ""}\0${start}`
  const found = safePaths.get(key) ?? selectDirectories(searchPath, start).join(delimiter)
  safePaths.set(key, found)
  return found
})

/**
 * Returns `true` if the user put the entry on `PATH`: a launcher did not add it (`npm run`, `npx`), and it does not
 * depend on the directory.
 */
const isOfUser = (entry: string): boolean => isAbsolute(entry) && !entry.split(sep).includes("node_modules")

/**
 * Variables that commands may receive, for a command line that the user types: `PATH` is the `PATH` of the user's
 * shell. It includes a virtual environment of the working tree that the user activated, but not the additions of a
 * launcher.
 */
export const shellEnvironment: Effect.Effect<() => Readonly<Record<string, string | undefined>>> = Effect.map(
  ProcessEnvironment,
  (environment) => () => {
    const { PATH, ...others } = environment()
    return {
      ...others,
      ...(PATH === undefined ? {} : { PATH: PATH.split(delimiter).filter(isOfUser).join(delimiter) })
    }
  }
)

/**
 * Variables as commands may be given them, with {@link safePath}, for a program that the user named and that finds
 * others by their names.
 */
export const safeEnvironment: Effect.Effect<() => Readonly<Record<string, string | undefined>>> = Effect.map(
  Effect.all([ProcessEnvironment, safePath]),
  ([environment, path]) =>
    () => ({ ...environment(), PATH: path })
)
