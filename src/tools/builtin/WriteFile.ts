/**
 * The tool `write_file`, which writes the whole content of one file atomically.
 *
 * **Details**
 *
 * Missing directories are created, the mode of a replaced file and the target of a symbolic link are preserved, and the
 * content is read back. The result warns if another session or program changed the file since this session read it. The
 * syntax of JSON, YAML and TOML is checked; language servers are not used.
 *
 * **Gotchas**
 *
 * The tool is annotated as not destructive: the path checks refuse forbidden paths, and every other write is the
 * agent's normal work and needs no approval (`hermes-llm.md` §13.7 schedules it by path).
 *
 * Source: `hermes-product.md` §2.3.
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type * as Path from "effect/Path"
import * as ChangeContents from "../../store/ChangeContents.ts"
import * as ChangeRecording from "../ChangeRecording.ts"
import { ConversationHistory, ToolContext } from "../ToolContext.ts"
import { FileState, toStamp } from "./file/FileState.ts"
import { writeFile } from "./file/FileToolDefinitions.ts"
import * as Problem from "./file/Problem.ts"
import * as Change from "./patch/Change.ts"
import { Targets } from "./file/Fence.ts"

/** The tool `write_file`. */
export const tool = writeFile

/** Creates the handler from the services of the toolset. */
export const make = Effect.gen(function* () {
  const services = yield* Effect.context<FileSystem.FileSystem | Path.Path>()
  const targets = yield* Targets
  const state = yield* FileState

  return Effect.fnUntraced(
    function* (params: typeof tool.parametersSchema.Type) {
      const { sessionId } = yield* ToolContext
      const target = yield* targets.resolve(params.path, "write")
      const before = yield* Change.statFile(target)
      const changed = before !== undefined && (yield* state.changedSinceSeen(sessionId, target.real, toStamp(before)))
      const bytes = new TextEncoder().encode(params.content)
      // A file that is too large to be stored is not read.
      const held =
        before === undefined || Number(before.size) > ChangeContents.maxBytes
          ? undefined
          : (yield* Change.findFile(target)).bytes
      const written = yield* Change.replaceFile(target.real, bytes, before?.mode)
      yield* state.wrote(sessionId, target.real, written.stamp, (yield* ConversationHistory) !== undefined)
      yield* state.otherToolRan(sessionId)
      yield* ChangeRecording.report(
        [
          {
            path: target.real,
            before:
              before === undefined
                ? undefined
                : { type: "file", mode: before.mode & 0o777, size: Number(before.size), content: held },
            after: ChangeRecording.toFileState(bytes, before?.mode)
          }
        ],
        "tool"
      )
      const lint = yield* Change.checkSyntax(target.path, params.content)
      return {
        bytes_written: bytes.length,
        dirs_created: written.directories.length > 0,
        verified: true,
        ...(lint === undefined ? {} : { lint }),
        ...(changed
          ? { warning: `${target.given} was changed externally since you read it; that change is overwritten now.` }
          : {})
      }
    },
    state.exclusive,
    Effect.provideContext(services),
    Problem.mapToFailure
  )
})
