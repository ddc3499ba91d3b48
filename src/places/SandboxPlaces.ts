/**
 * Creates the rules of a sandbox for the files that currently exist: its working tree with the protected files in it,
 * nested repositories, temporary directories, caches and hidden places.
 */
import * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import { nodePath } from "../base/platform/CurrentProcess.ts"
import { removeEmptyDirectory } from "../base/platform/HeldPath.ts"
import { CurrentProgram, findProgramFiles, type ProgramFiles } from "../base/platform/ProgramFiles.ts"
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

/** Rules that were collected for a call, which are valid for a while. */
interface KnownRules {
  readonly until: number
  readonly list: ReadonlyArray<Rule>
  readonly sockets: ReadonlyArray<Rule>
}

/** Sources of the rules of a sandbox. */
interface RuleSources {
  readonly options: Options
  readonly fs: FileSystem.FileSystem
  readonly services: Context.Context<FileSystem.FileSystem | Path.Path>
  readonly trees: Effect.Success<ReturnType<typeof WorkingTree.make>>
  readonly watch: Effect.Success<ReturnType<typeof TreeWatch.make>>
  readonly temporary: Effect.Effect<TemporaryDirectory, PlatformError>
  /** Files of the running program. */
  readonly program: Effect.Effect<ProgramFiles>
  readonly openCaches: Effect.Success<ReturnType<typeof SandboxCaches.make>> | undefined
  /** Empty directories that replace missing ones until the sandbox ends. */
  readonly placeholders: Set<string>
  /** Rules by conversation and working directory. */
  readonly known: Map<string, KnownRules>
}

const findProgram = Effect.flatMap(CurrentProgram, findProgramFiles)

/** The Node program used by execute_code and the network, if the temporary directories would hide it. */
const hiddenPrograms = ["/tmp", "/var/tmp"].some((path) => isWithin(nodePath, path)) ? [nodePath] : []

const provideServices = <A, E>(
  effect: Effect.Effect<A, E, FileSystem.FileSystem | Path.Path>,
  { services }: RuleSources
): Effect.Effect<A, E> => Effect.provideContext(effect, services)

const lookUpRule = (sources: RuleSources, allows: Rule["allows"]) => (named: string) =>
  Effect.provideContext(WorkingTree.findRuleAt(allows, named), sources.services)

/** Adopts an empty `.git` or `.hermes` as a placeholder that a killed sandbox left behind. */
const claimEmptyDirectory = (sources: RuleSources, directory: string): Effect.Effect<void> =>
  /\/\.(?:git|hermes)$/.test(directory)
    ? Effect.ignore(
        Effect.map(
          sources.fs.readDirectory(directory),
          (names) => void (names.length === 0 && sources.placeholders.add(directory))
        )
      )
    : Effect.void

/**
 * Returns rules for a directory that is never writable. If it is missing, an empty directory replaces it until the
 * sandbox ends.
 */
const reserveDirectory = (sources: RuleSources, directory: string): Effect.Effect<ReadonlyArray<Rule>, PlatformError> =>
  Effect.flatMap(
    Effect.andThen(claimEmptyDirectory(sources, directory), lookUpRule(sources, "read")(directory)),
    (found) =>
      found.length > 0 || sources.options.policy === "read-only"
        ? Effect.succeed(found)
        : sources.fs.makeDirectory(directory).pipe(
            Effect.tap(Effect.sync(() => sources.placeholders.add(directory))),
            // Another process created the directory first, or it cannot be created here.
            Effect.ignore,
            Effect.andThen(lookUpRule(sources, "read")(directory))
          )
  )

const findRuleOrAbsent = (sources: RuleSources, file: string): Effect.Effect<ReadonlyArray<Rule>, PlatformError> =>
  Effect.map(lookUpRule(sources, "read")(file), (found) =>
    found.length > 0 ? found : [{ path: file, allows: "read", isAbsent: true }]
  )

const findTree = Effect.fnUntraced(function* (sources: RuleSources, directory: string) {
  return yield* Effect.orElseSucceed(sources.fs.realPath(yield* sources.trees.findTreeRoot(directory)), () => directory)
})

const findTreeRules = Effect.fnUntraced(function* (sources: RuleSources, directory: string) {
  const tree = yield* findTree(sources, directory)
  if (tree === "/") return []
  // The tree is visible even if a home directory lies in `/tmp`, which is replaced inside the sandbox.
  if (sources.options.home !== undefined && isWithin(sources.options.home, tree))
    return yield* lookUpRule(sources, "read")(tree)
  if (sources.options.policy === "workspace-write") distrustPlaces([tree])
  return yield* WorkingTree.listRules(
    tree,
    { ...sources.options, scan: yield* sources.watch.lookThrough(tree) },
    { reserved: (directory) => reserveDirectory(sources, directory), absent: (file) => findRuleOrAbsent(sources, file) }
  )
}, provideServices)

/** Returns rules for the workspace of a tenant: the files of others and of the runtime are not visible. */
const findWorkspaceRules = Effect.fnUntraced(function* (sources: RuleSources, directory: string | undefined) {
  const workspace = yield* CurrentWorkspace
  if (workspace === undefined) return []
  const tree = directory === undefined ? undefined : yield* findTree(sources, directory)
  // The rule of the tree applies to the tree.
  const shown = [
    ...(tree === workspace.directory ? [] : [workspace.directory]),
    ...(workspace.hidden.some((hidden) => isWithin(nodePath, hidden)) ? [nodePath] : [])
  ]
  const lists = yield* Effect.all([
    Effect.forEach(shown, lookUpRule(sources, "read")),
    Effect.forEach(workspace.hidden, lookUpRule(sources, "nothing"))
  ])
  return lists.flat(2)
}, provideServices)

const coverSockets = Effect.fnUntraced(function* (sources: RuleSources, directory: string | undefined) {
  const trees = directory === undefined ? [] : [yield* findTree(sources, directory)]
  const sockets = yield* listServiceSockets(trees, sources.options.writable)
  return (yield* Effect.forEach(sockets, lookUpRule(sources, "nothing"))).flat()
}, provideServices)

const findCaches = Effect.fnUntraced(function* (sources: RuleSources, directory: string | undefined) {
  // A command without a project has no caches, but a program of the user has caches.
  const isUnowned = directory === undefined && sources.options.caches?.owner === undefined
  if (sources.openCaches === undefined || isUnowned || sources.options.policy === "read-only") return noCaches
  return yield* sources.openCaches(directory === undefined ? undefined : yield* findTree(sources, directory))
})

/** Bubblewrap fails to start with a rule for a socket that another program has removed. */
const areStillThere = (sources: RuleSources, sockets: ReadonlyArray<Rule>) =>
  Effect.map(
    Effect.forEach(sockets, ({ path }) => Effect.orElseSucceed(sources.fs.exists(path), () => false)),
    (found) => found.every(Boolean)
  )

const collectRules = Effect.fnUntraced(function* (sources: RuleSources, directory: string | undefined) {
  const sockets = yield* coverSockets(sources, directory)
  const lists = yield* Effect.all(
    [
      directory === undefined ? Effect.succeed([]) : findTreeRules(sources, directory),
      findWorkspaceRules(sources, directory),
      Effect.map(findCaches(sources, directory), ({ rules }) => rules),
      Effect.map(
        Effect.forEach(
          sources.options.policy === "read-only" ? [] : sources.options.writable,
          lookUpRule(sources, "write")
        ),
        (list) => list.flat()
      ),
      // Sockets of services: access to the socket of a container daemon is access to the whole machine.
      Effect.map(Effect.forEach(["/run", ...sources.options.hidden], lookUpRule(sources, "nothing")), (list) =>
        list.flat()
      ),
      Effect.map(Effect.forEach([...sources.options.shown, ...hiddenPrograms], lookUpRule(sources, "read")), (list) =>
        list.flat()
      )
    ],
    { concurrency: "unbounded" }
  )
  const list = [...(yield* sources.temporary).rules, ...lists.flat(), ...sockets]
  const { files } = yield* sources.program
  const programRules = yield* SandboxProgram.findRules(files, list, sources.options.writable)
  return { list: sortRules([...list, ...programRules]), sockets }
}, provideServices)

/** Returns the tree that commands of the call may write, or `undefined` if they may not write a tree. */
const findWrittenTree = Effect.fnUntraced(function* (sources: RuleSources) {
  const { home, policy } = sources.options
  const directory = yield* CallDirectory
  const tree = directory === undefined || policy === "read-only" ? undefined : yield* findTree(sources, directory)
  const holdsHome = tree === "/" || (tree !== undefined && home !== undefined && isWithin(home, tree))
  return holdsHome ? undefined : tree
})

/** Returns the rules for the current call. */
const findRules = Effect.fnUntraced(function* (sources: RuleSources) {
  const { known } = sources
  const directory = yield* CallDirectory
  const now = yield* Clock.currentTimeMillis
  const workspace = (yield* CurrentWorkspace)?.directory ?? ""
  const key = `${(yield* CallConversation) ?? ""}\0${directory ?? ""}\0${workspace}`
  const last = known.get(key)
  if (last !== undefined && now < last.until && (yield* areStillThere(sources, last.sockets))) return last.list
  const collected = yield* collectRules(sources, directory)
  known.set(key, { until: now + rulesMillis, ...collected })
  return collected.list
})

/** Creates a set of placeholders, which are removed when the scope closes if they are still empty. */
const makePlaceholders = Effect.acquireRelease(
  Effect.sync(() => new Set<string>()),
  (placeholders) =>
    Effect.forEach(placeholders, (placeholder) => Effect.ignore(removeEmptyDirectory(placeholder)), { discard: true })
)

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
  const placeholders = yield* makePlaceholders
  const known = new Map<string, KnownRules>()
  const program = yield* Effect.cached(Effect.provideContext(findProgram, services))
  const watch = yield* TreeWatch.make({
    home: options.home,
    links: Effect.map(program, ({ links }) => (options.policy === "read-only" ? [] : links)),
    writable: options.writable,
    onChange: () => known.clear()
  })
  const openCaches = options.caches === undefined ? undefined : yield* SandboxCaches.make(options.caches, paths)
  const sources: RuleSources = {
    options,
    fs,
    services,
    trees,
    watch,
    temporary,
    program,
    openCaches,
    placeholders,
    known
  }
  const inWrittenTree = <R>(use: (tree: string) => Effect.Effect<void, never, R>) =>
    Effect.flatMap(findWrittenTree(sources), (tree) => (tree === undefined ? Effect.void : use(tree)))
  return {
    rules: findRules(sources),
    watch,
    /** Waits until the files that commands created in the tree are known. A command may create files at any time. */
    caughtUp: inWrittenTree((tree) => Effect.asVoid(watch.lookThrough(tree))),
    /**
     * Watches the tree while a command runs that may create repositories and files that run later, until the scope
     * closes.
     */
    whileRunning: inWrittenTree(watch.whileRunning),
    forget: Effect.sync(() => known.clear()),
    cacheVariables: Effect.map(
      Effect.flatMap(CallDirectory, (directory) => findCaches(sources, directory)),
      ({ variables }) => variables
    )
  }
})
