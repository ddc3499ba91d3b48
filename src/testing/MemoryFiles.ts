/**
 * A file system in memory, for tests of what reads and writes files: directories, files, links, modes and times, with the failures of
 * the one of a machine.
 *
 * **Gotchas**
 *
 * Paths are absolute, with `/`; a relative one begins at the root. Modes are kept and not enforced. Nothing can be watched. Two layers are
 * two file systems; a layer that is provided twice by the same value is one.
 *
 * **Example** (Files for a test)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as FileSystem from "effect/FileSystem"
 * import { MemoryFiles } from "hermes-effect/testing"
 *
 * const program = Effect.flatMap(FileSystem.FileSystem, (files) => files.readFileString("/work/notes.txt"))
 *
 * console.log(await Effect.runPromise(Effect.provide(program, MemoryFiles.layer({ "/work/notes.txt": "hello" }))))
 * // => hello
 * ```
 */
import * as ByteSize from "effect/ByteSize"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { type PlatformError, systemError } from "effect/PlatformError"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"

interface Facts {
  mode: number
  at: number
  readonly ino: bigint
}
interface FileNode extends Facts {
  readonly type: "File"
  data: Uint8Array
}
interface DirectoryNode extends Facts {
  readonly type: "Directory"
  readonly entries: Map<string, Node>
}
interface LinkNode extends Facts {
  readonly type: "SymbolicLink"
  readonly target: string
}
type Node = FileNode | DirectoryNode | LinkNode

type Tag = "AlreadyExists" | "BadResource" | "NotFound"

const failed = (_tag: Tag, method: string, path: string, description: string): PlatformError =>
  systemError({ _tag, module: "FileSystem", method, pathOrDescriptor: path, description })

/** Most links on the way to one file. */
const maxLinks = 40

const namesOf = (path: string): ReadonlyArray<string> => path.split("/").filter((name) => name !== "" && name !== ".")

/** Content of files by absolute path, to begin with. */
export type Contents = Readonly<Record<string, string | Uint8Array>>

/** A file system with these files. */
export const make = (contents: Contents = {}): Effect.Effect<FileSystem.FileSystem> =>
  Effect.gen(function*() {
    let inodes = 0n
    let temporary = 0
    const facts = (mode: number, at: number): Facts => ({ mode, at, ino: ++inodes })
    const directory = (mode: number, at: number): DirectoryNode => ({ type: "Directory", entries: new Map(), ...facts(mode, at) })
    const root = directory(0o755, yield* Clock.currentTimeMillis)
    root.entries.set("tmp", directory(0o777, root.at))

    interface Place {
      readonly parent: DirectoryNode
      readonly name: string
      readonly node: Node | undefined
      /** Without links. */
      readonly path: string
    }

    /** Finds the place of a path; the last name may be missing, the directories before it may not. */
    const find = (method: string, path: string, follow: boolean): Effect.Effect<Place, PlatformError> =>
      Effect.suspend(() => {
        let names = [...namesOf(path)]
        let trail: ReadonlyArray<readonly [name: string, node: DirectoryNode]> = []
        let links = 0
        const here = () => trail.at(-1)?.[1] ?? root
        const pathOf = (name?: string) => `/${[...trail.map(([one]) => one), ...(name === undefined ? [] : [name])].join("/")}`
        for (;;) {
          const [name, ...rest] = names
          if (name === undefined) {
            const [last = ""] = trail.at(-1) ?? []
            return Effect.succeed({ parent: trail.at(-2)?.[1] ?? root, name: last, node: here(), path: pathOf() })
          }
          names = rest
          if (name === "..") {
            trail = trail.slice(0, -1)
            continue
          }
          const node = here().entries.get(name)
          const isLast = rest.length === 0
          if (node?.type === "SymbolicLink" && (follow || !isLast)) {
            if (++links > maxLinks) return Effect.fail(failed("BadResource", method, path, "too many links"))
            names = [...namesOf(node.target), ...rest]
            if (node.target.startsWith("/")) trail = []
            continue
          }
          if (isLast) return Effect.succeed({ parent: here(), name, node, path: pathOf(name) })
          if (node === undefined) return Effect.fail(failed("NotFound", method, path, "no such file or directory"))
          if (node.type !== "Directory") return Effect.fail(failed("BadResource", method, path, "not a directory"))
          trail = [...trail, [name, node]]
        }
      })

    const existing = (method: string, path: string, follow = true): Effect.Effect<Place & { readonly node: Node }, PlatformError> =>
      Effect.flatMap(find(method, path, follow), ({ node, ...place }) =>
        node === undefined ? Effect.fail(failed("NotFound", method, path, "no such file or directory")) : Effect.succeed({ ...place, node }))

    const directoryAt = (method: string, path: string): Effect.Effect<DirectoryNode, PlatformError> =>
      Effect.flatMap(existing(method, path), ({ node }) =>
        node.type === "Directory" ? Effect.succeed(node) : Effect.fail(failed("BadResource", method, path, "not a directory")))

    const fileAt = (method: string, path: string): Effect.Effect<FileNode, PlatformError> =>
      Effect.flatMap(existing(method, path), ({ node }) =>
        node.type === "File" ? Effect.succeed(node) : Effect.fail(failed("BadResource", method, path, "is a directory")))

    /** The file that a flag opens: made, emptied, or as it is. */
    const opened = Effect.fnUntraced(function*(method: string, path: string, flag: FileSystem.OpenFlag, mode = 0o644) {
      const { name, node, parent } = yield* find(method, path, true)
      if (node !== undefined && flag.includes("x")) return yield* failed("AlreadyExists", method, path, "it is there already")
      if (node !== undefined && node.type !== "File") return yield* failed("BadResource", method, path, "is a directory")
      if (node === undefined && flag.startsWith("r")) return yield* failed("NotFound", method, path, "no such file or directory")
      const file: FileNode = node ?? { type: "File", data: new Uint8Array(), ...facts(mode, yield* Clock.currentTimeMillis) }
      if (node === undefined) parent.entries.set(name, file)
      else if (flag.startsWith("w")) file.data = new Uint8Array()
      return file
    })

    const put = (file: FileNode, at: number, data: Uint8Array): Effect.Effect<void> =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const whole = new Uint8Array(Math.max(file.data.length, at + data.length))
        whole.set(file.data)
        whole.set(data, at)
        file.data = whole
        file.at = now
      })

    const infoOf = (node: Node): FileSystem.File.Info => {
      const at = Option.some(new Date(node.at))
      const size = node.type === "File" ? node.data.length : node.type === "SymbolicLink" ? node.target.length : 0
      const kind = { File: 0o100000, Directory: 0o040000, SymbolicLink: 0o120000 }[node.type]
      return {
        type: node.type, mtime: at, atime: at, birthtime: at, dev: 0n, ino: Option.some(node.ino), mode: kind | node.mode, nlink: Option.none(),
        uid: Option.none(), gid: Option.none(), rdev: Option.none(), size: ByteSize.bytes(size), blksize: Option.none(), blocks: Option.none()
      }
    }

    const open: FileSystem.FileSystem["open"] = (path, { flag = "r", mode } = {}) =>
      Effect.map(opened("open", path, flag, mode), (file): FileSystem.File => {
        let position = 0
        const piece = (size: number, from?: bigint): Uint8Array => {
          const begin = from === undefined ? position : Number(from)
          const data = file.data.slice(begin, begin + size)
          if (from === undefined) position += data.length
          return data
        }
        const write = (data: Uint8Array) =>
          Effect.suspend(() => {
            const at = flag.startsWith("a") ? file.data.length : position
            position = at + data.length
            return put(file, at, data)
          })
        return {
          [FileSystem.FileTypeId]: FileSystem.FileTypeId,
          stat: Effect.sync(() => infoOf(file)),
          seek: (offset, from) => Effect.sync(() => BigInt(position = Number(offset) + (from === "current" ? position : 0))),
          sync: Effect.void,
          read: (buffer, options) =>
            Effect.sync(() => {
              const data = piece(buffer.length, options?.position)
              buffer.set(data)
              return data.length
            }),
          readAlloc: (size, options) =>
            Effect.sync(() => {
              const data = piece(size, options?.position)
              return data.length === 0 ? Option.none() : Option.some(data)
            }),
          truncate: (length = 0) => Effect.sync(() => void (file.data = file.data.slice(0, length))),
          write: (data) => Effect.as(write(data), data.length),
          writeAll: write
        }
      })

    const makeDirectory: FileSystem.FileSystem["makeDirectory"] = Effect.fnUntraced(function*(path, { mode = 0o755, recursive = false } = {}) {
      if (recursive) {
        const names = namesOf(path)
        for (let count = 1; count < names.length; count++) {
          const above = `/${names.slice(0, count).join("/")}`
          const place = yield* find("makeDirectory", above, true)
          if (place.node === undefined) yield* makeDirectory(above, { mode })
        }
      }
      const { name, node, parent } = yield* find("makeDirectory", path, true)
      if (node?.type === "Directory" && recursive) return
      if (node !== undefined) return yield* failed("AlreadyExists", "makeDirectory", path, "it is there already")
      parent.entries.set(name, directory(mode, yield* Clock.currentTimeMillis))
    })

    const writeFile: FileSystem.FileSystem["writeFile"] = (path, data, { flag = "w", mode } = {}) =>
      Effect.flatMap(opened("writeFile", path, flag, mode), (file) => put(file, flag.startsWith("a") ? file.data.length : 0, data))

    const readFile: FileSystem.FileSystem["readFile"] = (path) => Effect.map(fileAt("readFile", path), ({ data }) => data.slice())

    const remove: FileSystem.FileSystem["remove"] = (path, { force = false, recursive = false } = {}) =>
      Effect.flatMap(existing("remove", path, false), ({ name, node, parent }) => {
        if (node.type === "Directory" && !recursive) return Effect.fail(failed("BadResource", "remove", path, "is a directory"))
        return Effect.sync(() => void parent.entries.delete(name))
      }).pipe(Effect.catchIf(({ reason }) => force && reason._tag === "NotFound", () => Effect.void))

    const copied = (node: Node, at: number): Node => {
      switch (node.type) {
        case "File":
          return { type: "File", data: node.data.slice(), ...facts(node.mode, at) }
        case "SymbolicLink":
          return { type: "SymbolicLink", target: node.target, ...facts(node.mode, at) }
        case "Directory":
          return { type: "Directory", entries: new Map(Array.from(node.entries, ([name, one]) => [name, copied(one, at)])), ...facts(node.mode, at) }
      }
    }
    const copy: FileSystem.FileSystem["copy"] = Effect.fnUntraced(function*(from, to, { overwrite = true } = {}) {
      const { node } = yield* existing("copy", from)
      const place = yield* find("copy", to, true)
      if (place.node !== undefined && !overwrite) return yield* failed("AlreadyExists", "copy", to, "it is there already")
      place.parent.entries.set(place.name, copied(node, yield* Clock.currentTimeMillis))
    })

    const below = (node: DirectoryNode): ReadonlyArray<string> =>
      Array.from(node.entries).flatMap(([name, one]) => one.type === "Directory" ? [name, ...below(one).map((rest) => `${name}/${rest}`)] : [name])

    const change = (method: string, path: string, with_: (node: Node) => void) => Effect.map(existing(method, path), ({ node }) => with_(node))

    const temporaryPath = (prefix: string, within = "/tmp", suffix = "") => Effect.sync(() => `${within}/${prefix}${(++temporary).toString(36).padStart(6, "0")}${suffix}`)
    const makeTempDirectory: FileSystem.FileSystem["makeTempDirectory"] = ({ directory, prefix = "" } = {}) =>
      Effect.tap(temporaryPath(prefix, directory), (path) => makeDirectory(path, { recursive: true }))
    const makeTempFile: FileSystem.FileSystem["makeTempFile"] = ({ directory, prefix = "", suffix } = {}) =>
      Effect.tap(temporaryPath(prefix, directory, suffix), (path) => writeFile(path, new Uint8Array()))
    const scoped = (path: Effect.Effect<string, PlatformError>): Effect.Effect<string, PlatformError, Scope.Scope> =>
      Effect.acquireRelease(path, (made) => Effect.ignore(remove(made, { recursive: true, force: true })))

    const files = FileSystem.make({
      access: (path) => Effect.asVoid(existing("access", path)),
      copy,
      copyFile: (from, to) => Effect.flatMap(fileAt("copyFile", from), () => copy(from, to)),
      chmod: (path, mode) => change("chmod", path, (node) => void (node.mode = mode)),
      chown: (path) => change("chown", path, () => {}),
      link: Effect.fnUntraced(function*(from, to) {
        const file = yield* fileAt("link", from)
        const { name, node, parent } = yield* find("link", to, false)
        if (node !== undefined) return yield* failed("AlreadyExists", "link", to, "it is there already")
        parent.entries.set(name, file)
      }),
      lstat: (path) => Effect.map(existing("lstat", path, false), ({ node }) => infoOf(node)),
      makeDirectory,
      makeTempDirectory,
      makeTempDirectoryScoped: (options) => scoped(makeTempDirectory(options)),
      makeTempFile,
      makeTempFileScoped: (options) => scoped(makeTempFile(options)),
      open,
      readDirectory: (path, options) =>
        Effect.map(directoryAt("readDirectory", path), (node) => options?.recursive === true ? [...below(node)] : Array.from(node.entries.keys())),
      readDirectoryEntries: (path) =>
        Effect.map(directoryAt("readDirectoryEntries", path), ({ entries }) => Array.from(entries, ([name, { type }]) => ({ name, type }))),
      readFile,
      readLink: (path) =>
        Effect.flatMap(existing("readLink", path, false), ({ node }) =>
          node.type === "SymbolicLink" ? Effect.succeed(node.target) : Effect.fail(failed("BadResource", "readLink", path, "not a link"))),
      realPath: (path) => Effect.map(existing("realPath", path), (place) => place.path),
      remove,
      rename: Effect.fnUntraced(function*(from, to) {
        const source = yield* existing("rename", from, false)
        const target = yield* find("rename", to, false)
        source.parent.entries.delete(source.name)
        target.parent.entries.set(target.name, source.node)
      }),
      stat: (path) => Effect.map(existing("stat", path), ({ node }) => infoOf(node)),
      symlink: Effect.fnUntraced(function*(target, path) {
        const { name, node, parent } = yield* find("symlink", path, false)
        if (node !== undefined) return yield* failed("AlreadyExists", "symlink", path, "it is there already")
        parent.entries.set(name, { type: "SymbolicLink", target, ...facts(0o777, yield* Clock.currentTimeMillis) })
      }),
      truncate: (path, length = 0) => Effect.map(fileAt("truncate", path), (file) => void (file.data = file.data.slice(0, length))),
      utimes: (path, _, mtime) => change("utimes", path, (node) => void (node.at = typeof mtime === "number" ? mtime : mtime.getTime())),
      watch: (path) => Stream.fail(failed("BadResource", "watch", path, "files in memory cannot be watched")),
      writeFile
    })

    for (const [path, content] of Object.entries(contents)) {
      yield* makeDirectory(path.slice(0, path.lastIndexOf("/")) || "/", { recursive: true })
      yield* writeFile(path, typeof content === "string" ? new TextEncoder().encode(content) : content)
    }
    return files
  }).pipe(Effect.orDie)

/** {@link make} as the file system of an application. */
export const layer = (contents: Contents = {}): Layer.Layer<FileSystem.FileSystem> => Layer.effect(FileSystem.FileSystem, make(contents))
