/**
 * What changed in a file, as a unified diff that a person and a model can read. Pure.
 *
 * @since 0.1.0
 */
import * as TextDiff from "effect/TextDiff"

/** Changes that are looked for in the shortest form; more are shown as one block. */
const maxEdits = 2_000
const maxChars = 20_000
const nowhere = "/dev/null"

/** One state of a file: `undefined` is a file that is not there, bytes that are not text are `null`. */
export type State = string | null | undefined

/** The change of one file; empty where nothing changed. */
export const unified = (name: string, before: State, after: State): string => {
  if (before === null || after === null) return `Binary file ${name} ${after === undefined ? "deleted" : "changed"}\n`
  const diff = TextDiff.unified(TextDiff.lines(before ?? "", after ?? "", { maxEdits }), {
    fromFile: before === undefined ? nowhere : `a/${name}`,
    toFile: after === undefined ? nowhere : `b/${name}`
  })
  if (diff === "" && before !== after) return `--- ${name}\n+++ ${after === undefined ? nowhere : name} (empty file)\n`
  return diff.length <= maxChars
    ? diff
    : `${diff.slice(0, diff.lastIndexOf("\n", maxChars))}\n… [diff cut: ${diff.length} characters]\n`
}
