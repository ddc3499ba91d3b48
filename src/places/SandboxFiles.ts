/**
 * File system with the view of a sandbox's processes: hidden files cannot be read, files outside of the allowed places
 * cannot be written, and the sandbox's temporary directories have their usual paths.
 *
 * **Details**
 *
 * A file is opened first, with symbolic links followed, then checked by its real path, and then read or changed through
 * its handle (`HeldPath`), so a process that replaces a directory by a link in between has no effect. Names are
 * created, renamed and removed in a directory that is held open, and a new file is never opened through a link. A
 * refused operation fails with the same error as a denied system call (`PermissionDenied`).
 *
 * Files of other processes (`/proc/<pid>`) are not visible, as in the sandbox.
 *
 * **Gotchas**
 *
 * A hard link is a second name of a file: if a secret file already has a second name in the working tree, file tools
 * and commands can read it there. Neither of them can create a hard link. A file with a second name is not changed in
 * place but replaced, which leaves the other name unchanged.
 *
 * `watch` follows a path.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import type { PlatformError } from "effect/PlatformError"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as HeldPath from "../base/platform/HeldPath.ts"
import { toHostPath, findRule, isWithin } from "./SandboxRules.ts"
import {
  makeDenial,
  isMissing,
  type AdmittedPath,
  type SandboxView,
  admitEntry,
  admitFile,
  admitChange,
  admitRemoval,
  runScoped,
  withFile,
  withEntry,
  withChanged
} from "./SandboxAdmission.ts"

/** Flags that create a file and fail if it exists, by the flags that open an existing file. */
const making: Partial<Record<FileSystem.OpenFlag, FileSystem.OpenFlag>> = { w: "wx", "w+": "wx+", a: "ax", "a+": "ax+" }

/** Opens a file for writing, and creates it if it is missing. */
const openForWriting = <A, R>(
  view: SandboxView,
  method: string,
  given: string,
  flag: FileSystem.OpenFlag,
  use: (at: string, flag: FileSystem.OpenFlag) => Effect.Effect<A, PlatformError, R>
): Effect.Effect<A, PlatformError, R | Scope.Scope> =>
  Effect.gen(function* () {
    const made = making[flag]
    if (flag === "r+") return yield* use((yield* admitChange(view, method, given)).at, flag)
    if (made === undefined) return yield* use((yield* admitEntry(view, method, given, "write")).at, flag)
    const found = yield* Effect.result(admitChange(view, method, given))
    if (found._tag === "Success") return yield* use(found.success.at, flag)
    if (!isMissing(found.failure)) return yield* found.failure
    const { at } = yield* admitEntry(view, method, given, "write")
    if ((yield* Effect.result(view.host.readLink(at)))._tag === "Success")
      return yield* makeDenial(method, given, "it is a link to a place that does not exist")
    return yield* use(at, made)
  }).pipe(
    // Another process created the file in the meantime: it is checked as an existing file.
    Effect.retry({ times: 3, while: ({ reason }) => making[flag] !== undefined && reason._tag === "AlreadyExists" })
  )

const writeFile =
  (view: SandboxView): FileSystem.FileSystem["writeFile"] =>
  (given, data, options) =>
    runScoped(
      given,
      openForWriting(view, "writeFile", given, options?.flag ?? "w", (at, flag) =>
        view.host.writeFile(at, data, { ...options, flag })
      )
    )

const makeDirectory = (view: SandboxView): FileSystem.FileSystem["makeDirectory"] =>
  Effect.fnUntraced(function* (given, options) {
    const one = withEntry(
      view,
      "makeDirectory",
      "write"
    )(given, (at) => view.host.makeDirectory(at, options?.mode === undefined ? {} : { mode: options.mode }))
    if (options?.recursive !== true) return yield* one
    const isThere = (place: string) =>
      withFile(
        view,
        "makeDirectory",
        "read"
      )(place, (at) => Effect.map(view.host.stat(at), ({ type }) => type === "Directory"))
    const found = yield* Effect.catchIf(isThere(given), isMissing, () => Effect.undefined)
    if (found === true) return
    if (found === undefined && view.path.dirname(view.path.resolve(given)) !== view.path.resolve(given))
      yield* makeDirectory(view)(view.path.dirname(view.path.resolve(given)), options)
    // Another process may have created the directory in the meantime.
    yield* Effect.catchIf(
      one,
      ({ reason }) => found === undefined && reason._tag === "AlreadyExists",
      () => Effect.void
    )
  })

const copyFile =
  (view: SandboxView): FileSystem.FileSystem["copyFile"] =>
  (from, to) =>
    runScoped(
      from,
      Effect.gen(function* () {
        const source = yield* admitFile(view, "copyFile", from, "read")
        const target = yield* openForWriting(view, "copyFile", to, "a", (at, flag) =>
          Effect.as(view.host.writeFile(at, new Uint8Array(0), { flag }), to)
        )
        yield* view.host.copyFile(source.at, (yield* admitChange(view, "copyFile", target)).at)
      })
    )

/** Copies the file or directory at a path. Links are copied as links. */
const copyTree = Effect.fnUntraced(function* (
  view: SandboxView,
  from: string,
  to: string,
  options: Parameters<FileSystem.FileSystem["copy"]>[2]
): Effect.fn.Return<void, PlatformError> {
  const info = yield* withEntry(view, "copy", "read")(from, view.host.lstat)
  if (info.type === "Directory") {
    yield* makeDirectory(view)(to, { recursive: true })
    const entries = yield* withFile(view, "copy", "read")(from, (at) => view.host.readDirectory(at))
    yield* Effect.forEach(
      entries,
      (name) => copyTree(view, view.path.join(from, name), view.path.join(to, name), options),
      { discard: true }
    )
  } else {
    const isThere = yield* Effect.isSuccess(withEntry(view, "copy", "read")(to, view.host.lstat))
    if (isThere && options?.overwrite !== true) return
    if (info.type !== "SymbolicLink") yield* copyFile(view)(from, to)
    else
      yield* withEntry(
        view,
        "copy",
        "write"
      )(to, (at) =>
        Effect.flatMap(withEntry(view, "copy", "read")(from, view.host.readLink), (target) =>
          view.host.symlink(target, at)
        )
      )
  }
  if (options?.preserveTimestamps === true && info.type === "File") {
    const { atime, mtime } = info
    if (Option.isSome(atime) && Option.isSome(mtime))
      yield* withChanged(view, "copy")(to, (at) => view.host.utimes(at, atime.value, mtime.value))
  }
})

/** Removes an entry from a held directory. */
const removeTree = Effect.fnUntraced(function* (view: SandboxView, at: string): Effect.fn.Return<void, PlatformError> {
  const { type } = yield* view.host.lstat(at)
  if (type !== "Directory") return yield* view.host.remove(at)
  yield* Effect.scoped(
    Effect.gen(function* () {
      const directory = yield* HeldPath.holdDirectory(at)
      const names = yield* view.host.readDirectory(directory.at)
      yield* Effect.forEach(names, (name) => removeTree(view, view.path.join(directory.at, name)), { discard: true })
    })
  )
  yield* HeldPath.removeEmptyDirectory(at)
})

const remove =
  (view: SandboxView): FileSystem.FileSystem["remove"] =>
  (given, options) =>
    runScoped(
      given,
      Effect.flatMap(admitRemoval(view, "remove", given), ({ at }) =>
        options?.recursive === true ? removeTree(view, at) : view.host.remove(at)
      )
    ).pipe(
      Effect.catchIf(
        (error) => options?.force === true && isMissing(error),
        () => Effect.void
      )
    )

/** Lists the names below a directory without hidden ones. Links are listed but not followed. */
const listBelow = (view: SandboxView, given: string): Effect.Effect<Array<string>, PlatformError> =>
  runScoped(
    given,
    Effect.gen(function* () {
      const list = yield* view.rules
      const { at, place } = yield* admitFile(view, "readDirectory", given, "read")
      const lists = yield* Effect.forEach(yield* view.host.readDirectoryEntries(at), ({ name, type }) => {
        const inner = view.path.join(place, name)
        if (findRule(list, inner)?.allows === "nothing") return Effect.succeed([])
        return type === "Directory"
          ? Effect.map(listBelow(view, inner), (names) => [
              name,
              ...names.map((deeper) => view.path.join(name, deeper))
            ])
          : Effect.succeed([name])
      })
      return lists.flat()
    })
  )

const makeTempDirectory = (view: SandboxView): FileSystem.FileSystem["makeTempDirectory"] =>
  Effect.fnUntraced(function* (options) {
    const directory = options?.directory ?? (yield* view.temporary)
    return yield* runScoped(
      directory,
      Effect.gen(function* () {
        const { at, place } = yield* admitFile(view, "makeTempDirectory", directory, "write")
        return view.path.join(
          place,
          view.path.basename(yield* view.host.makeTempDirectory({ ...options, directory: at }))
        )
      })
    )
  })

const makeTempFile = (view: SandboxView): FileSystem.FileSystem["makeTempFile"] =>
  Effect.fnUntraced(function* (options) {
    const made = view.path.join(yield* makeTempDirectory(view)(options), `file${options?.suffix ?? ""}`)
    yield* writeFile(view)(made, new Uint8Array(0), { flag: "wx" })
    return made
  })

const removeTemporary = (view: SandboxView, made: string) =>
  Effect.orDie(remove(view)(made, { recursive: true, force: true }))

const copyPath =
  (view: SandboxView): FileSystem.FileSystem["copy"] =>
  (from, to, options) =>
    Effect.gen(function* () {
      const list = yield* view.rules
      const source = yield* resolvePath(view, "copy", from)
      const hidden = list.find(({ allows, path }) => allows === "nothing" && isWithin(path, source))
      if (hidden !== undefined) return yield* makeDenial("copy", from, `the sandbox hides ${hidden.path}`)
      yield* copyTree(view, source, to, options)
    })

/** Adds a second name to a file that can be written. Any other second name would bypass the rule for its path. */
const linkFile =
  (view: SandboxView): FileSystem.FileSystem["link"] =>
  (from, to) =>
    runScoped(
      from,
      Effect.gen(function* () {
        const { place } = yield* admitFile(view, "link", from, "write")
        const [source, target] = yield* Effect.all([
          admitEntry(view, "link", place, "write"),
          admitEntry(view, "link", to, "write")
        ])
        yield* view.host.link(source.at, target.at)
      })
    )

const renamePath =
  (view: SandboxView): FileSystem.FileSystem["rename"] =>
  (from, to) =>
    runScoped(
      from,
      Effect.flatMap(
        Effect.all([admitRemoval(view, "rename", from), admitRemoval(view, "rename", to)]),
        ([source, target]) => view.host.rename(source.at, target.at)
      )
    )

const openFile =
  (view: SandboxView): FileSystem.FileSystem["open"] =>
  (given, options) =>
    Effect.flatMap(Effect.scope, (scope) => {
      const flag = options?.flag ?? "r"
      const openOnHost = (at: string, flag: FileSystem.OpenFlag) =>
        view.host.open(at, { ...options, flag }).pipe(Effect.provideService(Scope.Scope, scope))
      const openAdmitted = (target: Effect.Effect<AdmittedPath, PlatformError, Scope.Scope>) =>
        Effect.flatMap(target, ({ at }) => openOnHost(at, flag))
      // The descriptor refers to the file itself, so a link must be rejected when its name is looked up.
      if (options?.noFollow === true)
        return runScoped(given, openAdmitted(admitEntry(view, "open", given, flag === "r" ? "read" : "write")))
      return runScoped(
        given,
        flag === "r"
          ? openAdmitted(admitFile(view, "open", given, "read"))
          : openForWriting(view, "open", given, flag, openOnHost)
      )
    })

const watchPath =
  (view: SandboxView): FileSystem.FileSystem["watch"] =>
  (given, options) =>
    Stream.unwrap(
      Effect.flatMap(view.rules, (list) =>
        Effect.map(resolvePath(view, "watch", given), (place) => view.host.watch(toHostPath(list, place), options))
      )
    )

/** Returns the path of an existing file in the sandbox, without links. */
const resolvePath = (view: SandboxView, method: string, given: string): Effect.Effect<string, PlatformError> =>
  runScoped(
    given,
    Effect.map(admitFile(view, method, given, "read"), ({ place }) => place)
  )

/** Creates the file system of a sandbox on top of the file system of the host. */
export const make = (view: SandboxView): FileSystem.FileSystem => {
  const { host, path } = view
  return FileSystem.make({
    access: (given, options) =>
      withFile(view, "access", options?.writable === true ? "write" : "read")(given, (at) => host.access(at, options)),
    copy: copyPath(view),
    copyFile: copyFile(view),
    chmod: (given, mode) => withChanged(view, "chmod")(given, (at) => host.chmod(at, mode)),
    chown: (given, uid, gid) => withChanged(view, "chown")(given, (at) => host.chown(at, uid, gid)),
    link: linkFile(view),
    lstat: (given) => withEntry(view, "lstat", "read")(given, host.lstat),
    makeDirectory: makeDirectory(view),
    makeTempDirectory: makeTempDirectory(view),
    makeTempDirectoryScoped: (options) =>
      Effect.acquireRelease(makeTempDirectory(view)(options), (made) => removeTemporary(view, made)),
    makeTempFile: makeTempFile(view),
    makeTempFileScoped: (options) =>
      Effect.acquireRelease(makeTempFile(view)(options), (made) => removeTemporary(view, path.dirname(made))),
    open: openFile(view),
    readDirectory: (given, options) =>
      options?.recursive === true
        ? listBelow(view, given)
        : withFile(view, "readDirectory", "read")(given, (at) => host.readDirectory(at)),
    readDirectoryEntries: (given) => withFile(view, "readDirectoryEntries", "read")(given, host.readDirectoryEntries),
    readFile: (given) => withFile(view, "readFile", "read")(given, host.readFile),
    readLink: (given) => withEntry(view, "readLink", "read")(given, host.readLink),
    realPath: (given) => resolvePath(view, "realPath", given),
    remove: remove(view),
    rename: renamePath(view),
    stat: (given) => withFile(view, "stat", "read")(given, host.stat),
    symlink: (from, to) => withEntry(view, "symlink", "write")(to, (at) => host.symlink(from, at)),
    truncate: (given, length) => withChanged(view, "truncate")(given, (at) => host.truncate(at, length)),
    utimes: (given, atime, mtime) => withChanged(view, "utimes")(given, (at) => host.utimes(at, atime, mtime)),
    watch: watchPath(view),
    writeFile: writeFile(view)
  })
}
