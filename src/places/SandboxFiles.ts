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
import type * as Path from "effect/Path"
import { type PlatformError, systemError } from "effect/PlatformError"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as HeldPath from "../base/platform/HeldPath.ts"
import * as SandboxProgram from "./SandboxProgram.ts"
import { toSandboxPath, toHostPath, type Rule, findRule, isWithin } from "./SandboxRules.ts"

type Access = "read" | "write"

const makeDenial = (method: string, path: string, description: string): PlatformError =>
  systemError({ _tag: "PermissionDenied", module: "FileSystem", method, pathOrDescriptor: path, description })

const isMissing = (error: PlatformError): boolean => error.reason._tag === "NotFound"

/** A path that was admitted for an operation. */
interface AdmittedPath {
  /** Path for the host. */
  readonly at: string
  /** Path in the sandbox, without links. */
  readonly place: string
}

/**
 * Maximum number of resolutions of one path. A link to a temporary directory first leads to the host's own directory.
 */
const longestChain = 8

/** Settings and hooks of any repository, from which git runs programs. */
const runByGit = /\/\.git(?:$|\/(?:hooks|config(?:\.[^/]*)?|commondir|modules|worktrees)(?:$|\/))/i

const otherProcess = /^\/proc\/\d+(?:\/|$)/

/** Flags that create a file and fail if it exists, by the flags that open an existing file. */
const making: Partial<Record<FileSystem.OpenFlag, FileSystem.OpenFlag>> = { w: "wx", "w+": "wx+", a: "ax", "a+": "ax+" }

/**
 * Creates the file system of a sandbox on top of the file system of the host. `rules` and the temporary directory
 * belong to the current call.
 */
export const make = (
  host: FileSystem.FileSystem,
  path: Path.Path,
  rules: Effect.Effect<ReadonlyArray<Rule>, PlatformError>,
  temporary: Effect.Effect<string, PlatformError>,
  admitWrite: (place: string) => void = () => {}
): FileSystem.FileSystem => {
  const checkAccess = (
    list: ReadonlyArray<Rule>,
    method: string,
    place: string,
    access: Access
  ): Effect.Effect<void, PlatformError> => {
    const rule = findRule(list, place)
    const allows = otherProcess.test(place) ? "nothing" : (rule?.allows ?? "read")
    if (allows === "nothing") return Effect.fail(makeDenial(method, place, "the sandbox hides it"))
    if (access === "read") return Effect.void
    if (runByGit.test(place)) return Effect.fail(makeDenial(method, place, "git runs programs that are named there"))
    if (rule?.keeps === "program") return Effect.fail(makeDenial(method, place, SandboxProgram.remedy))
    // File tools ask the user before they write a file that other programs run later.
    const isOpen = allows === "write" || rule?.keeps === "later"
    if (!isOpen) return Effect.fail(makeDenial(method, place, "the sandbox does not let it be written"))
    return Effect.sync(() => admitWrite(place))
  }

  /** Holds the file or directory at a path open, and determines its path in the sandbox. */
  const holdPath = Effect.fnUntraced(function* (
    list: ReadonlyArray<Rule>,
    method: string,
    given: string
  ): Effect.fn.Return<AdmittedPath, PlatformError, Scope.Scope> {
    let place = given
    for (let links = 0; links < longestChain; links++) {
      const { at, real } = yield* HeldPath.hold(toHostPath(list, place))
      // A pipe or a removed file, opened through the descriptor of a process.
      if (!real.startsWith("/") || real.endsWith(" (deleted)"))
        return yield* makeDenial(method, given, "it has no path")
      place = toSandboxPath(list, real)
      if (toHostPath(list, place) === real) return { at, place }
    }
    return yield* makeDenial(method, given, "too many links lead to it")
  })

  /** Finds the nearest existing directory above a path, and the missing names below it. */
  const findParent = Effect.fnUntraced(function* (list: ReadonlyArray<Rule>, method: string, given: string) {
    const names: Array<string> = []
    for (let at = given; ;) {
      names.unshift(path.basename(at))
      at = path.dirname(at)
      const found = yield* Effect.result(holdPath(list, method, at))
      if (found._tag === "Success") return { directory: found.success, names }
      if (!isMissing(found.failure) || path.dirname(at) === at) return yield* found.failure
    }
  })

  /** Admits a name in a held directory. A link is not followed. */
  const admitEntry = Effect.fnUntraced(function* (
    method: string,
    given: string,
    access: Access
  ): Effect.fn.Return<AdmittedPath, PlatformError, Scope.Scope> {
    const list = yield* rules
    const name = path.resolve(given)
    if (path.dirname(name) === name) return yield* admitFile(method, given, access)
    const {
      directory,
      names: [first = "", ...rest]
    } = yield* findParent(list, method, name)
    const place = path.join(directory.place, first, ...rest)
    yield* checkAccess(list, method, place, access)
    if (rest.length > 0)
      return yield* systemError({ _tag: "NotFound", module: "FileSystem", method, pathOrDescriptor: given })
    return { at: path.join(directory.at, first), place }
  })

  /** Admits an existing file or directory, following links. */
  const admitFile = Effect.fnUntraced(function* (
    method: string,
    given: string,
    access: Access
  ): Effect.fn.Return<AdmittedPath, PlatformError, Scope.Scope> {
    const list = yield* rules
    const name = path.resolve(given)
    const found = yield* Effect.result(holdPath(list, method, name))
    if (found._tag === "Success") {
      yield* checkAccess(list, method, found.success.place, access)
      return found.success
    }
    // Access to a hidden path is denied. The path is not reported as missing.
    if (isMissing(found.failure)) yield* admitEntry(method, given, access)
    return yield* found.failure
  })

  /** Admits a file whose content or attributes are changed in place. */
  const admitChange = Effect.fnUntraced(function* (method: string, given: string) {
    const target = yield* admitFile(method, given, "write")
    const { nlink, type } = yield* host.stat(target.at)
    if (type === "File" && Option.getOrElse(nlink, () => 1) > 1) {
      return yield* makeDenial(
        method,
        given,
        "it has a second name (a hard link), which may lie outside of what can be written: replace it by a new file"
      )
    }
    return target
  })

  /** Admits the removal of a name and of all files below it. */
  const admitRemoval = Effect.fnUntraced(function* (method: string, given: string) {
    const list = yield* rules
    const target = yield* admitEntry(method, given, "write")
    // A mount point cannot be moved or removed, nor can a directory that contains a read-only mount.
    const kept = list
      .filter(({ keeps }) => keeps !== "later")
      .find((rule) => rule.path === target.place || (rule.allows !== "write" && isWithin(rule.path, target.place)))
    return kept === undefined ? target : yield* makeDenial(method, given, `the sandbox keeps ${kept.path} in its place`)
  })

  /** Runs an operation on a held file or directory. Errors name the given path. */
  const runScoped = <A, R>(
    given: string,
    work: Effect.Effect<A, PlatformError, R>
  ): Effect.Effect<A, PlatformError, Exclude<R, Scope.Scope>> => Effect.scoped(addPathToErrors(given, work))

  const addPathToErrors = <A, R>(
    given: string,
    work: Effect.Effect<A, PlatformError, R>
  ): Effect.Effect<A, PlatformError, R> =>
    Effect.mapError(work, (error) =>
      error.reason._tag === "BadArgument" || error.reason.description !== undefined
        ? error
        : systemError({ ...error.reason, pathOrDescriptor: given })
    )

  const withFile =
    (method: string, access: Access) =>
    <A>(given: string, use: (at: string) => Effect.Effect<A, PlatformError>): Effect.Effect<A, PlatformError> =>
      runScoped(
        given,
        Effect.flatMap(admitFile(method, given, access), ({ at }) => use(at))
      )

  const withEntry =
    (method: string, access: Access) =>
    <A>(given: string, use: (at: string) => Effect.Effect<A, PlatformError>): Effect.Effect<A, PlatformError> =>
      runScoped(
        given,
        Effect.flatMap(admitEntry(method, given, access), ({ at }) => use(at))
      )

  const withChanged =
    (method: string) =>
    <A>(given: string, use: (at: string) => Effect.Effect<A, PlatformError>): Effect.Effect<A, PlatformError> =>
      runScoped(
        given,
        Effect.flatMap(admitChange(method, given), ({ at }) => use(at))
      )

  /** Opens a file for writing, and creates it if it is missing. */
  const openForWriting = <A, R>(
    method: string,
    given: string,
    flag: FileSystem.OpenFlag,
    use: (at: string, flag: FileSystem.OpenFlag) => Effect.Effect<A, PlatformError, R>
  ): Effect.Effect<A, PlatformError, R | Scope.Scope> =>
    Effect.gen(function* () {
      const made = making[flag]
      if (flag === "r+") return yield* use((yield* admitChange(method, given)).at, flag)
      if (made === undefined) return yield* use((yield* admitEntry(method, given, "write")).at, flag)
      const found = yield* Effect.result(admitChange(method, given))
      if (found._tag === "Success") return yield* use(found.success.at, flag)
      if (!isMissing(found.failure)) return yield* found.failure
      const { at } = yield* admitEntry(method, given, "write")
      if ((yield* Effect.result(host.readLink(at)))._tag === "Success")
        return yield* makeDenial(method, given, "it is a link to a place that does not exist")
      return yield* use(at, made)
    }).pipe(
      // Another process created the file in the meantime: it is checked as an existing file.
      Effect.retry({ times: 3, while: ({ reason }) => making[flag] !== undefined && reason._tag === "AlreadyExists" })
    )

  const writeFile: FileSystem.FileSystem["writeFile"] = (given, data, options) =>
    runScoped(
      given,
      openForWriting("writeFile", given, options?.flag ?? "w", (at, flag) =>
        host.writeFile(at, data, { ...options, flag })
      )
    )

  const makeDirectory: FileSystem.FileSystem["makeDirectory"] = Effect.fnUntraced(function* (given, options) {
    const one = withEntry("makeDirectory", "write")(given, (at) =>
      host.makeDirectory(at, options?.mode === undefined ? {} : { mode: options.mode })
    )
    if (options?.recursive !== true) return yield* one
    const isThere = (place: string) =>
      withFile("makeDirectory", "read")(place, (at) => Effect.map(host.stat(at), ({ type }) => type === "Directory"))
    const found = yield* Effect.catchIf(isThere(given), isMissing, () => Effect.undefined)
    if (found === true) return
    if (found === undefined && path.dirname(path.resolve(given)) !== path.resolve(given))
      yield* makeDirectory(path.dirname(path.resolve(given)), options)
    // Another process may have created the directory in the meantime.
    yield* Effect.catchIf(
      one,
      ({ reason }) => found === undefined && reason._tag === "AlreadyExists",
      () => Effect.void
    )
  })

  const copyFile: FileSystem.FileSystem["copyFile"] = (from, to) =>
    runScoped(
      from,
      Effect.gen(function* () {
        const source = yield* admitFile("copyFile", from, "read")
        const target = yield* openForWriting("copyFile", to, "a", (at, flag) =>
          Effect.as(host.writeFile(at, new Uint8Array(0), { flag }), to)
        )
        yield* host.copyFile(source.at, (yield* admitChange("copyFile", target)).at)
      })
    )

  /** Copies the file or directory at a path. Links are copied as links. */
  const copyTree = Effect.fnUntraced(function* (
    from: string,
    to: string,
    options: Parameters<FileSystem.FileSystem["copy"]>[2]
  ): Effect.fn.Return<void, PlatformError> {
    const info = yield* withEntry("copy", "read")(from, host.lstat)
    if (info.type === "Directory") {
      yield* makeDirectory(to, { recursive: true })
      const entries = yield* withFile("copy", "read")(from, (at) => host.readDirectory(at))
      yield* Effect.forEach(entries, (name) => copyTree(path.join(from, name), path.join(to, name), options), {
        discard: true
      })
    } else {
      const isThere = yield* Effect.isSuccess(withEntry("copy", "read")(to, host.lstat))
      if (isThere && options?.overwrite !== true) return
      if (info.type !== "SymbolicLink") yield* copyFile(from, to)
      else
        yield* withEntry("copy", "write")(to, (at) =>
          Effect.flatMap(withEntry("copy", "read")(from, host.readLink), (target) => host.symlink(target, at))
        )
    }
    if (options?.preserveTimestamps === true && info.type === "File") {
      const { atime, mtime } = info
      if (Option.isSome(atime) && Option.isSome(mtime))
        yield* withChanged("copy")(to, (at) => host.utimes(at, atime.value, mtime.value))
    }
  })

  /** Removes an entry from a held directory. */
  const removeTree = Effect.fnUntraced(function* (at: string): Effect.fn.Return<void, PlatformError> {
    const { type } = yield* host.lstat(at)
    if (type !== "Directory") return yield* host.remove(at)
    yield* Effect.scoped(
      Effect.gen(function* () {
        const directory = yield* HeldPath.holdDirectory(at)
        const names = yield* host.readDirectory(directory.at)
        yield* Effect.forEach(names, (name) => removeTree(path.join(directory.at, name)), { discard: true })
      })
    )
    yield* HeldPath.removeEmptyDirectory(at)
  })

  const remove: FileSystem.FileSystem["remove"] = (given, options) =>
    runScoped(
      given,
      Effect.flatMap(admitRemoval("remove", given), ({ at }) =>
        options?.recursive === true ? removeTree(at) : host.remove(at)
      )
    ).pipe(
      Effect.catchIf(
        (error) => options?.force === true && isMissing(error),
        () => Effect.void
      )
    )

  /** Lists the names below a directory without hidden ones. Links are listed but not followed. */
  const listBelow = (given: string): Effect.Effect<Array<string>, PlatformError> =>
    runScoped(
      given,
      Effect.gen(function* () {
        const list = yield* rules
        const { at, place } = yield* admitFile("readDirectory", given, "read")
        const lists = yield* Effect.forEach(yield* host.readDirectoryEntries(at), ({ name, type }) => {
          const inner = path.join(place, name)
          if (findRule(list, inner)?.allows === "nothing") return Effect.succeed([])
          return type === "Directory"
            ? Effect.map(listBelow(inner), (names) => [name, ...names.map((deeper) => path.join(name, deeper))])
            : Effect.succeed([name])
        })
        return lists.flat()
      })
    )

  const makeTempDirectory: FileSystem.FileSystem["makeTempDirectory"] = Effect.fnUntraced(function* (options) {
    const directory = options?.directory ?? (yield* temporary)
    return yield* runScoped(
      directory,
      Effect.gen(function* () {
        const { at, place } = yield* admitFile("makeTempDirectory", directory, "write")
        return path.join(place, path.basename(yield* host.makeTempDirectory({ ...options, directory: at })))
      })
    )
  })

  const makeTempFile: FileSystem.FileSystem["makeTempFile"] = Effect.fnUntraced(function* (options) {
    const made = path.join(yield* makeTempDirectory(options), `file${options?.suffix ?? ""}`)
    yield* writeFile(made, new Uint8Array(0), { flag: "wx" })
    return made
  })

  const removeTemporary = (made: string) => Effect.orDie(remove(made, { recursive: true, force: true }))

  return FileSystem.make({
    access: (given, options) =>
      withFile("access", options?.writable === true ? "write" : "read")(given, (at) => host.access(at, options)),
    copy: Effect.fnUntraced(function* (from, to, options) {
      const list = yield* rules
      const source = yield* runScoped(
        from,
        Effect.map(admitFile("copy", from, "read"), ({ place }) => place)
      )
      const hidden = list.find(({ allows, path }) => allows === "nothing" && isWithin(path, source))
      if (hidden !== undefined) return yield* makeDenial("copy", from, `the sandbox hides ${hidden.path}`)
      yield* copyTree(source, to, options)
    }),
    copyFile,
    chmod: (given, mode) => withChanged("chmod")(given, (at) => host.chmod(at, mode)),
    chown: (given, uid, gid) => withChanged("chown")(given, (at) => host.chown(at, uid, gid)),
    // A second name would bypass the rule for the path of a file.
    link: (from, to) =>
      runScoped(
        from,
        Effect.gen(function* () {
          const { place } = yield* admitFile("link", from, "write")
          const [source, target] = yield* Effect.all([
            admitEntry("link", place, "write"),
            admitEntry("link", to, "write")
          ])
          yield* host.link(source.at, target.at)
        })
      ),
    lstat: (given) => withEntry("lstat", "read")(given, host.lstat),
    makeDirectory,
    makeTempDirectory,
    makeTempDirectoryScoped: (options) => Effect.acquireRelease(makeTempDirectory(options), removeTemporary),
    makeTempFile,
    makeTempFileScoped: (options) =>
      Effect.acquireRelease(makeTempFile(options), (made) => removeTemporary(path.dirname(made))),
    open: (given, options) => {
      const flag = options?.flag ?? "r"
      return Effect.flatMap(Effect.scope, (scope) =>
        runScoped(
          given,
          Effect.gen(function* () {
            const openOnHost = (at: string, flag: FileSystem.OpenFlag) =>
              host.open(at, { ...options, flag }).pipe(Effect.provideService(Scope.Scope, scope))
            // The descriptor refers to the file itself, so a link must be rejected when its name is looked up.
            if (options?.noFollow === true)
              return yield* openOnHost((yield* admitEntry("open", given, flag === "r" ? "read" : "write")).at, flag)
            return flag === "r"
              ? yield* openOnHost((yield* admitFile("open", given, "read")).at, flag)
              : yield* openForWriting("open", given, flag, openOnHost)
          })
        )
      )
    },
    readDirectory: (given, options) =>
      options?.recursive === true
        ? listBelow(given)
        : withFile("readDirectory", "read")(given, (at) => host.readDirectory(at)),
    readDirectoryEntries: (given) => withFile("readDirectoryEntries", "read")(given, host.readDirectoryEntries),
    readFile: (given) => withFile("readFile", "read")(given, host.readFile),
    readLink: (given) => withEntry("readLink", "read")(given, host.readLink),
    realPath: (given) =>
      runScoped(
        given,
        Effect.map(admitFile("realPath", given, "read"), ({ place }) => place)
      ),
    remove,
    rename: (from, to) =>
      runScoped(
        from,
        Effect.flatMap(Effect.all([admitRemoval("rename", from), admitRemoval("rename", to)]), ([source, target]) =>
          host.rename(source.at, target.at)
        )
      ),
    stat: (given) => withFile("stat", "read")(given, host.stat),
    symlink: (from, to) => withEntry("symlink", "write")(to, (at) => host.symlink(from, at)),
    truncate: (given, length) => withChanged("truncate")(given, (at) => host.truncate(at, length)),
    utimes: (given, atime, mtime) => withChanged("utimes")(given, (at) => host.utimes(at, atime, mtime)),
    watch: (given, options) =>
      Stream.unwrap(
        Effect.flatMap(rules, (list) =>
          runScoped(
            given,
            Effect.map(admitFile("watch", given, "read"), ({ place }) => host.watch(toHostPath(list, place), options))
          )
        )
      ),
    writeFile
  })
}
