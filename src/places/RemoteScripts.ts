/**
 * Scripts of POSIX tools that act on the files of a remote machine: their results, their errors and the attributes of
 * files.
 */
import * as ByteSize from "effect/ByteSize"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import { type PlatformError, systemError, type SystemErrorTag } from "effect/PlatformError"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import type { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import { type Answer, joinBytes, quoteWord } from "./RemoteShell.ts"

/** Decodes the output of scripts as UTF-8. */
export const decoder = new TextDecoder()

const tags: ReadonlyArray<readonly [RegExp, SystemErrorTag]> = [
  [/no such file|nonexistent|not found/i, "NotFound"],
  [/permission denied|not permitted|read-only file system/i, "PermissionDenied"],
  [/file exists|existing file/i, "AlreadyExists"],
  [/not a directory|is a directory|not empty|too many levels|non-directory|with directory/i, "BadResource"],
  [/busy/i, "Busy"]
]

/** Creates the error of a script from the messages of its tools, which run in the `C` locale. */
export const makeSystemError = (method: string, path: string, errors: string): PlatformError =>
  systemError({
    _tag: tags.find(([pattern]) => pattern.test(errors))?.[1] ?? "Unknown",
    module: "FileSystem",
    method,
    pathOrDescriptor: path,
    description: errors.split("\n").at(-1)
  })

/** Quotes a path as a word that tools cannot mistake for an option. */
export const quotePath = (path: string): string => quoteWord(path.startsWith("/") ? path : `./${path}`)

/** Format of `stat`: the fields of a file's information, separated by `|`. */
export const statFormat = "%f|%s|%Y|%y|%X|%x|%i|%d|%h|%u|%g|%b"

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

/** Reads a line that `stat` prints in the format {@link statFormat}. */
export const parseInfo = (line: string): FileSystem.File.Info => {
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

/** A machine whose files are accessed by scripts. */
export interface Machine {
  /** Runs a short script on the machine. */
  readonly ask: (script: string) => Effect.Effect<Answer, PlatformError>
  /** Starts processes on the machine. */
  readonly spawner: ChildProcessSpawner["Service"]
}

/** Runs a script on the machine, and returns its output. A failure is an error of `method` at `path`. */
export const readBytes = (
  machine: Machine,
  method: string,
  path: string,
  script: string
): Effect.Effect<Uint8Array, PlatformError> =>
  Effect.flatMap(machine.ask(script), ({ code, errors, output }) =>
    code === 0 ? Effect.succeed(output) : Effect.fail(makeSystemError(method, path, errors))
  )

/** Runs a script on the machine, and returns its output as text. */
export const readText = (machine: Machine, method: string, path: string, script: string) =>
  Effect.map(readBytes(machine, method, path, script), (output) => decoder.decode(output))

/** Runs a script whose output is not used. */
export const runAction = (
  machine: Machine,
  method: string,
  path: string,
  script: string
): Effect.Effect<void, PlatformError> => Effect.asVoid(readBytes(machine, method, path, script))

/** Runs a script in a separate process on the machine. `$1` is the path. */
export const runProcess = Effect.fnUntraced(function* (
  machine: Machine,
  method: string,
  path: string,
  script: string,
  input: Stream.Stream<Uint8Array, PlatformError> | "ignore"
) {
  const handle = yield* machine.spawner.spawn(
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

/** Returns the information of a file. With `follow`, links are followed. */
export const statPath = (machine: Machine, method: string, path: string, follow: boolean) =>
  Effect.map(
    readText(machine, method, path, `stat ${follow ? "-L " : ""}-c '${statFormat}' ${quotePath(path)}`),
    parseInfo
  )
