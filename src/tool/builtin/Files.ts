/**
 * The toolset `file`: `read_file`, `write_file`, `patch` and `search_files`.
 *
 * **Details**
 *
 * It works on the files of the runtime's environment inside the rules of `file/Fence.ts`. {@link FileState} is shared with the
 * runtime, which tells it of what happens to a session; {@link Places} names the directories that the rules speak of.
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import * as Toolkit from "effect/ai/Toolkit"
import type { CommandEnvironment } from "../../environment/CommandEnvironment.ts"
import * as Toolset from "../Toolset.ts"
import type { FileState } from "./file/FileState.ts"
import type { Places } from "./file/Places.ts"
import { guardFiles, Targets } from "./file/Fence.ts"
import * as Patch from "./Patch.ts"
import * as ReadFile from "./ReadFile.ts"
import * as SearchFiles from "./SearchFiles.ts"
import * as WriteFile from "./WriteFile.ts"

const toolkit = Toolkit.make(ReadFile.tool, WriteFile.tool, Patch.tool, SearchFiles.tool)

const guarded: Toolset.Toolset<never, CommandEnvironment | FileSystem.FileSystem | Path.Path | Places | FileState> = guardFiles(Toolset.make(
  "file",
  toolkit,
  toolkit.toLayer(Effect.all({
    read_file: ReadFile.make,
    write_file: WriteFile.make,
    patch: Patch.make,
    search_files: SearchFiles.make
  })).pipe(Layer.provide(Targets.layer))
))

/** The toolset `file`. */
export const toolset: Toolset.Toolset<never, CommandEnvironment | Path.Path | Places | FileState> = Toolset.inEnvironment(guarded)
