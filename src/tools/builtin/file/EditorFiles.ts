/**
 * Gives the file tools access to files that are open in an editor: `read_file`, `patch` and `write_file` read unsaved
 * content from the editor and write through it.
 *
 * **Details**
 *
 * The editor serves only files of this machine inside the session's directory, and only after the path rules of the
 * file tools allow access. If the editor refuses to read a file, or has the same content, the file itself is read. If
 * the editor refuses to write, the file is written directly. The tools wait ten seconds for an unresponsive editor, at
 * most once a minute. Text that is not UTF-8 and reads by other tools (such as a search over a tree) never use the
 * protocol.
 *
 * Source: Agent Client Protocol, `fs/read_text_file` and `fs/write_text_file`.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import type * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import type { Service as Environment } from "../../../places/CommandEnvironment.ts"
import * as Middleware from "../../../middleware/Middleware.ts"

/** Access to the files of an editor, with unsaved changes. A member is `undefined` if the editor does not offer it. */
export interface EditorAccess {
  readonly read: ((path: string) => Effect.Effect<string, unknown>) | undefined
  readonly write: ((path: string, content: string) => Effect.Effect<void, unknown>) | undefined
}

/** Tools that access files through the editor. */
const editing: ReadonlySet<string> = new Set(["read_file", "patch", "write_file"])

/** True during a call of a tool that accesses files through the editor. */
const IsEditing = Context.Reference<boolean>("hermes-effect/tools/EditorFiles/IsEditing", { defaultValue: () => false })

/** Marks calls that access files through the editor. The middleware is part of the runtime of each session. */
export const middleware: Middleware.Contained = Middleware.toolServices({
  name: "acp-files",
  services: (given, { toolName }) => (editing.has(toolName) ? Context.add(given, IsEditing, true) : given)
})

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

const decodeUtf8 = (bytes: Uint8Array): string | undefined => {
  try {
    return decoder.decode(bytes)
  } catch {
    return undefined
  }
}

/** Returns an open file that reads the editor's bytes. */
const wrapFile = (file: FileSystem.File, bytes: Uint8Array): FileSystem.File => {
  let at = 0
  const takeBytes = (size: number): Uint8Array => {
    const piece = bytes.subarray(at, at + size)
    at += piece.length
    return piece
  }
  return {
    [FileSystem.FileTypeId]: FileSystem.FileTypeId,
    stat: file.stat,
    sync: file.sync,
    truncate: (length) => file.truncate(length),
    write: (buffer) => file.write(buffer),
    writeAll: (buffer) => file.writeAll(buffer),
    seek: (offset, from) =>
      Effect.sync(() => {
        at = Math.max(0, Math.min(bytes.length, Number(offset) + (from === "current" ? at : 0)))
        return BigInt(at)
      }),
    read: (buffer) =>
      Effect.sync(() => {
        const piece = takeBytes(buffer.length)
        buffer.set(piece)
        return piece.length
      }),
    readAlloc: (size) => Effect.sync(() => (at >= bytes.length ? Option.none() : Option.some(takeBytes(Number(size)))))
  }
}

/** Maximum size of a file from the editor, in bytes. */
const mostBytes = 10 * 1024 * 1024

/** Wraps an environment so that an editor's files override files inside a directory. */
export const wrapEnvironment = (
  environment: Environment,
  { read, write }: EditorAccess,
  directory: string,
  paths: Path.Path
): Environment => {
  if (environment.trees.place !== "here" || (read === undefined && write === undefined)) return environment
  const { files } = environment
  const isInside = (path: string): boolean => path.startsWith(directory === "/" ? directory : `${directory}/`)

  /** Returns the editor's bytes for a file; `undefined` if the file itself is used. */
  const readUnsaved = Effect.fnUntraced(function* (path: string): Effect.fn.Return<Uint8Array | undefined> {
    if (read === undefined || !isInside(path) || !(yield* IsEditing)) return undefined
    const info = yield* Effect.orElseSucceed(files.stat(path), () => undefined)
    if (info?.type !== "File" || Number(info.size) > mostBytes) return undefined
    const text = yield* Effect.orElseSucceed(read(path), () => undefined)
    if (text === undefined || text.length > mostBytes) return undefined
    const own = yield* Effect.orElseSucceed(files.readFile(path), () => undefined)
    const content = own === undefined ? undefined : decodeUtf8(own)
    return content === undefined || content === text ? undefined : new TextEncoder().encode(text)
  })

  /** Writes a file through the editor; returns false if the file must be written directly. */
  const writeThroughEditor = Effect.fnUntraced(function* (
    from: string,
    to: string
  ): Effect.fn.Return<boolean, PlatformError> {
    if (write === undefined || !isInside(to) || !(yield* IsEditing)) return false
    const text = decodeUtf8(yield* files.readFile(from))
    return (
      text !== undefined && (yield* Effect.match(write(to, text), { onSuccess: () => true, onFailure: () => false }))
    )
  })

  return {
    ...environment,
    files: {
      ...files,
      open: (path, options) =>
        options?.flag !== undefined && options.flag !== "r"
          ? files.open(path, options)
          : Effect.flatMap(readUnsaved(paths.normalize(path)), (bytes) =>
              Effect.map(files.open(path, options), (file) => (bytes === undefined ? file : wrapFile(file, bytes)))
            ),
      readFile: (path) =>
        Effect.flatMap(readUnsaved(paths.normalize(path)), (bytes) =>
          bytes === undefined ? files.readFile(path) : Effect.succeed(bytes)
        ),
      rename: (from, to) =>
        Effect.flatMap(writeThroughEditor(from, paths.normalize(to)), (isWritten) =>
          isWritten ? files.remove(from, { force: true }) : files.rename(from, to)
        )
    }
  }
}
