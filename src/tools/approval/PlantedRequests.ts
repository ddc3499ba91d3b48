/**
 * Asks whether to keep files that a command created and that would later cause a program to run. The sandbox has
 * already renamed them. An approval restores their names; otherwise the model receives the new names.
 *
 * **Details**
 *
 * Asks once for a list of files, on behalf of the current call. Modes that skip questions do not keep any file.
 *
 * Source: `ARCHITECTURE.md` §7 ("walls", "approvals").
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { Service as Environment } from "../../places/CommandEnvironment.ts"

/** Asks whether some files may stay. */
export const KeepRequest = Context.Reference<(files: ReadonlyArray<string>) => Effect.Effect<boolean>>(
  "hermes-effect/tool/approval/KeepRequest",
  { defaultValue: () => () => Effect.succeed(false) }
)

/** Files that are named one by one. */
const maxNamed = 20

/** Names files in one line. Pure. */
export const listFiles = (files: ReadonlyArray<string>): string =>
  [...files.slice(0, maxNamed), ...(files.length > maxNamed ? [`${files.length - maxNamed} more`] : [])].join(", ")

/** Settles what commands planted since the last call; returns a field of the result that says so to the model. */
export const settlePlanted = Effect.fnUntraced(function* ({
  planted
}: Environment): Effect.fn.Return<{ readonly set_aside?: string }> {
  const moved = planted === undefined ? [] : yield* planted.take
  if (planted === undefined || moved.length === 0) return {}
  const mayStay = yield* (yield* KeepRequest)(moved.map(({ path }) => path))
  const left = mayStay ? yield* Effect.filter(moved, (file) => Effect.isFailure(planted.keep(file))) : moved
  if (left.length === 0) {
    return { set_aside: `The user lets these files stay: ${listFiles(moved.map(({ path }) => path))}.` }
  }
  const names = listFiles(left.map(({ now, path }) => `${path} (now ${now.slice(now.lastIndexOf("/") + 1)})`))
  return {
    set_aside:
      `The sandbox renamed files from which programs of the user would run something later: ${names}. Do not ` +
      "work around it: tell the user, who can rename what should stay. write_file asks the user before it " +
      "writes such a file."
  }
})
