/**
 * Admission of paths to a sandbox: holds a file or a directory open, determines its path in the sandbox, and checks it
 * against the rules of the current call.
 *
 * **Details**
 *
 * An operation gets the path of the held file (`HeldPath`), so a process that replaces a directory by a link in between
 * has no effect.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import type * as Path from "effect/Path"
import { type PlatformError, systemError } from "effect/PlatformError"
import * as Scope from "effect/Scope"
import * as HeldPath from "../base/platform/HeldPath.ts"
import * as SandboxProgram from "./SandboxProgram.ts"
import { toSandboxPath, toHostPath, type Rule, findRule, isWithin } from "./SandboxRules.ts"

type Access = "read" | "write"

export const makeDenial = (method: string, path: string, description: string): PlatformError =>
  systemError({ _tag: "PermissionDenied", module: "FileSystem", method, pathOrDescriptor: path, description })

export const isMissing = (error: PlatformError): boolean => error.reason._tag === "NotFound"

/** A path that was admitted for an operation. */
export interface AdmittedPath {
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

/** A sandbox whose files are accessed. The rules and the temporary directory belong to the current call. */
export interface SandboxView {
  readonly host: FileSystem.FileSystem
  readonly path: Path.Path
  readonly rules: Effect.Effect<ReadonlyArray<Rule>, PlatformError>
  readonly temporary: Effect.Effect<string, PlatformError>
  /** Notifies the sandbox of a path that is about to be written. */
  readonly admitWrite: (place: string) => void
}

const checkAccess = (
  view: SandboxView,
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
  return Effect.sync(() => view.admitWrite(place))
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
    if (!real.startsWith("/") || real.endsWith(" (deleted)")) return yield* makeDenial(method, given, "it has no path")
    place = toSandboxPath(list, real)
    if (toHostPath(list, place) === real) return { at, place }
  }
  return yield* makeDenial(method, given, "too many links lead to it")
})

/** Finds the nearest existing directory above a path, and the missing names below it. */
const findParent = Effect.fnUntraced(function* (
  view: SandboxView,
  list: ReadonlyArray<Rule>,
  method: string,
  given: string
) {
  const names: Array<string> = []
  for (let at = given; ;) {
    names.unshift(view.path.basename(at))
    at = view.path.dirname(at)
    const found = yield* Effect.result(holdPath(list, method, at))
    if (found._tag === "Success") return { directory: found.success, names }
    if (!isMissing(found.failure) || view.path.dirname(at) === at) return yield* found.failure
  }
})

/** Admits a name in a held directory. A link is not followed. */
export const admitEntry = Effect.fnUntraced(function* (
  view: SandboxView,
  method: string,
  given: string,
  access: Access
): Effect.fn.Return<AdmittedPath, PlatformError, Scope.Scope> {
  const list = yield* view.rules
  const name = view.path.resolve(given)
  if (view.path.dirname(name) === name) return yield* admitFile(view, method, given, access)
  const {
    directory,
    names: [first = "", ...rest]
  } = yield* findParent(view, list, method, name)
  const place = view.path.join(directory.place, first, ...rest)
  yield* checkAccess(view, list, method, place, access)
  if (rest.length > 0)
    return yield* systemError({ _tag: "NotFound", module: "FileSystem", method, pathOrDescriptor: given })
  return { at: view.path.join(directory.at, first), place }
})

/** Admits an existing file or directory, following links. */
export const admitFile = Effect.fnUntraced(function* (
  view: SandboxView,
  method: string,
  given: string,
  access: Access
): Effect.fn.Return<AdmittedPath, PlatformError, Scope.Scope> {
  const list = yield* view.rules
  const name = view.path.resolve(given)
  const found = yield* Effect.result(holdPath(list, method, name))
  if (found._tag === "Success") {
    yield* checkAccess(view, list, method, found.success.place, access)
    return found.success
  }
  // Access to a hidden path is denied. The path is not reported as missing.
  if (isMissing(found.failure)) yield* admitEntry(view, method, given, access)
  return yield* found.failure
})

/** Admits a file whose content or attributes are changed in place. */
export const admitChange = Effect.fnUntraced(function* (view: SandboxView, method: string, given: string) {
  const target = yield* admitFile(view, method, given, "write")
  const { nlink, type } = yield* view.host.stat(target.at)
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
export const admitRemoval = Effect.fnUntraced(function* (view: SandboxView, method: string, given: string) {
  const list = yield* view.rules
  const target = yield* admitEntry(view, method, given, "write")
  // A mount point cannot be moved or removed, nor can a directory that contains a read-only mount.
  const kept = list
    .filter(({ keeps }) => keeps !== "later")
    .find((rule) => rule.path === target.place || (rule.allows !== "write" && isWithin(rule.path, target.place)))
  return kept === undefined ? target : yield* makeDenial(method, given, `the sandbox keeps ${kept.path} in its place`)
})

/** Runs an operation on a held file or directory. Errors name the given path. */
export const runScoped = <A, R>(
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

export const withFile =
  (view: SandboxView, method: string, access: Access) =>
  <A>(given: string, use: (at: string) => Effect.Effect<A, PlatformError>): Effect.Effect<A, PlatformError> =>
    runScoped(
      given,
      Effect.flatMap(admitFile(view, method, given, access), ({ at }) => use(at))
    )

export const withEntry =
  (view: SandboxView, method: string, access: Access) =>
  <A>(given: string, use: (at: string) => Effect.Effect<A, PlatformError>): Effect.Effect<A, PlatformError> =>
    runScoped(
      given,
      Effect.flatMap(admitEntry(view, method, given, access), ({ at }) => use(at))
    )

export const withChanged =
  (view: SandboxView, method: string) =>
  <A>(given: string, use: (at: string) => Effect.Effect<A, PlatformError>): Effect.Effect<A, PlatformError> =>
    runScoped(
      given,
      Effect.flatMap(admitChange(view, method, given), ({ at }) => use(at))
    )
