/**
 * Finds the programs that this process itself starts outside any sandbox: `git`, `ssh`, `docker`, the command scanner,
 * the clipboard. A file that a sandboxed command can write is never used.
 *
 * **Details**
 *
 * Launchers put directories of the working tree on `PATH` (`npm run` and `npx` add `node_modules/.bin`, a virtual
 * environment adds its `bin`), and some users add `.`. If a sandboxed command wrote `node_modules/.bin/git`, that file
 * would run with the rights of the user the next time this process calls `git`. Therefore this module resolves a bare
 * name to an absolute path. An entry of `PATH` is skipped if it
 *
 * - is not absolute: an empty entry, `.`, `bin`;
 * - has a directory `node_modules` in its path;
 * - lies, by its path or its real path, in the start directory, its repository, or a place named by
 *   {@link distrustPlaces};
 * - can be written by every user.
 *
 * A file is skipped if it cannot be executed, if every user can write it, or if it is a link into such a directory. If
 * no entry of `PATH` remains, the system directories are searched. A found program is cached until the process ends.
 *
 * **Gotchas**
 *
 * The owner of a file is not checked: a sandboxed command has the same user as this process, package managers install
 * files as other users, and in a user namespace the files of root belong to `nobody`. The system directories are used
 * even if this process works in `/`.
 */
import * as Effect from "effect/Effect"
import { type PlatformError, systemError } from "effect/PlatformError"
import { accessSync, constants, existsSync, realpathSync, statSync } from "node:fs"
import { delimiter, dirname, isAbsolute, join, resolve, sep } from "node:path"
import { StartDirectory } from "./CurrentProcess.ts"
import { ProcessEnvironment } from "./ProcessVariables.ts"

/** Directories in which operating systems and their package managers install programs. */
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
 * Directories that commands started by this process may write. Directories are never removed: a place that was writable
 * once is never trusted again.
 */
const writablePlaces = new Set<string>()
/** Cache of found programs, by name, search path and start directory. */
const foundPrograms = new Map<string, string>()
/** Safe search paths for child processes, by original search path and start directory. */
const safePaths = new Map<string, string>()

/** The directory in which this process was started; empty if it no longer exists. */
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
    // The file does not exist, so only its given path is known.
    return resolve(path)
  }
}

/**
 * Adds absolute directories that commands may write. From then on, programs in these directories are never run outside
 * a sandbox.
 */
export const distrustPlaces = (directories: Iterable<string>): void => {
  for (const directory of directories) {
    if (writablePlaces.has(directory)) continue
    for (const place of [resolve(directory), toRealPath(directory), directory]) writablePlaces.add(place)
    foundPrograms.clear()
    safePaths.clear()
  }
}

/** Returns the root of the repository that contains a directory, or the directory itself. */
const findRoot = (directory: string): string => {
  for (let at = directory; ; at = dirname(at)) {
    if (existsSync(join(at, ".git"))) return at
    if (at === dirname(at)) return directory
  }
}

/** Returns all places that commands may write, including places below a start directory. */
const collectPlaces = (start: string): ReadonlyArray<string> => {
  const starts = [resolve(start), toRealPath(start), ...workingDirectories]
  return [...new Set([...starts, ...starts.map(findRoot), ...writablePlaces])]
}

/**
 * Tests whether a path is in one of the places. The root directory is ignored, because it contains the system's own
 * programs.
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
    // The file does not exist, or the user may not execute it.
    return false
  }
}

/** Returns the trusted directories of a search path; the system directories if all entries are untrusted. */
const selectDirectories = (searchPath: string | undefined, start: string): ReadonlyArray<string> => {
  const places = collectPlaces(start)
  const isTrusted = (directory: string): boolean => {
    try {
      return isTrustedDirectory(directory, places)
    } catch {
      // A directory that cannot be examined is not trusted.
      return false
    }
  }
  const listed = (searchPath ?? "").split(delimiter).filter(isTrusted)
  return listed.length > 0 ? listed : systemDirectories.filter(isTrusted)
}

const lookUp = (name: string, searchPath: string | undefined, start: string): string | undefined => {
  const places = collectPlaces(start)
  // The user chose an absolute path explicitly. A relative path refers to a file in the working tree and is rejected.
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
 * Finds a program on this machine by name and returns its absolute path. Fails with `NotFound`, like the start of a
 * program that is not installed. An absolute path is returned unchanged.
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
 * `PATH` for a program that this process starts outside any sandbox, so that the programs started by that program also
 * come from trusted directories.
 */
export const safePath: Effect.Effect<string> = Effect.map(searchPathOfProcess, ({ searchPath, start }) => {
  const key = `${searchPath ?? ""}\0${start}`
  const found = safePaths.get(key) ?? selectDirectories(searchPath, start).join(delimiter)
  safePaths.set(key, found)
  return found
})

/**
 * Tests whether an entry of `PATH` comes from the user: it is absolute and was not added by a launcher (`npm run`,
 * `npx`).
 */
const isOfUser = (entry: string): boolean => isAbsolute(entry) && !entry.split(sep).includes("node_modules")

/**
 * Variables for a command line that the user types: all variables that commands may receive, with the `PATH` of the
 * user's shell. This `PATH` includes a virtual environment that the user activated, but not the entries that a launcher
 * added.
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
 * Variables that commands may receive, with {@link safePath}, for a program that the user configured and that starts
 * other programs by name.
 */
export const safeEnvironment: Effect.Effect<() => Readonly<Record<string, string | undefined>>> = Effect.map(
  Effect.all([ProcessEnvironment, safePath]),
  ([environment, path]) =>
    () => ({ ...environment(), PATH: path })
)
