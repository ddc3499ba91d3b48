/**
 * Handlers of the toolset `file`, in the runtime's environment and under its fences. `FileTools` loads this module when
 * the toolset is bound.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Stream from "effect/Stream"
import * as Toolkit from "effect/ai/Toolkit"
import type { CommandEnvironment } from "../../../places/CommandEnvironment.ts"
import { type StoredTexts, ResultKeeper } from "../../ResultText.ts"
import * as Toolset from "../../Toolset.ts"
import type { FileState } from "./FileState.ts"
import type { PathRoots } from "./PathRoots.ts"
import { guardFiles, Targets } from "./Fence.ts"
import * as Patch from "../Patch.ts"
import * as ReadFile from "../ReadFile.ts"
import * as SearchFiles from "../SearchFiles.ts"
import * as WriteFile from "../WriteFile.ts"

// Returns true for the path of a long result that the runtime stored on this machine. Stored results are always read
// here, even if the tools work on another machine or a sandbox hides the files.
//
// Source: `hermes-llm.md` §19.9.

const hasPath = ({ directories }: StoredTexts, path: string): boolean =>
  directories.some((directory) => path === directory || path.startsWith(`${directory}/`))

/** Returns the file system that contains a path. For a stored result, this is the runtime's own file system. */
const findOwner = (inside: FileSystem.FileSystem, path: string): Effect.Effect<FileSystem.FileSystem> =>
  Effect.flatMap(ResultKeeper, ({ kept = Effect.undefined }) =>
    Effect.map(kept, (found) => (found !== undefined && hasPath(found, path) ? found.files : inside))
  )

/** Creates a file system that can also read stored results but not write them. */
const overlayKeptResults = (inside: FileSystem.FileSystem): FileSystem.FileSystem => {
  const readFromOwner = <A>(path: string, read: (files: FileSystem.FileSystem) => Effect.Effect<A, PlatformError>) =>
    Effect.flatMap(findOwner(inside, path), read)
  return {
    ...inside,
    access: (path, options) => readFromOwner(path, (files) => files.access(path, options)),
    exists: (path) => readFromOwner(path, (files) => files.exists(path)),
    lstat: (path) => readFromOwner(path, (files) => files.lstat(path)),
    open: (path, options) =>
      options?.flag === undefined || options.flag === "r"
        ? Effect.flatMap(findOwner(inside, path), (files) => files.open(path, options))
        : inside.open(path, options),
    readDirectory: (path, options) => readFromOwner(path, (files) => files.readDirectory(path, options)),
    readDirectoryEntries: (path) => readFromOwner(path, (files) => files.readDirectoryEntries(path)),
    readFile: (path) => readFromOwner(path, (files) => files.readFile(path)),
    readFileString: (path, encoding) => readFromOwner(path, (files) => files.readFileString(path, encoding)),
    realPath: (path) => readFromOwner(path, (files) => files.realPath(path)),
    stat: (path) => readFromOwner(path, (files) => files.stat(path)),
    stream: (path, options) =>
      Stream.unwrap(Effect.map(findOwner(inside, path), (files) => files.stream(path, options)))
  }
}

/** Lets a toolset read stored results in addition to the files that it is bound to. */
const includeKeptResults = <E, R>(toolset: Toolset.Toolset<E, R>): Toolset.Toolset<E, FileSystem.FileSystem | R> => ({
  ...toolset,
  bind: FileSystem.FileSystem.use((files) =>
    Effect.provideService(toolset.bind, FileSystem.FileSystem, overlayKeptResults(files))
  )
})

const toolkit = Toolkit.make(ReadFile.tool, WriteFile.tool, Patch.tool, SearchFiles.tool)

const guarded: Toolset.Toolset<never, CommandEnvironment | FileSystem.FileSystem | Path.Path | PathRoots | FileState> =
  guardFiles(
    Toolset.make(
      "file",
      toolkit,
      toolkit
        .toLayer(
          Effect.all({
            read_file: ReadFile.make,
            write_file: WriteFile.make,
            patch: Patch.make,
            search_files: SearchFiles.make
          })
        )
        .pipe(Layer.provide(Targets.layer))
    )
  )

/** The toolset with its handlers. */
export const toolset: Toolset.Toolset<never, CommandEnvironment | Path.Path | PathRoots | FileState> =
  Toolset.inEnvironment(includeKeptResults(guarded))
