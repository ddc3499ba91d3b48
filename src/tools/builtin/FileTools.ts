/**
 * The toolset `file`: `read_file`, `write_file`, `patch` and `search_files`.
 *
 * **Details**
 *
 * It works on the files of the runtime's environment under the rules of `file/Fence.ts`. {@link FileState} is shared
 * with the runtime, which reports session events to it. {@link PathRoots} names the directories used by the rules.
 */
import * as Effect from "effect/Effect"
import type * as Path from "effect/Path"
import type { CommandEnvironment } from "../../places/CommandEnvironment.ts"
import * as Toolset from "../Toolset.ts"
import * as Definitions from "./file/FileToolDefinitions.ts"
import type { FileState } from "./file/FileState.ts"
import type { PathRoots } from "./file/PathRoots.ts"

/** The toolset `file`. */
export const toolset: Toolset.Toolset<never, CommandEnvironment | Path.Path | PathRoots | FileState> =
  Toolset.fromBound(
    "file",
    [Definitions.readFile, Definitions.writeFile, Definitions.patch, Definitions.searchFiles],
    Effect.flatMap(
      Effect.promise(() => import("./file/FileHandlers.ts")),
      (handlers) => handlers.toolset.bind
    )
  )
