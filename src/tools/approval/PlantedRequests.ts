/**
 * Asks whether to keep files that a command created and that would later cause a program to run. The sandbox has
 * already renamed them. An approval restores their names; otherwise the model receives the new names.
 *
 * **Details**
 *
 * One question covers a list of files, on behalf of the current call. Modes that skip questions do not keep any file.
 * Modes that skip questions do not keep any file.
 *
 * Source: `ARCHITECTURE.md` §7 ("walls", "approvals").
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { Service as Environment } from "../../places/CommandEnvironment.ts"

/** Asks whether to keep the given files. */
export const KeepRequest = Context.Reference<(files: ReadonlyArray<string>) => Effect.Effect<boolean>>(
  "hermes-effect/tool/approval/KeepRequest",
  { defaultValue: () => () => Effect.succeed(false) }
)

/** Maximum number of files that are named individually. */
const maxNamed = 20

/** Formats the names of files as one line. Pure. */
export const listFiles = (files: ReadonlyArray<string>): string =>
  [...files.slice(0, maxNamed), ...(files.length > maxNamed ? [`${files.length - maxNamed} more`] : [])].join(", ")

/** Handles files that commands planted since the last call. Returns a field for the result that informs the model. */
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
