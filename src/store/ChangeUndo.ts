/**
 * Undoes and redoes changes to files. Each file is restored from its expected current state to its earlier state.
 *
 * **Details**
 *
 * A plan examines every file first. A file that is unchanged since the run is restored. A file that already has its
 * earlier state is left alone. Any other file was changed after the run and is a conflict: it is reported with the
 * difference, and overwritten only on request. A state whose content was not stored cannot be restored and is reported
 * with the reason. Nothing is written until every file has been examined.
 *
 * Contents that an undo replaces are also stored, so that the undo can itself be undone, even if it overwrote a
 * conflict.
 *
 * **Gotchas**
 *
 * Each file is written atomically (a temporary file in the same directory is renamed over it), and never through a
 * directory that has since become a link. Directories in the working directory that become empty are removed.
 *
 * **Example** (Whether an undo would overwrite anything)
 *
 * ```ts
 * import type { ChangeUndo } from "hermes-effect/sessions"
 *
 * const isSafe = ({ conflicts, lost }: Pick<ChangeUndo.Plan, "conflicts" | "lost">): boolean => conflicts.length + lost.length === 0
 *
 * console.log(isSafe({ conflicts: [], lost: [{ path: "/work/film.mp4", reason: "it is too large" }] }))
 * // => false
 * ```
 *
 * Source: `ARCHITECTURE.md` §8 (changes).
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import { type PlatformError, systemError } from "effect/PlatformError"
import type { SessionStoreError } from "../base/domain/AgentError.ts"
import * as FileChange from "../base/domain/FileChange.ts"
import * as Ids from "../base/domain/Ids.ts"
import * as Redaction from "../base/domain/Redaction.ts"
import * as ChangeContents from "./ChangeContents.ts"
import * as ChangeSets from "./ChangeSets.ts"
import { RunRecord } from "./RunRecord.ts"

/** Change of a file to another state. */
interface Move {
  readonly path: string
  /** State that the file is expected to have now. */
  readonly expected: FileChange.FileState | undefined
  readonly to: FileChange.FileState | undefined
}

/** Current state of a file, with its content. */
interface FoundFile {
  readonly state: FileChange.FileState | undefined
  readonly bytes: Uint8Array | undefined
}

/** A file that can be restored. */
export interface Step extends Move {
  readonly found: FileChange.FileState | undefined
  readonly bytes: Uint8Array | undefined
  /** Difference from the current content to the restored content. */
  readonly diff: string
}

/** A file that was changed after the run. */
export interface Conflict extends Step {
  readonly reason: string
}

/** Result of examining every file. */
export interface Plan {
  readonly direction: FileChange.FilesReverted["direction"]
  readonly set: ChangeSets.ChangeSet
  readonly steps: ReadonlyArray<Step>
  readonly conflicts: ReadonlyArray<Conflict>
  /** Files that cannot be restored, each with the reason. */
  readonly lost: ReadonlyArray<{ readonly path: string; readonly reason: string }>
  /** Files that are already in the state to be restored. */
  readonly same: ReadonlyArray<string>
}

type Files = FileSystem.FileSystem | Path.Path

const isMissing = (error: PlatformError): boolean =>
  error.reason._tag === "NotFound" || error.reason._tag === "BadResource"

/** Fails if a directory in the path of a file is now a link. The path would then lead to a different file. */
const refuseLinkedDirectory = Effect.fnUntraced(function* (file: string): Effect.fn.Return<void, PlatformError, Files> {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  for (let at = path.dirname(file); ; at = path.dirname(at)) {
    const real = yield* Effect.result(fs.realPath(at))
    if (real._tag === "Failure" && isMissing(real.failure) && path.dirname(at) !== at) continue
    const found = yield* Effect.fromResult(real)
    if (found === at) return
    return yield* systemError({
      _tag: "PermissionDenied",
      module: "FileSystem",
      method: "undo",
      pathOrDescriptor: file,
      description: `${at} is a link now`
    })
  }
})

/**
 * Reads the current state of a file. A directory is reported as a directory only if the change concerns a directory.
 */
const inspectFile = Effect.fnUntraced(function* ({
  expected,
  path: file,
  to
}: Move): Effect.fn.Return<FoundFile, PlatformError, Files> {
  const fs = yield* FileSystem.FileSystem
  yield* refuseLinkedDirectory(file)
  const info = yield* Effect.catchIf(fs.lstat(file), isMissing, () => Effect.undefined)
  if (info === undefined) return { state: undefined, bytes: undefined }
  const size = Number(info.size)
  if (info.type === "Directory" && (to ?? expected)?.type === "directory") {
    const bytes = new Uint8Array(0)
    return {
      state: { type: "directory", mode: info.mode & 0o777, size: 0, hash: ChangeContents.computeHash(bytes) },
      bytes
    }
  }
  const type = info.type === "SymbolicLink" ? ("link" as const) : ("file" as const)
  if (type === "file" && (info.type !== "File" || size > ChangeContents.maxBytes))
    return {
      state: {
        type,
        mode: info.mode & 0o777,
        size,
        notKept: info.type === "File" ? "it is too large" : "it is not a regular file"
      },
      bytes: undefined
    }
  const bytes = type === "link" ? new TextEncoder().encode(yield* fs.readLink(file)) : yield* fs.readFile(file)
  return {
    state: { type, mode: info.mode & 0o777, size: bytes.length, hash: ChangeContents.computeHash(bytes) },
    bytes
  }
})

const decodeText = (state: FileChange.FileState | undefined, bytes: Uint8Array | undefined): FileChange.Content => {
  if (state === undefined) return undefined
  if (bytes === undefined || bytes.includes(0)) return null
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes)
  } catch {
    return null
  }
}

const readContent = Effect.fnUntraced(function* ({ hash, notKept }: FileChange.FileState) {
  if (notKept !== undefined || hash === undefined) return { reason: notKept ?? "its content was not read" }
  const contents = yield* ChangeContents.ChangeContents
  const bytes = contents === undefined ? undefined : yield* contents.read(hash)
  return bytes === undefined ? { reason: "its content is not kept any more" } : { bytes }
})

const listMoves = (set: ChangeSets.ChangeSet, direction: Plan["direction"]): ReadonlyArray<Move> =>
  direction === "undo"
    ? ChangeSets.toNetChanges(set.changes).map(({ after, before, path }) => ({ path, expected: after, to: before }))
    : // Files come back as the undo found them.
      (set.undone?.files ?? []).map(({ from, path, to }) => ({ path, expected: to, to: from }))

/** Examines every file in the changes of a run, without writing. */
export const makePlan = Effect.fnUntraced(function* (
  set: ChangeSets.ChangeSet,
  direction: Plan["direction"]
): Effect.fn.Return<Plan, never, Files> {
  const steps: Array<Step> = []
  const conflicts: Array<Conflict> = []
  const lost: Array<Plan["lost"][number]> = []
  const same: Array<string> = []
  for (const move of listMoves(set, direction)) {
    const { expected, path, to } = move
    const looked = yield* Effect.result(inspectFile(move))
    if (looked._tag === "Failure") {
      lost.push({ path, reason: looked.failure.reason.description ?? looked.failure.message })
      continue
    }
    const { bytes: now, state: found } = looked.success
    if (FileChange.isSame(found, to)) {
      same.push(path)
      continue
    }
    const content = to === undefined ? { bytes: undefined } : yield* readContent(to)
    if ("reason" in content) {
      lost.push({ path, reason: content.reason })
      continue
    }
    const diff = Redaction.redactText(
      FileChange.makeUnifiedDiff(path, decodeText(found, now), decodeText(to, content.bytes))
    )
    const step = { ...move, found, bytes: content.bytes, diff }
    // A file that was not read cannot be compared.
    if (FileChange.isSame(found, expected)) steps.push(step)
    else
      conflicts.push({
        ...step,
        reason:
          found === undefined
            ? "it was removed since"
            : expected === undefined
              ? "it was made again since"
              : "it was changed since"
      })
  }
  return { direction, set, steps, conflicts, lost, same }
})

/** Returns the stored content of a state as text, or the reason why the content is not stored. */
const readKeptText = (state: FileChange.FileState | undefined) =>
  state === undefined
    ? Effect.succeed({ text: undefined })
    : Effect.map(readContent(state), (found) =>
        "reason" in found ? { reason: found.reason } : { text: decodeText(state, found.bytes) }
      )

/** Returns the difference between the first and the last state of each changed file, if the contents are stored. */
export const computeDiffs = (
  changes: ReadonlyArray<FileChange.FileChanged>
): Effect.Effect<ReadonlyArray<Pick<FileChange.FileChanged, "added" | "diff" | "path" | "removed">>> =>
  Effect.forEach(
    ChangeSets.toNetChanges(changes),
    Effect.fnUntraced(function* ({ after, before, diffs: recorded, path }) {
      const from = yield* readKeptText(before)
      const to = yield* readKeptText(after)
      const diff =
        recorded.length === 1 || "reason" in from || "reason" in to
          ? recorded.join("")
          : Redaction.redactText(FileChange.makeUnifiedDiff(path, from.text, to.text))
      return { path, diff, ...FileChange.countLines(diff) }
    })
  )

/** Removes empty directories below a root, from the innermost outwards. */
const removeEmptyDirectories = Effect.fnUntraced(function* (
  file: string,
  root: string
): Effect.fn.Return<void, PlatformError, Files> {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  for (let at = path.dirname(file); at.startsWith(root + path.sep); at = path.dirname(at)) {
    if ((yield* fs.readDirectory(at)).length > 0) return
    yield* fs.remove(at, { recursive: true })
  }
})

/** Writes the target state of a file. */
const writeState = Effect.fnUntraced(function* (
  { bytes, found, path: file, to }: Step,
  root: string
): Effect.fn.Return<void, PlatformError, Files> {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  yield* refuseLinkedDirectory(file)
  if (to === undefined) {
    const isEmpty = found?.type === "directory" && (yield* fs.readDirectory(file)).length === 0
    yield* fs.remove(file, { force: true, recursive: isEmpty })
    // The file is already restored, so a failure to remove directories is ignored.
    return yield* Effect.ignore(removeEmptyDirectories(file, root))
  }
  const content = bytes ?? new Uint8Array(0)
  yield* fs.makeDirectory(path.dirname(file), { recursive: true })
  if (to.type === "directory") return yield* Effect.andThen(fs.makeDirectory(file), fs.chmod(file, to.mode & 0o777))
  const draft = path.join(path.dirname(file), `.${path.basename(file).slice(0, 200)}.${yield* Ids.makeHex(12)}.tmp`)
  const made =
    to.type === "link"
      ? fs.symlink(new TextDecoder().decode(content), draft)
      : Effect.andThen(
          fs.writeFile(draft, content, { flag: "wx" }),
          fs.chmod(draft, found?.type === "file" ? (found.mode & ~0o111) | (to.mode & 0o111) : to.mode & 0o777)
        )
  yield* made.pipe(
    Effect.andThen(fs.rename(draft, file)),
    Effect.onError(() => Effect.ignore(fs.remove(draft, { force: true })))
  )
})

/** Result of restoring files. */
export interface UndoResult {
  readonly changed: ReadonlyArray<string>
  /** Files that were not restored, each with the reason. */
  readonly left: ReadonlyArray<{ readonly path: string; readonly reason: string }>
}

/**
 * Restores the files of a plan. Conflicts are overwritten only if requested. The result is recorded in the run's
 * session, so that sessions that continue it can read it. A file that cannot be written is left alone, and the others
 * are still restored.
 */
export const apply = Effect.fnUntraced(function* (
  { conflicts, direction, lost, same, set, steps }: Plan,
  { isOverwriting }: { readonly isOverwriting: boolean }
): Effect.fn.Return<UndoResult, SessionStoreError, Files | RunRecord> {
  const contents = yield* ChangeContents.ChangeContents
  const moved: Array<FileChange.FilesReverted["files"][number]> = []
  const left = [...lost, ...(isOverwriting ? [] : conflicts.map(({ path, reason }) => ({ path, reason })))]
  const chosen = [...steps, ...(isOverwriting ? conflicts : [])]
  // Removals come first, because a directory to be removed may have the same path as a file to be restored.
  for (const step of [...chosen.filter(({ to }) => to === undefined), ...chosen.filter(({ to }) => to !== undefined)]) {
    const { found, path, to } = step
    const now = yield* Effect.result(inspectFile(step))
    // Restoring a file also creates its directories.
    if (to?.type === "directory" && now._tag === "Success" && now.success.state?.type === "directory") {
      moved.push({ path, to })
      continue
    }
    if (now._tag === "Failure" || (!FileChange.isSame(now.success.state, found) && found?.notKept === undefined)) {
      left.push({ path, reason: now._tag === "Failure" ? now.failure.message : "it was changed just now" })
      continue
    }
    const { bytes, state } = now.success
    const notKept =
      state?.hash === undefined || bytes === undefined || contents === undefined
        ? state?.notKept
        : yield* contents.keep(state.hash, bytes)
    const written = yield* Effect.result(writeState(step, set.cwd))
    if (written._tag === "Failure") {
      left.push({ path, reason: written.failure.reason.description ?? written.failure.message })
      continue
    }
    moved.push({
      path,
      ...(state === undefined ? {} : { from: notKept === undefined ? state : { ...state, notKept } }),
      ...(to === undefined ? {} : { to })
    })
  }
  const record = yield* RunRecord
  const event: FileChange.FilesReverted = {
    _tag: "FilesReverted",
    direction,
    turns: [set.turnId],
    files: [...moved, ...(direction === "undo" ? same.flatMap((path) => toRevertedFiles(set, path)) : [])],
    left: left.map(({ path }) => path)
  }
  yield* record.append([{ sessionId: set.sessionId, turnId: set.turnId, at: yield* Clock.currentTimeMillis, event }])
  return { changed: moved.map(({ path }) => path), left }
})

/** Records that a run was abandoned without changing its files. */
export const recordAbandonedRun = Effect.fnUntraced(function* ({
  changes,
  sessionId,
  turnId
}: ChangeSets.ChangeSet): Effect.fn.Return<void, never, RunRecord> {
  const record = yield* RunRecord
  const left = ChangeSets.toNetChanges(changes).map(({ path }) => path)
  yield* record.append([
    {
      sessionId,
      turnId,
      at: yield* Clock.currentTimeMillis,
      event: { _tag: "FilesReverted", direction: "undo", turns: [turnId], files: [], left }
    }
  ])
})

/** Creates the record entry for a file that was already restored by hand. With it, a redo changes the file again. */
const toRevertedFiles = (set: ChangeSets.ChangeSet, path: string): FileChange.FilesReverted["files"] =>
  ChangeSets.toNetChanges(set.changes).flatMap((change) =>
    change.path !== path
      ? []
      : [
          {
            path,
            ...(change.after === undefined ? {} : { from: change.after }),
            ...(change.before === undefined ? {} : { to: change.before })
          }
        ]
  )
