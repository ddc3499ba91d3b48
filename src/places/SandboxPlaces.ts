/**
 * Creates the rules of a sandbox for the files that currently exist: its working tree with the protected files in it,
 * nested repositories, temporary directories, caches and hidden places.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import { nodePath } from "../base/platform/CurrentProcess.ts"
import { removeEmptyDirectory } from "../base/platform/HeldPath.ts"
import { CurrentProgram, findProgramFiles } from "../base/platform/ProgramFiles.ts"
import { distrustPlaces } from "../base/platform/TrustedPrograms.ts"
import { CallConversation, CallDirectory, CurrentWorkspace } from "../base/domain/CallContext.ts"
import * as SandboxCaches from "./SandboxCaches.ts"
import { listServiceSockets } from "./SandboxNetwork.ts"
import * as SandboxProgram from "./SandboxProgram.ts"
import { sortRules, type Rule, isWithin } from "./SandboxRules.ts"
import type { WallKind } from "./SandboxWall.ts"
import * as TreeWatch from "./TreeWatch.ts"
import * as WorkingTree from "./WorkingTree.ts"

const noCaches: SandboxCaches.ProjectCaches = { rules: [], variables: {} }

/** Limits of the files that the commands of a sandbox read and write. Paths are absolute. */
export interface Options {
  /**
   * Write access. `read-only`: only temporary files can be written. `workspace-write`: the working tree of the call can
   * be written too, unless its run is in the mode `plan`.
   */
  readonly policy: "read-only" | "workspace-write"
  /** The user's home directory. A tree that contains it is read-only. */
  readonly home: string | undefined
  /** Additional writable directories. Directories that do not exist are skipped. */
  readonly writable: ReadonlyArray<string>
  /** Hidden files and directories. Paths that do not exist are skipped. */
  readonly hidden: ReadonlyArray<string>
  /** Readable directories below hidden ones. */
  readonly shown: ReadonlyArray<string>
  /** True if the `.env` files of the working tree are hidden, at every depth. */
  readonly hidesEnvFiles: boolean
  /** Separate package manager caches for each project. If absent, only the `writable` caches are available. */
  readonly caches?: SandboxCaches.Options | undefined
}

/**
 * Time in milliseconds for which a scan of the files is valid, because a scan costs as much as starting a command. Only
 * the user creates files that rules apply to, and rarely; a command cannot change them.
 */
const rulesMillis = 1000

/** Temporary directories of one conversation. */
export interface TemporaryDirectory {
  /** Path of the temporary directory for commands. */
  readonly directory: string
  readonly rules: ReadonlyArray<Rule>
  /** Paths of the temporary directories on this machine. */
  readonly sources: ReadonlyArray<string>
}

/** Creates separate temporary directories for each conversation, at the usual paths if they can be mounted there. */
export const makeTemporary = Effect.fnUntraced(function* (base: string, paths: WallKind["paths"]) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const numbers = new Map<string | undefined, number>()
  return Effect.gen(function* () {
    const conversation = yield* CallConversation
    const number = numbers.get(conversation) ?? numbers.size
    numbers.set(conversation, number)
    const root = path.join(base, String(number))
    const at = { tmp: path.join(root, "tmp"), varTmp: path.join(root, "var-tmp") }
    const made = paths === "mounted" ? [at.tmp, at.varTmp] : [at.tmp]
    yield* Effect.forEach(made, (directory) => fs.makeDirectory(directory, { mode: 0o700, recursive: true }), {
      discard: true
    })
    const mounted: ReadonlyArray<Rule> = [
      { path: "/tmp", source: at.tmp, allows: "write" },
      { path: "/var/tmp", source: at.varTmp, allows: "write" }
    ]
    // Without a mount at the usual path, a command would see the files of other programs there.
    const own: ReadonlyArray<Rule> =
      paths === "mounted" && mounted.some(({ path }) => isWithin(base, path)) ? [] : [{ path: base, allows: "nothing" }]
    const temporary: TemporaryDirectory =
      paths === "mounted"
        ? { directory: "/tmp", rules: [...mounted, ...own], sources: made }
        : { directory: at.tmp, rules: [...own, { path: at.tmp, allows: "write" }], sources: made }
    return temporary
  })
})

/** Creates the rules for calls, by their working directory, for the files that currently exist. */
export const makeRules = Effect.fnUntraced(function* (
  options: Options,
  temporary: Effect.Effect<TemporaryDirectory, PlatformError>,
  paths: WallKind["paths"]
) {
  const fs = yield* FileSystem.FileSystem
  const services = yield* Effect.context<FileSystem.FileSystem | Path.Path>()
  const trees = yield* WorkingTree.make(options.home)
  // Commands write to these directories, so the program's own helpers must not come from them.
  if (options.policy === "workspace-write") distrustPlaces(options.writable)

  const lookUpRule = (allows: Rule["allows"]) => (named: string) =>
    Effect.provideContext(WorkingTree.findRuleAt(allows, named), services)

  const placeholders = new Set<string>()
  yield* Effect.addFinalizer(() =>
    Effect.forEach(
      placeholders,
      (placeholder) =>
        // A placeholder that is no longer empty is not removed.
        Effect.ignore(removeEmptyDirectory(placeholder)),
      { discard: true }
    )
  )

  /** Adopts an empty `.git` or `.hermes` as a placeholder that a killed sandbox left behind. */
  const claimEmptyDirectory = (directory: string): Effect.Effect<void> =>
    /\/\.(?:git|hermes)$/.test(directory)
      ? Effect.ignore(
          Effect.map(fs.readDirectory(directory), (names) => void (names.length === 0 && placeholders.add(directory)))
        )
      : Effect.void

  /**
   * Returns rules for a directory that is never writable. If it is missing, an empty directory replaces it until the
   * sandbox ends.
   */
  const reserveDirectory = (directory: string): Effect.Effect<ReadonlyArray<Rule>, PlatformError> =>
    Effect.flatMap(Effect.andThen(claimEmptyDirectory(directory), lookUpRule("read")(directory)), (found) =>
      found.length > 0 || options.policy === "read-only"
        ? Effect.succeed(found)
        : fs.makeDirectory(directory).pipe(
            Effect.tap(Effect.sync(() => placeholders.add(directory))),
            // Another process created the directory first, or it cannot be created here.
            Effect.ignore,
            Effect.andThen(lookUpRule("read")(directory))
          )
    )

  const findRuleOrAbsent = (file: string): Effect.Effect<ReadonlyArray<Rule>, PlatformError> =>
    Effect.map(lookUpRule("read")(file), (found) =>
      found.length > 0 ? found : [{ path: file, allows: "read", isAbsent: true }]
    )

  type KnownRules = {
    readonly until: number
    readonly list: ReadonlyArray<Rule>
    readonly sockets: ReadonlyArray<Rule>
  }
  const known = new Map<string, KnownRules>()
  const forget = Effect.sync(() => known.clear())

  const findProgram = Effect.flatMap(CurrentProgram, findProgramFiles)
  const program = yield* Effect.cached(Effect.provideContext(findProgram, services))
  const watch = yield* TreeWatch.make({
    home: options.home,
    links: Effect.map(program, ({ links }) => (options.policy === "read-only" ? [] : links)),
    writable: options.writable,
    onChange: () => known.clear()
  })
  const openCaches = options.caches === undefined ? undefined : yield* SandboxCaches.make(options.caches, paths)

  const findTree = Effect.fnUntraced(function* (directory: string) {
    return yield* Effect.orElseSucceed(fs.realPath(yield* trees.findTreeRoot(directory)), () => directory)
  })

  /** Returns the tree that commands of the call may write, or `undefined` if they may not write a tree. */
  const findWrittenTree = Effect.gen(function* () {
    const directory = yield* CallDirectory
    const tree = directory === undefined || options.policy === "read-only" ? undefined : yield* findTree(directory)
    const holdsHome = tree === "/" || (tree !== undefined && options.home !== undefined && isWithin(options.home, tree))
    return holdsHome ? undefined : tree
  })

  /**
   * Waits until the files that commands created in the tree are known. A running command may create files at any time.
   */
  const caughtUp = Effect.flatMap(findWrittenTree, (tree) =>
    tree === undefined ? Effect.void : Effect.asVoid(watch.lookThrough(tree))
  )

  const findTreeRules = Effect.fnUntraced(function* (directory: string) {
    const tree = yield* findTree(directory)
    if (tree === "/") return []
    // The tree is visible even if a home directory lies in `/tmp`, which is replaced inside the sandbox.
    if (options.home !== undefined && isWithin(options.home, tree)) return yield* lookUpRule("read")(tree)
    if (options.policy === "workspace-write") distrustPlaces([tree])
    return yield* WorkingTree.listRules(
      tree,
      { ...options, scan: yield* watch.lookThrough(tree) },
      { reserved: reserveDirectory, absent: findRuleOrAbsent }
    )
  }, Effect.provideContext(services))

  /** The Node program used by execute_code and the network, if the temporary directories would hide it. */
  const hiddenPrograms = ["/tmp", "/var/tmp"].some((path) => isWithin(nodePath, path)) ? [nodePath] : []

  /** Rules for the workspace of a tenant: the files of others and of the runtime are not visible. */
  const findWorkspaceRules = Effect.fnUntraced(function* (directory: string | undefined) {
    const workspace = yield* CurrentWorkspace
    if (workspace === undefined) return []
    const tree = directory === undefined ? undefined : yield* findTree(directory)
    // The rule of the tree applies to the tree.
    const shown = [
      ...(tree === workspace.directory ? [] : [workspace.directory]),
      ...(workspace.hidden.some((hidden) => isWithin(nodePath, hidden)) ? [nodePath] : [])
    ]
    const lists = yield* Effect.all([
      Effect.forEach(shown, lookUpRule("read")),
      Effect.forEach(workspace.hidden, lookUpRule("nothing"))
    ])
    return lists.flat(2)
  }, Effect.provideContext(services))

  const coverSockets = Effect.fnUntraced(function* (directory: string | undefined) {
    const trees = directory === undefined ? [] : [yield* findTree(directory)]
    const sockets = yield* listServiceSockets(trees, options.writable)
    return (yield* Effect.forEach(sockets, lookUpRule("nothing"))).flat()
  }, Effect.provideContext(services))

  const findCaches = Effect.fnUntraced(function* (directory: string | undefined) {
    // A command without a project has no caches, but a program of the user has caches.
    const isUnowned = directory === undefined && options.caches?.owner === undefined
    if (openCaches === undefined || isUnowned || options.policy === "read-only") return noCaches
    return yield* openCaches(directory === undefined ? undefined : yield* findTree(directory))
  })

  /** Bubblewrap fails to start with a rule for a socket that another program has removed. */
  const areStillThere = (sockets: ReadonlyArray<Rule>) =>
    Effect.map(
      Effect.forEach(sockets, ({ path }) => Effect.orElseSucceed(fs.exists(path), () => false)),
      (found) => found.every(Boolean)
    )

  const collectRules = Effect.fnUntraced(function* (directory: string | undefined) {
    const sockets = yield* coverSockets(directory)
    const lists = yield* Effect.all(
      [
        directory === undefined ? Effect.succeed([]) : findTreeRules(directory),
        findWorkspaceRules(directory),
        Effect.map(findCaches(directory), ({ rules }) => rules),
        Effect.map(
          Effect.forEach(options.policy === "read-only" ? [] : options.writable, lookUpRule("write")),
          (list) => list.flat()
        ),
        // Sockets of services: access to the socket of a container daemon is access to the whole machine.
        Effect.map(Effect.forEach(["/run", ...options.hidden], lookUpRule("nothing")), (list) => list.flat()),
        Effect.map(Effect.forEach([...options.shown, ...hiddenPrograms], lookUpRule("read")), (list) => list.flat())
      ],
      { concurrency: "unbounded" }
    )
    const list = [...(yield* temporary).rules, ...lists.flat(), ...sockets]
    const { files } = yield* program
    const programRules = yield* SandboxProgram.findRules(files, list, options.writable)
    return { list: sortRules([...list, ...programRules]), sockets }
  }, Effect.provideContext(services))

  /**
   * Watches the tree while a command runs that may create repositories and files that run later, until the scope
   * closes.
   */
  const whileRunning = Effect.flatMap(findWrittenTree, (tree) =>
    tree === undefined ? Effect.void : watch.whileRunning(tree)
  )
  const rules = Effect.gen(function* () {
    const directory = yield* CallDirectory
    const now = yield* Clock.currentTimeMillis
    const workspace = (yield* CurrentWorkspace)?.directory ?? ""
    const key = `${(yield* CallConversation) ?? ""}\0${directory ?? ""}\0${workspace}`
    const last = known.get(key)
    if (last !== undefined && now < last.until && (yield* areStillThere(last.sockets))) return last.list
    const collected = yield* collectRules(directory)
    known.set(key, { until: now + rulesMillis, ...collected })
    return collected.list
  })
  const cacheVariables = Effect.map(Effect.flatMap(CallDirectory, findCaches), ({ variables }) => variables)
  return { cacheVariables, caughtUp, forget, rules, watch, whileRunning }
})
