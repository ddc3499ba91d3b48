/**
 * A file system in memory, for tests of code that reads and writes files: directories, files, links, modes and times,
 * with the failures of a real file system.
 *
 * **Gotchas**
 *
 * Paths are absolute, with `/`; a relative path starts at the root. Modes are stored but not enforced. Watching is not
 * supported. Each layer is a separate file system; providing the same layer value twice shares one file system.
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

const makeSystemError = (_tag: Tag, method: string, path: string, description: string): PlatformError =>
  systemError({ _tag, module: "FileSystem", method, pathOrDescriptor: path, description })

/** Maximum number of symbolic links followed to reach a file. */
const maxLinks = 40

const splitPath = (path: string): ReadonlyArray<string> => path.split("/").filter((name) => name !== "" && name !== ".")

/** Initial file contents by absolute path. */
export type Contents = Readonly<Record<string, string | Uint8Array>>

/** State of the file system. */
interface Disk {
  readonly root: DirectoryNode
  /** Inode number of the newest file. */
  inodes: bigint
  /** Number of the newest temporary file. */
  temporary: number
}

type DirectoryOptions = NonNullable<Parameters<FileSystem.FileSystem["makeDirectory"]>[1]>
type CopyOptions = NonNullable<Parameters<FileSystem.FileSystem["copy"]>[2]>

const makeFacts = (disk: Disk, mode: number, at: number): Facts => ({ mode, at, ino: ++disk.inodes })

const makeDirectoryNode = (disk: Disk, mode: number, at: number): DirectoryNode => ({
  type: "Directory",
  entries: new Map(),
  ...makeFacts(disk, mode, at)
})

const makeDisk = (now: number): Disk => {
  const disk: Disk = {
    root: { type: "Directory", entries: new Map(), mode: 0o755, at: now, ino: 1n },
    inodes: 1n,
    temporary: 0
  }
  disk.root.entries.set("tmp", makeDirectoryNode(disk, 0o777, now))
  return disk
}

interface Place {
  readonly parent: DirectoryNode
  readonly name: string
  readonly node: Node | undefined
  /** Path without symbolic links. */
  readonly path: string
}

/** Resolves a path. Its last component may not exist, but its directories must. */
const findPlace = (
  { root }: Disk,
  method: string,
  path: string,
  follow: boolean
): Effect.Effect<Place, PlatformError> =>
  Effect.suspend(() => {
    let names = [...splitPath(path)]
    let trail: ReadonlyArray<readonly [name: string, node: DirectoryNode]> = []
    let links = 0
    const getCurrent = () => trail.at(-1)?.[1] ?? root
    const buildPath = (name?: string) =>
      `/${[...trail.map(([one]) => one), ...(name === undefined ? [] : [name])].join("/")}`
    for (;;) {
      const [name, ...rest] = names
      if (name === undefined) {
        const [last = ""] = trail.at(-1) ?? []
        return Effect.succeed({ parent: trail.at(-2)?.[1] ?? root, name: last, node: getCurrent(), path: buildPath() })
      }
      names = rest
      if (name === "..") {
        trail = trail.slice(0, -1)
        continue
      }
      const node = getCurrent().entries.get(name)
      const isLast = rest.length === 0
      if (node?.type === "SymbolicLink" && (follow || !isLast)) {
        if (++links > maxLinks) return Effect.fail(makeSystemError("BadResource", method, path, "too many links"))
        names = [...splitPath(node.target), ...rest]
        if (node.target.startsWith("/")) trail = []
        continue
      }
      if (isLast) return Effect.succeed({ parent: getCurrent(), name, node, path: buildPath(name) })
      if (node === undefined) return Effect.fail(makeSystemError("NotFound", method, path, "no such file or directory"))
      if (node.type !== "Directory") return Effect.fail(makeSystemError("BadResource", method, path, "not a directory"))
      trail = [...trail, [name, node]]
    }
  })

const findExisting = (
  disk: Disk,
  method: string,
  path: string,
  follow = true
): Effect.Effect<Place & { readonly node: Node }, PlatformError> =>
  Effect.flatMap(findPlace(disk, method, path, follow), ({ node, ...place }) =>
    node === undefined
      ? Effect.fail(makeSystemError("NotFound", method, path, "no such file or directory"))
      : Effect.succeed({ ...place, node })
  )

const findDirectory = (disk: Disk, method: string, path: string): Effect.Effect<DirectoryNode, PlatformError> =>
  Effect.flatMap(findExisting(disk, method, path), ({ node }) =>
    node.type === "Directory"
      ? Effect.succeed(node)
      : Effect.fail(makeSystemError("BadResource", method, path, "not a directory"))
  )

const findFile = (disk: Disk, method: string, path: string): Effect.Effect<FileNode, PlatformError> =>
  Effect.flatMap(findExisting(disk, method, path), ({ node }) =>
    node.type === "File"
      ? Effect.succeed(node)
      : Effect.fail(makeSystemError("BadResource", method, path, "is a directory"))
  )

/** Opens a file according to a flag, which decides if the file is created, truncated or left unchanged. */
const openFile = Effect.fnUntraced(function* (
  disk: Disk,
  method: string,
  path: string,
  flag: FileSystem.OpenFlag,
  mode = 0o644
) {
  const { name, node, parent } = yield* findPlace(disk, method, path, true)
  if (node !== undefined && flag.includes("x"))
    return yield* makeSystemError("AlreadyExists", method, path, "it is there already")
  if (node !== undefined && node.type !== "File")
    return yield* makeSystemError("BadResource", method, path, "is a directory")
  if (node === undefined && flag.startsWith("r"))
    return yield* makeSystemError("NotFound", method, path, "no such file or directory")
  const file: FileNode = node ?? {
    type: "File",
    data: new Uint8Array(),
    ...makeFacts(disk, mode, yield* Clock.currentTimeMillis)
  }
  if (node === undefined) parent.entries.set(name, file)
  else if (flag.startsWith("w")) file.data = new Uint8Array()
  return file
})

const writeAt = (file: FileNode, at: number, data: Uint8Array): Effect.Effect<void> =>
  Effect.map(Clock.currentTimeMillis, (now) => {
    const whole = new Uint8Array(Math.max(file.data.length, at + data.length))
    whole.set(file.data)
    whole.set(data, at)
    file.data = whole
    file.at = now
  })

const toInfo = (node: Node): FileSystem.File.Info => {
  const at = Option.some(new Date(node.at))
  const size = node.type === "File" ? node.data.length : node.type === "SymbolicLink" ? node.target.length : 0
  const kind = { File: 0o100000, Directory: 0o040000, SymbolicLink: 0o120000 }[node.type]
  return {
    type: node.type,
    mtime: at,
    atime: at,
    birthtime: at,
    dev: 0n,
    ino: Option.some(node.ino),
    mode: kind | node.mode,
    nlink: Option.none(),
    uid: Option.none(),
    gid: Option.none(),
    rdev: Option.none(),
    size: ByteSize.bytes(size),
    blksize: Option.none(),
    blocks: Option.none()
  }
}

const makeOpen =
  (disk: Disk): FileSystem.FileSystem["open"] =>
  (path, { flag = "r", mode } = {}) =>
    Effect.map(openFile(disk, "open", path, flag, mode), (file): FileSystem.File => {
      let position = 0
      const readPiece = (size: number, from?: bigint): Uint8Array => {
        const begin = from === undefined ? position : Number(from)
        const data = file.data.slice(begin, begin + size)
        if (from === undefined) position += data.length
        return data
      }
      const write = (data: Uint8Array) =>
        Effect.suspend(() => {
          const at = flag.startsWith("a") ? file.data.length : position
          position = at + data.length
          return writeAt(file, at, data)
        })
      return {
        [FileSystem.FileTypeId]: FileSystem.FileTypeId,
        stat: Effect.sync(() => toInfo(file)),
        seek: (offset, from) =>
          Effect.sync(() => BigInt((position = Number(offset) + (from === "current" ? position : 0)))),
        sync: Effect.void,
        read: (buffer, options) =>
          Effect.sync(() => {
            const data = readPiece(buffer.length, options?.position)
            buffer.set(data)
            return data.length
          }),
        readAlloc: (size, options) =>
          Effect.sync(() => {
            const data = readPiece(size, options?.position)
            return data.length === 0 ? Option.none() : Option.some(data)
          }),
        truncate: (length = 0) => Effect.sync(() => void (file.data = file.data.slice(0, length))),
        write: (data) => Effect.as(write(data), data.length),
        writeAll: write
      }
    })

const makeDirectory = Effect.fnUntraced(function* (
  disk: Disk,
  path: string,
  { mode = 0o755, recursive = false }: DirectoryOptions = {}
): Effect.fn.Return<void, PlatformError> {
  if (recursive) {
    const names = splitPath(path)
    for (let count = 1; count < names.length; count++) {
      const above = `/${names.slice(0, count).join("/")}`
      const place = yield* findPlace(disk, "makeDirectory", above, true)
      if (place.node === undefined) yield* makeDirectory(disk, above, { mode })
    }
  }
  const { name, node, parent } = yield* findPlace(disk, "makeDirectory", path, true)
  if (node?.type === "Directory" && recursive) return
  if (node !== undefined) return yield* makeSystemError("AlreadyExists", "makeDirectory", path, "it is there already")
  parent.entries.set(name, makeDirectoryNode(disk, mode, yield* Clock.currentTimeMillis))
})

const makeWriteFile =
  (disk: Disk): FileSystem.FileSystem["writeFile"] =>
  (path, data, { flag = "w", mode } = {}) =>
    Effect.flatMap(openFile(disk, "writeFile", path, flag, mode), (file) =>
      writeAt(file, flag.startsWith("a") ? file.data.length : 0, data)
    )

const makeRemove =
  (disk: Disk): FileSystem.FileSystem["remove"] =>
  (path, { force = false, recursive = false } = {}) =>
    Effect.flatMap(findExisting(disk, "remove", path, false), ({ name, node, parent }) => {
      if (node.type === "Directory" && !recursive)
        return Effect.fail(makeSystemError("BadResource", "remove", path, "is a directory"))
      return Effect.sync(() => void parent.entries.delete(name))
    }).pipe(
      Effect.catchIf(
        ({ reason }) => force && reason._tag === "NotFound",
        () => Effect.void
      )
    )

const copyNode = (disk: Disk, node: Node, at: number): Node => {
  switch (node.type) {
    case "File":
      return { type: "File", data: node.data.slice(), ...makeFacts(disk, node.mode, at) }
    case "SymbolicLink":
      return { type: "SymbolicLink", target: node.target, ...makeFacts(disk, node.mode, at) }
    case "Directory":
      return {
        type: "Directory",
        entries: new Map(Array.from(node.entries, ([name, one]) => [name, copyNode(disk, one, at)])),
        ...makeFacts(disk, node.mode, at)
      }
  }
}
const copyPath = Effect.fnUntraced(function* (
  disk: Disk,
  from: string,
  to: string,
  { overwrite = true }: CopyOptions = {}
): Effect.fn.Return<void, PlatformError> {
  const { node } = yield* findExisting(disk, "copy", from)
  const place = yield* findPlace(disk, "copy", to, true)
  if (place.node !== undefined && !overwrite)
    return yield* makeSystemError("AlreadyExists", "copy", to, "it is there already")
  place.parent.entries.set(place.name, copyNode(disk, node, yield* Clock.currentTimeMillis))
})

const listBelow = (node: DirectoryNode): ReadonlyArray<string> =>
  Array.from(node.entries).flatMap(([name, one]) =>
    one.type === "Directory" ? [name, ...listBelow(one).map((rest) => `${name}/${rest}`)] : [name]
  )

const changeNode = (disk: Disk, method: string, path: string, change: (node: Node) => void) =>
  Effect.map(findExisting(disk, method, path), ({ node }) => change(node))

/** Creates the functions for temporary files and directories, whose names are numbered. */
const makeTemporaries = (disk: Disk) => {
  const makePath = (prefix: string, within = "/tmp", suffix = "") =>
    Effect.sync(() => `${within}/${prefix}${(++disk.temporary).toString(36).padStart(6, "0")}${suffix}`)
  const writeFile = makeWriteFile(disk)
  const remove = makeRemove(disk)
  const makeTempDirectory: FileSystem.FileSystem["makeTempDirectory"] = ({ directory, prefix = "" } = {}) =>
    Effect.tap(makePath(prefix, directory), (path) => makeDirectory(disk, path, { recursive: true }))
  const makeTempFile: FileSystem.FileSystem["makeTempFile"] = ({ directory, prefix = "", suffix } = {}) =>
    Effect.tap(makePath(prefix, directory, suffix), (path) => writeFile(path, new Uint8Array()))
  const acquireTemporary = (
    path: Effect.Effect<string, PlatformError>
  ): Effect.Effect<string, PlatformError, Scope.Scope> =>
    Effect.acquireRelease(path, (made) => Effect.ignore(remove(made, { recursive: true, force: true })))
  return {
    makeTempDirectory,
    makeTempFile,
    makeTempDirectoryScoped: (options?: Parameters<typeof makeTempDirectory>[0]) =>
      acquireTemporary(makeTempDirectory(options)),
    makeTempFileScoped: (options?: Parameters<typeof makeTempFile>[0]) => acquireTemporary(makeTempFile(options))
  }
}

const linkFile = Effect.fnUntraced(function* (disk: Disk, from: string, to: string) {
  const file = yield* findFile(disk, "link", from)
  const { name, node, parent } = yield* findPlace(disk, "link", to, false)
  if (node !== undefined) return yield* makeSystemError("AlreadyExists", "link", to, "it is there already")
  parent.entries.set(name, file)
})

const makeLink = Effect.fnUntraced(function* (disk: Disk, target: string, path: string) {
  const { name, node, parent } = yield* findPlace(disk, "symlink", path, false)
  if (node !== undefined) return yield* makeSystemError("AlreadyExists", "symlink", path, "it is there already")
  const facts = makeFacts(disk, 0o777, yield* Clock.currentTimeMillis)
  parent.entries.set(name, { type: "SymbolicLink", target, ...facts })
})

const renamePath = Effect.fnUntraced(function* (disk: Disk, from: string, to: string) {
  const source = yield* findExisting(disk, "rename", from, false)
  const target = yield* findPlace(disk, "rename", to, false)
  source.parent.entries.delete(source.name)
  target.parent.entries.set(target.name, source.node)
})

/** Creates the file system of a disk. */
const makeFileSystem = (disk: Disk): FileSystem.FileSystem =>
  FileSystem.make({
    access: (path) => Effect.asVoid(findExisting(disk, "access", path)),
    copy: (from, to, options) => copyPath(disk, from, to, options),
    copyFile: (from, to) => Effect.flatMap(findFile(disk, "copyFile", from), () => copyPath(disk, from, to)),
    chmod: (path, mode) => changeNode(disk, "chmod", path, (node) => void (node.mode = mode)),
    chown: (path) => changeNode(disk, "chown", path, () => {}),
    link: (from, to) => linkFile(disk, from, to),
    lstat: (path) => Effect.map(findExisting(disk, "lstat", path, false), ({ node }) => toInfo(node)),
    makeDirectory: (path, options) => makeDirectory(disk, path, options),
    ...makeTemporaries(disk),
    open: makeOpen(disk),
    readDirectory: (path, options) =>
      Effect.map(findDirectory(disk, "readDirectory", path), (node) =>
        options?.recursive === true ? [...listBelow(node)] : Array.from(node.entries.keys())
      ),
    readDirectoryEntries: (path) =>
      Effect.map(findDirectory(disk, "readDirectoryEntries", path), ({ entries }) =>
        Array.from(entries, ([name, { type }]) => ({ name, type }))
      ),
    readFile: (path) => Effect.map(findFile(disk, "readFile", path), ({ data }) => data.slice()),
    readLink: (path) =>
      Effect.flatMap(findExisting(disk, "readLink", path, false), ({ node }) =>
        node.type === "SymbolicLink"
          ? Effect.succeed(node.target)
          : Effect.fail(makeSystemError("BadResource", "readLink", path, "not a link"))
      ),
    realPath: (path) => Effect.map(findExisting(disk, "realPath", path), (place) => place.path),
    remove: makeRemove(disk),
    rename: (from, to) => renamePath(disk, from, to),
    stat: (path) => Effect.map(findExisting(disk, "stat", path), ({ node }) => toInfo(node)),
    symlink: (target, path) => makeLink(disk, target, path),
    truncate: (path, length = 0) =>
      Effect.map(findFile(disk, "truncate", path), (file) => void (file.data = file.data.slice(0, length))),
    utimes: (path, _, mtime) =>
      changeNode(disk, "utimes", path, (node) => void (node.at = typeof mtime === "number" ? mtime : mtime.getTime())),
    watch: (path) => Stream.fail(makeSystemError("BadResource", "watch", path, "files in memory cannot be watched")),
    writeFile: makeWriteFile(disk)
  })

/** Creates a file system with the given files. */
export const make = (contents: Contents = {}): Effect.Effect<FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const files = makeFileSystem(makeDisk(yield* Clock.currentTimeMillis))
    for (const [path, content] of Object.entries(contents)) {
      yield* files.makeDirectory(path.slice(0, path.lastIndexOf("/")) || "/", { recursive: true })
      yield* files.writeFile(path, typeof content === "string" ? new TextEncoder().encode(content) : content)
    }
    return files
  }).pipe(Effect.orDie)

/** Layer of the file system created by {@link make}. */
export const layer = (contents: Contents = {}): Layer.Layer<FileSystem.FileSystem> =>
  Layer.effect(FileSystem.FileSystem, make(contents))
