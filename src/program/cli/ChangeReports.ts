/**
 * Describes the file changes of a session's runs as text: the effect of an undo, the reasons that prevent it, and the
 * list of runs. Used by slash commands in a conversation and by commands on the command line.
 *
 * Source: `hermes-product.md` §1.8.
 */
import type * as FileChange from "../../base/domain/FileChange.ts"
import type { ChangeSet, History } from "../../store/ChangeSets.ts"
import type { UndoResult, Plan } from "../../store/ChangeUndo.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import * as DiffText from "./render/DiffText.ts"
import * as SafeText from "./render/SafeText.ts"
import { formatQuantity } from "./render/UsageText.ts"
import * as Width from "./render/Width.ts"

/** Maximum number of lines shown for a conflict. */
const conflictLines = 40

const promptColumns = 60

const toSafeLine = (text: string): string => SafeText.toLine(Redaction.redactText(text))

/** Returns the title of a run: the beginning of its prompt. */
const formatTitle = ({ prompt, turnId }: ChangeSet): string => {
  const line = toSafeLine(Redaction.takeBeginning(prompt, 500).trim().split("\n")[0] ?? "")
  return line === "" ? turnId : Width.cut(line, promptColumns)
}

/** Renders the conflicts of a plan with their differences, and the files that cannot be restored. */
export const renderConflicts = (
  { conflicts, direction, lost, set }: Plan,
  room: DiffText.Room
): ReadonlyArray<string> => [
  ...conflicts.flatMap(({ diff, path, reason }) => [
    room.paint.text(
      `${toSafeLine(DiffText.toRelativeName(set.cwd, path))}: ${reason}. ` +
        `${direction === "undo" ? "Undo" : "Redo"} would make this change:`,
      "yellow"
    ),
    ...DiffText.renderLines(diff, { ...room, most: conflictLines }, "the rest is not shown")
  ]),
  ...lost.map(({ path, reason }) =>
    room.paint.text(
      `${toSafeLine(DiffText.toRelativeName(set.cwd, path))} cannot be restored: ${toSafeLine(reason)}`,
      "yellow"
    )
  )
]

/** Renders the result of an undo or redo as sentences. */
export const renderOutcome = ({ direction, set }: Plan, { changed, left }: UndoResult): ReadonlyArray<string> => [
  `${direction === "undo" ? "Undone" : "Done again"}: ${
    changed.length === 0 && left.length === 0
      ? `"${formatTitle(set)}" (it changed no files)`
      : `${formatQuantity(changed.length, "file")} of "${formatTitle(set)}"`
  }${
    changed.length === 0
      ? ""
      : ` (${Width.cut(changed.map((path) => toSafeLine(DiffText.toRelativeName(set.cwd, path))).join(", "), 200)})`
  }`,
  ...left.map(
    ({ path, reason }) => `Not changed: ${toSafeLine(DiffText.toRelativeName(set.cwd, path))}: ${toSafeLine(reason)}`
  )
]

/** Counts the files of changes, each file once. */
const countFiles = (changes: ReadonlyArray<FileChange.FileChanged>): number =>
  new Set(changes.map(({ path }) => path)).size

/** Lists the runs of a session with their numbers, starting with the first run. */
export const listCheckpoints = ({ left, runs }: History) =>
  [...runs.map((run) => ({ run, isLeft: false })), ...left.map((run) => ({ run, isLeft: true }))].map(
    ({ isLeft, run }, index) => ({
      number: index + 1,
      run: run.turnId,
      session: run.sessionId,
      at: run.at,
      title: formatTitle(run),
      files: countFiles(run.changes),
      added: run.changes.reduce((sum, { added }) => sum + added, 0),
      removed: run.changes.reduce((sum, { removed }) => sum + removed, 0),
      state: isLeft ? ("left" as const) : run.undone === undefined ? ("done" as const) : ("undone" as const)
    })
  )
