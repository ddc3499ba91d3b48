/**
 * Compares working trees before and after commands: finds the files that a command created, changed and removed, with
 * their previous contents.
 *
 * **Details**
 *
 * On a machine with git, the states of a tree are in a separate repository (`ShadowRepository`), in the home directory
 * of hermes or, on another machine, in a temporary directory there. Without git, the files of a tree on this machine
 * are read, up to a limit. `unseen` names the parts that were not read, in words for the user: nested repositories, a
 * tree that is too large or that contains the home directory, a machine without git.
 *
 * A failure to store a state never fails the command.
 *
 * **Gotchas**
 *
 * A change by another program while a command runs is attributed to the command.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as ChildProcess from "effect/process/ChildProcess"
import * as Digest from "../base/platform/Digest.ts"
import * as TrustedPrograms from "../base/platform/TrustedPrograms.ts"
import type { Service as Environment, TreeAccess } from "./CommandEnvironment.ts"
import { CallConversation } from "../base/domain/CallContext.ts"
import * as NamedFiles from "./NamedFiles.ts"
import type { NamedContents, NamedPlace } from "./NamedFiles.ts"
import type * as ShadowGit from "./ShadowGit.ts"
import * as ShadowRepository from "./ShadowRepository.ts"
import * as WorkingTree from "./WorkingTree.ts"
import {
  type TreeChanges,
  type Snapshot,
  type Observer,
  makeEmptySnapshot,
  makeGitObserver,
  makeReadingObserver
} from "./TreeObserver.ts"

export type { ChangedFile, FileState, NamedContents, NamedPlace } from "./NamedFiles.ts"
export type { Snapshot, TreeChanges } from "./TreeObserver.ts"

/** Takes snapshots. */
export interface Service {
  /** Stores the state of a directory's working tree, including the files at all places named by a command. */
  readonly take: (directory: string, places?: ReadonlyArray<NamedPlace>) => Effect.Effect<Snapshot>
  /** Reads the files at the places named by a command. Relative places are resolved in the directory. */
  readonly named: (directory: string, places: ReadonlyArray<NamedPlace>) => Effect.Effect<NamedContents>
}

/** Location and limits of states. */
export interface Options {
  /** Directory of the repositories for trees on this machine. */
  readonly directory: string
  /** Directories that are excluded from a tree, such as the home directory of hermes. */
  readonly apart: ReadonlyArray<string>
  /** The user's home directory. A tree that contains it is not examined. */
  readonly home: string | undefined
  /** Returns true for a path of the tree whose content is never stored. */
  readonly isHidden: (path: string) => boolean
}

/** Maximum size of a file whose content is stored, in bytes. */
export const maxFileBytes = 10 * 1024 * 1024

const maxFiles = 50_000

/** Time limit of one state, in milliseconds. The command waits for it. */
const patience = 5_000

const deadline = "20 seconds"

/**
 * Age in milliseconds after which the states of an unused tree are removed. Its directory changes whenever a program
 * creates and renames its index there.
 */
const abandonedAfter = 30 * 24 * 60 * 60 * 1000

/** A machine whose trees are observed. */
interface ObservedMachine extends Pick<TreeAccess, "files" | "place"> {
  readonly trees: TreeAccess
  readonly path: Path.Path
  readonly options: Options
  readonly home: string | undefined
  readonly lock: Semaphore.Semaphore
  readonly scope: Scope.Scope
  readonly roots: WorkingTree.WorkingTrees
  readonly hasGit: Effect.Effect<boolean>
  /** Removes the states of abandoned trees, once. */
  readonly prune: Effect.Effect<void>
  /** Observer for each machine and tree, or the reason why the tree cannot be observed. */
  readonly observers: Map<string, Observer | string>
}

const observeTree = Effect.fnUntraced(function* (
  { home, place, hasGit, files, path, options, prune, scope, trees }: ObservedMachine,
  tree: string
): Effect.fn.Return<Observer | string, ShadowGit.GitFailed | PlatformError> {
  if (tree === "/" || (home !== undefined && `${home}/`.startsWith(`${tree}/`)))
    return `${tree}, which holds your home directory`
  // The command that follows this snapshot may write programs to the tree.
  if (place === "here") TrustedPrograms.distrustPlaces([tree])
  if (!(yield* hasGit))
    return place === "here"
      ? makeReadingObserver(files, path, tree, options.isHidden)
      : `${tree}: the machine that has it has no git`
  if (place === "here") yield* prune
  const base =
    place === "here"
      ? options.directory
      : yield* Effect.provideService(files.makeTempDirectoryScoped({ prefix: "hermes-trees-" }), Scope.Scope, scope)
  const repository = yield* ShadowRepository.open(trees, {
    tree,
    directory: path.join(base, Digest.toHex(tree, 16)),
    apart: place === "here" ? options.apart : [base],
    isHidden: options.isHidden,
    maxFileBytes,
    maxFiles,
    patience
  }).pipe(Effect.provideService(Scope.Scope, scope))
  return makeGitObserver(repository, tree)
})

const findObserver = Effect.fnUntraced(function* (machine: ObservedMachine, directory: string) {
  const { observers } = machine
  const tree = yield* Effect.flatMap(machine.roots.findTreeRoot(directory), (root) =>
    Effect.orElseSucceed(machine.files.realPath(root), () => root)
  )
  const key = `${machine.place === "here" ? "" : ((yield* CallConversation) ?? "")}\0${tree}`
  const observer = observers.get(key) ?? (yield* observeTree(machine, tree))
  observers.set(key, observer)
  return { key, observer, tree }
})

const reportGaps = (...gaps: ReadonlyArray<string>): NamedContents => ({ files: new Map(), gaps, rebuilt: [] })

const readNamedFiles = Effect.fnUntraced(function* (
  machine: ObservedMachine,
  directory: string,
  places: ReadonlyArray<NamedPlace>,
  counted: number
) {
  if (places.length === 0) return reportGaps()
  if (machine.place !== "here") return reportGaps("files of another machine")
  const { observer, tree } = yield* findObserver(machine, directory)
  if (typeof observer === "string") return reportGaps(observer)
  return yield* NamedFiles.read(places, {
    tree,
    cwd: directory,
    home: machine.home,
    counted,
    isHidden: machine.options.isHidden,
    isIgnored: (name) => (observer.git === undefined ? Effect.succeed(false) : observer.git.isIgnored(name)),
    listed: (listing, at) => (observer.git === undefined ? Effect.undefined : observer.git.listed(listing, at))
  }).pipe(Effect.provideService(FileSystem.FileSystem, machine.files), Effect.provideService(Path.Path, machine.path))
})

/** Adds the changes to the files named by a command to the changes found by the snapshot. */
const withNamed = (
  { files, path }: ObservedMachine,
  { files: before, rebuilt }: NamedContents,
  tree: string,
  seen: TreeChanges
): Effect.Effect<TreeChanges> =>
  Effect.gen(function* () {
    const own = yield* NamedFiles.findChanges(before)
    const gone = yield* Effect.filter(rebuilt, (name) =>
      Effect.map(
        Effect.orElseSucceed(files.exists(path.join(tree, name)), () => true),
        (is) => !is
      )
    )
    const changes = [...own, ...seen.changes.filter(({ path }) => !before.has(path))].toSorted((one, other) =>
      one.path < other.path ? -1 : 1
    )
    return { ...seen, changes, rebuilt: gone }
  }).pipe(Effect.provideService(FileSystem.FileSystem, files))

const takeSnapshot = Effect.fnUntraced(function* (
  machine: ObservedMachine,
  directory: string,
  places: ReadonlyArray<NamedPlace>
) {
  const { key, observer, tree } = yield* findObserver(machine, directory)
  if (typeof observer === "string") return makeEmptySnapshot(observer)
  const before = yield* readNamedFiles(machine, directory, places, NamedFiles.maxFiles)
  const snapshot = yield* Effect.onError(observer.take, () =>
    // The states on another machine are lost when it restarts.
    Effect.sync(() => void (machine.place === "elsewhere" && machine.observers.delete(key)))
  )
  const since =
    before.files.size + before.rebuilt.length === 0
      ? snapshot.since
      : Effect.flatMap(snapshot.since, (seen) => withNamed(machine, before, tree, seen))
  return {
    since: Effect.timeoutOrElse(machine.lock.withPermit(since), {
      duration: deadline,
      orElse: () => makeEmptySnapshot(`${tree}: it took longer than ${deadline}`).since
    })
  }
})

/** Returns true if git runs on the machine of the trees. */
const checkGit = ({ place, spawner }: TreeAccess): Effect.Effect<boolean> =>
  // On another machine, the name is looked up on that machine.
  (place === "here" ? TrustedPrograms.find("git") : Effect.succeed("git")).pipe(
    Effect.flatMap((program) =>
      spawner.exitCode(
        ChildProcess.make(program, ["--version"], { stdin: "ignore", stdout: "ignore", stderr: "ignore" })
      )
    ),
    Effect.map((code) => code === 0),
    Effect.orElseSucceed(() => false)
  )

/** Removes the states of trees that have not been used for a long time. */
const removeAbandoned = Effect.fnUntraced(function* (files: FileSystem.FileSystem, path: Path.Path, directory: string) {
  const now = yield* Clock.currentTimeMillis
  for (const name of yield* files.readDirectory(directory)) {
    const { mtime } = yield* files.stat(path.join(directory, name))
    if (now - Option.getOrElse(mtime, () => new Date(now)).getTime() > abandonedAfter)
      yield* files.remove(path.join(directory, name), { recursive: true, force: true })
  }
})

/** Creates snapshots of the trees of an environment. The data of the snapshots is removed when the scope closes. */
export const make = Effect.fnUntraced(function* (
  { trees }: Pick<Environment, "trees">,
  options: Options
): Effect.fn.Return<Service, never, Path.Path | Scope.Scope> {
  const { files, place } = trees
  const path = yield* Path.Path
  const lock = yield* Semaphore.make(1)
  const home = place === "here" ? options.home : undefined
  const machine: ObservedMachine = {
    trees,
    files,
    place,
    path,
    options,
    home,
    lock,
    scope: yield* Scope.Scope,
    roots: yield* Effect.provideService(WorkingTree.make(home), FileSystem.FileSystem, files),
    hasGit: checkGit(trees),
    prune: yield* Effect.cached(Effect.ignore(removeAbandoned(files, path, options.directory))),
    observers: new Map()
  }
  return {
    named: (directory, places) =>
      lock.withPermit(readNamedFiles(machine, directory, places, NamedFiles.maxCounted)).pipe(
        Effect.timeoutOrElse({
          duration: deadline,
          orElse: () => Effect.succeed(reportGaps(`the check took longer than ${deadline}`))
        }),
        Effect.catch(({ message }) => Effect.succeed(reportGaps(message)))
      ),
    take: (directory, places = []) =>
      lock.withPermit(takeSnapshot(machine, directory, places)).pipe(
        Effect.timeoutOrElse({
          duration: deadline,
          orElse: () => Effect.succeed(makeEmptySnapshot(`${directory}: it took longer than ${deadline}`))
        }),
        Effect.catch(({ message }) => Effect.succeed(makeEmptySnapshot(`the files of ${directory}: ${message}`)))
      )
  }
})
