/**
 * What is asked: text of the command line, of a file or of stdin, word for word, and an image beside it.
 *
 * Source: `hermes-product.md` §1.2.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Stdio from "effect/Stdio"
import * as Stream from "effect/Stream"
import * as Prompt from "effect/ai/Prompt"
import type { RunInput } from "../agent/RunInput.ts"
import { type Failure, usage } from "./Failure.ts"
import type * as Flags from "./Flags.ts"

const mediaTypes: Readonly<Record<string, string>> = {
  ".png": "image/png",
  ".jpg": "image/jpeg",
  ".jpeg": "image/jpeg",
  ".gif": "image/gif",
  ".webp": "image/webp"
}

const why = (error: PlatformError): string => {
  switch (error.reason._tag) {
    case "NotFound":
      return "there is no such file"
    case "PermissionDenied":
      return "permission denied"
    default:
      return error.message
  }
}

const unreadable = (flag: string, path: string) => (error: PlatformError): Failure =>
  usage(`${flag} ${path} can not be read: ${why(error)}`)

const stdin: Effect.Effect<string, PlatformError, Stdio.Stdio> = Effect.flatMap(
  Stdio.Stdio,
  (stdio) => Stream.mkString(Stream.decodeText(stdio.stdin))
)

const fromFile = (path: string): Effect.Effect<string, PlatformError, FileSystem.FileSystem | Stdio.Stdio> =>
  path === "-" ? stdin : Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readFileString(path))

const image = Effect.fnUntraced(function*(path: string) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const mediaType = mediaTypes[paths.extname(path).toLowerCase()]
  if (mediaType === undefined) {
    return yield* usage(`--image ${path} is no image that models take: use PNG, JPEG, GIF or WebP`)
  }
  const data = yield* Effect.mapError(fs.readFile(path), unreadable("--image", path))
  return Prompt.filePart({ mediaType, data, fileName: paths.basename(path) })
})

/** Undefined where no query was given. */
export const read = Effect.fnUntraced(function*(
  flags: Pick<Flags.Chat, "image" | "query" | "queryFile">
): Effect.fn.Return<RunInput["prompt"] | undefined, Failure, FileSystem.FileSystem | Path.Path | Stdio.Stdio> {
  const { query, queryFile } = flags
  if (query !== undefined && queryFile !== undefined) {
    return yield* usage("--query and --query-file exclude each other: give one of them")
  }
  const text = queryFile === undefined
    ? query
    : yield* Effect.mapError(fromFile(queryFile), unreadable("--query-file", queryFile))
  if (text === undefined) {
    return flags.image === undefined ? undefined : yield* usage("--image goes with a query: add -q TEXT or --query-file PATH")
  }
  if (text.trim() === "") {
    const where = queryFile === undefined ? "--query" : queryFile === "-" ? "stdin" : queryFile
    return yield* usage(`${where} is empty: say what the agent should do`)
  }
  return flags.image === undefined ? text : [Prompt.textPart({ text }), yield* image(flags.image)]
})
