/**
 * A file change made by a tool, as it is reported and stored: the path, the states before and after, and the difference
 * as text.
 *
 * **Details**
 *
 * A state identifies its content by the SHA-256 of the bytes; the bytes are stored separately (`store/ChangeContents`),
 * so that a change stays small. `notKept` is the reason why the bytes are not stored, such as a file that is too large
 * or contains credentials. The difference contains no secrets.
 *
 * **Example** (Creating a difference and counting its lines)
 *
 * ```ts
 * import { FileChange } from "hermes-effect/sessions"
 *
 * const diff = FileChange.makeUnifiedDiff("notes.txt", "one\n", "two\nthree\n")
 *
 * console.log(FileChange.countLines(diff))
 * // => { added: 2, removed: 1 }
 * ```
 *
 * Source: `ARCHITECTURE.md` §4 and §8 (changes).
 */
import * as Schema from "effect/Schema"
import * as TextDiff from "effect/TextDiff"

/** State of a file. The content of a symbolic link is its target. A directory has no content. */
export const FileState = Schema.Struct({
  type: Schema.Literals(["file", "link", "directory"]),
  /** Permission bits. */
  mode: Schema.Int,
  size: Schema.Int,
  /** SHA-256 of the content; absent if it was not read. */
  hash: Schema.optionalKey(Schema.String),
  /** Reason why the content cannot be restored; absent if it can. */
  notKept: Schema.optionalKey(Schema.String)
})
/** Type of {@link FileState}. */
export type FileState = typeof FileState.Type

/** A file was changed. If `before` is absent, the file was created; if `after` is absent, it was removed. */
export const FileChanged = Schema.TaggedStruct("FileChanged", {
  callId: Schema.String,
  /** Absolute path with links resolved, on the machine where the tools run. */
  path: Schema.String,
  before: Schema.optionalKey(FileState),
  after: Schema.optionalKey(FileState),
  /** Unified diff; empty if the content is unchanged, one line for binary content. */
  diff: Schema.String,
  added: Schema.Int,
  removed: Schema.Int,
  /** Cause of the change. `tool`: a tool wrote the file. `command`: the file differed after a command ran. */
  by: Schema.Literals(["tool", "command"])
})
/** Type of {@link FileChanged}. */
export type FileChanged = typeof FileChanged.Type

/** One file whose change was undone or redone. */
const Reverted = Schema.Struct({
  path: Schema.String,
  from: Schema.optionalKey(FileState),
  to: Schema.optionalKey(FileState)
})

/** File changes of runs were undone or redone. */
export const FilesReverted = Schema.TaggedStruct("FilesReverted", {
  direction: Schema.Literals(["undo", "redo"]),
  /** Ids of the runs. */
  turns: Schema.Array(Schema.String),
  files: Schema.Array(Reverted),
  /** Paths of files that were left unchanged. */
  left: Schema.Array(Schema.String)
})
/** Type of {@link FilesReverted}. */
export type FilesReverted = typeof FilesReverted.Type

/**
 * Tests whether two states have the same kind, content and executable bits. A state whose content was not read differs
 * from every state.
 */
export const isSame = (one: FileState | undefined, other: FileState | undefined): boolean =>
  one === undefined || other === undefined
    ? one === other
    : one.type === other.type &&
      one.hash !== undefined &&
      one.hash === other.hash &&
      (one.type === "link" || (one.mode & 0o111) === (other.mode & 0o111))

// Computes the difference between two versions of a file, in a form for people and models. Pure.

/** Maximum number of edits for which the shortest difference is computed; a larger difference is shown as one block. */
const maxEdits = 2_000
const maxChars = 20_000
/** Maximum length of the text that is compared, in characters. */
const maxCompared = 1_000_000
const nowhere = "/dev/null"

/** Content of a file: `undefined` if the file does not exist, `null` if its bytes are not text. */
export type Content = string | null | undefined

/** Returns the unified diff of one file; an empty string if nothing changed. */
export const makeUnifiedDiff = (name: string, before: Content, after: Content): string => {
  if (before === null || after === null)
    return `Binary file ${name} ${after === undefined ? "deleted" : before === undefined ? "created" : "changed"}\n`
  if ((before?.length ?? 0) > maxCompared || (after?.length ?? 0) > maxCompared)
    return before === after
      ? ""
      : `Large file ${name} ${after === undefined ? "deleted" : before === undefined ? "created" : "changed"}\n`
  const diff = TextDiff.unified(TextDiff.lines(before ?? "", after ?? "", { maxEdits }), {
    fromFile: before === undefined ? nowhere : `a/${name}`,
    toFile: after === undefined ? nowhere : `b/${name}`
  })
  if (diff === "" && before !== after) return `--- ${name}\n+++ ${after === undefined ? nowhere : name} (empty file)\n`
  return diff.length <= maxChars
    ? diff
    : `${diff.slice(0, diff.lastIndexOf("\n", maxChars))}\n… [diff cut: ${diff.length} characters]\n`
}

/** Returns the file name in the header of a unified diff, or the path if the header contains no name. */
export const readFileName = ({ diff, path }: Pick<FileChanged, "diff" | "path">): string =>
  /^\+\+\+ (?:b\/)?(?!\/dev\/null)(.+)$/m.exec(diff)?.[1] ??
  /^--- (?:a\/)?(?!\/dev\/null)(.+)$/m.exec(diff)?.[1] ??
  path

/** Counts the lines that a unified diff adds and removes. */
export const countLines = (diff: string): { readonly added: number; readonly removed: number } => {
  const lines = diff.split("\n").filter((line) => !/^(?:\+\+\+|---) /.test(line))
  return {
    added: lines.filter((line) => line.startsWith("+")).length,
    removed: lines.filter((line) => line.startsWith("-")).length
  }
}
