/**
 * A change of a file that a tool made, as reported and stored: the path, the states before and after, the difference as
 * text.
 *
 * **Details**
 *
 * A state identifies its content by the SHA-256 of the bytes; the bytes are stored separately (`store/ChangeContents`),
 * so that a change stays small. `notKept` is the reason they are not stored: too large, credentials, no place. The
 * difference contains no secrets.
 *
 * **Example** (A difference, and its lines)
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

/** State of a file. The content of a link is its target. A directory has no content. */
export const FileState = Schema.Struct({
  type: Schema.Literals(["file", "link", "directory"]),
  /** Permissions. */
  mode: Schema.Int,
  size: Schema.Int,
  /** SHA-256 of the content; absent if it was not read. */
  hash: Schema.optionalKey(Schema.String),
  /** Reason why the content cannot be restored; absent if it can. */
  notKept: Schema.optionalKey(Schema.String)
})
/** Type of {@link FileState}. */
export type FileState = typeof FileState.Type

/** A file became another one. Without `before` it was made, without `after` removed. */
export const FileChanged = Schema.TaggedStruct("FileChanged", {
  callId: Schema.String,
  /** Absolute, links followed, on the machine that the tools work on. */
  path: Schema.String,
  before: Schema.optionalKey(FileState),
  after: Schema.optionalKey(FileState),
  /** Unified; empty if the content is unchanged, one line for binary content. */
  diff: Schema.String,
  added: Schema.Int,
  removed: Schema.Int,
  /** `tool`: a tool wrote it; `command`: it was another one after a command ran. */
  by: Schema.Literals(["tool", "command"])
})
/** Type of {@link FileChanged}. */
export type FileChanged = typeof FileChanged.Type

/** One file that was put back, or changed again. */
const Reverted = Schema.Struct({
  path: Schema.String,
  from: Schema.optionalKey(FileState),
  to: Schema.optionalKey(FileState)
})

/** Changes of runs were taken back, or made again. */
export const FilesReverted = Schema.TaggedStruct("FilesReverted", {
  direction: Schema.Literals(["undo", "redo"]),
  /** The runs. */
  turns: Schema.Array(Schema.String),
  files: Schema.Array(Reverted),
  /** Paths that stay as they are. */
  left: Schema.Array(Schema.String)
})
/** Type of {@link FilesReverted}. */
export type FilesReverted = typeof FilesReverted.Type

/** Compares two states: the same kind, content and permissions. One that was not read is like nothing. */
export const isSame = (one: FileState | undefined, other: FileState | undefined): boolean =>
  one === undefined || other === undefined
    ? one === other
    : one.type === other.type &&
      one.hash !== undefined &&
      one.hash === other.hash &&
      (one.type === "link" || (one.mode & 0o111) === (other.mode & 0o111))

// The difference of two texts that a person and a model can read. Pure.

/** Changes that are looked for in the shortest form; more are shown as one block. */
const maxEdits = 2_000
const maxChars = 20_000
/** Maximum number of characters of a text that is compared. */
const maxCompared = 1_000_000
const nowhere = "/dev/null"

/** One content: `undefined` is a file that is not there, bytes that are not text are `null`. */
export type Content = string | null | undefined

/** Returns the difference of one file, or an empty text if nothing changed. */
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

/** Returns the name of the file in the head of a difference, or the path if the head has no name. */
export const readFileName = ({ diff, path }: Pick<FileChanged, "diff" | "path">): string =>
  /^\+\+\+ (?:b\/)?(?!\/dev\/null)(.+)$/m.exec(diff)?.[1] ??
  /^--- (?:a\/)?(?!\/dev\/null)(.+)$/m.exec(diff)?.[1] ??
  path

/** Lines that a difference adds and removes. */
export const countLines = (diff: string): { readonly added: number; readonly removed: number } => {
  const lines = diff.split("\n").filter((line) => !/^(?:\+\+\+|---) /.test(line))
  return {
    added: lines.filter((line) => line.startsWith("+")).length,
    removed: lines.filter((line) => line.startsWith("-")).length
  }
}
