/**
 * The directory that a command runs in.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type * as Path from "effect/Path"
import { ProcessEnvironment } from "../../../platform/ProcessVariables.ts"
import * as Shell from "./Shell.ts"

/**
 * The absolute path of `workdir`, taken relative to `base` (`~` is the home directory), or of `base` when there is none.
 * It fails when that is no directory.
 */
export const resolve = Effect.fnUntraced(function*(
  fs: FileSystem.FileSystem,
  path: Path.Path,
  base: string,
  workdir: string | undefined
): Effect.fn.Return<string, Shell.NotStarted> {
  const home = (yield* ProcessEnvironment)()["HOME"]
  const given = workdir ?? base
  const directory = path.resolve(base, home !== undefined && /^~(?:\/|$)/.test(given) ? home + given.slice(1) : given)
  const remedy = workdir === undefined ? "pass a workdir that does" : `create it first, or leave it out to run in ${base}`
  const info = yield* fs.stat(directory).pipe(
    Effect.mapError((error) =>
      new Shell.NotStarted({
        message: error.reason._tag === "PermissionDenied"
          ? `workdir ${directory} can not be entered: permission denied`
          : `workdir ${directory} does not exist: ${remedy}`,
        cause: error
      })
    )
  )
  return info.type === "Directory"
    ? directory
    : yield* new Shell.NotStarted({
      message: `workdir ${directory} is not a directory: name the directory that holds it`
    })
})
