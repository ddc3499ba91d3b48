/**
 * The files of a machine elsewhere, as Effect's `FileSystem`: by scripts of POSIX tools, so that nothing has to be installed there.
 *
 * **Details**
 *
 * Short answers come from one shell that stays open ({@link RemoteShell}), in about two milliseconds beside the way there; long files and
 * those that are written go through a process of their own, as a stream. Contents are bytes, never texts. A file that is opened for reading is looked at in
 * aligned blocks, of which the last is kept.
 *
 * **Gotchas**
 *
 * An open file is its path: one that is replaced meanwhile is read from its new content on. Nothing is watched. The machine needs `stat -c`,
 * `readlink -f` and `mktemp`, which GNU and BusyBox have.
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
import { type Answer, joined, quoted } from "./RemoteShell.ts"

/** Bytes of a file that are fetched at once. */
const blockBytes = 256 * 1024
/** Exit code of a script that leaves its work to a process of its own. */
const elsewhere = 77

const decoder = new TextDecoder()

const tags: ReadonlyArray<readonly [RegExp, SystemErrorTag]> = [
  [/no such file|nonexistent|not found/i, "NotFound"],
  [/permission denied|not permitted|read-only file system/i, "PermissionDenied"],
  [/file exists|existing file/i, "AlreadyExists"],
  [/not a directory|is a directory|not empty|too many levels|non-directory|with directory/i, "BadResource"],
  [/busy/i, "Busy"]
]

/** Error of a script, by what its tools said in the language C. */
const failed = (method: string, path: string, errors: string): PlatformError =>
  systemError({
    _tag: tags.find(([pattern]) => pattern.test(errors))?.[1] ?? "Unknown",
    module: "FileSystem",
    method,
    pathOrDescriptor: path,
    description: errors.split("\n").at(-1)
  })

/** A path as a word that no tool takes for an option. */
const word = (path: string): string => quoted(path.startsWith("/") ? path : `./${path}`)

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

/** Time from seconds and a text that has their fraction. */
const dateOf = (seconds: string | undefined, text: string | undefined): Option.Option<Date> => {
  const fraction = /\.(\d{3})/.exec(text ?? "")?.[1] ?? "000"
  return Option.liftPredicate((date: Date) => !Number.isNaN(date.getTime()))(new Date(Number(seconds) * 1000 + Number(fraction)))
}

const infoOf = (line: string): FileSystem.File.Info => {
  const [mode = "0", size = "0", mtime, mtimeText, atime, atimeText, ino = "0", dev = "0", nlink = "1", uid = "0", gid = "0", blocks = "0"] = line.split("|")
  const bits = Number.parseInt(mode, 16)
  const isNumber = (text: string): boolean => /^\d+$/.test(text)
  return {
    type: fileTypes[bits & 0xf000] ?? "Unknown",
    mtime: dateOf(mtime, mtimeText),
    atime: dateOf(atime, atimeText),
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

/** Says why a path is no directory that can be read; in one the shell stands afterwards. */
const enter = (path: string): string =>
  `stat -L -c x ${word(path)} >/dev/null || exit 1
[ -d ${word(path)} ] || { echo "Not a directory" >&2; exit 1; }
cd ${word(path)} 2>/dev/null && [ -r . ] || { echo "Permission denied" >&2; exit 1; }`

/** The file system of a machine. `ask` runs a short script there; `spawner` starts processes there. */
export const make = (
  ask: (script: string) => Effect.Effect<Answer, PlatformError>,
  spawner: ChildProcessSpawner["Service"]
): FileSystem.FileSystem => {
  const bytes = (method: string, path: string, script: string): Effect.Effect<Uint8Array, PlatformError> =>
    Effect.flatMap(ask(script), ({ code, errors, output }) => code === 0 ? Effect.succeed(output) : Effect.fail(failed(method, path, errors)))
  const text = (method: string, path: string, script: string) => Effect.map(bytes(method, path, script), (output) => decoder.decode(output))
  const act = (method: string, path: string, script: string): Effect.Effect<void, PlatformError> => Effect.asVoid(bytes(method, path, script))

  /** A process of its own; `$1` is the path. */
  const run = Effect.fnUntraced(function*(method: string, path: string, script: string, input: Stream.Stream<Uint8Array, PlatformError> | "ignore") {
    const handle = yield* spawner.spawn(ChildProcess.make("sh", ["-c", script, "sh", path.startsWith("/") ? path : `./${path}`], { env: { LC_ALL: "C" }, stdin: input }))
    const [output, errors, code] = yield* Effect.all([
      Stream.runCollect(handle.stdout),
      Stream.mkString(Stream.decodeText(handle.stderr)),
      handle.exitCode
    ], { concurrency: "unbounded" })
    return code === 0 ? joined(output) : yield* failed(method, path, errors.trim())
  }, Effect.scoped)

  const stat = (method: string, path: string, follow: boolean) =>
    Effect.map(text(method, path, `stat ${follow ? "-L " : ""}-c '${statFormat}' ${word(path)}`), infoOf)

  const readFile = Effect.fnUntraced(function*(path: string) {
    const { code, errors, output } = yield* ask(
      `[ -f ${word(path)} ] || exit ${elsewhere}\ns=$(stat -L -c %s ${word(path)}) && [ "$s" -le ${blockBytes} ] || exit ${elsewhere}\ncat ${word(path)}`
    )
    if (code === 0) return output
    return code === elsewhere ? yield* run("readFile", path, "exec cat \"$1\"", "ignore") : yield* failed("readFile", path, errors)
  })

  /** Script that creates a file as a flag of `open` says. */
  const creation = (path: string, flag: FileSystem.OpenFlag, mode: number | undefined): string => {
    const at = word(path)
    const fresh = mode === undefined ? "" : `[ -e ${at} ] || n=1\n`
    const open = flag.startsWith("wx") || flag.startsWith("ax") ? `set -C; : > ${at}` : flag.startsWith("w") ? `: > ${at}` : flag.startsWith("a") ? `: >> ${at}` : `[ -e ${at} ] || { echo "No such file" >&2; exit 1; }; : >> ${at}`
    return `n=\n${fresh}( ${open} ) || exit 1\n${mode === undefined ? "" : `[ -z "$n" ] || chmod ${mode.toString(8)} ${at}`}`
  }

  const append = (method: string, path: string, data: Uint8Array) => Effect.asVoid(run(method, path, "exec cat >> \"$1\"", Stream.succeed(data)))

  const entries = (path: string): Effect.Effect<ReadonlyArray<FileSystem.DirectoryEntry>, PlatformError> =>
    Effect.map(
      text("readDirectoryEntries", path, `${enter(path)}
for f in * .[!.]* ..?*; do
  if [ -L "$f" ]; then t=l; elif [ -d "$f" ]; then t=d; elif [ -f "$f" ]; then t=f; elif [ -p "$f" ]; then t=p; elif [ -e "$f" ]; then t=o; else continue; fi
  printf '%s%s\\0' "$t" "$f"
done`),
      (list) => list.split("\0").slice(0, -1).map((entry) => ({ name: entry.slice(1), type: entryTypes[entry[0] ?? ""] ?? "Unknown" }))
    )

  const open = (path: string, { flag = "r", mode }: { readonly flag?: FileSystem.OpenFlag | undefined; readonly mode?: number | undefined } = {}) =>
    flag === "r" ? openForReading(path) : Effect.as(act("open", path, creation(path, flag, mode)), openForWriting(path, flag))

  const fileOf = (
    path: string,
    position: { at: bigint },
    read: (at: bigint, length: number) => Effect.Effect<Uint8Array, PlatformError>,
    write: (data: Uint8Array) => Effect.Effect<void, PlatformError>,
    info: Effect.Effect<FileSystem.File.Info, PlatformError>
  ): FileSystem.File => {
    const next = (length: number, given: bigint | undefined) =>
      Effect.map(Effect.suspend(() => read(given ?? position.at, length)), (data) => {
        if (given === undefined) position.at += BigInt(data.length)
        return data
      })
    return {
      [FileSystem.FileTypeId]: FileSystem.FileTypeId,
      stat: info,
      seek: (offset, from) =>
        Effect.sync(() => {
          position.at = from === "start" ? offset : position.at + offset
          return position.at
        }),
      // A rename is what makes a change last; the machine writes when it likes.
      sync: Effect.void,
      read: (buffer, options) =>
        Effect.map(next(buffer.length, options?.position), (data) => {
          buffer.set(data)
          return data.length
        }),
      readAlloc: (length, options) => Effect.map(next(length, options?.position), (data) => data.length === 0 ? Option.none() : Option.some(data)),
      truncate: (length = 0) => act("truncate", path, `truncate -s ${length} ${word(path)}`),
      write: (data) => Effect.as(write(data), data.length),
      writeAll: write
    }
  }

  const openForReading = Effect.fnUntraced(function*(path: string) {
    const at = word(path)
    const first = yield* bytes("open", path, `stat -L -c '${statFormat}' ${at} || exit 1
[ -r ${at} ] || { echo "Permission denied" >&2; exit 1; }
[ ! -f ${at} ] || dd if=${at} bs=${blockBytes} count=1 2>/dev/null`)
    const end = first.indexOf(0x0a)
    const info = infoOf(decoder.decode(first.subarray(0, end)))
    let block: { readonly index: bigint; readonly data: Uint8Array } = { index: 0n, data: first.slice(end + 1) }
    const size = BigInt(blockBytes)
    const read = Effect.fnUntraced(function*(from: bigint, length: number) {
      if (info.type === "Directory") return yield* failed("read", path, "Is a directory")
      if (info.type !== "File") return yield* failed("read", path, `not a regular file (${info.type})`)
      const index = from / size
      if (index !== block.index) block = { index, data: yield* bytes("read", path, `exec dd if=${at} bs=${blockBytes} skip=${index} count=1 2>/dev/null`) }
      const offset = Number(from % size)
      return block.data.slice(offset, offset + length)
    })
    return fileOf(path, { at: 0n }, read, () => Effect.fail(failed("write", path, "Permission denied: opened for reading")), stat("stat", path, true))
  })

  const openForWriting = (path: string, flag: FileSystem.OpenFlag): FileSystem.File => {
    const position = { at: 0n }
    let written = 0n
    const isSequential = !flag.startsWith("r")
    return fileOf(
      path,
      position,
      (from, length) => Effect.map(readFile(path), (data) => data.slice(Number(from), Number(from) + length)),
      Effect.fnUntraced(function*(data) {
        // Another place than the end is written by whole files only: the tools of POSIX have no other way that is fast.
        if (!isSequential || position.at !== written) return yield* badArgument({ module: "FileSystem", method: "write", description: "a file elsewhere is written from its beginning to its end" })
        yield* append("write", path, data)
        position.at += BigInt(data.length)
        written = position.at
      }),
      stat("stat", path, true)
    )
  }

  const temporary = (options: { readonly directory?: string | undefined; readonly prefix?: string | undefined } = {}) => {
    const directory = options.directory === undefined ? "\"${TMPDIR:-/tmp}\"" : word(options.directory)
    return Effect.map(
      text("makeTempDirectory", options.directory ?? "/tmp", `mktemp -d ${directory}/${quoted(options.prefix ?? "")}XXXXXXXX`),
      (line) => line.replace(/\n$/, "")
    )
  }
  const removed = (path: string): Effect.Effect<void> => Effect.ignore(act("remove", path, `rm -rf ${word(path)}`))
  const scoped = (made: Effect.Effect<string, PlatformError>, root: (path: string) => string): Effect.Effect<string, PlatformError, Scope.Scope> =>
    Effect.acquireRelease(made, (path) => removed(root(path)))
  const temporaryFile = (options: { readonly directory?: string | undefined; readonly prefix?: string | undefined; readonly suffix?: string | undefined } = {}) =>
    Effect.flatMap(temporary(options), (directory) => {
      const path = `${directory}/file${options.suffix ?? ""}`
      return Effect.as(act("makeTempFile", path, `: > ${word(path)}`), path)
    })

  const writeFile = Effect.fnUntraced(function*(path: string, data: Uint8Array, { flag = "w", mode }: { readonly flag?: FileSystem.OpenFlag | undefined; readonly mode?: number | undefined } = {}) {
    yield* act("writeFile", path, creation(path, flag === "r+" ? "w" : flag, mode))
    if (data.length > 0) yield* append("writeFile", path, data)
  })

  return FileSystem.make({
    access: (path, { readable = false, writable = false } = {}) =>
      act("access", path, `stat -L -c x ${word(path)} >/dev/null || exit 1
${readable ? `[ -r ${word(path)} ] || { echo "Permission denied" >&2; exit 1; }` : ""}
${writable ? `[ -w ${word(path)} ] || { echo "Permission denied" >&2; exit 1; }` : ""}`),
    chmod: (path, mode) => act("chmod", path, `chmod ${mode.toString(8)} ${word(path)}`),
    chown: (path, uid, gid) => act("chown", path, `chown ${uid}:${gid} ${word(path)}`),
    copy: (from, to, { overwrite = false, preserveTimestamps = false } = {}) =>
      Effect.asVoid(run("copy", from, `${overwrite ? "" : `[ ! -e ${word(to)} ] || { echo "File exists" >&2; exit 1; }; `}if [ -d "$1" ]; then mkdir -p ${word(to)} && cp -R${preserveTimestamps ? "p" : ""} "$1"/. ${word(to)}; else cp ${preserveTimestamps ? "-p " : ""}"$1" ${word(to)}; fi`, "ignore")),
    copyFile: (from, to) => Effect.asVoid(run("copyFile", from, `cp "$1" ${word(to)}`, "ignore")),
    link: (from, to) => act("link", to, `ln ${word(from)} ${word(to)}`),
    lstat: (path) => stat("lstat", path, false),
    makeDirectory: (path, { mode, recursive = false } = {}) => act("makeDirectory", path, `mkdir ${recursive ? "-p " : ""}${mode === undefined ? "" : `-m ${mode.toString(8)} `}${word(path)}`),
    makeTempDirectory: temporary,
    makeTempDirectoryScoped: (options) => scoped(temporary(options), (path) => path),
    makeTempFile: temporaryFile,
    makeTempFileScoped: (options) => scoped(temporaryFile(options), (path) => path.slice(0, path.lastIndexOf("/"))),
    open,
    readDirectory: (path, { recursive = false } = {}) =>
      recursive
        ? Effect.map(text("readDirectory", path, `${enter(path)}\nfind . -mindepth 1 -print0`), (list) => list.split("\0").slice(0, -1).map((name) => name.slice(2)))
        : Effect.map(entries(path), (list) => list.map(({ name }) => name)),
    readDirectoryEntries: entries,
    readFile,
    readLink: (path) => Effect.map(text("readLink", path, `[ -L ${word(path)} ] || { stat -c x ${word(path)} >/dev/null && echo "not a link" >&2; exit 1; }\nreadlink ${word(path)}`), (line) => line.replace(/\n$/, "")),
    // `readlink -f` gives a path whose last part is not there too.
    realPath: (path) => text("realPath", path, `stat -L -c x ${word(path)} >/dev/null || exit 1\np=$(readlink -f ${word(path)} && echo .) || exit 1\nprintf %s "\${p%??}"`),
    remove: (path, { force = false, recursive = false } = {}) =>
      act("remove", path, recursive
        ? `${force ? "" : `stat -c x ${word(path)} >/dev/null || exit 1\n`}rm -rf ${word(path)}`
        : `if [ -d ${word(path)} ] && [ ! -L ${word(path)} ]; then rmdir ${word(path)}; else ${force ? "" : `stat -c x ${word(path)} >/dev/null || exit 1; `}rm -f ${word(path)}; fi`),
    rename: (from, to) => act("rename", from, `mv -fT ${word(from)} ${word(to)}`),
    stat: (path) => stat("stat", path, true),
    symlink: (target, path) => act("symlink", path, `ln -s ${quoted(target)} ${word(path)}`),
    truncate: (path, length = 0) => act("truncate", path, `truncate -s ${length} ${word(path)}`),
    utimes: (path, atime, mtime) => {
      const seconds = (time: Date | number): number => time instanceof Date ? time.getTime() / 1000 : time
      // BusyBox takes whole seconds only.
      const touch = (which: "a" | "m", time: number) => `{ touch -${which} -d @${time.toFixed(3)} ${word(path)} 2>/dev/null || touch -${which} -d @${Math.floor(time)} ${word(path)}; }`
      return act("utimes", path, `${touch("a", seconds(atime))} && ${touch("m", seconds(mtime))}`)
    },
    watch: (path) => Stream.fail(failed("watch", path, "files of this environment cannot be watched")),
    writeFile
  })
}

const entryTypes: Readonly<Record<string, FileSystem.File.Type>> = { l: "SymbolicLink", d: "Directory", f: "File", p: "FIFO" }
