/**
 * File changes made by tool calls. They are reported as events, and stored with their contents so that they can be
 * undone.
 *
 * **Details**
 *
 * A file tool reports the files it wrote ({@link report}). Changes made by a command or a script are found by comparing
 * snapshots of the working tree taken before and after it runs ({@link observeCommand}), unless contents are not
 * stored. Each change is reported as a `FileChanged` event of the current call. Parts of the tree that a snapshot
 * skipped are reported once per runtime.
 *
 * **Example** (An agent whose changes can be undone)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, FileTools, Runtime } from "hermes-effect"
 * import type { ChangeRecording } from "hermes-effect/sessions"
 * import { FileUndo } from "hermes-effect/tools/files"
 *
 * const changes: ChangeRecording.Options = { directory: "/var/lib/app/changes", home: undefined }
 *
 * export const program = Effect.andThen(Agent.run({ prompt: "Tidy the notes." }), FileUndo.FileUndo).pipe(
 *   Effect.provide(Runtime.layer({ changes, tools: [FileTools.toolset] }))
 * )
 * ```
 *
 * Source: `ARCHITECTURE.md` §4 and §8 (changes).
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import type * as FileSystem from "effect/FileSystem"
import * as FileChange from "../base/domain/FileChange.ts"
import * as Redaction from "../base/domain/Redaction.ts"
import { CommandEnvironment } from "../places/CommandEnvironment.ts"
import type * as TreeSnapshot from "../places/TreeSnapshot.ts"
import * as ChangeContents from "../store/ChangeContents.ts"
import type { Finding } from "./danger/Command.ts"
import { isPlainSecret } from "./fence/SensitivePaths.ts"
import { ToolContext } from "./ToolContext.ts"

/** Receives the reported changes and notices of one call. */
export interface Sink {
  readonly changed: (changes: ReadonlyArray<Omit<FileChange.FileChanged, "callId">>) => Effect.Effect<void>
  readonly notice: (message: string) => Effect.Effect<void>
}

/** Receiver of the changes made by the current call; `undefined` if changes are not reported. */
export const ChangeSink = Context.Reference<Sink | undefined>("hermes-effect/tool/ChangeSink", {
  defaultValue: () => undefined
})

/** Snapshots of the working trees in which commands run; `undefined` if no snapshots are taken. */
export const Snapshots = Context.Reference<TreeSnapshot.Service | undefined>("hermes-effect/tool/Snapshots", {
  defaultValue: () => undefined
})

/** A file before and after a change. */
export interface FileWritten {
  /** Absolute path with symbolic links resolved. */
  readonly path: string
  readonly before: TreeSnapshot.FileState | undefined
  readonly after: TreeSnapshot.FileState | undefined
}

/** Returns the state of a regular file with its content. */
export const toFileState = (
  content: Uint8Array | undefined,
  mode: number | undefined
): TreeSnapshot.FileState | undefined =>
  content === undefined ? undefined : { type: "file", mode: (mode ?? 0o644) & 0o777, size: content.length, content }

/** Hashes by path of files that were already reported inside an observed command. */
const Reported = Context.Reference<Map<string, string> | undefined>("hermes-effect/tool/Reported", {
  defaultValue: () => undefined
})

const gone = "gone"
const decoder = new TextDecoder("utf-8", { fatal: true })

/** Returns the content as text; null if the bytes are not text. */
const readStateText = (state: TreeSnapshot.FileState | undefined): FileChange.Content => {
  if (state === undefined || state.type === "directory") return undefined
  if (state.content === undefined || state.content.includes(0)) return null
  try {
    return decoder.decode(state.content)
  } catch {
    return null
  }
}

const hashState = ({ content }: TreeSnapshot.FileState): string | undefined =>
  content === undefined ? undefined : ChangeContents.computeHash(content)

/** Stores the content of a file state, then returns the state. */
const storeFileState = Effect.fnUntraced(function* (
  path: string,
  state: TreeSnapshot.FileState | undefined
): Effect.fn.Return<FileChange.FileState | undefined> {
  if (state === undefined) return undefined
  const { content, mode, size, type } = state
  const hash = hashState(state)
  if (content === undefined || hash === undefined)
    return { type, mode, size, notKept: `it is too large (${size} bytes)` }
  const contents = yield* ChangeContents.ChangeContents
  const notKept = isPlainSecret(path.toLowerCase())
    ? "it may hold credentials"
    : contents === undefined
      ? "this runtime keeps no contents"
      : yield* contents.keep(hash, content)
  return { type, mode, size, hash, ...(notKept === undefined ? {} : { notKept }) }
})

/** Describes a change for its report. */
const describeChange = Effect.fnUntraced(function* (
  name: string,
  { after, before, path }: FileWritten,
  by: FileChange.FileChanged["by"]
) {
  const isSecret = isPlainSecret(path.toLowerCase())
  const isDirectory = (before ?? after)?.type === "directory"
  const diff = isSecret
    ? `${name} is not shown: it may hold credentials\n`
    : isDirectory
      ? `Empty directory ${name} ${after === undefined ? "deleted" : "created"}\n`
      : FileChange.makeUnifiedDiff(name, readStateText(before), readStateText(after))
  const [one, other] = [yield* storeFileState(path, before), yield* storeFileState(path, after)]
  return {
    _tag: "FileChanged" as const,
    path,
    ...(one === undefined ? {} : { before: one }),
    ...(other === undefined ? {} : { after: other }),
    // Secrets are always masked, even if results may show them: the difference is stored and exported.
    diff: Redaction.redactText(diff),
    ...FileChange.countLines(diff),
    by
  }
})

/** Returns the path of a file relative to the directory of its call. */
const toRelativeName = (cwd: string, file: string): string =>
  file.startsWith(cwd) && /^[\\/]/.test(file.slice(cwd.length)) ? file.slice(cwd.length + 1) : file

/** A change without the call that made it. */
type ReportedChange = Omit<FileChange.FileChanged, "callId">

/** Reports files that changed and returns the reported changes. */
export const report = Effect.fnUntraced(function* (
  changes: ReadonlyArray<FileWritten>,
  by: FileChange.FileChanged["by"]
): Effect.fn.Return<ReadonlyArray<ReportedChange>, never, ToolContext> {
  const sink = yield* ChangeSink
  if (sink === undefined) return []
  const { cwd } = yield* ToolContext
  const reported = yield* Reported
  const found: Array<ReportedChange> = []
  for (const change of changes) {
    const one = yield* describeChange(toRelativeName(cwd, change.path), change, by)
    if (FileChange.isSame(one.before, one.after)) continue
    reported?.set(change.path, one.after === undefined ? gone : (one.after.hash ?? ""))
    found.push(one)
  }
  if (found.length > 0) yield* sink.changed(found)
  return found
})

/** Notices about parts that snapshots do not cover, already given for each snapshot service. */
const said = new WeakMap<TreeSnapshot.Service, Set<string>>()

const formatCount = (count: number, one: string, more: string): string => `${count} ${count === 1 ? one : more}`

/**
 * Returns sentences about the files that a command deleted: the files that an undo restores and the files that it does
 * not.
 */
const describeDeletions = (
  changes: ReadonlyArray<ReportedChange>,
  rebuilt: ReadonlyArray<string>
): string | undefined => {
  const moved = new Set(changes.flatMap(({ after, before }) => (before === undefined ? (after?.hash ?? []) : [])))
  const gone = changes.flatMap(({ after, before }) =>
    after === undefined && before !== undefined && !moved.has(before.hash ?? "") ? [before] : []
  )
  const back = gone.filter(({ notKept }) => notKept === undefined).length
  const sentences = [
    ...(back === 0
      ? []
      : [`${formatCount(back, "file", "files")} deleted; undo with /undo (or hermes sessions undo).`]),
    ...(back === gone.length
      ? []
      : [`${formatCount(gone.length - back, "deleted file is", "deleted files are")} not kept and cannot be undone.`]),
    ...(rebuilt.length === 0 ? [] : [`Deleted and not kept, as it can be made again: ${rebuilt.join(", ")}.`])
  ]
  return sentences.length === 0 ? undefined : sentences.join(" ")
}

/** Reports the changes found by a snapshot, and the parts that the snapshot skipped. */
const reportSnapshotChanges = Effect.fnUntraced(function* (
  snapshots: TreeSnapshot.Service,
  sink: Sink,
  snapshot: TreeSnapshot.Snapshot,
  reported: ReadonlyMap<string, string>
) {
  const { changes, more, rebuilt, unseen } = yield* snapshot.since
  // A file tool that ran during the command has already reported its own changes.
  const own = changes.filter(({ after, path }) => {
    const known = reported.get(path)
    return known === undefined || known !== (after === undefined ? gone : hashState(after))
  })
  const deleted = describeDeletions(yield* report(own, "command"), rebuilt)
  if (deleted !== undefined) yield* sink.notice(deleted)
  const known = said.get(snapshots) ?? new Set<string>()
  said.set(snapshots, known)
  const news = [...unseen, ...(more === 0 ? [] : [`${more} more changed files of one command`])].filter(
    (text) => !known.has(text)
  )
  for (const text of news) known.add(text)
  if (news.length > 0) yield* sink.notice(`Changes by commands cannot be undone for ${news.join("; ")}.`)
})

/**
 * Returns the parts of a command's deletions that could not be restored, each with its reason. The other parts are
 * already stored.
 */
const findUndoGaps = Effect.fnUntraced(function* (directory: string, places: ReadonlyArray<TreeSnapshot.NamedPlace>) {
  const snapshots = yield* Snapshots
  const contents = yield* ChangeContents.ChangeContents
  if (snapshots === undefined || contents === undefined) return ["this runtime keeps no changes"]
  const named = yield* snapshots.named(directory, places)
  if (named.gaps.length > 0) return named.gaps
  const states = yield* Effect.forEach(named.files, ([path, state]) =>
    Effect.map(storeFileState(path, state), (told) =>
      told?.notKept === undefined ? [] : [`${toRelativeName(directory, path)} (${told.notKept})`]
    )
  )
  return states.flat()
})

const maxShown = 5

const markUnprotected = (finding: Finding, reasons: ReadonlyArray<string>): Finding => {
  const more = reasons.length > maxShown ? ` and ${reasons.length - maxShown} more` : ""
  return { ...finding, key: `${finding.key}, not covered by undo: ${reasons.slice(0, maxShown).join(", ")}${more}` }
}

/** Returns the places that a command line names for deletion. The command parser is loaded on first use. */
const loadDeletions = (line: string) =>
  Effect.map(
    Effect.promise(() => import("./DeletedPlaces.ts")),
    ({ findDeletions }) => findDeletions(line)
  )

/**
 * Selects the findings in a command line that an undo would not cover. Covered deletions are left out; the keys of the
 * others name the uncovered parts. `directory` is the working directory of the command, `unobserved` the reason why no
 * snapshot would be taken.
 */
export const selectUncovered = Effect.fnUntraced(function* (
  line: string,
  directory: string,
  found: ReadonlyArray<Finding>,
  unobserved?: string
): Effect.fn.Return<ReadonlyArray<Finding>> {
  const { losses: all, unnamed } = yield* loadDeletions(line)
  const losses = all.flatMap(({ finding, places }) => (places === undefined ? [] : [{ finding, places }]))
  const open = found.flatMap((finding) => {
    const loss = all.find(({ finding: { key } }) => key === finding.key)
    if (loss?.places !== undefined) return []
    return [loss?.open === undefined ? finding : markUnprotected(finding, [loss.open])]
  })
  const others =
    unobserved === undefined ? open : [...open, ...unnamed.map((finding) => markUnprotected(finding, [unobserved]))]
  if (losses.length === 0) return others
  const together =
    unobserved === undefined
      ? yield* findUndoGaps(
          directory,
          losses.flatMap(({ places }) => places)
        )
      : [unobserved]
  if (together.length === 0) return others
  const each = yield* Effect.forEach(losses, ({ finding, places }) =>
    Effect.map(
      unobserved !== undefined || losses.length === 1 ? Effect.succeed(together) : findUndoGaps(directory, places),
      (reasons) => (reasons.length === 0 ? [] : [markUnprotected(finding, reasons)])
    )
  )
  // Each deletion may fit within the limits although all of them together do not.
  return [
    ...others,
    ...(each.flat().length > 0 ? each.flat() : losses.map(({ finding }) => markUnprotected(finding, together)))
  ]
})

/**
 * Runs a command and reports the files that were created, changed or removed while it ran: files in the working tree of
 * a directory, and files at paths that the command line names, including ignored files.
 */
export const observeCommand =
  (directory: string, line?: string) =>
  <A, E, R>(command: Effect.Effect<A, E, R>): Effect.Effect<A, E, R | ToolContext> =>
    Effect.gen(function* () {
      const sink = yield* ChangeSink
      const snapshots = yield* Snapshots
      if (sink === undefined || snapshots === undefined) return yield* command
      const outer = yield* Reported
      const reported = new Map<string, string>()
      const { losses, overwritten } = line === undefined ? { losses: [], overwritten: [] } : yield* loadDeletions(line)
      const snapshot = yield* snapshots.take(directory, [
        ...losses.flatMap(({ places = [] }) => places),
        ...overwritten
      ])
      return yield* command.pipe(
        Effect.provideService(Reported, reported),
        // Changes are reported regardless of how the command ended: an interrupted command leaves changes too.
        Effect.onExit(() =>
          Effect.andThen(
            reportSnapshotChanges(snapshots, sink, snapshot, reported),
            Effect.sync(() => {
              for (const [path, hash] of reported) outer?.set(path, hash)
            })
          )
        )
      )
    })

/** Location and limits of the stored changes of a runtime. */
export interface Options extends Pick<TreeSnapshot.Options, "home"> {
  /** Directory for contents and for the states of trees. */
  readonly directory: string
  /** Directories excluded from working trees, in addition to {@link Options.directory}. */
  readonly apart?: ReadonlyArray<string> | undefined
}

/** Stores the changes made by a runtime's tools in a directory, and finds the changes made by commands. */
export const layer = ({
  apart = [],
  directory,
  home
}: Options): Layer.Layer<never, never, CommandEnvironment | FileSystem.FileSystem | Path.Path> =>
  Layer.mergeAll(
    Layer.effect(
      Snapshots,
      Effect.gen(function* () {
        const path = yield* Path.Path
        const root = path.resolve(directory)
        const isHidden = (name: string): boolean => isPlainSecret(`/${name.toLowerCase()}`)
        const { make } = yield* Effect.promise(() => import("../places/TreeSnapshot.ts"))
        return yield* make(yield* CommandEnvironment, {
          directory: path.join(root, "trees"),
          apart: [root, ...apart],
          home,
          isHidden
        })
      })
    ),
    Layer.unwrap(Effect.map(Path.Path, (path) => ChangeContents.layerFile(path.join(directory, "contents"))))
  )
