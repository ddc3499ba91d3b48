/**
 * The files of this machine as the processes of a sandbox see them: what its rules hide cannot be read, what they do not allow cannot
 * be written, and its own temporary directories stand at their usual paths.
 *
 * **Details**
 *
 * A path is resolved with symbolic links followed, as far as it exists, then judged, then opened at the place on the host that the
 * rules give it. What is refused fails as the system would refuse it (`PermissionDenied`).
 *
 * **Gotchas**
 *
 * A file is opened by this program and not inside of the sandbox: a process that swaps a directory for a link in the moment between the
 * judgement and the opening is not seen.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import { type PlatformError, systemError } from "effect/PlatformError"
import * as Stream from "effect/Stream"
import { inSandbox, onHost, type Rule, ruleOf, within } from "./SandboxRules.ts"

type Access = "read" | "write"

const denied = (method: string, path: string, description: string): PlatformError =>
  systemError({ _tag: "PermissionDenied", module: "FileSystem", method, pathOrDescriptor: path, description })

const isMissing = (error: PlatformError): boolean => error.reason._tag === "NotFound"

/** The file system of a sandbox over that of the host; `rules` are those that apply to the call that is served. */
export const make = (
  host: FileSystem.FileSystem,
  path: Path.Path,
  rules: Effect.Effect<ReadonlyArray<Rule>, PlatformError>
): FileSystem.FileSystem => {
  /** Real path in the sandbox, as far as the path exists. */
  const real = Effect.fnUntraced(function*(list: ReadonlyArray<Rule>, given: string) {
    const rest: Array<string> = []
    for (let at = path.resolve(given);; at = path.dirname(at)) {
      const found = yield* Effect.result(host.realPath(onHost(list, at)))
      if (found._tag === "Success") return path.join(inSandbox(list, found.success), ...rest)
      if (!isMissing(found.failure) || path.dirname(at) === at) return yield* found.failure
      rest.unshift(path.basename(at))
    }
  })

  const judged = (list: ReadonlyArray<Rule>, method: string, place: string, access: Access): Effect.Effect<string, PlatformError> => {
    const allows = ruleOf(list, place)?.allows ?? "read"
    if (allows === "nothing") return Effect.fail(denied(method, place, "the sandbox hides it"))
    if (access === "write" && allows !== "write") return Effect.fail(denied(method, place, "the sandbox does not let it be written"))
    return Effect.succeed(onHost(list, place))
  }

  /** Place on the host of a file that links are followed to. */
  const file = Effect.fnUntraced(function*(method: string, given: string, access: Access) {
    const list = yield* rules
    const place = yield* real(list, given)
    const target = yield* judged(list, method, place, access)
    if (access === "write") {
      const link = yield* Effect.result(host.readLink(target))
      // A link whose target exists was followed before.
      if (link._tag === "Success") return yield* denied(method, given, "it is a link to a place that does not exist")
    }
    return target
  })

  /** Place on the host of a name in a directory: a link itself, not what it points at. */
  const entry = Effect.fnUntraced(function*(method: string, given: string, access: Access) {
    const list = yield* rules
    const name = path.resolve(given)
    return yield* judged(list, method, path.join(yield* real(list, path.dirname(name)), path.basename(name)), access)
  })

  /** Place on the host of a name that is taken away with everything below it. */
  const whole = Effect.fnUntraced(function*(method: string, given: string) {
    const list = yield* rules
    const target = yield* entry(method, given, "write")
    const place = inSandbox(list, target)
    // A mount cannot be moved or removed, nor can a directory that holds one which is not written.
    const held = list.find((rule) => rule.path === place || rule.allows !== "write" && within(rule.path, place))
    if (held !== undefined) return yield* denied(method, given, `the sandbox keeps ${held.path} in its place`)
    return target
  })

  /** Names below a directory of the host, without what is hidden; links are named and not followed. */
  const below = (list: ReadonlyArray<Rule>, directory: string): Effect.Effect<Array<string>, PlatformError> =>
    Effect.flatMap(host.readDirectoryEntries(directory), (entries) =>
      Effect.map(
        Effect.forEach(entries, ({ name, type }) => {
          const at = path.join(directory, name)
          if (ruleOf(list, inSandbox(list, at))?.allows === "nothing") return Effect.succeed([])
          return type === "Directory" ? Effect.map(below(list, at), (names) => [name, ...names.map((inner) => path.join(name, inner))]) : Effect.succeed([name])
        }),
        (lists) => lists.flat()
      ))

  const shown = (target: string): Effect.Effect<string, PlatformError> => Effect.map(rules, (list) => inSandbox(list, target))
  const temporary = <O extends { readonly directory?: string | undefined }>(method: string, options: O | undefined) =>
    Effect.map(file(method, options?.directory ?? "/tmp", "write"), (directory) => ({ ...options, directory }))

  return FileSystem.make({
    access: (given, options) => Effect.flatMap(file("access", given, options?.writable === true ? "write" : "read"), (at) => host.access(at, options)),
    copy: Effect.fnUntraced(function*(from, to, options) {
      const list = yield* rules
      const source = yield* file("copy", from, "read")
      const hidden = list.find(({ allows, path }) => allows === "nothing" && within(path, inSandbox(list, source)))
      if (hidden !== undefined) return yield* denied("copy", from, `the sandbox hides ${hidden.path}`)
      yield* host.copy(source, yield* file("copy", to, "write"), options)
    }),
    copyFile: (from, to) =>
      Effect.flatMap(Effect.all([file("copyFile", from, "read"), file("copyFile", to, "write")]), ([source, target]) => host.copyFile(source, target)),
    chmod: (given, mode) => Effect.flatMap(file("chmod", given, "write"), (at) => host.chmod(at, mode)),
    chown: (given, uid, gid) => Effect.flatMap(file("chown", given, "write"), (at) => host.chown(at, uid, gid)),
    // A second name would take a file out of reach of the rule of its path.
    link: (from, to) =>
      Effect.flatMap(Effect.all([file("link", from, "write"), entry("link", to, "write")]), ([source, target]) => host.link(source, target)),
    lstat: (given) => Effect.flatMap(entry("lstat", given, "read"), host.lstat),
    makeDirectory: (given, options) => Effect.flatMap(file("makeDirectory", given, "write"), (at) => host.makeDirectory(at, options)),
    makeTempDirectory: (options) => temporary("makeTempDirectory", options).pipe(Effect.flatMap(host.makeTempDirectory), Effect.flatMap(shown)),
    makeTempDirectoryScoped: (options) =>
      temporary("makeTempDirectoryScoped", options).pipe(Effect.flatMap(host.makeTempDirectoryScoped), Effect.flatMap(shown)),
    makeTempFile: (options) => temporary("makeTempFile", options).pipe(Effect.flatMap(host.makeTempFile), Effect.flatMap(shown)),
    makeTempFileScoped: (options) => temporary("makeTempFileScoped", options).pipe(Effect.flatMap(host.makeTempFileScoped), Effect.flatMap(shown)),
    open: (given, options) =>
      Effect.flatMap(file("open", given, options?.flag === undefined || options.flag === "r" ? "read" : "write"), (at) => host.open(at, options)),
    readDirectory: (given, options) =>
      Effect.flatMap(file("readDirectory", given, "read"), (at) => options?.recursive === true ? Effect.flatMap(rules, (list) => below(list, at)) : host.readDirectory(at)),
    readDirectoryEntries: (given) => Effect.flatMap(file("readDirectoryEntries", given, "read"), host.readDirectoryEntries),
    readFile: (given) => Effect.flatMap(file("readFile", given, "read"), host.readFile),
    readLink: (given) => Effect.flatMap(entry("readLink", given, "read"), host.readLink),
    realPath: (given) => Effect.flatMap(Effect.flatMap(file("realPath", given, "read"), host.realPath), shown),
    remove: (given, options) => Effect.flatMap(whole("remove", given), (at) => host.remove(at, options)),
    rename: (from, to) =>
      Effect.flatMap(Effect.all([whole("rename", from), whole("rename", to)]), ([source, target]) => host.rename(source, target)),
    stat: (given) => Effect.flatMap(file("stat", given, "read"), host.stat),
    symlink: (from, to) => Effect.flatMap(entry("symlink", to, "write"), (at) => host.symlink(from, at)),
    truncate: (given, length) => Effect.flatMap(file("truncate", given, "write"), (at) => host.truncate(at, length)),
    utimes: (given, atime, mtime) => Effect.flatMap(file("utimes", given, "write"), (at) => host.utimes(at, atime, mtime)),
    watch: (given, options) => Stream.unwrap(Effect.map(file("watch", given, "read"), (at) => host.watch(at, options))),
    writeFile: (given, data, options) => Effect.flatMap(file("writeFile", given, "write"), (at) => host.writeFile(at, data, options))
  })
}
