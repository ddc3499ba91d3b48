/**
 * Undo and redo of the file changes of a run, in the environment in which its tools ran. Files that the sandbox makes
 * read-only remain unchanged.
 *
 * **Example** (Undoing the last run of a session, unless its files were changed since)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Option from "effect/Option"
 * import type { Ids } from "hermes-effect"
 * import { ChangeSets } from "hermes-effect/sessions"
 * import { FileUndo } from "hermes-effect/tools/files"
 *
 * export const takeBack = Effect.fnUntraced(function*(sessionId: Ids.SessionId) {
 *   const undo = yield* FileUndo.FileUndo
 *   const run = ChangeSets.findUndoTarget(yield* ChangeSets.readHistory(sessionId))
 *   if (Option.isNone(run)) return []
 *   const plan = yield* undo.plan(run.value, "undo")
 *   if (plan.conflicts.length > 0) return []
 *   return (yield* undo.apply(plan, { isOverwriting: false })).changed
 * })
 * ```
 *
 * Source: `ARCHITECTURE.md` §8 (changes).
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import type { SessionStoreError } from "../base/domain/AgentError.ts"
import type { FileChanged } from "../base/domain/FileChange.ts"
import { CommandEnvironment } from "../places/CommandEnvironment.ts"
import { CallConversation, CallDirectory } from "../base/domain/CallContext.ts"
import * as ChangeContents from "../store/ChangeContents.ts"
import type { ChangeSet } from "../store/ChangeSets.ts"
import * as ChangeUndo from "../store/ChangeUndo.ts"
import { RunRecord } from "../store/RunRecord.ts"

/** Operations for undoing and redoing file changes. */
export interface Service {
  /** Inspects the files of a run and returns a plan of the undo or redo. */
  readonly plan: (set: ChangeSet, direction: ChangeUndo.Plan["direction"]) => Effect.Effect<ChangeUndo.Plan>
  /** Computes the differences of changes, with one difference per file. */
  readonly diffs: (changes: ReadonlyArray<FileChanged>) => ReturnType<typeof ChangeUndo.computeDiffs>
  /** Records that a run was abandoned with its files unchanged. */
  readonly leave: (set: ChangeSet) => Effect.Effect<void>
  /** Does it. */
  readonly apply: (
    plan: ChangeUndo.Plan,
    options: { readonly isOverwriting: boolean }
  ) => Effect.Effect<ChangeUndo.UndoResult, SessionStoreError>
}

/** Undo and redo of the file changes of a run. */
export class FileUndo extends Context.Service<FileUndo, Service>()("hermes-effect/tool/FileUndo") {}

/** Uses the environment, the record, and the stored contents ({@link ChangeContents}). */
export const layer: Layer.Layer<FileUndo, never, CommandEnvironment | Path.Path | RunRecord> = Layer.effect(
  FileUndo,
  Effect.gen(function* () {
    const { directory, files } = yield* CommandEnvironment
    const path = yield* Path.Path
    const record = yield* RunRecord
    const contents = yield* ChangeContents.ChangeContents
    const inTree = <A, E>(
      set: ChangeSet,
      cwd: string,
      effect: Effect.Effect<A, E, FileSystem.FileSystem | Path.Path | RunRecord>
    ): Effect.Effect<A, E> =>
      effect.pipe(
        Effect.provideService(CallDirectory, cwd),
        Effect.provideService(CallConversation, set.sessionId),
        Effect.provideService(ChangeContents.ChangeContents, contents),
        Effect.provideService(FileSystem.FileSystem, files),
        Effect.provideService(Path.Path, path),
        Effect.provideService(RunRecord, record)
      )
    return {
      diffs: (changes) =>
        Effect.provideService(ChangeUndo.computeDiffs(changes), ChangeContents.ChangeContents, contents),
      leave: (set) => Effect.provideService(ChangeUndo.recordAbandonedRun(set), RunRecord, record),
      plan: (set, direction) =>
        Effect.flatMap(directory(set.cwd), (cwd) => inTree(set, cwd, ChangeUndo.makePlan({ ...set, cwd }, direction))),
      apply: (plan, options) => inTree(plan.set, plan.set.cwd, ChangeUndo.apply(plan, options))
    }
  })
)
