/**
 * History of sent lines, kept from session to session in a file that only the user can read.
 *
 * Each entry is stored as one line of JSON, so that it may contain line breaks. Lines are appended, so that concurrent
 * sessions do not overwrite each other. Secrets recognized by their format are not stored, and the same entry is not
 * stored twice in a row. The file is reduced to its newest {@link maxEntries} entries when it has twice as many.
 *
 * A file that cannot be read or written is reported in one warning; the session continues without it.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Json from "../../../base/domain/Json.ts"
import * as Redaction from "../../../base/domain/Redaction.ts"
import * as SafeText from "../render/SafeText.ts"

/** Maximum number of stored entries. */
export const maxEntries = 1000

const ownerOnly = 0o600

/** Lines that the user has typed, stored across sessions. */
export interface History {
  /** Entries of the history, newest last. */
  readonly entries: () => ReadonlyArray<string>
  /** Adds an entry. If `keep` is false, the entry is remembered only for this session. */
  readonly add: (text: string, options: { readonly keep: boolean }) => Effect.Effect<void>
}

const rememberEntry = (entries: Array<string>, text: string): boolean => {
  if (text.trim() === "" || entries.at(-1) === text) return false
  entries.push(text)
  return true
}

const parse = (content: string): ReadonlyArray<string> =>
  content.split("\n").flatMap((line) => {
    const entry = Option.getOrUndefined(Json.parse(line))
    return typeof entry === "string" && entry !== "" ? [SafeText.sanitise(entry)] : []
  })

const format = (entries: ReadonlyArray<string>): string => entries.map((entry) => `${JSON.stringify(entry)}\n`).join("")

/** Reads the content of the file; empty if the file does not exist. */
const readEntries = Effect.fnUntraced(function* (fs: FileSystem.FileSystem, path: string) {
  if (!(yield* fs.exists(path))) return []
  // The mode is set again, because a file that others can read was not created here.
  yield* fs.chmod(path, ownerOnly)
  const entries = parse(yield* fs.readFileString(path))
  if (entries.length < 2 * maxEntries) return entries.slice(-maxEntries)
  const kept = entries.slice(-maxEntries)
  const next = `${path}.new`
  yield* fs.writeFileString(next, format(kept), { mode: ownerOnly })
  yield* fs.rename(next, path)
  return kept
})

/** Opens the history in a file. */
export const openHistory = Effect.fnUntraced(function* (
  path: string
): Effect.fn.Return<History, never, FileSystem.FileSystem | Path.Path> {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  let usable = true
  const withFallback = <A>(work: Effect.Effect<A, PlatformError>, otherwise: A): Effect.Effect<A> =>
    Effect.catch(work, (error) => {
      usable = false
      return Effect.as(Effect.logWarning(`cannot use the history file ${path}: ${error.message}`), otherwise)
    })
  const entries = Array.from(yield* withFallback<ReadonlyArray<string>>(readEntries(fs, path), []))
  const appendEntry = (text: string): Effect.Effect<void> =>
    withFallback(
      Effect.andThen(
        fs.makeDirectory(paths.dirname(path), { recursive: true, mode: 0o700 }),
        fs.writeFileString(path, format([text]), { flag: "a", mode: ownerOnly })
      ),
      undefined
    )
  return {
    entries: () => entries,
    add: (text, { keep }) =>
      Effect.suspend(() =>
        rememberEntry(entries, text) && keep && usable ? appendEntry(Redaction.redactText(text)) : Effect.void
      )
  }
})
