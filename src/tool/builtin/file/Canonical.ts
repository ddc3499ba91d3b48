/**
 * Where a path really leads: symbolic links and `..` followed as far as the path exists, the rest taken as written. A
 * link whose target does not exist yet counts as its target, because that is where a write through it would land.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Problem from "./Problem.ts"

const maxLinks = 40

const isMissing = (error: PlatformError): boolean => error.reason._tag === "NotFound"

/** The real path of an absolute, normalised path, whether or not it exists. */
export const canonical: (
  path: string,
  links?: number
) => Effect.Effect<string, Problem.Problem | PlatformError, FileSystem.FileSystem | Path.Path> = Effect.fnUntraced(
  function*(target, links = maxLinks) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const real = yield* Effect.result(fs.realPath(target))
    if (real._tag === "Success") return real.success
    if (!isMissing(real.failure)) return yield* real.failure
    const parent = path.dirname(target)
    if (parent === target) return target
    if (links === 0) return yield* Problem.fail(`too many symbolic links: ${target}`)
    const link = yield* Effect.result(fs.readLink(target))
    const directory = yield* canonical(parent, links)
    return link._tag === "Success"
      ? yield* canonical(path.resolve(directory, link.success), links - 1)
      : path.join(directory, path.basename(target))
  }
)
