/**
 * Keeps long results as files, readable by nobody else, each named after its call.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import { type Keeper, ResultKeeper } from "./Bounds.ts"

/** A name without anything that a path could be made of. */
const fileName = (callId: string): string => {
  const safe = callId.replace(/[^\w-]/g, "_").slice(0, 100)
  return `${safe === "" ? "result" : safe}.txt`
}

/** A keeper for a directory, which is made when it is needed. */
export const make = (directory: string): Effect.Effect<Keeper, never, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const root = path.resolve(directory)
    return {
      keep: Effect.fnUntraced(function*(callId, text) {
        yield* fs.makeDirectory(root, { recursive: true, mode: 0o700 })
        const file = path.join(root, fileName(callId))
        yield* fs.writeFileString(file, text, { mode: 0o600 })
        return file
      })
    }
  })

/** See {@link make}. */
export const layer = (directory: string): Layer.Layer<never, never, FileSystem.FileSystem | Path.Path> =>
  Layer.effect(ResultKeeper, make(directory))

/** In a directory of its own that goes with the scope. */
export const layerTemporary: Layer.Layer<never, never, FileSystem.FileSystem | Path.Path> = Layer.effect(
  ResultKeeper,
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const made = yield* Effect.option(fs.makeTempDirectoryScoped({ prefix: "hermes-results-" }))
    return made._tag === "Some" ? yield* make(made.value) : { keep: () => Effect.fail("there is no directory for results") }
  })
)
