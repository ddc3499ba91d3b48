/**
 * Files of a remote machine that are read, created and held open by scripts of POSIX tools.
 *
 * **Details**
 *
 * A file that is opened for reading is read in aligned blocks; the last one is cached. Data is written to the end of a
 * file.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import { badArgument, type PlatformError } from "effect/PlatformError"
import * as Stream from "effect/Stream"
import {
  decoder,
  makeSystemError,
  quotePath,
  statFormat,
  parseInfo,
  type Machine,
  readBytes,
  runAction,
  runProcess,
  statPath
} from "./RemoteScripts.ts"

/** Options of an opened or written file. */
export interface OpenOptions {
  readonly flag?: FileSystem.OpenFlag | undefined
  readonly mode?: number | undefined
}

/** Access to the content of an open file. */
interface FileContent {
  /** The place of the next access. */
  readonly position: { at: bigint }
  readonly read: (at: bigint, length: number) => Effect.Effect<Uint8Array, PlatformError>
  readonly write: (data: Uint8Array) => Effect.Effect<void, PlatformError>
}

/** Number of bytes of a file that are fetched at a time. */
const blockBytes = 256 * 1024

/** Exit code of a script that requires a separate process. */
const elsewhere = 77

/** Reads a file of the machine as a whole. */
export const readFile = Effect.fnUntraced(function* (machine: Machine, path: string) {
  const { code, errors, output } = yield* machine.ask(
    `[ -f ${quotePath(path)} ] || exit ${elsewhere}\ns=$(stat -L -c %s ${quotePath(path)}) && [ "$s" -le ` +
      `${blockBytes} ] || exit ${elsewhere}\ncat ${quotePath(path)}`
  )
  if (code === 0) return output
  return code === elsewhere
    ? yield* runProcess(machine, "readFile", path, 'exec cat "$1"', "ignore")
    : yield* makeSystemError("readFile", path, errors)
})

/** Builds a script that creates a file according to a flag of `open`. */
export const buildCreateScript = (path: string, flag: FileSystem.OpenFlag, mode: number | undefined): string => {
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

/** Appends bytes to a file of the machine. */
export const appendBytes = (machine: Machine, method: string, path: string, data: Uint8Array) =>
  Effect.asVoid(runProcess(machine, method, path, 'exec cat >> "$1"', Stream.succeed(data)))

/** Opens a file of the machine. Its position is kept in this process. */
export const openFile = (machine: Machine, path: string, { flag = "r", mode }: OpenOptions = {}) =>
  flag === "r"
    ? openForReading(machine, path)
    : Effect.as(
        runAction(machine, "open", path, buildCreateScript(path, flag, mode)),
        openForWriting(machine, path, flag)
      )

const makeFile = (machine: Machine, path: string, { position, read, write }: FileContent): FileSystem.File => {
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
    stat: statPath(machine, "stat", path, true),
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
    truncate: (length = 0) => runAction(machine, "truncate", path, `truncate -s ${length} ${quotePath(path)}`),
    write: (data) => Effect.as(write(data), data.length),
    writeAll: write
  }
}

const openForReading = Effect.fnUntraced(function* (machine: Machine, path: string) {
  const at = quotePath(path)
  const first = yield* readBytes(
    machine,
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
  const readBlock = Effect.fnUntraced(function* (from: bigint, length: number) {
    if (info.type === "Directory") return yield* makeSystemError("read", path, "Is a directory")
    if (info.type !== "File") return yield* makeSystemError("read", path, `not a regular file (${info.type})`)
    const index = from / size
    if (index !== block.index)
      block = {
        index,
        data: yield* readBytes(
          machine,
          "read",
          path,
          `exec dd if=${at} bs=${blockBytes} skip=${index} count=1 2>/dev/null`
        )
      }
    const offset = Number(from % size)
    return block.data.slice(offset, offset + length)
  })
  return makeFile(machine, path, {
    position: { at: 0n },
    read: readBlock,
    write: () => Effect.fail(makeSystemError("write", path, "Permission denied: opened for reading"))
  })
})

const openForWriting = (machine: Machine, path: string, flag: FileSystem.OpenFlag): FileSystem.File => {
  const position = { at: 0n }
  let written = 0n
  const isSequential = !flag.startsWith("r")
  return makeFile(machine, path, {
    position,
    read: (from, length) =>
      Effect.map(readFile(machine, path), (data) => data.slice(Number(from), Number(from) + length)),
    write: Effect.fnUntraced(function* (data) {
      // Data at other positions than the end is written by replacing the whole file, because POSIX tools do not
      // provide another fast way.
      if (!isSequential || position.at !== written)
        return yield* badArgument({
          module: "FileSystem",
          method: "write",
          description: "a file elsewhere is written from its beginning to its end"
        })
      yield* appendBytes(machine, "write", path, data)
      position.at += BigInt(data.length)
      written = position.at
    })
  })
}
