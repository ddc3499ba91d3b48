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
import * as ByteSize from "effect/ByteSize"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import { badArgument, type PlatformError, systemError, type SystemErrorTag } from "effect/PlatformError"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import type { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import { type Answer, joinBytes, quoteWord } from "./RemoteShell.ts"

/** Number of bytes of a file that are fetched at a time. */
const blockBytes = 256 * 1024
/** Exit code of a script that requires a separate process. */
const elsewhere = 77

const decoder = new TextDecoder()

const tags: ReadonlyArray<readonly [RegExp, SystemErrorTag]> = [
  [/no such file|nonexistent|not found/i, "NotFound"],
  [/permission denied|not permitted|read-only file system/i, "PermissionDenied"],
  [/file exists|existing file/i, "AlreadyExists"],
  [/not a directory|is a directory|not empty|too many levels|non-directory|with directory/i, "BadResource"],
  [/busy/i, "Busy"]
]

/** Creates the error of a script from the messages of its tools, which run in the `C` locale. */
const makeSystemError = (method: string, path: string, errors: string): PlatformError =>
  systemError({
    _tag: tags.find(([pattern]) => pattern.test(errors))?.[1] ?? "Unknown",
    module: "FileSystem",
    method,
    pathOrDescriptor: path,
    description: errors.split("\n").at(-1)
  })

/** Quotes a path as a word that tools cannot mistake for an option. */
const quotePath = (path: string): string => quoteWord(path.startsWith("/") ? path : `./${path}`)

const statFormat = "%f|%s|%Y|%y|%X|%x|%i|%d|%h|%u|%g|%b"

const fileTypes: Readonly<Record<number, FileSystem.File.Type>> = {
  0x1000: "FIFO",
  0x2000: "CharacterDevice",
  0x4000: "Directory",
  0x6000: "BlockDevice",
  0x8000: "File",
  0xa000: "SymbolicLink",
  0xc000: "Socket"
}

/** Creates a date from seconds and a string that contains the fraction of a second. */
const toDate = (seconds: string | undefined, text: string | undefined): Option.Option<Date> => {
  const fraction = /\.(\d{3})/.exec(text ?? "")?.[1] ?? "000"
  return Option.liftPredicate((date: Date) => !Number.isNaN(date.getTime()))(
    new Date(Number(seconds) * 1000 + Number(fraction))
  )
}

const parseInfo = (line: string): FileSystem.File.Info => {
  const [
    mode = "0",
    size = "0",
    mtime,
    mtimeText,
    atime,
    atimeText,
    ino = "0",
    dev = "0",
    nlink = "1",
    uid = "0",
    gid = "0",
    blocks = "0"
  ] = line.split("|")
  const bits = Number.parseInt(mode, 16)
  const isNumber = (text: string): boolean => /^\d+$/.test(text)
  return {
    type: fileTypes[bits & 0xf000] ?? "Unknown",
    mtime: toDate(mtime, mtimeText),
    atime: toDate(atime, atimeText),
    birthtime: Option.none(),
    dev: isNumber(dev) ? BigInt(dev) : 0n,
    ino: isNumber(ino) ? Option.some(BigInt(ino)) : Option.none(),
    mode: bits,
    nlink: isNumber(nlink) ? Option.some(BigInt(nlink)) : Option.none(),
    uid: Option.some(Number(uid)),
    gid: Option.some(Number(gid)),
    rdev: Option.none(),
    size: ByteSize.fromInputUnsafe(isNumber(size) ? BigInt(size) : 0n),
    blksize: Option.none(),
    blocks: isNumber(blocks) ? Option.some(BigInt(blocks)) : Option.none()
  }
}

/** Builds a script that enters a readable directory, or explains why the path is not a readable directory. */
const buildEnterScript = (path: string): string =>
  `stat -L -c x ${quotePath(path)} >/dev/null || exit 1
[ -d ${quotePath(path)} ] || { echo "Not a directory" >&2; exit 1; }
cd ${quotePath(path)} 2>/dev/null && [ -r . ] || { echo "Permission denied" >&2; exit 1; }`

/**
 * Creates the file system of a machine. `ask` runs a short script on the machine, and `spawner` starts processes there.
 */
export const make = (
  ask: (script: string) => Effect.Effect<Answer, PlatformError>,
  spawner: ChildProcessSpawner["Service"]
): FileSystem.FileSystem => {
  const readBytes = (method: string, path: string, script: string): Effect.Effect<Uint8Array, PlatformError> =>
    Effect.flatMap(ask(script), ({ code, errors, output }) =>
      code === 0 ? Effect.succeed(output) : Effect.fail(makeSystemError(method, path, errors))
    )
  const readText = (method: string, path: string, script: string) =>
    Effect.map(readBytes(method, path, script), (output) => decoder.decode(output))
  const runAction = (method: string, path: string, script: string): Effect.Effect<void, PlatformError> =>
    Effect.asVoid(readBytes(method, path, script))

  /** Runs a script in a separate process on the machine. `$1` is the path. */
  const runProcess = Effect.fnUntraced(function* (
    method: string,
    path: string,
    script: string,
    input: Stream.Stream<Uint8Array, PlatformError> | "ignore"
  ) {
    const handle = yield* spawner.spawn(
      ChildProcess.make("sh", ["-c", script, "sh", path.startsWith("/") ? path : `./${path}`], {
        env: { LC_ALL: "C" },
        stdin: input
      })
    )
    const [output, errors, code] = yield* Effect.all(
      [Stream.runCollect(handle.stdout), Stream.mkString(Stream.decodeText(handle.stderr)), handle.exitCode],
      { concurrency: "unbounded" }
    )
    return code === 0 ? joinBytes(output) : yield* makeSystemError(method, path, errors.trim())
  }, Effect.scoped)

  const statPath = (method: string, path: string, follow: boolean) =>
    Effect.map(readText(method, path, `stat ${follow ? "-L " : ""}-c '${statFormat}' ${quotePath(path)}`), parseInfo)

  const readFile = Effect.fnUntraced(function* (path: string) {
    const { code, errors, output } = yield* ask(
      `[ -f ${quotePath(path)} ] || exit ${elsewhere}\ns=$(stat -L -c %s ${quotePath(path)}) && [ "$s" -le ` +
        `${blockBytes} ] || exit ${elsewhere}\ncat ${quotePath(path)}`
    )
    if (code === 0) return output
    return code === elsewhere
      ? yield* runProcess("readFile", path, 'exec cat "$1"', "ignore")
      : yield* makeSystemError("readFile", path, errors)
  })

  /** Builds a script that creates a file according to a flag of `open`. */
  const buildCreateScript = (path: string, flag: FileSystem.OpenFlag, mode: number | undefined): string => {
    const at = quotePath(path)
    const fresh = mode === undefined ? "" : `[ -e ${at} ] || n=1\n`
    const open =
      flag.startsWith("wx") || flag.startsWith("ax")
        ? `set -C; : > ${at}`
        : flag.startsWith("w")
          ? `: > ${at}`
          : flag.startsWith("a")
            ? `: >> ${at}`
            : `[ -e ${at} ] || { echo "No such file" >&2; exit 1; }; : >> ${at}`
    return (
      `n=\n${fresh}( ${open} ) || exit ` +
      `1\n${mode === undefined ? "" : `[ -z "$n" ] || chmod ${mode.toString(8)} ${at}`}`
    )
  }

  const appendBytes = (method: string, path: string, data: Uint8Array) =>
    Effect.asVoid(runProcess(method, path, 'exec cat >> "$1"', Stream.succeed(data)))

  const listEntries = (path: string): Effect.Effect<ReadonlyArray<FileSystem.DirectoryEntry>, PlatformError> =>
    Effect.map(
      readText(
        "readDirectoryEntries",
        path,
        `${buildEnterScript(path)}
for f in * .[!.]* ..?*; do
  if [ -L "$f" ]; then t=l; elif [ -d "$f" ]; then t=d; elif [ -f "$f" ]; then t=f; elif [ -p "$f" ]; then t=p; elif [ -e "$f" ]; then t=o; else continue; fi
  printf '%s%s\\0' "$t" "$f"
done`
      ),
      (list) =>
        list
          .split("\0")
          .slice(0, -1)
          .map((entry) => ({ name: entry.slice(1), type: entryTypes[entry[0] ?? ""] ?? "Unknown" }))
    )

  const open = (
    path: string,
    { flag = "r", mode }: { readonly flag?: FileSystem.OpenFlag | undefined; readonly mode?: number | undefined } = {}
  ) =>
    flag === "r"
      ? openForReading(path)
      : Effect.as(runAction("open", path, buildCreateScript(path, flag, mode)), openForWriting(path, flag))

  const makeFile = (
    path: string,
    position: { at: bigint },
    read: (at: bigint, length: number) => Effect.Effect<Uint8Array, PlatformError>,
    write: (data: Uint8Array) => Effect.Effect<void, PlatformError>,
    info: Effect.Effect<FileSystem.File.Info, PlatformError>
  ): FileSystem.File => {
    const readNext = (length: number, given: bigint | undefined) =>
      Effect.map(
        Effect.suspend(() => read(given ?? position.at, length)),
        (data) => {
          if (given === undefined) position.at += BigInt(data.length)
          return data
        }
      )
    return {
      [FileSystem.FileTypeId]: FileSystem.FileTypeId,
      stat: info,
      seek: (offset, from) =>
        Effect.sync(() => {
          position.at = from === "start" ? offset : position.at + offset
          return position.at
        }),
      // The final rename makes a change permanent. The machine decides when it writes to disk.
      sync: Effect.void,
      read: (buffer, options) =>
        Effect.map(readNext(buffer.length, options?.position), (data) => {
          buffer.set(data)
          return data.length
        }),
      readAlloc: (length, options) =>
        Effect.map(readNext(length, options?.position), (data) =>
          data.length === 0 ? Option.none() : Option.some(data)
        ),
      truncate: (length = 0) => runAction("truncate", path, `truncate -s ${length} ${quotePath(path)}`),
      write: (data) => Effect.as(write(data), data.length),
      writeAll: write
    }
  }

  const openForReading = Effect.fnUntraced(function* (path: string) {
    const at = quotePath(path)
    const first = yield* readBytes(
      "open",
      path,
      `stat -L -c '${statFormat}' ${at} || exit 1
[ -r ${at} ] || { echo "Permission denied" >&2; exit 1; }
[ ! -f ${at} ] || dd if=${at} bs=${blockBytes} count=1 2>/dev/null`
    )
    const end = first.indexOf(0x0a)
    const info = parseInfo(decoder.decode(first.subarray(0, end)))
    let block: { readonly index: bigint; readonly data: Uint8Array } = { index: 0n, data: first.slice(end + 1) }
    const size = BigInt(blockBytes)
    const read = Effect.fnUntraced(function* (from: bigint, length: number) {
      if (info.type === "Directory") return yield* makeSystemError("read", path, "Is a directory")
      if (info.type !== "File") return yield* makeSystemError("read", path, `not a regular file (${info.type})`)
      const index = from / size
      if (index !== block.index)
        block = {
          index,
          data: yield* readBytes("read", path, `exec dd if=${at} bs=${blockBytes} skip=${index} count=1 2>/dev/null`)
        }
      const offset = Number(from % size)
      return block.data.slice(offset, offset + length)
    })
    return makeFile(
      path,
      { at: 0n },
      read,
      () => Effect.fail(makeSystemError("write", path, "Permission denied: opened for reading")),
      statPath("stat", path, true)
    )
  })

  const openForWriting = (path: string, flag: FileSystem.OpenFlag): FileSystem.File => {
    const position = { at: 0n }
    let written = 0n
    const isSequential = !flag.startsWith("r")
    return makeFile(
      path,
      position,
      (from, length) => Effect.map(readFile(path), (data) => data.slice(Number(from), Number(from) + length)),
      Effect.fnUntraced(function* (data) {
        // Data at other positions than the end is written by replacing the whole file, because POSIX tools do not
        // provide another fast way.
        if (!isSequential || position.at !== written)
          return yield* badArgument({
            module: "FileSystem",
            method: "write",
            description: "a file elsewhere is written from its beginning to its end"
          })
        yield* appendBytes("write", path, data)
        position.at += BigInt(data.length)
        written = position.at
      }),
      statPath("stat", path, true)
    )
  }

  const makeTemporaryDirectory = (
    options: { readonly directory?: string | undefined; readonly prefix?: string | undefined } = {}
  ) => {
    const directory = options.directory === undefined ? '"${TMPDIR:-/tmp}"' : quotePath(options.directory)
    return Effect.map(
      readText(
        "makeTempDirectory",
        options.directory ?? "/tmp",
        `mktemp -d ${directory}/${quoteWord(options.prefix ?? "")}XXXXXXXX`
      ),
      (line) => line.replace(/\n$/, "")
    )
  }
  const removeTree = (path: string): Effect.Effect<void> =>
    Effect.ignore(runAction("remove", path, `rm -rf ${quotePath(path)}`))
  const acquireTemporary = (
    made: Effect.Effect<string, PlatformError>,
    root: (path: string) => string
  ): Effect.Effect<string, PlatformError, Scope.Scope> => Effect.acquireRelease(made, (path) => removeTree(root(path)))
  const makeTemporaryFile = (
    options: {
      readonly directory?: string | undefined
      readonly prefix?: string | undefined
      readonly suffix?: string | undefined
    } = {}
  ) =>
    Effect.flatMap(makeTemporaryDirectory(options), (directory) => {
      const path = `${directory}/file${options.suffix ?? ""}`
      return Effect.as(runAction("makeTempFile", path, `: > ${quotePath(path)}`), path)
    })

  const writeFile = Effect.fnUntraced(function* (
    path: string,
    data: Uint8Array,
    { flag = "w", mode }: { readonly flag?: FileSystem.OpenFlag | undefined; readonly mode?: number | undefined } = {}
  ) {
    yield* runAction("writeFile", path, buildCreateScript(path, flag === "r+" ? "w" : flag, mode))
    if (data.length > 0) yield* appendBytes("writeFile", path, data)
  })

  return FileSystem.make({
    access: (path, { readable = false, writable = false } = {}) =>
      runAction(
        "access",
        path,
        `stat -L -c x ${quotePath(path)} >/dev/null || exit 1
${readable ? `[ -r ${quotePath(path)} ] || { echo "Permission denied" >&2; exit 1; }` : ""}
${writable ? `[ -w ${quotePath(path)} ] || { echo "Permission denied" >&2; exit 1; }` : ""}`
      ),
    chmod: (path, mode) => runAction("chmod", path, `chmod ${mode.toString(8)} ${quotePath(path)}`),
    chown: (path, uid, gid) => runAction("chown", path, `chown ${uid}:${gid} ${quotePath(path)}`),
    copy: (from, to, { overwrite = false, preserveTimestamps = false } = {}) =>
      Effect.asVoid(
        runProcess(
          "copy",
          from,
          `${overwrite ? "" : `[ ! -e ${quotePath(to)} ] || { echo "File exists" >&2; exit 1; }; `}if [ -d "$1" ` +
            `]; then mkdir -p ${quotePath(to)} && cp -R${preserveTimestamps ? "p" : ""} "$1"/. ${quotePath(to)}; ` +
            `else cp ${preserveTimestamps ? "-p " : ""}"$1" ${quotePath(to)}; fi`,
          "ignore"
        )
      ),
    copyFile: (from, to) => Effect.asVoid(runProcess("copyFile", from, `cp "$1" ${quotePath(to)}`, "ignore")),
    link: (from, to) => runAction("link", to, `ln ${quotePath(from)} ${quotePath(to)}`),
    lstat: (path) => statPath("lstat", path, false),
    makeDirectory: (path, { mode, recursive = false } = {}) =>
      runAction(
        "makeDirectory",
        path,
        `mkdir ${recursive ? "-p " : ""}${mode === undefined ? "" : `-m ${mode.toString(8)} `}${quotePath(path)}`
      ),
    makeTempDirectory: makeTemporaryDirectory,
    makeTempDirectoryScoped: (options) => acquireTemporary(makeTemporaryDirectory(options), (path) => path),
    makeTempFile: makeTemporaryFile,
    makeTempFileScoped: (options) =>
      acquireTemporary(makeTemporaryFile(options), (path) => path.slice(0, path.lastIndexOf("/"))),
    open,
    readDirectory: (path, { recursive = false } = {}) =>
      recursive
        ? Effect.map(readText("readDirectory", path, `${buildEnterScript(path)}\nfind . -mindepth 1 -print0`), (list) =>
            list
              .split("\0")
              .slice(0, -1)
              .map((name) => name.slice(2))
          )
        : Effect.map(listEntries(path), (list) => list.map(({ name }) => name)),
    readDirectoryEntries: listEntries,
    readFile,
    readLink: (path) =>
      Effect.map(
        readText(
          "readLink",
          path,
          `[ -L ${quotePath(path)} ] || { stat -c x ${quotePath(path)} >/dev/null && echo "not a link" >&2; exit ` +
            `1; }\nreadlink ${quotePath(path)}`
        ),
        (line) => line.replace(/\n$/, "")
      ),
    // `readlink -f` also returns a path whose last part does not exist.
    realPath: (path) =>
      readText(
        "realPath",
        path,
        `stat -L -c x ${quotePath(path)} >/dev/null || exit 1\np=$(readlink -f ${quotePath(path)} && echo .) || ` +
          `exit 1\nprintf %s "\${p%??}"`
      ),
    remove: (path, { force = false, recursive = false } = {}) =>
      runAction(
        "remove",
        path,
        recursive
          ? `${force ? "" : `stat -c x ${quotePath(path)} >/dev/null || exit 1\n`}rm -rf ${quotePath(path)}`
          : `if [ -d ${quotePath(path)} ] && [ ! -L ${quotePath(path)} ]; then rmdir ${quotePath(path)}; else ` +
              `${force ? "" : `stat -c x ${quotePath(path)} >/dev/null || exit 1; `}rm -f ${quotePath(path)}; fi`
      ),
    rename: (from, to) => runAction("rename", from, `mv -fT ${quotePath(from)} ${quotePath(to)}`),
    stat: (path) => statPath("stat", path, true),
    symlink: (target, path) => runAction("symlink", path, `ln -s ${quoteWord(target)} ${quotePath(path)}`),
    truncate: (path, length = 0) => runAction("truncate", path, `truncate -s ${length} ${quotePath(path)}`),
    utimes: (path, atime, mtime) => {
      const toSeconds = (time: Date | number): number => (time instanceof Date ? time.getTime() / 1000 : time)
      // BusyBox only accepts whole seconds.
      const buildTouch = (which: "a" | "m", time: number) =>
        `{ touch -${which} -d @${time.toFixed(3)} ${quotePath(path)} 2>/dev/null || touch -${which} -d ` +
        `@${Math.floor(time)} ${quotePath(path)}; }`
      return runAction("utimes", path, `${buildTouch("a", toSeconds(atime))} && ${buildTouch("m", toSeconds(mtime))}`)
    },
    watch: (path) => Stream.fail(makeSystemError("watch", path, "files of this environment cannot be watched")),
    writeFile
  })
}

const entryTypes: Readonly<Record<string, FileSystem.File.Type>> = {
  l: "SymbolicLink",
  d: "Directory",
  f: "File",
  p: "FIFO"
}
