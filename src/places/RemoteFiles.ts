/**
 * Effect's `FileSystem` for the files of a remote machine. It uses scripts of POSIX tools, so that no installation is
 * required on the machine.
 *
 * **Details**
 *
 * Short answers come from one shell that stays open ({@link RemoteShell}), in about two milliseconds plus network
 * latency; long files and writes are streamed through a separate process. Contents are bytes, never text. A file that
 * is opened for reading is read in aligned blocks; the last one is cached.
 *
 * **Gotchas**
 *
 * An open file is identified by its path: if the file is replaced, later reads return the new content. Files cannot be
 * watched. The machine needs `stat -c`, `readlink -f` and `mktemp`, which GNU and BusyBox have.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import type { PlatformError } from "effect/PlatformError"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { quoteWord } from "./RemoteShell.ts"
import { makeSystemError, quotePath, type Machine, readText, runAction, runProcess, statPath } from "./RemoteScripts.ts"
import { readFile, buildCreateScript, appendBytes, openFile, type OpenOptions } from "./RemoteOpenFile.ts"

/** Builds a script that enters a readable directory, or explains why the path is not a readable directory. */
const buildEnterScript = (path: string): string =>
  `stat -L -c x ${quotePath(path)} >/dev/null || exit 1
[ -d ${quotePath(path)} ] || { echo "Not a directory" >&2; exit 1; }
cd ${quotePath(path)} 2>/dev/null && [ -r . ] || { echo "Permission denied" >&2; exit 1; }`

/** Splits a list of names that each end with a null character. */
const splitNames = (list: string): Array<string> => list.split("\0").slice(0, -1)

const listEntries = (
  machine: Machine,
  path: string
): Effect.Effect<ReadonlyArray<FileSystem.DirectoryEntry>, PlatformError> =>
  Effect.map(
    readText(
      machine,
      "readDirectoryEntries",
      path,
      `${buildEnterScript(path)}
for f in * .[!.]* ..?*; do
  if [ -L "$f" ]; then t=l; elif [ -d "$f" ]; then t=d; elif [ -f "$f" ]; then t=f; elif [ -p "$f" ]; then t=p; elif [ -e "$f" ]; then t=o; else continue; fi
  printf '%s%s\\0' "$t" "$f"
done`
    ),
    (list) => splitNames(list).map((entry) => ({ name: entry.slice(1), type: entryTypes[entry[0] ?? ""] ?? "Unknown" }))
  )

/** The place and the name of a temporary file or directory. */
interface TemporaryOptions {
  readonly directory?: string | undefined
  readonly prefix?: string | undefined
  readonly suffix?: string | undefined
}

const makeTemporaryDirectory = (machine: Machine, options: TemporaryOptions = {}) => {
  const directory = options.directory === undefined ? '"${TMPDIR:-/tmp}"' : quotePath(options.directory)
  return Effect.map(
    readText(
      machine,
      "makeTempDirectory",
      options.directory ?? "/tmp",
      `mktemp -d ${directory}/${quoteWord(options.prefix ?? "")}XXXXXXXX`
    ),
    (line) => line.replace(/\n$/, "")
  )
}

const removeTree = (machine: Machine, path: string): Effect.Effect<void> =>
  Effect.ignore(runAction(machine, "remove", path, `rm -rf ${quotePath(path)}`))

const acquireTemporary = (
  machine: Machine,
  made: Effect.Effect<string, PlatformError>,
  root: (path: string) => string
): Effect.Effect<string, PlatformError, Scope.Scope> =>
  Effect.acquireRelease(made, (path) => removeTree(machine, root(path)))

const makeTemporaryFile = (machine: Machine, options: TemporaryOptions = {}) =>
  Effect.flatMap(makeTemporaryDirectory(machine, options), (directory) => {
    const path = `${directory}/file${options.suffix ?? ""}`
    return Effect.as(runAction(machine, "makeTempFile", path, `: > ${quotePath(path)}`), path)
  })

const writeFile = Effect.fnUntraced(function* (
  machine: Machine,
  path: string,
  data: Uint8Array,
  { flag = "w", mode }: OpenOptions = {}
) {
  yield* runAction(machine, "writeFile", path, buildCreateScript(path, flag === "r+" ? "w" : flag, mode))
  if (data.length > 0) yield* appendBytes(machine, "writeFile", path, data)
})

/** Builds a script that succeeds for a path with the required permissions. */
const buildAccessScript = (path: string, isRead: boolean, isWritten: boolean): string => {
  const refuseUnless = (test: string): string =>
    `[ ${test} ${quotePath(path)} ] || { echo "Permission denied" >&2; exit 1; }`
  return `${buildExistsScript(path)}
${isRead ? refuseUnless("-r") : ""}
${isWritten ? refuseUnless("-w") : ""}`
}

/** Builds a script that fails for a path that does not exist. Links are followed. */
const buildExistsScript = (path: string): string => `stat -L -c x ${quotePath(path)} >/dev/null || exit 1`

/** Builds a script that copies the file or directory `$1`. */
const buildCopyScript = (to: string, isOverwritten: boolean, isDated: boolean): string => {
  const at = quotePath(to)
  return (
    `${isOverwritten ? "" : `[ ! -e ${at} ] || { echo "File exists" >&2; exit 1; }; `}if [ -d "$1" ]; then ` +
    `mkdir -p ${at} && cp -R${isDated ? "p" : ""} "$1"/. ${at}; else cp ${isDated ? "-p " : ""}"$1" ${at}; fi`
  )
}

/** Builds a script that removes a file or an empty directory. With `force`, a missing path is not an error. */
const buildRemoveScript = (path: string, force: boolean): string => {
  const at = quotePath(path)
  return (
    `if [ -d ${at} ] && [ ! -L ${at} ]; then rmdir ${at}; else ` +
    `${force ? "" : `stat -c x ${at} >/dev/null || exit 1; `}rm -f ${at}; fi`
  )
}

/** Builds a script that removes a path with everything below it. */
const buildRemoveTreeScript = (path: string, force: boolean): string =>
  `${force ? "" : `stat -c x ${quotePath(path)} >/dev/null || exit 1\n`}rm -rf ${quotePath(path)}`

/** Builds a script that sets the times of a file. BusyBox only accepts whole seconds. */
const buildTouchScript = (path: string, atime: Date | number, mtime: Date | number): string => {
  const at = quotePath(path)
  const buildTouch = (which: "a" | "m", given: Date | number): string => {
    const time = given instanceof Date ? given.getTime() / 1000 : given
    return (
      `{ touch -${which} -d @${time.toFixed(3)} ${at} 2>/dev/null || ` +
      `touch -${which} -d @${Math.floor(time)} ${at}; }`
    )
  }
  return `${buildTouch("a", atime)} && ${buildTouch("m", mtime)}`
}

const copyPath = (
  machine: Machine,
  from: string,
  to: string,
  { overwrite = false, preserveTimestamps = false }: NonNullable<Parameters<FileSystem.FileSystem["copy"]>[2]> = {}
) => Effect.asVoid(runProcess(machine, "copy", from, buildCopyScript(to, overwrite, preserveTimestamps), "ignore"))

const makeDirectory = (
  machine: Machine,
  path: string,
  { mode, recursive = false }: NonNullable<Parameters<FileSystem.FileSystem["makeDirectory"]>[1]> = {}
) =>
  runAction(
    machine,
    "makeDirectory",
    path,
    `mkdir ${recursive ? "-p " : ""}${mode === undefined ? "" : `-m ${mode.toString(8)} `}${quotePath(path)}`
  )

/** Lists the paths below a directory. */
const listBelow = (machine: Machine, path: string): Effect.Effect<Array<string>, PlatformError> =>
  Effect.map(
    readText(machine, "readDirectory", path, `${buildEnterScript(path)}\nfind . -mindepth 1 -print0`),
    (list) => splitNames(list).map((name) => name.slice(2))
  )

const readLink = (machine: Machine, path: string) =>
  Effect.map(
    readText(
      machine,
      "readLink",
      path,
      `[ -L ${quotePath(path)} ] || { stat -c x ${quotePath(path)} >/dev/null && echo "not a link" >&2; exit ` +
        `1; }\nreadlink ${quotePath(path)}`
    ),
    (line) => line.replace(/\n$/, "")
  )

/** Resolves the links of an existing path. `readlink -f` also returns a path whose last part does not exist. */
const resolvePath = (machine: Machine, path: string) =>
  readText(
    machine,
    "realPath",
    path,
    `${buildExistsScript(path)}\np=$(readlink -f ${quotePath(path)} && echo .) || exit 1\nprintf %s "\${p%??}"`
  )

/** The part of a file system that reads and writes files and directories. */
const makeContentMembers = (machine: Machine) => ({
  makeTempDirectory: (options?: TemporaryOptions) => makeTemporaryDirectory(machine, options),
  makeTempDirectoryScoped: (options?: TemporaryOptions) =>
    acquireTemporary(machine, makeTemporaryDirectory(machine, options), (path) => path),
  makeTempFile: (options?: TemporaryOptions) => makeTemporaryFile(machine, options),
  makeTempFileScoped: (options?: TemporaryOptions) =>
    acquireTemporary(machine, makeTemporaryFile(machine, options), (path) => path.slice(0, path.lastIndexOf("/"))),
  open: (path: string, options?: OpenOptions) => openFile(machine, path, options),
  readFile: (path: string) => readFile(machine, path),
  writeFile: (path: string, data: Uint8Array, options?: OpenOptions) => writeFile(machine, path, data, options),
  readDirectoryEntries: (path: string) => listEntries(machine, path)
})

/** Creates the file system of a machine. */
export const make = (machine: Machine): FileSystem.FileSystem =>
  FileSystem.make({
    ...makeContentMembers(machine),
    access: (path, { readable = false, writable = false } = {}) =>
      runAction(machine, "access", path, buildAccessScript(path, readable, writable)),
    chmod: (path, mode) => runAction(machine, "chmod", path, `chmod ${mode.toString(8)} ${quotePath(path)}`),
    chown: (path, uid, gid) => runAction(machine, "chown", path, `chown ${uid}:${gid} ${quotePath(path)}`),
    copy: (from, to, options) => copyPath(machine, from, to, options),
    copyFile: (from, to) => Effect.asVoid(runProcess(machine, "copyFile", from, `cp "$1" ${quotePath(to)}`, "ignore")),
    link: (from, to) => runAction(machine, "link", to, `ln ${quotePath(from)} ${quotePath(to)}`),
    lstat: (path) => statPath(machine, "lstat", path, false),
    makeDirectory: (path, options) => makeDirectory(machine, path, options),
    readDirectory: (path, { recursive = false } = {}) =>
      recursive
        ? listBelow(machine, path)
        : Effect.map(listEntries(machine, path), (list) => list.map(({ name }) => name)),
    readLink: (path) => readLink(machine, path),
    realPath: (path) => resolvePath(machine, path),
    remove: (path, { force = false, recursive = false } = {}) =>
      runAction(
        machine,
        "remove",
        path,
        recursive ? buildRemoveTreeScript(path, force) : buildRemoveScript(path, force)
      ),
    rename: (from, to) => runAction(machine, "rename", from, `mv -fT ${quotePath(from)} ${quotePath(to)}`),
    stat: (path) => statPath(machine, "stat", path, true),
    symlink: (target, path) => runAction(machine, "symlink", path, `ln -s ${quoteWord(target)} ${quotePath(path)}`),
    truncate: (path, length = 0) => runAction(machine, "truncate", path, `truncate -s ${length} ${quotePath(path)}`),
    utimes: (path, atime, mtime) => runAction(machine, "utimes", path, buildTouchScript(path, atime, mtime)),
    watch: (path) => Stream.fail(makeSystemError("watch", path, "files of this environment cannot be watched"))
  })

const entryTypes: Readonly<Record<string, FileSystem.File.Type>> = {
  l: "SymbolicLink",
  d: "Directory",
  f: "File",
  p: "FIFO"
}
