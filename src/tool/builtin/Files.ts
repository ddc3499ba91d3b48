/**
 * The toolset `file`: `read_file`, `write_file`, `patch` and `search_files`.
 *
 * **Details**
 *
 * It works on the files of the runtime's environment inside the rules of `file/Fence.ts`. {@link FileState} is shared with the
 * runtime, which tells it of what happens to a session; {@link Places} names the directories that the rules speak of.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Stream from "effect/Stream"
import * as Toolkit from "effect/ai/Toolkit"
import type { CommandEnvironment } from "../../environment/CommandEnvironment.ts"
import { type Kept, ResultKeeper } from "../ResultText.ts"
import * as Toolset from "../Toolset.ts"
import type { FileState } from "./file/FileState.ts"
import type { Places } from "./file/Places.ts"
import { guardFiles, Targets } from "./file/Fence.ts"
import * as Patch from "./Patch.ts"
import * as ReadFile from "./ReadFile.ts"
import * as SearchFiles from "./SearchFiles.ts"
import * as WriteFile from "./WriteFile.ts"

// Long results that the runtime keeps on this machine, read there whichever machine the tools work on and whatever a sandbox hides.
//
// Source: `hermes-llm.md` §19.9.

const holds = ({ directories }: Kept, path: string): boolean =>
  directories.some((directory) => path === directory || path.startsWith(`${directory}/`))

/** The file system that has a path: the runtime's own for a kept result. */
const owner = (inside: FileSystem.FileSystem, path: string): Effect.Effect<FileSystem.FileSystem> =>
  Effect.flatMap(ResultKeeper, ({ kept = Effect.undefined }) =>
    Effect.map(kept, (found) => found !== undefined && holds(found, path) ? found.files : inside))

/** A file system whose kept results can be read; nothing is written there. */
const beside = (inside: FileSystem.FileSystem): FileSystem.FileSystem => {
  const reading = <A>(path: string, read: (files: FileSystem.FileSystem) => Effect.Effect<A, PlatformError>) => Effect.flatMap(owner(inside, path), read)
  return {
    ...inside,
    access: (path, options) => reading(path, (files) => files.access(path, options)),
    exists: (path) => reading(path, (files) => files.exists(path)),
    lstat: (path) => reading(path, (files) => files.lstat(path)),
    open: (path, options) => options?.flag === undefined || options.flag === "r" ? Effect.flatMap(owner(inside, path), (files) => files.open(path, options)) : inside.open(path, options),
    readDirectory: (path, options) => reading(path, (files) => files.readDirectory(path, options)),
    readDirectoryEntries: (path) => reading(path, (files) => files.readDirectoryEntries(path)),
    readFile: (path) => reading(path, (files) => files.readFile(path)),
    readFileString: (path, encoding) => reading(path, (files) => files.readFileString(path, encoding)),
    realPath: (path) => reading(path, (files) => files.realPath(path)),
    stat: (path) => reading(path, (files) => files.stat(path)),
    stream: (path, options) => Stream.unwrap(Effect.map(owner(inside, path), (files) => files.stream(path, options)))
  }
}

/** A toolset that reads kept results beside the files that it is bound over. */
const showing = <E, R>(toolset: Toolset.Toolset<E, R>): Toolset.Toolset<E, FileSystem.FileSystem | R> => ({
  ...toolset,
  bind: FileSystem.FileSystem.use((files) => Effect.provideService(toolset.bind, FileSystem.FileSystem, beside(files)))
})

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
export const toolset: Toolset.Toolset<never, CommandEnvironment | Path.Path | Places | FileState> = Toolset.inEnvironment(showing(guarded))
