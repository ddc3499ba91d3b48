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
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import * as Digest from "../base/platform/Digest.ts"
import * as TrustedPrograms from "../base/platform/TrustedPrograms.ts"
import { type Service as Environment } from "./CommandEnvironment.ts"
import { CallConversation } from "../base/domain/CallContext.ts"
import * as FileWalk from "./FileWalk.ts"
import * as NamedFiles from "./NamedFiles.ts"
import type { ChangedFile, FileState, NamedContents, NamedPlace } from "./NamedFiles.ts"
import * as ShadowRepository from "./ShadowRepository.ts"
import * as WorkingTree from "./WorkingTree.ts"

export type { ChangedFile, FileState, NamedContents, NamedPlace } from "./NamedFiles.ts"

/** Changes found in a tree, and phrases that name the parts that were not read. */
export interface TreeChanges {
  readonly changes: ReadonlyArray<ChangedFile>
  /** Number of changed files that are not listed. */
  readonly more: number
  readonly unseen: ReadonlyArray<string>
  /** Directories that the command removed and that are not stored, because they can be recreated. */
  readonly rebuilt: ReadonlyArray<string>
}

/** A stored state of a tree. */
export interface Snapshot {
  /** Compares the state with the current tree. */
  readonly since: Effect.Effect<TreeChanges>
}

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
const maxChanges = 2_000
const maxContentBytes = 64 * 1024 * 1024
/** Time limit of one state, in milliseconds. The command waits for it. */
const patience = 5_000
const deadline = "20 seconds"
/**
 * Age in milliseconds after which the states of an unused tree are removed. Its directory changes whenever a program
 * creates and renames its index there.
 */
const abandonedAfter = 30 * 24 * 60 * 60 * 1000
/** Limits for a tree that is read without git. */
const scanned = { files: 5_000, bytes: 20 * 1024 * 1024, fileBytes: 1024 * 1024 }

/** Finds the states of one tree. */
interface Observer {
  readonly take: Effect.Effect<Snapshot, ShadowRepository.GitFailed | PlatformError>
  /** Queries git about files; `undefined` without git. */
  readonly git: Pick<ShadowRepository.ShadowRepository, "isIgnored" | "listed"> | undefined
}

const makeEmptySnapshot = (...unseen: ReadonlyArray<string>): Snapshot => ({
  since: Effect.succeed({ changes: [], more: 0, unseen, rebuilt: [] })
})

const describeUnread = (what: string, names: ReadonlyArray<string>): ReadonlyArray<string> =>
  names.length === 0
    ? []
    : [`${what} ${names.slice(0, 3).join(", ")}${names.length > 3 ? ` and ${names.length - 3} more` : ""}`]

/** Returns the files that have changed. Large files are compared by their times. */
const findLargeChanges = (before: ShadowRepository.State["large"], after: ShadowRepository.State["large"]) =>
  [...new Set([...before.keys(), ...after.keys()])].filter((path) => before.get(path)?.stamp !== after.get(path)?.stamp)

/** Creates an observer of a tree that uses git. */
const makeGitObserver = (repository: ShadowRepository.ShadowRepository, tree: string): Observer => ({
  git: repository,
  take: Effect.map(repository.state, (before): Snapshot => ({
    since: Effect.gen(function* () {
      const after = yield* repository.state
      const found = yield* repository.differences(before.id, after.id)
      const large = findLargeChanges(before.large, after.large)
      // If the previous state is incomplete, a file that it does not contain may have existed before the command.
      const known = before.isWhole ? found : found.filter((each) => each.before !== undefined)
      const kept = known.slice(0, maxChanges)
      const hashes = [
        ...new Set(kept.flatMap((each) => [each.before?.hash, each.after?.hash]).filter((hash) => hash !== undefined))
      ]
      const contents = yield* repository.contents(hashes, maxContentBytes)
      const toFileState = (side: ShadowRepository.Side | undefined): FileState | undefined => {
        if (side === undefined) return undefined
        const content = contents.get(side.hash)
        return { type: side.type, mode: side.mode, size: content?.length ?? 0, content }
      }
      const toLargeFile = (file: { readonly size: number } | undefined): FileState | undefined =>
        file === undefined ? undefined : { type: "file", mode: 0o644, size: file.size, content: undefined }
      const changes = new Map(
        kept.map((each) => [
          each.path,
          { path: `${tree}/${each.path}`, before: toFileState(each.before), after: toFileState(each.after) }
        ])
      )
      for (const path of large) {
        const small = changes.get(path)
        changes.set(path, {
          path: `${tree}/${path}`,
          before: small?.before ?? toLargeFile(before.large.get(path)),
          after: small?.after ?? toLargeFile(after.large.get(path))
        })
      }
      return {
        changes: Array.from(changes.values()),
        more: known.length - kept.length,
        unseen: [
          ...describeUnread("nested repositories and unreadable files:", after.unseen),
          ...(before.isWhole ? [] : ["files that are stored only after this command, because the tree is large"])
        ],
        rebuilt: []
      }
    }).pipe(Effect.catch(({ message }) => makeEmptySnapshot(`the files of ${tree}: ${message}`).since))
  }))
})

/** Creates an observer that reads the files of a tree. */
const makeReadingObserver = (
  files: FileSystem.FileSystem,
  path: Path.Path,
  tree: string,
  isHidden: Options["isHidden"]
): Observer => {
  interface Read extends FileState {
    readonly stamp: string
  }
  let known: ReadonlyMap<string, Read> = new Map()

  const read = Effect.gen(function* () {
    const tally = { unreadable: 0, exhausted: false }
    const found = new Map<string, Read>()
    let bytes = 0
    let left = 0
    let unread = 0
    /** A file that was removed in the meantime is not part of the tree. */
    const countUnread = ({ reason }: PlatformError) => Effect.sync(() => void (reason._tag === "NotFound" || unread++))
    yield* FileWalk.walkFiles(tree, tally)
      .pipe(
        Stream.takeUntil(() => found.size >= scanned.files),
        Stream.filter(({ relative }) => !isHidden(relative)),
        Stream.runForEach((entry) =>
          Effect.catch(
            Effect.gen(function* () {
              if (entry.link) {
                const content = new TextEncoder().encode(yield* files.readLink(entry.path))
                return void found.set(entry.relative, {
                  type: "link",
                  mode: 0o777,
                  size: content.length,
                  content,
                  stamp: ""
                })
              }
              const { ino, mode, mtime, size } = yield* files.stat(entry.path)
              const stamp =
                `${size} ${Option.getOrElse(mtime, () => new Date(0)).getTime()} ` +
                `${Option.getOrElse(ino, () => 0)} ${mode}`
              const before = known.get(entry.relative)
              const isKept = Number(size) <= scanned.fileBytes && bytes + Number(size) <= scanned.bytes
              if (!isKept) left++
              else bytes += Number(size)
              const content = !isKept
                ? undefined
                : before?.stamp === stamp && before.content !== undefined
                  ? before.content
                  : yield* Effect.catch(files.readFile(entry.path), countUnread)
              found.set(entry.relative, { type: "file", mode: mode & 0o777, size: Number(size), content, stamp })
            }),
            countUnread
          )
        )
      )
      .pipe(Effect.provideService(FileSystem.FileSystem, files), Effect.provideService(Path.Path, path))
    known = found
    return { found, left, isCut: found.size >= scanned.files || tally.exhausted, unread, unreadable: tally.unreadable }
  })

  const isSame = (one: Read | undefined, other: Read | undefined): boolean =>
    one === other ||
    (one !== undefined &&
      other !== undefined &&
      one.type === other.type &&
      one.mode === other.mode &&
      one.size === other.size &&
      (one.content === undefined || other.content === undefined
        ? one.stamp === other.stamp
        : one.content === other.content || Digest.toHex(one.content, 64) === Digest.toHex(other.content, 64)))

  return {
    git: undefined,
    take: Effect.map(read, (before): Snapshot => ({
      since: Effect.map(read, (after) => {
        const names = [...new Set([...before.found.keys(), ...after.found.keys()])].filter(
          (name) => !isSame(before.found.get(name), after.found.get(name))
        )
        return {
          changes: names
            .slice(0, maxChanges)
            .map((name): ChangedFile => ({
              path: `${tree}/${name}`,
              before: before.found.get(name),
              after: after.found.get(name)
            })),
          more: Math.max(0, names.length - maxChanges),
          unseen: [
            ...(after.isCut ? [`more than ${scanned.files} files of ${tree} (install git to see them)`] : []),
            ...(before.left > 0 ? [`the contents of ${before.left} large files (install git to keep them)`] : []),
            ...(after.unread > 0 ? [`the contents of ${after.unread} files that cannot be read`] : []),
            ...(after.unreadable > 0 ? [`${after.unreadable} directories that cannot be read`] : [])
          ],
          rebuilt: []
        }
      })
    }))
  }
}

/** Creates snapshots of the trees of an environment. The data of the snapshots is removed when the scope closes. */
export const make = Effect.fnUntraced(function* (
  { trees }: Pick<Environment, "trees">,
  options: Options
): Effect.fn.Return<Service, never, Path.Path | Scope.Scope> {
  const { files, place, spawner } = trees
  const path = yield* Path.Path
  const scope = yield* Scope.Scope
  const lock = yield* Semaphore.make(1)
  const home = place === "here" ? options.home : undefined
  const roots = yield* Effect.provideService(WorkingTree.make(home), FileSystem.FileSystem, files)
  /** Observer for each machine and tree, or the reason why the tree cannot be observed. */
  const observers = new Map<string, Observer | string>()

  /** On another machine, the name is looked up on that machine. */
  const git = place === "here" ? TrustedPrograms.find("git") : Effect.succeed("git")
  const hasGit = git.pipe(
    Effect.flatMap((program) =>
      spawner.exitCode(
        ChildProcess.make(program, ["--version"], { stdin: "ignore", stdout: "ignore", stderr: "ignore" })
      )
    ),
    Effect.map((code) => code === 0),
    Effect.orElseSucceed(() => false)
  )

  /** Removes the states of trees that have not been used for a long time. */
  const prune = yield* Effect.cached(
    Effect.ignore(
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        for (const name of yield* files.readDirectory(options.directory)) {
          const { mtime } = yield* files.stat(path.join(options.directory, name))
          if (now - Option.getOrElse(mtime, () => new Date(now)).getTime() > abandonedAfter)
            yield* files.remove(path.join(options.directory, name), { recursive: true, force: true })
        }
      })
    )
  )

  const observeTree = Effect.fnUntraced(function* (
    tree: string
  ): Effect.fn.Return<Observer | string, ShadowRepository.GitFailed | PlatformError> {
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

  const findObserver = Effect.fnUntraced(function* (directory: string) {
    const tree = yield* Effect.flatMap(roots.findTreeRoot(directory), (root) =>
      Effect.orElseSucceed(files.realPath(root), () => root)
    )
    const key = `${place === "here" ? "" : ((yield* CallConversation) ?? "")}\0${tree}`
    const observer = observers.get(key) ?? (yield* observeTree(tree))
    observers.set(key, observer)
    return { key, observer, tree }
  })

  const reportGaps = (...gaps: ReadonlyArray<string>): NamedContents => ({ files: new Map(), gaps, rebuilt: [] })

  const readNamedFiles = Effect.fnUntraced(function* (
    directory: string,
    places: ReadonlyArray<NamedPlace>,
    counted: number
  ) {
    if (places.length === 0) return reportGaps()
    if (place !== "here") return reportGaps("files of another machine")
    const { observer, tree } = yield* findObserver(directory)
    if (typeof observer === "string") return reportGaps(observer)
    return yield* NamedFiles.read(places, {
      tree,
      cwd: directory,
      home,
      counted,
      isHidden: options.isHidden,
      isIgnored: (name) => (observer.git === undefined ? Effect.succeed(false) : observer.git.isIgnored(name)),
      listed: (listing, at) => (observer.git === undefined ? Effect.undefined : observer.git.listed(listing, at))
    }).pipe(Effect.provideService(FileSystem.FileSystem, files), Effect.provideService(Path.Path, path))
  })

  /** Adds the changes to the files named by a command to the changes found by the snapshot. */
  const withNamed = (
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

  const takeSnapshot = Effect.fnUntraced(function* (directory: string, places: ReadonlyArray<NamedPlace>) {
    const { key, observer, tree } = yield* findObserver(directory)
    if (typeof observer === "string") return makeEmptySnapshot(observer)
    const before = yield* readNamedFiles(directory, places, NamedFiles.maxFiles)
    const snapshot = yield* Effect.onError(observer.take, () =>
      // The states on another machine are lost when it restarts.
      Effect.sync(() => void (place === "elsewhere" && observers.delete(key)))
    )
    const since =
      before.files.size + before.rebuilt.length === 0
        ? snapshot.since
        : Effect.flatMap(snapshot.since, (seen) => withNamed(before, tree, seen))
    return {
      since: Effect.timeoutOrElse(lock.withPermit(since), {
        duration: deadline,
        orElse: () => makeEmptySnapshot(`${tree}: it took longer than ${deadline}`).since
      })
    }
  })

  return {
    named: (directory, places) =>
      lock.withPermit(readNamedFiles(directory, places, NamedFiles.maxCounted)).pipe(
        Effect.timeoutOrElse({
          duration: deadline,
          orElse: () => Effect.succeed(reportGaps(`the check took longer than ${deadline}`))
        }),
        Effect.catch(({ message }) => Effect.succeed(reportGaps(message)))
      ),
    take: (directory, places = []) =>
      lock.withPermit(takeSnapshot(directory, places)).pipe(
        Effect.timeoutOrElse({
          duration: deadline,
          orElse: () => Effect.succeed(makeEmptySnapshot(`${directory}: it took longer than ${deadline}`))
        }),
        Effect.catch(({ message }) => Effect.succeed(makeEmptySnapshot(`the files of ${directory}: ${message}`)))
      )
  }
})
