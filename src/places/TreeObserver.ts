/** Observers of a working tree, which find the files that a command changed: through git, or by reading the files. */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Stream from "effect/Stream"
import * as Digest from "../base/platform/Digest.ts"
import * as FileWalk from "./FileWalk.ts"
import type { ChangedFile, FileState } from "./NamedFiles.ts"
import type * as ShadowGit from "./ShadowGit.ts"
import * as ShadowRepository from "./ShadowRepository.ts"

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

const maxChanges = 2_000

const maxContentBytes = 64 * 1024 * 1024

/** Limits for a tree that is read without git. */
const scanned = { files: 5_000, bytes: 20 * 1024 * 1024, fileBytes: 1024 * 1024 }

/** Finds the states of one tree. */
export interface Observer {
  readonly take: Effect.Effect<Snapshot, ShadowGit.GitFailed | PlatformError>
  /** Queries git about files; `undefined` without git. */
  readonly git: Pick<ShadowRepository.ShadowRepository, "isIgnored" | "listed"> | undefined
}

export const makeEmptySnapshot = (...unseen: ReadonlyArray<string>): Snapshot => ({
  since: Effect.succeed({ changes: [], more: 0, unseen, rebuilt: [] })
})

const describeUnread = (what: string, names: ReadonlyArray<string>): ReadonlyArray<string> =>
  names.length === 0
    ? []
    : [`${what} ${names.slice(0, 3).join(", ")}${names.length > 3 ? ` and ${names.length - 3} more` : ""}`]

/** Returns the files that have changed. Large files are compared by their times. */
const findLargeChanges = (before: ShadowRepository.State["large"], after: ShadowRepository.State["large"]) =>
  [...new Set([...before.keys(), ...after.keys()])].filter((path) => before.get(path)?.stamp !== after.get(path)?.stamp)

/** Limits the differences to the ones that are reported. */
const selectDifferences = (
  before: ShadowRepository.State,
  found: ReadonlyArray<ShadowRepository.Difference>
): { readonly kept: ReadonlyArray<ShadowRepository.Difference>; readonly more: number } => {
  // If the previous state is incomplete, a file that it does not contain may have existed before the command.
  const known = before.isWhole ? found : found.filter((each) => each.before !== undefined)
  const kept = known.slice(0, maxChanges)
  return { kept, more: known.length - kept.length }
}

const toLargeFile = (file: { readonly size: number } | undefined): FileState | undefined =>
  file === undefined ? undefined : { type: "file", mode: 0o644, size: file.size, content: undefined }

/** Reads the contents of differences. */
const readChanges = Effect.fnUntraced(function* (
  repository: ShadowRepository.ShadowRepository,
  tree: string,
  differences: ReadonlyArray<ShadowRepository.Difference>
) {
  const hashes = differences.flatMap(({ after, before }) => [before?.hash, after?.hash])
  const contents = yield* repository.contents(
    [...new Set(hashes.filter((hash) => hash !== undefined))],
    maxContentBytes
  )
  const toFileState = (side: ShadowRepository.Side | undefined): FileState | undefined => {
    if (side === undefined) return undefined
    const content = contents.get(side.hash)
    return { type: side.type, mode: side.mode, size: content?.length ?? 0, content }
  }
  return new Map(
    differences.map(({ after, before, path }): [string, ChangedFile] => [
      path,
      { path: `${tree}/${path}`, before: toFileState(before), after: toFileState(after) }
    ])
  )
})

/** Compares a stored state of a tree with its current files. */
const compareStates = Effect.fnUntraced(function* (
  repository: ShadowRepository.ShadowRepository,
  tree: string,
  before: ShadowRepository.State
): Effect.fn.Return<TreeChanges, ShadowGit.GitFailed | PlatformError> {
  const after = yield* repository.state
  const { kept, more } = selectDifferences(before, yield* repository.differences(before.id, after.id))
  const changes = yield* readChanges(repository, tree, kept)
  for (const path of findLargeChanges(before.large, after.large)) {
    const small = changes.get(path)
    changes.set(path, {
      path: `${tree}/${path}`,
      before: small?.before ?? toLargeFile(before.large.get(path)),
      after: small?.after ?? toLargeFile(after.large.get(path))
    })
  }
  return {
    changes: Array.from(changes.values()),
    more,
    unseen: [
      ...describeUnread("nested repositories and unreadable files:", after.unseen),
      ...(before.isWhole ? [] : ["files that are stored only after this command, because the tree is large"])
    ],
    rebuilt: []
  }
})

/** Creates an observer of a tree that uses git. */
export const makeGitObserver = (repository: ShadowRepository.ShadowRepository, tree: string): Observer => ({
  git: repository,
  take: Effect.map(repository.state, (before): Snapshot => ({
    since: Effect.catch(
      compareStates(repository, tree, before),
      ({ message }) => makeEmptySnapshot(`the files of ${tree}: ${message}`).since
    )
  }))
})

/** A file that was read, with a stamp that changes with the file. */
interface ReadFile extends FileState {
  readonly stamp: string
}

/** The files of a tree that were read at one moment. */
interface ReadTree {
  readonly files: ReadonlyMap<string, ReadFile>
  /** True if the tree has more files than are read. */
  readonly isCut: boolean
  /** Number of large files whose contents are not stored. */
  readonly left: number
  readonly unreadFiles: number
  readonly unreadDirectories: number
}

/** Reads the files of a tree. Contents of unchanged files are taken from the last reading. */
const readTree = Effect.fnUntraced(function* (
  tree: string,
  isHidden: (path: string) => boolean,
  last: ReadTree["files"]
): Effect.fn.Return<ReadTree, never, FileSystem.FileSystem | Path.Path> {
  const fs = yield* FileSystem.FileSystem
  const tally = { unreadable: 0, exhausted: false }
  const count = { bytes: 0, left: 0, unread: 0 }
  const found = new Map<string, ReadFile>()

  const readLink = Effect.fnUntraced(function* (path: string): Effect.fn.Return<ReadFile, PlatformError> {
    const content = new TextEncoder().encode(yield* fs.readLink(path))
    return { type: "link", mode: 0o777, size: content.length, content, stamp: "" }
  })
  /** Counts a file that cannot be read. A file that was removed in the meantime is not part of the tree. */
  const countUnread = ({ reason }: PlatformError) =>
    Effect.sync(() => void (reason._tag === "NotFound" || count.unread++))
  const readFile = Effect.fnUntraced(function* (
    path: string,
    before: ReadFile | undefined
  ): Effect.fn.Return<ReadFile, PlatformError> {
    const { ino, mode, mtime, size } = yield* fs.stat(path)
    const time = Option.getOrElse(mtime, () => new Date(0)).getTime()
    const stamp = `${size} ${time} ${Option.getOrElse(ino, () => 0)} ${mode}`
    const read = { type: "file", mode: mode & 0o777, size: Number(size), stamp } as const
    if (read.size > scanned.fileBytes || count.bytes + read.size > scanned.bytes) {
      count.left++
      return { ...read, content: undefined }
    }
    count.bytes += read.size
    const known = before?.stamp === stamp ? before.content : undefined
    const content = known ?? (yield* Effect.catch(fs.readFile(path), countUnread))
    return { ...read, content }
  })

  yield* FileWalk.walkFiles(tree, tally).pipe(
    Stream.takeUntil(() => found.size >= scanned.files),
    Stream.filter(({ relative }) => !isHidden(relative)),
    Stream.runForEach(({ link, path, relative }) =>
      (link ? readLink(path) : readFile(path, last.get(relative))).pipe(
        Effect.map((file) => void found.set(relative, file)),
        Effect.catch(countUnread)
      )
    )
  )
  return {
    files: found,
    isCut: found.size >= scanned.files || tally.exhausted,
    left: count.left,
    unreadFiles: count.unread,
    unreadDirectories: tally.unreadable
  }
})

const isSameContent = (one: ReadFile, other: ReadFile): boolean => {
  if (one.content === undefined || other.content === undefined) return one.stamp === other.stamp
  return one.content === other.content || Digest.toHex(one.content, 64) === Digest.toHex(other.content, 64)
}

const isSameFile = (one: ReadFile | undefined, other: ReadFile | undefined): boolean => {
  if (one === other) return true
  if (one === undefined || other === undefined) return false
  return one.type === other.type && one.mode === other.mode && one.size === other.size && isSameContent(one, other)
}

/** Compares two readings of a tree. */
const compareReadings = (tree: string, before: ReadTree, after: ReadTree): TreeChanges => {
  const names = [...new Set([...before.files.keys(), ...after.files.keys()])].filter(
    (name) => !isSameFile(before.files.get(name), after.files.get(name))
  )
  return {
    changes: names
      .slice(0, maxChanges)
      .map((name): ChangedFile => ({
        path: `${tree}/${name}`,
        before: before.files.get(name),
        after: after.files.get(name)
      })),
    more: Math.max(0, names.length - maxChanges),
    unseen: [
      ...(after.isCut ? [`more than ${scanned.files} files of ${tree} (install git to see them)`] : []),
      ...(before.left > 0 ? [`the contents of ${before.left} large files (install git to keep them)`] : []),
      ...(after.unreadFiles > 0 ? [`the contents of ${after.unreadFiles} files that cannot be read`] : []),
      ...(after.unreadDirectories > 0 ? [`${after.unreadDirectories} directories that cannot be read`] : [])
    ],
    rebuilt: []
  }
}

/** Creates an observer that reads the files of a tree. */
export const makeReadingObserver = (
  files: FileSystem.FileSystem,
  path: Path.Path,
  tree: string,
  isHidden: (path: string) => boolean
): Observer => {
  let last: ReadTree["files"] = new Map()
  const read = Effect.suspend(() => readTree(tree, isHidden, last)).pipe(
    Effect.tap((reading) => Effect.sync(() => void (last = reading.files))),
    Effect.provideService(FileSystem.FileSystem, files),
    Effect.provideService(Path.Path, path)
  )
  return {
    git: undefined,
    take: Effect.map(read, (before): Snapshot => ({
      since: Effect.map(read, (after) => compareReadings(tree, before, after))
    }))
  }
}
