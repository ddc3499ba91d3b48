/**
 * The tool `patch`, which changes a part of a file, or several files at once.
 *
 * **Details**
 *
 * Mode `replace` replaces one text with another (`patch/Replace.ts`), mode `patch` applies a V4A patch (`patch/V4A.ts`,
 * `patch/Plan.ts`). Both first compute the new content of every file and then write all files or none
 * (`patch/Change.ts`). Line endings and the byte order mark of a file are preserved.
 *
 * **Gotchas**
 *
 * A replacement that changes nothing fails with `no_change`: after a success the model would proceed as if the file had
 * changed. The tool is annotated as not destructive, see `WriteFile.ts`.
 *
 * Source: `hermes-product.md` §2.3, cases 34 and 35.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Result from "effect/Result"
import { type Content, makeUnifiedDiff } from "../../base/domain/FileChange.ts"
import * as ChangeRecording from "../ChangeRecording.ts"
import { ConversationHistory, ToolContext } from "../ToolContext.ts"
import { FileState } from "./file/FileState.ts"
import { type Lint, patch as patchTool } from "./file/FileToolDefinitions.ts"
import * as Problem from "./file/Problem.ts"
import * as Change from "./patch/Change.ts"
import { Targets } from "./file/Fence.ts"
import * as Text from "./file/FileContent.ts"
import * as Plan from "./patch/Plan.ts"
import * as Replace from "./patch/Replace.ts"
import * as V4A from "./patch/V4A.ts"

/** The tool `patch`. */
export const tool = patchTool

type Params = typeof tool.parametersSchema.Type

/** Changes to make, and notes for the result about how they were matched. */
interface Edit {
  readonly changes: ReadonlyArray<Change.Change>
  readonly notes: { readonly replacements?: number; readonly matched_by?: string }
}

const failReplacement = (given: string, refused: Replace.ReplacementRefusal): Effect.Effect<never, Problem.Problem> => {
  switch (refused._tag) {
    case "Empty":
      return Problem.fail("old_string is empty", { hint: "Use write_file to create a file." })
    case "Unchanged":
      return Problem.fail("old_string and new_string come to the same text: nothing would change", { no_change: true })
    case "Ambiguous":
      return Problem.fail(
        `old_string matches several places in ${given}: lines ${refused.lines.join(", ")}` +
          (refused.step === "exact" ? "" : ` (compared by ${refused.step})`),
        { hint: "Add lines around the change until it stands only once, or set replace_all to change all of them." }
      )
    case "NotFound":
      return Problem.fail(`old_string was not found in ${given}`, {
        hint: refused.applied
          ? "new_string is already there: the change may have been made before."
          : refused.closest === undefined
            ? "Read the file with read_file and copy old_string from it."
            : `Line ${refused.closest} is the most similar to its first line: read the file around it with ` +
              "read_file and copy old_string from there."
      })
  }
}

const planReplaceEdit = Effect.fnUntraced(function* ({ path, old_string, new_string, replace_all = false }: Params) {
  if (path === undefined || old_string === undefined || new_string === undefined) {
    return yield* Problem.fail('mode "replace" needs path, old_string and new_string')
  }
  const target = yield* Effect.flatMap(Targets, (targets) => targets.resolve(path, "edit"))
  const found = yield* Change.findFile(target)
  if (found.bytes === undefined) {
    return yield* Problem.fail(`no such file: ${path}`, { hint: "Use write_file to create it." })
  }
  const file = yield* Plan.decodeText(path, found.bytes)
  const replaced = yield* Replace.replace(file.text, {
    wanted: Text.adoptLineEnds(file, old_string),
    replacement: Text.adoptLineEnds(file, new_string),
    replaceAll: replace_all
  })
  if (Result.isFailure(replaced)) return yield* failReplacement(path, replaced.failure)
  const { count, step, text } = replaced.success
  return {
    changes: [{ found, after: Text.encode({ ...file, text }), mode: found.mode }],
    notes: { replacements: count, ...(step === "exact" ? {} : { matched_by: step }) }
  } satisfies Edit
})

const planPatchEdit = Effect.fnUntraced(function* ({ patch }: Params) {
  if (patch === undefined) return yield* Problem.fail('mode "patch" needs patch: a V4A patch text')
  const operations = V4A.parse(patch)
  if (Result.isFailure(operations)) return yield* Problem.fail(operations.failure)
  const changes = yield* Plan.planChanges(operations.success)
  if (changes.length === 0) return yield* Problem.fail("the patch changes nothing", { no_change: true })
  return { changes, notes: {} } satisfies Edit
})

const toContent = (bytes: Uint8Array | undefined): Content =>
  bytes === undefined ? undefined : (Text.decode(bytes)?.text ?? null)

/** Describes the changed files for the result. */
const describeChanges = Effect.fnUntraced(function* (changes: ReadonlyArray<Change.Change>) {
  const diffs: Array<string> = []
  const files: Record<"files_modified" | "files_created" | "files_deleted", Array<string>> = {
    files_modified: [],
    files_created: [],
    files_deleted: []
  }
  const lint: Record<string, Lint> = {}
  for (const {
    after,
    found: {
      bytes,
      target: { given }
    }
  } of changes) {
    const text = toContent(after)
    diffs.push(makeUnifiedDiff(given, toContent(bytes), text))
    files[after === undefined ? "files_deleted" : bytes === undefined ? "files_created" : "files_modified"].push(given)
    const checked = typeof text === "string" ? yield* Change.checkSyntax(given, text) : undefined
    if (checked !== undefined) lint[given] = checked
  }
  return {
    diff: diffs.join(""),
    ...Object.fromEntries(Object.entries(files).filter(([, names]) => names.length > 0)),
    ...(Object.keys(lint).length === 0 ? {} : { lint })
  }
})

/** Number of consecutive failures of one edit after which the hint becomes urgent. */
const patience = 3

const renderUrgentHint = (times: number): string =>
  `This is failure ${times} in a row. Do not guess again: read the file with read_file now, use a short ` +
  "old_string that stands only once, or replace the whole file with write_file."

/** Creates the handler from the services of the toolset. */
export const make = Effect.gen(function* () {
  const services = yield* Effect.context<FileSystem.FileSystem | Path.Path | Targets>()
  const state = yield* FileState

  const applyChanges = Effect.fnUntraced(function* (params: Params) {
    const { sessionId } = yield* ToolContext
    const { changes, notes } = yield* (params.mode ?? (params.patch === undefined ? "replace" : "patch")) === "patch"
      ? planPatchEdit(params)
      : planReplaceEdit(params)
    const stale: Array<string> = []
    for (const {
      found: { stamp, target }
    } of changes) {
      if (stamp !== undefined && (yield* state.changedSinceSeen(sessionId, target.real, stamp)))
        stale.push(target.given)
    }
    for (const { change, stamp } of yield* Change.commit(changes)) {
      yield* state.wrote(sessionId, change.found.target.real, stamp, (yield* ConversationHistory) !== undefined)
    }
    yield* ChangeRecording.report(
      changes.map(({ after, found: { bytes, mode: before, target }, mode }) => ({
        path: target.real,
        before: ChangeRecording.toFileState(bytes, before),
        after: ChangeRecording.toFileState(after, mode)
      })),
      "tool"
    )
    return {
      success: true as const,
      ...(yield* describeChanges(changes)),
      ...notes,
      ...(stale.length === 0
        ? {}
        : { warning: `Changed externally since you read it: ${stale.join(", ")}. Check the diff.` })
    }
  })

  /** Fails an edit. With each consecutive failure, the message tells the model more clearly to stop guessing. */
  const failEdit = Effect.fnUntraced(function* (what: string, error: Problem.Problem | PlatformError) {
    const { sessionId } = yield* ToolContext
    const times = yield* state.editFailed(sessionId, what)
    return yield* times < patience ? error : Problem.addHint(error, renderUrgentHint(times))
  })

  return Effect.fnUntraced(
    function* (params: Params) {
      const { sessionId } = yield* ToolContext
      const what = params.path ?? "patch"
      yield* state.otherToolRan(sessionId)
      const answer = yield* applyChanges(params).pipe(Effect.catch((error) => failEdit(what, error)))
      yield* state.editSucceeded(sessionId, what)
      return answer
    },
    state.exclusive,
    Effect.provideContext(services),
    Problem.mapToFailure
  )
})
