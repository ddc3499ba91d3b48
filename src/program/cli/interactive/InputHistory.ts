/**
 * History of sent lines, kept from session to session in a file that only the user can read.
 *
 * One line of JSON for each text, so that texts of several lines are kept, added at the end, so that two sessions at
 * the same time lose nothing of each other. Secrets that are known by their shape are not kept, and neither is the same
 * text twice in a row. The file is cut to its newest {@link maxEntries} when it has twice as many.
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

/** Texts that are kept. */
export const maxEntries = 1000

const ownerOnly = 0o600

export interface History {
  /** The newest last. */
  readonly entries: () => ReadonlyArray<string>
  /** Adds a text; without `keep`, for this session alone. */
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

/** Content of the file; empty without a file. */
const readEntries = Effect.fnUntraced(function* (fs: FileSystem.FileSystem, path: string) {
  if (!(yield* fs.exists(path))) return []
  // A file that others could read was not made here.
  yield* fs.chmod(path, ownerOnly)
  const entries = parse(yield* fs.readFileString(path))
  if (entries.length < 2 * maxEntries) return entries.slice(-maxEntries)
  const kept = entries.slice(-maxEntries)
  const next = `${path}.new`
  yield* fs.writeFileString(next, format(kept), { mode: ownerOnly })
  yield* fs.rename(next, path)
  return kept
})

/** The history in a file. */
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
